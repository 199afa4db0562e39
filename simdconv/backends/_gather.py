"""Data movement of the blas backend: rows of the padded image, patches, strips. No arithmetic.

Images are seen as (c, h, w) here whatever their memory order is. All functions fill memory that
the caller has allocated.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from simdconv._spec import Conv2dSpec, TransformSpec

Spec = Conv2dSpec | TransformSpec

__all__ = ["fill_rows", "patches_view", "span", "strips_view"]


def span(kernel: int, dilation: int) -> int:
    """Rows or columns from the first to the last that a window touches."""
    return dilation * (kernel - 1) + 1


@lru_cache(maxsize=256)
def _sources(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """For each index of the padded axis, the index of the image that it repeats."""
    return np.pad(np.arange(size), (before, after), mode=mode)  # type: ignore[call-overload]


def fill_rows(rows: np.ndarray, image: np.ndarray, spec: Spec, first: int) -> None:
    """Fill `rows` (c, count, w_p) with the padded image from its row `first` on."""
    (top, bottom), (left, right) = spec.padding
    count = rows.shape[1]
    inside = slice(left, left + spec.w_in)
    start = min(max(top - first, 0), count)
    stop = max(min(top + spec.h_in - first, count), start)
    source = first + start - top
    rows[:, start:stop, inside] = image[:, source : source + stop - start]
    if spec.padding_mode == "constant":
        rows[:, :start] = 0
        rows[:, stop:] = 0
        rows[:, start:stop, :left] = 0
        rows[:, start:stop, left + spec.w_in :] = 0
        return
    if start > 0 or stop < count:
        row_of = _sources(spec.h_in, top, bottom, spec.padding_mode)
        for row in (*range(start), *range(stop, count)):
            rows[:, row, inside] = image[:, row_of[first + row]]
    if left or right:
        column_of = _sources(spec.w_in, left, right, spec.padding_mode)
        for column in (*range(left), *range(left + spec.w_in, spec.w_p)):
            rows[:, :, column] = rows[:, :, left + column_of[column]]


def patches_view(rows: np.ndarray, spec: Spec, count: int) -> np.ndarray:
    """View the windows of `count` output rows: (c, h_f, w_f, count, w_out)."""
    (stride_h, stride_w), (dilation_h, dilation_w) = spec.stride, spec.dilation
    c_step, h_step, w_step = rows.strides
    return as_strided(
        rows,
        (rows.shape[0], spec.h_f, spec.w_f, count, spec.w_out),
        (c_step, dilation_h * h_step, dilation_w * w_step, stride_h * h_step, stride_w * w_step),
        writeable=False,
    )


def strips_view(rows: np.ndarray, spec: Spec, count: int) -> np.ndarray:
    """View the strips of `count` output rows: (c, count, w_p, h_f)."""
    c_step, h_step, w_step = rows.strides
    return as_strided(
        rows,
        (rows.shape[0], count, spec.w_p, spec.h_f),
        (c_step, spec.stride[0] * h_step, w_step, spec.dilation[0] * h_step),
        writeable=False,
    )
