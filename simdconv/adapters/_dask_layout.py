"""to_layout on dask arrays: each chunk turned by itself, images in whole blocks of eight."""

from __future__ import annotations

from typing import Any

import numpy as np

from simdconv._layout import LANES, WEIGHT_LAYOUTS, check_conversion, to_blocks, to_images
from simdconv.adapters._dask_graph import as_dask

__all__ = ["run"]


def run(function: Any, x: Any, src: Any, dst: Any, n: Any) -> Any:
    """Make the graph; arguments as to_layout's."""
    x = as_dask("x", x)
    check_conversion(x.shape, src, dst, n)
    if x.ndim == 3 or src in WEIGHT_LAYOUTS:
        source, target = (src.replace("N", ""), dst.replace("N", "")) if x.ndim == 3 else (src, dst)
        return _in_c_order(x, [source.index(axis) for axis in target])
    if src == dst and (n is None or src != "CHWN8" or n == x.shape[0] * LANES):
        return _in_c_order(x, range(x.ndim))
    images = _images(x, src)[:n]
    if dst == "CHWN8":
        return _blocks(images)
    return _in_c_order(images, ["NCHW".index(axis) for axis in dst])


def _in_c_order(x: Any, axes: Any) -> Any:
    """Transpose, and copy each chunk that is not in C order."""
    if list(axes) != list(range(x.ndim)):
        x = x.transpose(axes)
    return x.map_blocks(np.ascontiguousarray, dtype=x.dtype, meta=x._meta)


def _images(x: Any, src: str) -> Any:
    """Bring images to (n, c, h, w)."""
    if src != "CHWN8":
        return x.transpose([src.index(axis) for axis in "NCHW"])
    x = x.rechunk({4: -1})
    chunks = (tuple(LANES * size for size in x.chunks[0]), *x.chunks[1:4])
    meta = np.empty((0,) * 4, x.dtype)
    return x.map_blocks(to_images, src=src, chunks=chunks, drop_axis=4, dtype=x.dtype, meta=meta)


def _blocks(images: Any) -> Any:
    """(n, c, h, w) images in blocks of eight: the chunks of the batch end where blocks do."""
    n = images.shape[0]
    ends = {-(-end // LANES) * LANES for end in np.cumsum(images.chunks[0]).tolist()}
    edges = sorted({0, n, *(end for end in ends if end < n)})
    sizes = tuple(np.diff(edges).tolist()) if n else (0,)
    images = images.rechunk({0: sizes})
    chunks = (tuple(-(-size // LANES) for size in sizes), *images.chunks[1:], (LANES,))
    meta = np.empty((0,) * 5, images.dtype)
    return images.map_blocks(to_blocks, chunks=chunks, new_axis=4, dtype=images.dtype, meta=meta)
