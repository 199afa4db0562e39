"""What the blas backend decides before it computes: algorithm, tile, workspace, threads.

A tile is some whole output rows of one image. Its height depends on the sizes of one image and on
max_workspace, never on the batch or on the threads, so neither can change the bits of a result.

    filter     (groups, k, c_out_g) or (groups, c_out_g, k)      once
    rows       the part of the padded image under a tile          a thread
    columns    patches, or strips, of a tile                      a thread
    result     a tile of the result, where matmul cannot write it in place    a thread
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache

import numpy as np

from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends._gather import span

__all__ = ["ALGORITHMS", "BlasPlan", "declines", "make_plan"]

ALGORITHMS = ("direct", "im2col", "im2win", "implicit")
_CODES_DECLINED = "gG"  # long double: only the reference has it
_TILE_BYTES = 1 << 20  # of an implicit or im2win tile: about a cache's worth
_TILE_PIXELS = 1024  # of a direct tile, which has no columns
_FLOPS_PER_THREAD = 1 << 24  # less work than this does not pay for a thread


@dataclasses.dataclass(frozen=True, slots=True)
class BlasPlan:
    """How the backend runs a spec. Shapes are None where nothing is allocated."""

    algorithm: str
    work_dtype: np.dtype
    filter_order: str | None
    filter_in_place: bool
    tile_rows: int
    rows_shape: tuple[int, ...] | None
    columns_shape: tuple[int, ...] | None
    result_shape: tuple[int, ...] | None
    threads: int
    workspace: int
    notes: tuple[str, ...]


def declines(spec: Conv2dSpec | TransformSpec) -> str | None:
    """Why matmul cannot compute this spec, if so."""
    if spec.dtype.char in _CODES_DECLINED:
        return f"matmul has no BLAS routine for {spec.dtype}"
    if isinstance(spec, TransformSpec):
        return None
    if spec.algorithm not in ("auto", "fastest", *ALGORITHMS):
        return f"has no {spec.algorithm}"
    if spec.algorithm == "direct" and (spec.h_f, spec.w_f) != (1, 1):
        return f"has direct for 1x1 filters only; this one is {spec.h_f}x{spec.w_f}"
    return None


def work_dtype(spec: Conv2dSpec) -> np.dtype:
    """Choose the dtype of the products: float64 is fast, and exact for small integers."""
    if spec.acc_dtype.kind != "i":
        return spec.acc_dtype
    largest = [
        max(int(info.max), -int(info.min)) for info in map(np.iinfo, (spec.x_dtype, spec.w_dtype))
    ]
    exact = min(2**53, int(np.iinfo(spec.acc_dtype).max))
    if spec.k * largest[0] * largest[1] <= exact:
        return np.dtype(np.float64)
    return spec.acc_dtype


def _filter_order(spec: Conv2dSpec, algorithm: str) -> str | None:
    """Return the order of axes that the filter is copied to; None if its own will do."""
    if (spec.h_f, spec.w_f) == (1, 1):
        return None
    if algorithm == "im2win":
        return "OWHI"
    if spec.layout == "NHWC":
        return None if spec.weight_layout in ("OHWI", "HWIO") else "OHWI"
    return None if spec.weight_layout == "OIHW" else "OIHW"


def _image_in_place(spec: Conv2dSpec, work: np.dtype) -> bool:
    """Whether windows can be taken from the image where it is."""
    return (
        spec.x_plain and not spec.padded and spec.layout in ("NCHW", "NHWC")
        and _is_native(spec.x_dtype, work)
    )  # fmt: skip


def _is_native(dtype: np.dtype, work: np.dtype) -> bool:
    """Whether an array of this dtype can be multiplied as it is."""
    return dtype == work and dtype.isnative


def reads_pixels(spec: Conv2dSpec, algorithm: str, work: np.dtype) -> bool:
    """Whether a 1x1 convolution is one product with the image itself."""
    return algorithm == "direct" and spec.stride == (1, 1) and _image_in_place(spec, work)


def writes_in_place(spec: Conv2dSpec, algorithm: str, work: np.dtype) -> bool:
    """Whether matmul can write the result where it belongs."""
    layouts = ("NHWC",) if algorithm == "im2win" else ("NCHW", "NHWC")
    return spec.out_plain and spec.layout in layouts and work == spec.dtype


def _shapes(
    spec: Conv2dSpec, algorithm: str, work: np.dtype, rows: int
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None]:
    """Shapes of rows, columns and result for tiles of this many output rows."""
    groups, c_in, c_out = spec.groups, spec.c_in_g, spec.c_out_g
    pixels = rows * spec.w_out
    height = (rows - 1) * spec.stride[0] + span(spec.h_f, spec.dilation[0])
    rows_shape: tuple[int, ...] | None = None
    if not _image_in_place(spec, work):
        rows_shape = (spec.c_in, height, spec.w_p)
        if spec.layout == "NHWC" or algorithm == "im2win":
            rows_shape = (height, spec.w_p, spec.c_in)
    columns: tuple[int, ...] | None
    result: tuple[int, ...] | None = (groups, c_out, pixels)
    if spec.layout == "NHWC":
        result = (groups, pixels, c_out)
    if algorithm == "im2win":
        phase = -(-spec.w_p // spec.dilation[1])
        columns = (groups, rows, spec.dilation[1], phase, spec.h_f, c_in)
        result = (groups, rows, spec.w_out, c_out)
    elif reads_pixels(spec, algorithm, work):
        columns = None
    elif spec.layout == "NHWC":
        columns = (groups, pixels, spec.k)
    else:
        columns = (groups, spec.k, pixels)
    if writes_in_place(spec, algorithm, work):
        result = None
    return rows_shape, columns, result


def _tile_bytes(spec: Conv2dSpec, algorithm: str, work: np.dtype, rows: int) -> int:
    shapes = _shapes(spec, algorithm, work, rows)
    size = sum(math.prod(shape) for shape in shapes if shape is not None) * work.itemsize
    if spec.activation is not None and spec.activation[0] == "leaky_relu":
        size += spec.c_out * rows * spec.w_out  # the mask of what is negative
    return size


def _wanted_rows(spec: Conv2dSpec, algorithm: str, work: np.dtype) -> int:
    """Height of a tile where memory is no matter."""
    if algorithm == "im2col":
        return spec.h_out
    if algorithm == "direct":
        return min(spec.h_out, max(1, _TILE_PIXELS // spec.w_out))
    return max(1, _most_rows(spec, algorithm, work, spec.h_out, _TILE_BYTES))


def _most_rows(spec: Conv2dSpec, algorithm: str, work: np.dtype, most: int, room: int) -> int:
    """Height of the highest tile, of at most `most` rows, that fits into `room` bytes."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = _tile_bytes(spec, algorithm, work, middle) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _choose(spec: Conv2dSpec, work: np.dtype) -> str:
    if spec.algorithm not in ("auto", "fastest"):
        return spec.algorithm
    return "direct" if (spec.h_f, spec.w_f) == (1, 1) else "implicit"


