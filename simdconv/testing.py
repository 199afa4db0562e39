"""For tests and benchmarks, ours and those of a backend's author.

PROBLEMS                 the problem catalogue: paper, network, depthwise, image, tiny, awkward
make_arrays              arrays for a problem, of whole numbers or of random ones
assert_conv_close        whole numbers exactly, anything else within the proven bound
guarded                  an array that ends, or starts, at an unreadable page
can_run                  whether a backend takes a call, to make tests from
check_backend            a backend against the reference, in one call
"""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

import numpy as np

from simdconv._api import conv2d, im2col, im2win
from simdconv._backend_check import check_contract
from simdconv._catalogue import AWKWARD_SIZES, PROBLEMS, Problem
from simdconv._errors import BackendNotImplementedError
from simdconv._explain import explain
from simdconv._layout import LAYOUTS, to_layout, weights_to
from simdconv._spec import conv2d_spec

__all__ = [
    "AWKWARD_SIZES",
    "PROBLEMS",
    "Problem",
    "assert_conv_close",
    "can_run",
    "check_backend",
    "guarded",
    "make_arrays",
]


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, whole: bool) -> Any:
    dtype = np.dtype(dtype)
    values: Any
    imaginary: Any
    if whole or dtype.kind in "iu":
        values = rng.integers(0 if dtype.kind == "u" else -4, 5, shape)
        imaginary = rng.integers(-4, 5, shape) if dtype.kind == "c" else 0
    else:
        values = rng.standard_normal(shape)
        imaginary = rng.standard_normal(shape) if dtype.kind == "c" else 0
    return (values + 1j * imaginary if dtype.kind == "c" else values).astype(dtype)


