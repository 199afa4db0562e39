"""Memory for results."""

from __future__ import annotations

import math

import numpy as np

from simdconv.backends.simd import _core

__all__ = ["empty"]

_LARGE = 1 << 18  # bytes; below, NumPy's own allocation is as good and quicker


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array in C order, not cleared, aligned to cache lines if it is large.

    Large results come from the C library's allocator, which keeps the last few blocks that were
    given back: a fresh block costs a page fault for every page that is written, which for a result
    larger than the caches takes longer than computing it.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _LARGE or not 0 <= dtype.num < 24:
        return np.empty(shape, dtype)
    return _core.empty(shape, dtype.num, size)
