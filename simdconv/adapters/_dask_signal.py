"""correlate2d and convolve2d on dask arrays: each block padded as its image is, then "valid"."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from simdconv import _signal
from simdconv._arguments import promote
from simdconv._spec import conv2d_spec
from simdconv.adapters._blocks import Span, output_spans
from simdconv.adapters._dask_graph import (
    Constants,
    Task,
    as_dask,
    choices,
    make_array,
    pins,
    stand_in,
)

__all__ = ["run"]


def run(
    function: Any,
    image: Any,
    kernel: Any,
    mode: Any,
    boundary: Any,
    fillvalue: Any,
    flipped: bool,
) -> Any:
    """Make the graph; arguments as correlate2d's, and whether the kernel is flipped."""
    image, kernel = (
        np.asarray(value) if isinstance(value, (list, tuple, complex, float, int)) else value
        for value in (image, kernel)
    )
    image, kernel = as_dask("image", image), as_dask("kernel", kernel)
    mode, padding_mode = _signal._check(mode, boundary, image, kernel)
    dtype, _ = promote([("image", image.dtype), ("kernel", kernel.dtype)])
    sizes, taps = image.shape[-2:], kernel.shape
    swapped = _signal._swap_needed(mode, image, kernel)
    pads = _signal._pads(mode, kernel, flipped)
    fill = _signal._fill(fillvalue, dtype, padding_mode == "constant")
    if 0 in image.shape:
        shape = [abs(n - k) + 1 if swapped else n + sum(pad) - k + 1
                 for n, k, pad in zip(sizes, taps, pads, strict=True)]  # fmt: skip
        return da.zeros((*image.shape[:-2], *shape), dtype=dtype)
    axes = (image.ndim - 2, image.ndim - 1)
    if swapped:  # the result is smaller than the kernel: one block
        image = image.rechunk(dict.fromkeys(axes, -1))
        rows, columns = (
            [Span(k - n + 1, ((0, n),), None, (0, 0))] for n, k in zip(sizes, taps, strict=True)
        )
    else:
        rows, columns = (
            output_spans(image.chunks[axis], n + sum(pad) - k + 1, k, 1, pad, padding_mode)
            for axis, n, k, pad in zip(axes, sizes, taps, pads, strict=True)
        )
    spans = (rows, columns)
    token = tokenize(function.__name__, image, kernel, mode, boundary, fillvalue, choices(None))
    constants = Constants(f"simdconv-{function.__name__}-{token}")
    shared = (constants.add("kernel", kernel),)

    def make_task(shape: tuple[int, ...], pair: tuple[Span, Span]) -> Task:
        large = (1, 1, *(
            max(n + sum(span.pads), k) for n, span, k in zip(shape[-2:], pair, taps, strict=True)
        ))  # fmt: skip
        block, weight = stand_in(image, large), stand_in(kernel, (1, 1, *taps))
        name, options = pins(conv2d_spec(block, weight), None)
        keywords = {"function": function, "pads": (pair[0].pads, pair[1].pads), "fill": fill,
                    "dtype": dtype}  # fmt: skip
        takes = (pair[0].take, pair[1].take)
        return Task(_block, axes, takes, name, options, keywords)

    def place(index: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
        return (*index[:-2], i, j)

    chunks = (*image.chunks[:-2], *(tuple(span.size for span in s) for s in spans))
    return make_array(image, axes, spans, make_task, constants, shared, place, chunks, dtype)


def _block(
    block: np.ndarray, kernel: np.ndarray, *, function: Any, pads: Any, fill: Any, dtype: np.dtype
) -> np.ndarray:
    """Compute one block, which has its halo; `pads` elements on each side lie beyond the image."""
    if pads != ((0, 0), (0, 0)):
        if not _signal._fits(fill, block.dtype):
            block = block.astype(dtype)
        widths = ((0, 0),) * (block.ndim - 2) + pads
        constant = fill if block.dtype.kind == "c" else fill.real
        block = np.pad(block, widths, constant_values=constant)
    result: np.ndarray = function(block, kernel, "valid")
    return result.astype(dtype, copy=False)
