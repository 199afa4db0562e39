"""The roofline of this machine: what a convolution could reach at most, and what it does reach.

    peaks = measure_peaks(threads=1)           FMAs from registers, bytes from memory, both measured
    arithmetic_intensity(problem)              operations a byte that has to move
    attainable(problem, peaks)                 min(peak, intensity * bandwidth), in GFLOP/s
    chart([Point("conv9", problem, 98.0)], peaks)

A problem is a `simdconv.testing.Problem`, or the `spec` of an `explain` result. The model is by
S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model for
multicore architectures", Communications of the ACM 52 (2009).
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from simdconv._api import conv2d
from simdconv.testing import Problem, make_arrays

__all__ = [
    "Peaks",
    "Point",
    "Sizes",
    "arithmetic_intensity",
    "attainable",
    "chart",
    "compulsory_bytes",
    "measure_peaks",
    "measure_rate",
]

_CODES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Sizes(Protocol):
    """What is asked of a problem: the sizes of a convolution."""

    @property
    def n(self) -> int: ...  # noqa: D102
    @property
    def c_in(self) -> int: ...  # noqa: D102
    @property
    def h_in(self) -> int: ...  # noqa: D102
    @property
    def w_in(self) -> int: ...  # noqa: D102
    @property
    def c_out(self) -> int: ...  # noqa: D102
    @property
    def h_f(self) -> int: ...  # noqa: D102
    @property
    def w_f(self) -> int: ...  # noqa: D102
    @property
    def groups(self) -> int: ...  # noqa: D102
    @property
    def h_out(self) -> int: ...  # noqa: D102
    @property
    def w_out(self) -> int: ...  # noqa: D102
    @property
    def flops(self) -> int: ...  # noqa: D102


@dataclasses.dataclass(frozen=True, slots=True)
class Peaks:
    """The two peaks of a machine.

    Attributes
    ----------
    isa : str
    dtype : str
    threads : int
    gflops : float
        GFLOP/s of independent multiply-adds in registers, each counted as two.
    bandwidth : float
        GB/s that a triad over arrays far larger than the caches moves.
    """

    isa: str
    dtype: str
    threads: int
    gflops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """Operations a byte from which on memory is not the limit."""
        return self.gflops / self.bandwidth


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A measured convolution, for the chart.

    Attributes
    ----------
    name : str
    problem : Sizes
    gflops : float
    """

    name: str
    problem: Sizes
    gflops: float


def _supported(dtype: Any) -> np.dtype:
    found = np.dtype(dtype)
    if found not in _CODES:
        raise ValueError(f"dtype must be float32 or float64; got {found}")
    return found


def measure_peaks(dtype: Any = np.float32, *, threads: int = 1, isa: str | None = None) -> Peaks:
    """Measure the peaks of this machine; takes a second or two.

    Parameters
    ----------
    dtype : float32 or float64
    threads : int
    isa : str, optional
        One of cpu_info()["isas_found"]; the best of them by default.

    Returns
    -------
    Peaks

    Raises
    ------
    ValueError
        If the dtype, the number of threads or the ISA cannot be measured here.
    """
    from simdconv.backends.simd import _core

    dtype = _supported(dtype)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be an integer >= 1; got {threads!r}")
    found = _core.isas_found()
    isa = found[-1] if isa is None else isa
    if isa not in found:
        raise ValueError(f"isa must be one of {', '.join(found)}; got {isa!r}")
    gflops = _core.peak_gflops(isa, _CODES[dtype], threads)
    return Peaks(isa, dtype.name, threads, gflops, _core.bandwidth(threads))