def make_arrays(
    problem: Problem,
    dtype: Any = np.float32,
    *,
    layout: str = "NCHW",
    weight_layout: str = "OIHW",
    whole: bool = True,
    bias: bool = True,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Make x, w and bias for a problem; the same numbers in every layout.

    Parameters
    ----------
    problem : Problem
    dtype : dtype
    layout, weight_layout : str
    whole : bool
        Whole numbers of -4 to 4 (0 to 4 if unsigned), else standard normal ones.
    bias : bool
        False makes no bias.
    seed : int

    Returns
    -------
    x, w, bias : ndarray
    """
    rng = np.random.default_rng(seed)
    p = problem
    x = _values(rng, (p.n, p.c_in, p.h_in, p.w_in), dtype, whole)
    w = _values(rng, (p.c_out, p.c_in // p.groups, p.h_f, p.w_f), dtype, whole)
    b = _values(rng, (p.c_out,), dtype, whole)
    weight = np.ascontiguousarray(weights_to(w, "OIHW", weight_layout))
    return to_layout(x, "NCHW", layout), weight, b if bias else None


_HIGHER = {"f": np.float64, "d": np.longdouble, "F": np.complex128, "D": np.clongdouble}


def _is_whole(array: np.ndarray | None) -> bool:
    if array is None or array.dtype.kind in "iu":
        return True
    parts = array.view(array.real.dtype) if array.dtype.kind == "c" else array
    return bool(np.all(parts == np.trunc(parts)))  # false for NaN; Inf passes and is found by size


def assert_conv_close(
    actual: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    random: bool = False,
    n: int | None = None,
    reference: str = "numpy",
    slack: float = 1.0,
    **keywords: Any,
) -> None:
    """Check a result of conv2d against the reference.

    Whole numbers whose sums fit the significand are compared with ==. Anything else stays within
    (k+2) * u * S, with u the unit roundoff of the sums' dtype and S = |x| conv |w| + |bias|; random
    data within 4*sqrt(k) * u * S too. One more rounding is allowed for a narrower result, and for
    leaky_relu.

    Parameters
    ----------
    actual : ndarray
        What conv2d(x, w, bias, **keywords) returned.
    x, w, bias, **keywords
        The call. `out`, `backend`, `algorithm` and `num_threads` are left out.
    random : bool
        The data is random, without structure.
    n : int, optional
        Images of a CHWN8 result; its spare lanes are not compared.
    reference : str
        The backend that computes what is expected, in a wider dtype.
    slack : float
        Factor on the bound, for algorithms that promise less.

    Raises
    ------
    AssertionError
        With the first index that is wrong.
    """
    for name in ("out", "backend", "algorithm", "num_threads"):
        keywords.pop(name, None)
    spec = conv2d_spec(x, w, bias, **keywords)
    assert actual.shape == spec.out_shape, f"shape {actual.shape}, expected {spec.out_shape}"
    assert actual.dtype == spec.dtype, f"dtype {actual.dtype}, expected {spec.dtype}"
    wide = np.dtype(_HIGHER.get(spec.acc_dtype.char, spec.acc_dtype))
    backend = "numpy" if wide.char in "gG" else reference
    operands: list[Any] = [array if array is None else array.astype(wide) for array in (x, w, bias)]
    floating = spec.dtype.kind not in "iu"
    magnitudes: list[Any] = [array if array is None else np.abs(array) for array in operands]
    expected = conv2d(*operands, backend=backend, **keywords) if floating else conv2d(
        x, w, bias, backend=backend, **keywords)  # fmt: skip
    if n is not None:
        actual, expected = (to_layout(a, spec.layout, "NCHW", n=n) for a in (actual, expected))
    if not floating:
        _assert_equal(actual, expected)
        return
    size = conv2d(*magnitudes, backend=backend, **{**keywords, "activation": None})
    size = to_layout(size, spec.layout, "NCHW", n=n) if n is not None else size
    roundoff = float(np.finfo(spec.acc_dtype).eps) / 2
    leaky = spec.activation is not None and spec.activation[0] == "leaky_relu"
    whole = all(_is_whole(array) for array in (x, w, bias)) and not leaky
    with np.errstate(all="ignore"):
        if whole and np.all(size < 1 / roundoff):
            _assert_equal(actual, expected.astype(spec.dtype))
            return
        factor = min(4 * math.sqrt(spec.k), spec.k + 2) if random else spec.k + 2
        factor *= slack * (4 if spec.dtype.kind == "c" else 1)
        if leaky and spec.activation is not None:
            factor *= max(1.0, abs(spec.activation[1]))
        bound = factor * roundoff * size + spec.k * _smallest(spec.acc_dtype)
        if spec.dtype != spec.acc_dtype or leaky:
            bound = bound + _roundoff(spec.dtype) * np.abs(expected) + _smallest(spec.dtype)
        error = np.abs(actual.astype(wide) - expected)
        same = (actual == expected.astype(spec.dtype)) | (np.isnan(actual) & np.isnan(expected))
        wrong = ~(same | (error <= bound))
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} wrong; at {index}: {actual[index]!r}, expected "
            f"{expected[index]!r}, error {error[index]:.3g}, bound {bound[index]:.3g}"
        )


def _roundoff(dtype: np.dtype) -> float:
    return 2.0**-8 if dtype.itemsize == 2 and dtype.kind == "V" else float(np.finfo(dtype).eps) / 2


def _smallest(dtype: np.dtype) -> float:
    bfloat16 = dtype.itemsize == 2 and dtype.kind == "V"
    return 2.0**-133 if bfloat16 else float(np.finfo(dtype).smallest_subnormal)


def _lanes(result: np.ndarray, layout: str, n: int) -> np.ndarray:
    """Drop the spare lanes of a CHWN8 result."""
    return to_layout(result, layout, layout, n=n)


def _assert_equal(actual: np.ndarray, expected: np.ndarray) -> None:
    wrong = actual != expected
    if np.any(wrong):
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} differ from the exact result; at {index}: "
            f"{actual[index]!r}, expected {expected[index]!r}"
        )


def guarded(array: np.ndarray, at: str = "end") -> np.ndarray:
    """Copy an array to memory where reading or writing past it ends the process.

    Parameters
    ----------
    array : ndarray
    at : {"end", "start"}
        Which end of the copy touches a page that cannot be read; the other is up to a page away
        from another one.

    Returns
    -------
    ndarray
        In C order.

    Raises
    ------
    OSError
        If the system cannot protect memory.
    """
    if at not in ("end", "start"):
        raise ValueError(f"at must be 'end' or 'start'; got {at!r}")
    page = mmap.PAGESIZE
    inside = max(1, -(-array.nbytes // page)) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (address, address + page + inside):
        if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")
    offset = page if at == "start" else page + inside - array.nbytes
    whole = np.frombuffer(memory, np.uint8)
    result = whole[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def can_run(backend: str, x: np.ndarray, w: np.ndarray, **keywords: Any) -> bool:
    """Whether a backend does not decline a call: what tests are generated from.

    Parameters
    ----------
    backend : str
    x, w, **keywords
        As in conv2d.

    Returns
    -------
    bool
    """
    try:
        explain(x, w, backend=backend, **keywords)
    except BackendNotImplementedError:
        return False
    return True


def check_backend(
    backend: str,
    *,
    sets: tuple[str, ...] = ("tiny", "awkward"),
    dtypes: tuple[Any, ...] = (np.float32, np.float64),
    layouts: tuple[str, ...] = LAYOUTS,
    algorithms: tuple[str, ...] = ("auto", "direct", "im2col", "im2win", "implicit"),
) -> tuple[int, int]:
    """Check a backend's contract, and its results on the problems of the catalogue.

    Parameters
    ----------
    backend : str
    sets : tuple of str
        Keys of PROBLEMS.
    dtypes, layouts, algorithms : tuple
        What to run each problem with.

    Returns
    -------
    ran, declined : int
        How many calls ran, and how many the backend declined.

    Raises
    ------
    AssertionError
        At the first result that is wrong, or the first rule that is broken.
    """
    ran = declined = 0
    problems = [problem for name in sets for problem in PROBLEMS[name]]
    for problem in problems:
        for dtype in dtypes:
            for layout in layouts:
                x, w, bias = make_arrays(problem, dtype, layout=layout)
                keywords: dict[str, Any] = {**problem.keywords, "layout": layout}
                expected = conv2d(x, w, bias, backend="numpy", **keywords)
                for algorithm in algorithms:
                    call = f"{problem.name} {np.dtype(dtype)} {layout} {algorithm} on {backend}"
                    try:
                        result = conv2d(
                            x, w, bias, algorithm=algorithm, backend=backend, **keywords
                        )
                    except BackendNotImplementedError:
                        declined += 1
                        continue
                    try:  # whole numbers this small are exact in every order of summation
                        _assert_equal(*(_lanes(y, layout, problem.n) for y in (result, expected)))
                    except AssertionError as error:
                        raise AssertionError(f"{call}: {error}") from None
                    ran += 1
                window = {key: value for key, value in keywords.items() if key != "groups"}
                for transform in (im2col, im2win):
                    size = (problem.h_f, problem.w_f)
                    stored = transform(x, size, backend=backend, **window)
                    as_defined = transform(x, size, backend="numpy", **window)
                    assert np.array_equal(stored, as_defined), f"{transform.__name__} {problem}"
                    ran += 1
    check_contract(backend, layouts)
    return ran, declined