@lru_cache(maxsize=1024)
def make_plan(spec: Conv2dSpec, threads: int) -> BlasPlan:
    """Decide for a spec that is not declined, on at most this many threads.

    Raises
    ------
    MemoryError
        If tiles of one row do not fit into spec.max_workspace.
    """
    work = work_dtype(spec)
    algorithm = _choose(spec, work)
    order = _filter_order(spec, algorithm)
    in_place = order is None and spec.w_plain and _is_native(spec.w_dtype, work)
    kept_bytes = 0 if in_place else spec.c_out * spec.k * work.itemsize
    if spec.bias_dtype not in (None, spec.acc_dtype):
        kept_bytes += spec.c_out * spec.acc_dtype.itemsize
    rows = _wanted_rows(spec, algorithm, work)
    tile_bytes = _tile_bytes(spec, algorithm, work, rows)
    notes = []
    threads = min(threads, spec.n * -(-spec.h_out // rows), 1 + spec.flops // _FLOPS_PER_THREAD)
    if spec.max_workspace is not None and kept_bytes + tile_bytes > spec.max_workspace:
        low = _most_rows(spec, algorithm, work, rows - 1, spec.max_workspace - kept_bytes)
        if low == 0:
            least = kept_bytes + _tile_bytes(spec, algorithm, work, 1)
            raise MemoryError(
                f"blas needs at least {least} bytes of workspace for {algorithm}; "
                f"max_workspace={spec.max_workspace}"
            )
        notes.append(f"tiles of {low} rows, not {rows}, to stay within max_workspace")
        rows, tile_bytes = low, _tile_bytes(spec, algorithm, work, low)
    if spec.max_workspace is not None and tile_bytes:
        threads = min(threads, (spec.max_workspace - kept_bytes) // tile_bytes)
    if algorithm == "direct":
        gathers = not reads_pixels(spec, algorithm, work)
        notes.append("1x1: pixels are gathered" if gathers else "1x1: the image is read in place")
    if work != spec.acc_dtype:
        notes.append(f"integers are multiplied in {work}, where every sum is exact")
    elif work.kind == "i":
        notes.append("integers this wide are multiplied by NumPy without BLAS")
    return BlasPlan(
        algorithm, work, order, in_place, rows, *_shapes(spec, algorithm, work, rows), threads,
        kept_bytes + threads * tile_bytes, tuple(notes),
    )  # fmt: skip