def compulsory_bytes(problem: Sizes, dtype: Any = np.float32) -> int:
    """Bytes that have to move: image, filter and result, once each.

    Parameters
    ----------
    problem : Sizes
    dtype : dtype
        Of all three arrays.

    Returns
    -------
    int
    """
    p = problem
    image = p.n * p.c_in * p.h_in * p.w_in
    weights = p.c_out * (p.c_in // p.groups) * p.h_f * p.w_f
    result = p.n * p.c_out * p.h_out * p.w_out
    return (image + weights + result) * np.dtype(dtype).itemsize


def arithmetic_intensity(problem: Sizes, dtype: Any = np.float32) -> float:
    """Operations a byte that has to move.

    Parameters
    ----------
    problem : Sizes
    dtype : dtype

    Returns
    -------
    float
        Of direct convolution; additions and multiplications count one each.
    """
    return problem.flops / compulsory_bytes(problem, dtype)


def attainable(problem: Sizes, peaks: Peaks) -> float:
    """GFLOP/s that no implementation of direct convolution can pass when its data is in memory.

    Parameters
    ----------
    problem : Sizes
    peaks : Peaks

    Returns
    -------
    float
        The smaller of the arithmetic peak and intensity * bandwidth.
    """
    return min(peaks.gflops, arithmetic_intensity(problem, peaks.dtype) * peaks.bandwidth)


def measure_rate(
    problem: Problem, dtype: Any = np.float32, *, threads: int = 1, seconds: float = 0.5,
    **keywords: Any,
) -> float:  # fmt: skip
    """Time conv2d on random data, with transform, packing and allocation.

    Parameters
    ----------
    problem : Problem
    dtype : dtype
    threads : int
    seconds : float
        How long to repeat the call; at least three times.
    **keywords
        What conv2d is told besides: layout, algorithm, backend.

    Returns
    -------
    float
        GFLOP/s of the median call.
    """
    layout = keywords.get("layout", "NCHW")
    x, w, _ = make_arrays(problem, dtype, layout=layout, whole=False, bias=False)
    keywords = {**problem.keywords, "num_threads": threads, **keywords}
    conv2d(x, w, **keywords)
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        conv2d(x, w, **keywords)
        times.append(time.perf_counter() - start)
    return problem.flops / statistics.median(times) / 1e9


def chart(points: Iterable[Point], peaks: Peaks, ax: Any = None) -> Any:
    """Draw the roofline, and the points under it.

    Parameters
    ----------
    points : iterable of Point
    peaks : Peaks
    ax : matplotlib Axes, optional
        A new figure's by default.

    Returns
    -------
    matplotlib Axes
        `ax.figure.savefig("roofline.png")` writes it.

    Raises
    ------
    ImportError
        Without matplotlib, which the bench extra installs.
    """
    try:
        from matplotlib import pyplot
        from matplotlib.ticker import FuncFormatter
    except ImportError as error:
        raise ImportError("charts need matplotlib: pip install simdconv[bench]") from error
    points = list(points)
    if ax is None:
        ax = pyplot.figure(figsize=(8, 5), layout="constrained").add_subplot()
    places = [arithmetic_intensity(point.problem, peaks.dtype) for point in points]
    left = min([*places, peaks.ridge]) / 2
    right = max([*places, peaks.ridge]) * 2
    roof = np.geomspace(left, right, 200)
    ax.plot(roof, np.minimum(peaks.gflops, roof * peaks.bandwidth), color="0.25", lw=2)
    ax.scatter(places, [point.gflops for point in points], color="tab:blue", zorder=3)
    for place, point in zip(places, points, strict=True):
        ax.annotate(point.name, (place, point.gflops), xytext=(5, 4), textcoords="offset points",
                    fontsize=8)  # fmt: skip
    ax.set(
        xscale="log", yscale="log", xlim=(left, right),
        xlabel="arithmetic intensity (FLOP a byte of image, filter and result)",
        ylabel="GFLOP/s",
        title=f"{peaks.isa} {peaks.dtype}, {peaks.threads} thread(s): {peaks.gflops:.0f} GFLOP/s, "
              f"{peaks.bandwidth:.1f} GB/s, both measured",
    )  # fmt: skip
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.grid(which="both", alpha=0.25)
    return ax
