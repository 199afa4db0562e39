"""The blas backend: convolutions as products of matrices by numpy.matmul, tile by tile.

    im2col      patches of a whole image: in NHWC, patches (pixels, k) @ filter (k, c_out),
                in the other layouts, filter (c_out, k) @ patches (k, pixels)
    implicit    the same with the patches of some output rows at a time
    im2win      strips of some output rows at a time; the windows of every few columns are the rows
                of a matrix whose leading dimension is at least its width, so BLAS reads them there
    direct      1x1 filters: the image is the matrix

Images are computed one by one, each with the same products, so that the bits of an image cannot
depend on its batch.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

from simdconv._errors import BackendNotImplementedError
from simdconv._layout import LAYOUTS, chw_image, one_of_batch, weights_to
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends import _base, _blas_plan
from simdconv.backends._base import Candidate, Kernel, PackedFilter, Plan
from simdconv.backends._blas_plan import ALGORITHMS, BlasPlan, make_plan
from simdconv.backends._blas_threads import blas_threads, run_shared
from simdconv.backends._gather import fill_rows, patches_view, span, strips_view
from simdconv.backends.numpy import activate

__all__ = ["BlasBackend", "load"]

_DTYPES = ("f16", "bf16", "f32", "f64", "c64", "c128", "i32", "i64")
_MOST_THREADS = 256


def _threads(spec: Conv2dSpec) -> int:
    return min(spec.num_threads or blas_threads(), _MOST_THREADS)


def _filter_matrix(spec: Conv2dSpec, plan: BlasPlan, w: np.ndarray) -> np.ndarray:
    """Return (groups, k, c_out_g) for rows of pixels, (groups, c_out_g, k) for columns of them."""
    by_pixels = spec.layout == "NHWC" or plan.algorithm == "im2win"
    if plan.filter_order is None:  # only the memory may be wrong: the products stay the same
        weight = w if plan.filter_in_place else np.array(w, plan.work_dtype, order="C")
        return _filter_view(spec, weight, by_pixels)
    weight = weights_to(w, spec.weight_layout, plan.filter_order)
    source = weight.reshape(spec.groups, spec.c_out_g, *weight.shape[1:])
    if by_pixels:
        matrix = np.empty((spec.groups, spec.k, spec.c_out_g), plan.work_dtype)
        matrix.reshape(spec.groups, *weight.shape[1:], spec.c_out_g)[...] = np.moveaxis(
            source, 1, -1
        )
    else:
        matrix = np.empty((spec.groups, spec.c_out_g, spec.k), plan.work_dtype)
        matrix.reshape(source.shape)[...] = source
    return matrix


def _filter_view(spec: Conv2dSpec, w: np.ndarray, by_pixels: bool) -> np.ndarray:
    """View a filter in C order, of a weight_layout that needs no other order, as matrices."""
    if by_pixels and spec.weight_layout == "HWIO":
        return w.reshape(spec.k, spec.groups, spec.c_out_g).transpose(1, 0, 2)
    if (spec.h_f, spec.w_f) == (1, 1):  # (o, i) in some order of the two
        w = weights_to(w, spec.weight_layout, "OIHW")[:, :, 0, 0]
    by_group = w.reshape(spec.groups, spec.c_out_g, spec.k)
    return by_group.transpose(0, 2, 1) if by_pixels else by_group


class _Worker:
    """Computes tiles in memory of its own."""

    def __init__(
        self, spec: Conv2dSpec, plan: BlasPlan, matrix: np.ndarray, bias: np.ndarray | None
    ) -> None:
        self.spec, self.plan, self.matrix, self.bias = spec, plan, matrix, bias
        shapes = (plan.rows_shape, plan.columns_shape, plan.result_shape)
        sizes = [0 if shape is None else math.prod(shape) for shape in shapes]
        self.rows, self.columns, self.result = (
            None if size == 0 else np.empty(size, plan.work_dtype) for size in sizes
        )

    def tile(self, x: np.ndarray, out: np.ndarray, index: int, first: int, count: int) -> None:
        """Compute output rows first .. first + count of one image."""
        spec = self.spec
        image = chw_image(x, spec.layout, spec.batched, index)
        target = chw_image(out, spec.layout, spec.batched, index)[:, first : first + count]
        rows = self._rows(image, first, count)
        if self.plan.algorithm == "im2win":
            self._multiply_strips(rows, target, count)
        else:
            self._multiply_patches(rows, target, count)

    def _rows(self, image: np.ndarray, first: int, count: int) -> np.ndarray:
        """(c_in, height, w_p): what the tile's windows touch."""
        spec = self.spec
        start = first * spec.stride[0]
        height = (count - 1) * spec.stride[0] + span(spec.h_f, spec.dilation[0])
        if self.rows is None:
            return image[:, start : start + height]
        if spec.layout == "NHWC" or self.plan.algorithm == "im2win":
            rows = self.rows[: height * spec.w_p * spec.c_in]
            rows = rows.reshape(height, spec.w_p, spec.c_in).transpose(2, 0, 1)
        else:
            rows = self.rows[: spec.c_in * height * spec.w_p]
            rows = rows.reshape(spec.c_in, height, spec.w_p)
        fill_rows(rows, image, spec, start)
        return rows

    def _multiply_patches(self, rows: np.ndarray, target: np.ndarray, count: int) -> None:
        spec, groups = self.spec, self.spec.groups
        pixels = count * spec.w_out
        by_pixels = spec.layout == "NHWC"
        if self.columns is None:  # 1x1, read in place
            columns = rows.reshape(groups, spec.c_in_g, pixels)
            columns = columns.transpose(0, 2, 1) if by_pixels else columns
        else:
            windows = patches_view(rows, spec, count)
            windows = windows.reshape((groups, spec.c_in_g, *windows.shape[1:]))
            columns = self.columns[: groups * spec.k * pixels]
            if by_pixels:
                windows = windows.transpose(0, 4, 5, 2, 3, 1)
                columns.reshape(windows.shape)[...] = windows
                columns = columns.reshape(groups, pixels, spec.k)
            else:
                columns.reshape(windows.shape)[...] = windows
                columns = columns.reshape(groups, spec.k, pixels)
        left, right = (columns, self.matrix) if by_pixels else (self.matrix, columns)
        if self.result is None:
            product = target.reshape(groups, spec.c_out_g, pixels)
            np.matmul(left, right, out=product.transpose(0, 2, 1) if by_pixels else product)
            self._finish(target, target)
            return
        result = self.result[: spec.c_out * pixels]
        if by_pixels:
            product = result.reshape(groups, pixels, spec.c_out_g)
            np.matmul(left, right, out=product)
            product = product.transpose(0, 2, 1)
        else:
            product = result.reshape(groups, spec.c_out_g, pixels)
            np.matmul(left, right, out=product)
        shape = (groups, spec.c_out_g, count, spec.w_out)
        self._finish(product.reshape(shape), target)

    def _multiply_strips(self, rows: np.ndarray, target: np.ndarray, count: int) -> None:
        """Multiply windows in strips; the columns of a dilation phase lie together, as runs."""
        spec, groups = self.spec, self.spec.groups
        stride, dilation = spec.stride[1], spec.dilation[1]
        phases = -(-spec.w_p // dilation)
        shape = (groups, count, dilation, phases, spec.h_f, spec.c_in_g)
        assert self.columns is not None
        strips = self.columns[: math.prod(shape)].reshape(shape)
        source = strips_view(rows, spec, count)
        source = source.reshape((groups, spec.c_in_g, *source.shape[1:]))
        for phase in range(dilation):
            part = source[:, :, :, phase::dilation].transpose(0, 2, 3, 4, 1)
            strips[:, :, phase, : part.shape[2]] = part
        if self.result is None:
            result = target.transpose(1, 2, 0)
            result = result.reshape((count, spec.w_out, groups, spec.c_out_g))
            result = result.transpose(2, 0, 1, 3)
        else:
            result = self.result[: spec.c_out * count * spec.w_out]
            result = result.reshape(groups, count, spec.w_out, spec.c_out_g)
        common = math.gcd(stride, dilation)
        step = dilation // common * -(-spec.w_f // (stride // common))
        group_step, row_step, _, column_step, _, _ = strips.strides
        for start in range(min(step, spec.w_out)):
            column, phase = divmod(start * stride, dilation)
            outputs = result[:, :, start::step]
            windows = as_strided(
                strips[:, :, phase, column:],
                (groups, count, outputs.shape[2], spec.k),
                (group_step, row_step, step * stride // dilation * column_step,
                 strips.itemsize),
                writeable=False,
            )  # fmt: skip
            np.matmul(windows, self.matrix[:, None], out=outputs)
        if self.result is None:
            self._finish(target, target)
        else:
            self._finish(result.transpose(0, 3, 1, 2), target)

    def _finish(self, result: np.ndarray, target: np.ndarray) -> None:
        """Bias, activation, and the one rounding; (c_out, rows, w_out), or by groups."""
        spec = self.spec
        sums = result
        if result is not target:
            shape = (spec.groups, spec.c_out_g, *target.shape[1:])
            grouped = target.reshape(shape)
            if spec.dtype == spec.acc_dtype:  # the copy comes first where it rounds nothing
                np.copyto(grouped, result, casting="unsafe")
                sums = grouped
        if self.bias is not None:
            sums += self.bias.reshape((*sums.shape[:-2], 1, 1))
        activate(sums, spec.activation)
        if spec.dtype != spec.acc_dtype:
            grouped[...] = sums


class BlasBackend:
    """Convolution by NumPy's matmul, in every layout."""

    name = "blas"
    api_version = _base.API_VERSION

    def declines(self, spec: Conv2dSpec | TransformSpec) -> str | None:
        """Algorithms that are no product of matrices, and long double."""
        return _blas_plan.declines(spec)

    def plan(self, spec: Conv2dSpec) -> Plan:
        """Algorithm, tile and workspace."""
        if reason := self.declines(spec):
            raise BackendNotImplementedError(f"blas {reason}", {self.name: reason})
        plan = make_plan(spec, _threads(spec))
        code = _base.dtype_code(spec.dtype)
        candidates = []
        for algorithm in ALGORITHMS:
            chosen = algorithm == plan.algorithm
            candidates.append(Candidate(
                algorithm, f"{algorithm}-{spec.layout.lower()}-blas-{code}", chosen,
                _reason(spec, algorithm, chosen),
            ))  # fmt: skip
        kernel = next(item.kernel for item in candidates if item.chosen)
        return Plan(
            self.name, plan.algorithm, spec.layout, kernel, plan.workspace, plan.threads,
            tuple(candidates), plan.notes, {"tile rows": plan.tile_rows},
        )  # fmt: skip

    def conv2d(
        self,
        spec: Conv2dSpec,
        x: np.ndarray,
        w: np.ndarray | PackedFilter,
        bias: np.ndarray | None,
        out: np.ndarray,
    ) -> None:
        """Share the tiles of all images out to the threads."""
        assert isinstance(w, np.ndarray)
        plan = make_plan(spec, _threads(spec))
        with np.errstate(all="ignore"):
            matrix = _filter_matrix(spec, plan, w)
            sum_bias = None if bias is None else bias.astype(spec.acc_dtype, copy=False)
        workers = [_Worker(spec, plan, matrix, sum_bias) for _ in range(plan.threads)]
        tiles = [
            (index, first, min(plan.tile_rows, spec.h_out - first))
            for index in range(spec.n)
            for first in range(0, spec.h_out, plan.tile_rows)
        ]

        def work(worker: int, count: int) -> None:
            for tile in tiles[worker::count]:
                workers[worker].tile(x, out, *tile)

        run_shared(work, plan.threads)

    def transform(self, spec: TransformSpec, x: np.ndarray, out: np.ndarray) -> None:
        """Row by row of the result, through the rows of the padded image that it needs."""
        height = span(spec.h_f, spec.dilation[0])
        nhwc = spec.layout == "NHWC"
        shape = (height, spec.w_p, spec.c_in) if nhwc else (spec.c_in, height, spec.w_p)
        _base.check_limit(spec, math.prod(shape) * spec.dtype.itemsize)
        rows = np.empty(shape, spec.dtype)
        rows = rows.transpose(2, 0, 1) if nhwc else rows
        for index in range(spec.n):
            image = chw_image(x, spec.layout, spec.batched, index)
            target = one_of_batch(out, spec.layout, spec.batched, index)
            for row in range(spec.h_out):
                fill_rows(rows, image, spec, row * spec.stride[0])
                if spec.kind == "im2col":
                    _store_patches(rows, spec, target, row)
                else:
                    strip = strips_view(rows, spec, 1)[:, 0]
                    if nhwc:
                        strip = strip.transpose(1, 2, 0)
                        target[row].reshape(strip.shape)[...] = strip
                    else:
                        _split(target[:, row], -1, spec.w_p, spec.h_f)[...] = strip

    def kernels(self) -> list[Kernel]:
        """One an algorithm, layout and dtype."""
        return [
            Kernel(f"{algorithm}-{layout.lower()}-blas-{code}", "blas", algorithm, layout, "blas",
                   code)
            for algorithm in ALGORITHMS
            for layout in LAYOUTS
            for code in _DTYPES
        ]  # fmt: skip


def _split(array: np.ndarray, axis: int, outer: int, inner: int) -> np.ndarray:
    """View one axis as two; that needs no copy, whatever the strides."""
    axis %= array.ndim
    step = array.strides[axis]
    shape = (*array.shape[:axis], outer, inner, *array.shape[axis + 1 :])
    strides = (*array.strides[:axis], inner * step, step, *array.strides[axis + 1 :])
    return as_strided(array, shape, strides)


def _store_patches(rows: np.ndarray, spec: TransformSpec, target: np.ndarray, row: int) -> None:
    windows = patches_view(rows, spec, 1)[:, :, :, 0]  # (c, h_f, w_f, w_out)
    pixels = slice(row * spec.w_out, (row + 1) * spec.w_out)
    if spec.layout == "NHWC":
        by_row = _split(target[pixels], 1, spec.h_f * spec.w_f, spec.c_in)
        _split(by_row, 1, spec.h_f, spec.w_f)[...] = windows.transpose(3, 1, 2, 0)
    else:
        by_channel = _split(target[:, pixels], 0, spec.c_in, spec.h_f * spec.w_f)
        _split(by_channel, 1, spec.h_f, spec.w_f)[...] = windows


def _reason(spec: Conv2dSpec, algorithm: str, chosen: bool) -> str:
    if spec.algorithm not in ("auto", "fastest"):
        return "named by the caller" if chosen else f"the caller named {spec.algorithm}"
    if chosen:
        return "a 1x1 filter needs no patches" if algorithm == "direct" else "patches stay in cache"
    if algorithm == "direct":
        return "for 1x1 filters only"
    return "stores or rearranges more before it multiplies"


def load() -> BlasBackend:
    """Make the backend; the registry calls this."""
    return BlasBackend()
