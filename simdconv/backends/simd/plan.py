"""Which kernel runs a call: the cost model, and the reasons that explain() prints.

`auto` compares the candidates of the layout by estimated seconds. The estimate is the sum of

    arithmetic   FMAs / how full the register tiles are
    copies       elements of packed filters, patches, strips, panels or matrices * COPY

It depends on the image, the filter and the ISA, not on the batch and not on the number of threads:
an image is computed by the same kernel, hence to the same bits, in whatever company it comes.
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache

import numpy as np

from simdconv._errors import BackendNotImplementedError
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends import _base
from simdconv.backends._base import Candidate, Plan
from simdconv.backends.simd import _core

__all__ = ["SimdPlan", "is_image_copied", "kernel_index", "plan_conv2d", "problem_of"]

ALGORITHMS = ("direct", "im2win", "implicit", "im2col")
LANES = {"baseline": 16, "avx2": 32, "avx512": 64, "neon": 16}  # bytes of a register
_SPARSE = "stride or dilation so far beyond the window that its rows would be mostly gaps"
# what vectors lie along in the forms of direct (csrc/algo/direct.h)
FORMS = ("filters", "staged filters", "pixels", "vertical filters", "vertical pixels", "rows")
VERTICAL_COPIES = 9.0  # FMAs that pass in a vertical form beside those of an output: copies, stores
IN_PLACE = 0.98  # rate of rows read where filters lie, to that of packed ones
DOTS = 4  # pixels past the last whole vector that implicit takes one by one (csrc/algo/panel.h)
DOT = 0.2  # time of one of these, to that of a vector: 0.12 for one image, 0.3 among others
BEYOND = 0.75  # rate of implicit where filters, which pass by for each tile, outgrow half of L3
CROWDED = 0.93  # rate of implicit, NCHW, where filters are whole 2 KiB apart: one or two sets of L1
POINT = 0.95  # rate of direct where each step reads another channel: 1x1, NCHW
HALF = ("avx512",)  # ISAs where a last vector may be half a register (csrc/ukernel/)
# with 16 registers a tile has few sums for the two vectors of a step: measured with AVX2
NARROW = ("baseline", "avx2")
SUMS = 12  # of such a tile
FAR = 0.75  # rate where vectors are read as they lie, and a tile's window outgrows half of L1
RUN = 5.0  # FMAs that pass between two runs of a window
IMAGES = 0.8  # rate of windows of several taps where vectors are images, read as they lie
# FMAs of a register that pass while one element is copied: measured, one thread, AVX-512
COPY: dict[object, float] = {
    "filter": 0.5,  # as if for two images: the number of images may not matter
    ("filter", "NCHW"): 1.0,  # whose tiles are transposed besides
    "matrix": 3.0,
    "strip": 1.0,
    "patch": 2.0,
    "stage": 1.0,
    "transpose": 0.5,
    ("panel", "NHWC"): 0.9,
    ("panel", "NCHW"): 0.7,
    ("panel", "CHWN"): 0.7,
    ("panel", "CHWN8"): 0.7,
}


@dataclasses.dataclass(frozen=True, slots=True)
class SimdPlan:
    """What a call needs: made once a spec, kept."""

    kernel: int
    problem: _core.Problem
    in_place_filter: bool
    filter_copied: bool
    public: Plan


@lru_cache(maxsize=1)
def kernel_index() -> dict[tuple[str, str, str, str], tuple[int, str]]:
    """(algorithm, layout, isa, dtype) -> (index, id)."""
    return {(a, b, isa, code): (i, name) for i, name, a, b, isa, code in _core.kernels()}


def _activation(spec: Conv2dSpec) -> tuple[str, float, float]:
    match spec.activation:
        case None:
            return "none", 0.0, 0.0
        case ("relu",):
            return "clip", 0.0, np.inf
        case ("relu6",):
            return "clip", 0.0, 6.0
        case ("clip", lo, hi):
            return "clip", lo, hi
        case ("leaky_relu", slope):
            return "leaky", slope, 0.0
    raise AssertionError(spec.activation)


def problem_of(spec: Conv2dSpec | TransformSpec) -> _core.Problem:
    """The geometry as the C library takes it."""
    images, inner = spec.n, 1
    if spec.layout == "CHWN":
        images, inner = 1, spec.n
    elif spec.layout == "CHWN8":
        images, inner = spec.n // 8, 8
    channels = (1, spec.c_in, 1)
    activation = ("none", 0.0, 0.0)
    if isinstance(spec, Conv2dSpec):
        channels = (spec.groups, spec.c_in_g, spec.c_out_g)
        activation = _activation(spec)
    sizes = (
        images, inner, *channels, spec.h_in, spec.w_in, spec.h_f, spec.w_f, spec.h_out, spec.w_out,
        *spec.stride, *spec.dilation, spec.padding[0][0], spec.padding[1][0], spec.h_p, spec.w_p,
    )  # fmt: skip
    problem = _core.Problem(spec.layout, sizes, spec.padding_mode, activation)
    if spec.x_strides is not None and not is_image_copied(spec):
        problem.lay(_base.batched_strides(spec.x_strides, spec))
    return problem


def _lane_share(size: int, lanes: int) -> float:
    """How full whole vectors are: rows are not rounded up, a tile of ten takes ten rows of time."""
    return size / (-(-size // lanes) * lanes)


def _is_pointwise(spec: Conv2dSpec) -> bool:
    """Whether rows that follow one another are one long row."""
    return (spec.h_f, spec.w_f, spec.stride, spec.padded) == (1, 1, (1, 1), False)


def _panel_share(spec: Conv2dSpec, inner: int, lanes: int, isa: str) -> float:
    """How full the vectors of implicit's panels are, of one image."""
    pixels = spec.h_out * spec.w_out
    whole, left = divmod(pixels, lanes)
    alone = spec.layout == "NCHW" or (spec.layout == "NHWC" and not _is_pointwise(spec))
    if alone and left <= min(DOTS, lanes // 2, whole):
        return pixels / lanes / (whole + DOT * left)
    return _lane_share(pixels * inner, lanes // 2 if isa in HALF else lanes)


def _border(spec: Conv2dSpec) -> int:
    """Columns of a row of the result whose windows touch the padding at a side."""
    (left, right), stride = spec.padding[1], spec.stride[1]
    return min(spec.w_out, -(-left // stride) + -(-right // stride))


def _fullness(spec: Conv2dSpec, algorithm: str, form: str, isa: str, inner: int) -> float:
    """The share of the FMA rate that register tiles of a form reach."""
    lanes = LANES[isa] // spec.dtype.itemsize // (2 if isa in HALF and inner == 1 else 1)
    border = _border(spec)
    if form.endswith("filters"):
        full = _lane_share(spec.c_out_g, lanes)
    elif form == "rows":
        full = _lane_share(spec.w_out, lanes)
    else:
        row = spec.w_out * (spec.h_out if _is_pointwise(spec) else 1)
        vectors = -(-(row - border) * inner // lanes) + -(-border * inner // lanes)
        full = row * inner / (vectors * lanes)
    if isa not in NARROW:
        return full
    if not form.endswith("filters"):
        tile_bytes = 2 * LANES[isa] * spec.k
        if 2 * tile_bytes > _core.cpu_info()["l1_bytes"]:
            return full * FAR
        taps = algorithm != "im2col" and spec.h_f * spec.w_f > 1
        return full * (IMAGES if inner > 1 and taps and isa == "avx2" else 1.0)
    if (form, algorithm, spec.layout) == ("filters", "direct", "NCHW"):  # runs of w_f steps
        return full * SUMS * spec.w_f / (SUMS * spec.w_f + RUN)
    return full


def _cost(spec: Conv2dSpec, algorithm: str, isa: str) -> float:
    """Estimated time for one image (or row of images), in FMAs of one register."""
    lanes = LANES[isa] // spec.dtype.itemsize
    inner = {"CHWN": 2 * lanes, "CHWN8": 8}.get(spec.layout, 1)
    pixels, filters, groups = spec.h_out * spec.w_out, spec.c_out_g, spec.groups
    filter_bytes = spec.k * filters * spec.dtype.itemsize
    passes = -(-8 * filter_bytes // (5 * _core.cpu_info()["l2_bytes"]))  # of the image
    window = groups * pixels * spec.k * inner  # elements of im2col's matrix
    strip: float = spec.h_out * spec.w_p * spec.h_f * spec.c_in * inner * passes
    border = _border(spec)
    panel = COPY["panel", spec.layout]
    if spec.layout == "NCHW":
        strip = strip / _lane_share(spec.c_in_g, lanes)  # staged a vector of channels at a time
        panel *= 2 if spec.stride[1] > 1 else 1  # shuffled, or element by element
    copies = {
        "im2col": COPY["matrix"] * window,
        "im2win": COPY["strip"] * strip,
        "implicit": panel * window,
        "direct": COPY["patch"] * window * border / spec.w_out * passes if inner > 1 else 0,
    }[algorithm]
    form = "filters" if spec.layout == "NHWC" else "pixels"  # that vectors lie along
    if algorithm == "direct":
        index = kernel_index()["direct", spec.layout, isa, _base.dtype_code(spec.dtype)][0]
        form = FORMS[_core.variant(index, problem_of(spec))]
    elif algorithm == "im2win" and spec.layout == "NCHW":
        form = "filters"
    if form.startswith("vertical"):
        along = spec.c_out if form == "vertical filters" else spec.w_out * inner
        work = pixels * (spec.k + VERTICAL_COPIES) * spec.c_out * inner / lanes
        return work / _lane_share(along, lanes)
    if algorithm == "implicit":
        full = IN_PLACE * _panel_share(spec, inner, lanes, isa)
        full *= BEYOND if 2 * filter_bytes > min(_core.cpu_info()["l3_bytes"], 1 << 25) else 1
        transposed = spec.layout == "NHWC"
        if spec.layout == "NCHW" and isa not in NARROW and spec.k * spec.dtype.itemsize % 2048 == 0:
            full *= CROWDED
    else:
        packing = COPY.get(("filter", spec.layout), COPY["filter"])
        copies += packing * groups * filters * spec.k
        transposed = form.endswith("filters") and spec.layout == "NCHW"
        full = _fullness(spec, algorithm, form, isa, inner)
        point = form == "pixels" if _is_pointwise(spec) else form == "filters"
        if point and (spec.h_f, spec.w_f, algorithm, spec.layout) == (1, 1, "direct", "NCHW"):
            full *= POINT
        if form == "staged filters":
            rows = spec.h_out * min(spec.h_f, spec.stride[0])
            copies += COPY["stage"] * rows * spec.w_p * spec.c_in * passes
    copies += COPY["transpose"] * groups * pixels * filters * inner if transposed else 0
    copies *= 2 if isa in NARROW else 1  # two of its FMAs pass while one of a wide register does
    return groups * pixels * spec.k * filters * inner / lanes / full + copies


def _too_sparse(spec: Conv2dSpec, algorithm: str) -> bool:
    """Whether windows are so far apart, or so full of gaps, that rows would be mostly gaps."""
    if algorithm not in ("direct", "im2win") or (algorithm == "direct" and not spec.padded):
        return False
    tile = min(spec.w_out, 16)
    columns = (tile - 1) * spec.stride[1] + (spec.w_f - 1) * spec.dilation[1] + 1
    rows = (spec.h_f - 1) * spec.dilation[0] + 1
    return columns > 64 * tile * spec.w_f or rows > 64 * spec.h_f


def _candidates(spec: Conv2dSpec, isa: str, code: str) -> tuple[Candidate, ...]:
    """Every algorithm with its reason, the chosen one first, then in order of estimated time."""
    ids = {a: kernel_index()[a, spec.layout, isa, code][1] for a in ALGORITHMS}
    costs = {a: _cost(spec, a, isa) for a in ALGORITHMS if not _too_sparse(spec, a)}
    order = sorted(costs, key=costs.__getitem__)
    chosen = spec.algorithm if spec.algorithm in ALGORITHMS else order[0]
    reason = "asked for by name" if spec.algorithm in ALGORITHMS else "least estimated time"
    candidates = [Candidate(chosen, ids[chosen], True, reason)]
    for name in order:
        if name != chosen:
            ratio = costs[name] / costs[chosen]
            text = f"estimated to take {ratio:.2f} times as long"
            candidates.append(Candidate(name, ids[name], False, text))
    candidates += [
        Candidate(a, ids[a], False, _SPARSE) for a in ALGORITHMS if a not in costs and a != chosen
    ]
    return tuple(candidates)


def plan_conv2d(spec: Conv2dSpec, isa: str) -> SimdPlan:
    """Choose the kernel for a spec that the backend does not decline."""
    code = _base.dtype_code(spec.dtype)
    candidates = _candidates(spec, isa, code)
    algorithm = candidates[0].algorithm
    index, name = kernel_index()[algorithm, spec.layout, isa, code]
    problem = problem_of(spec)
    threads = _core.threads_for(problem, spec.num_threads or _core.max_threads())
    in_place = _core.filter_size(index, problem) == 0
    filter_copied = _is_filter_copied(spec, in_place)
    copies = _operand_copies(spec, filter_copied)
    bytes_needed = _core.workspace(index, problem, threads, False) + copies
    if spec.max_workspace is not None and bytes_needed > spec.max_workspace:
        return _within_limit(spec, isa, bytes_needed)
    notes = (f"of the workspace, {copies} bytes are copies of arrays that kernels cannot take as "
             "they lie",) if copies else ()  # fmt: skip
    public = Plan(
        backend="simd", algorithm=algorithm, layout=spec.layout, kernel=name,
        workspace_bytes=bytes_needed, num_threads=threads, candidates=candidates,
        details={"isa": isa, "operand_copies": copies}, notes=notes,
    )  # fmt: skip
    return SimdPlan(index, problem, in_place, filter_copied, public)


def _is_filter_copied(spec: Conv2dSpec, in_place: bool) -> bool:
    """Whether w is copied: what is read in place must be plain and ordered as OIHW is."""
    if spec.w_dtype != spec.dtype or not spec.w_aligned:
        return True
    sizes = dict(zip(spec.weight_layout, spec.w_shape, strict=True))
    order = [axis for axis in spec.weight_layout if sizes[axis] > 1]
    return in_place and not (spec.w_plain and order == sorted(order, key="OIHW".index))


def is_image_copied(spec: Conv2dSpec | TransformSpec) -> bool:
    """Whether x is copied: kernels read its dtype, along rows that are contiguous."""
    return not spec.x_rows or spec.x_dtype != spec.dtype


def _operand_copies(spec: Conv2dSpec, filter_copied: bool) -> int:
    """Bytes of copies of arrays that the kernels cannot take as they are."""
    bias_copied = not spec.bias_plain or spec.bias_dtype not in (None, spec.dtype)
    sizes = (
        (spec.x_shape, is_image_copied(spec)),
        (spec.w_shape, filter_copied),
        ((spec.c_out,), bias_copied),
        (spec.out_shape, not spec.out_plain),
    )
    return sum(math.prod(shape) * spec.dtype.itemsize for shape, copied in sizes if copied)


def _within_limit(spec: Conv2dSpec, isa: str, needed: int) -> SimdPlan:
    """The next best algorithm that stays within max_workspace."""
    limit = spec.max_workspace
    assert limit is not None
    if spec.algorithm in ALGORITHMS:
        raise MemoryError(
            f"max_workspace={limit}: {spec.algorithm} needs {needed} bytes for this convolution"
        )
    code = _base.dtype_code(spec.dtype)
    possible = [a for a in ALGORITHMS if not _too_sparse(spec, a)]
    for algorithm in sorted(possible, key=lambda a: _cost(spec, a, isa)):
        try:
            plan = plan_conv2d(dataclasses.replace(spec, algorithm=algorithm), isa)
        except MemoryError:
            continue
        reason = f"the fastest within max_workspace={limit}"
        chosen = Candidate(algorithm, plan.public.kernel, True, reason)
        others = tuple(
            Candidate(
                a, kernel_index()[a, spec.layout, isa, code][1], False, "slower, or over the limit"
            )
            for a in ALGORITHMS
            if a != algorithm
        )
        public = dataclasses.replace(plan.public, candidates=(chosen, *others))
        return dataclasses.replace(plan, public=public)
    raise MemoryError(f"max_workspace={limit}: no algorithm needs as little for this convolution")


def decline(spec: Conv2dSpec | TransformSpec) -> str | None:
    """Why the simd backend cannot run this spec, or None."""
    if isinstance(spec, TransformSpec):
        return None if spec.dtype.itemsize in (1, 2, 4, 8, 16) else f"has no {spec.dtype} mover"
    if spec.dtype.char not in "fd":
        return f"computes in float32 and float64, not {spec.dtype}"
    if spec.algorithm not in (*ALGORITHMS, "auto", "fastest"):
        return f"has no {spec.algorithm} kernel"
    if _too_sparse(spec, spec.algorithm):
        return f"{spec.algorithm}: {_SPARSE}"
    return None


def check(spec: Conv2dSpec) -> None:
    """Raise if the spec is declined."""
    if reason := decline(spec):
        raise BackendNotImplementedError(f"backend 'simd': {reason}", {"simd": reason})
