"""Memory for results."""

from __future__ import annotations

import math

import numpy as np

from simdconv.backends.simd import _core

__all__ = ["empty"]


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array in C order, not cleared, from the C library's allocator if it is large."""
    if not 0 <= dtype.num < 24:  # not NumPy's own
        return np.empty(shape, dtype)
    return _core.empty(shape, dtype.num, math.prod(shape) * dtype.itemsize)
