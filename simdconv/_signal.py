"""correlate2d and convolve2d with scipy.signal's signatures and results, on conv2d.

SciPy computes one image; here the leading axes of `image` are a batch. The centring of "same", the
swap of the operands in "valid" and the conjugation are SciPy's. Integers follow conv2d's rule
instead of wrapping: int8 and uint8 give int32, wider integers int64.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from simdconv._api import conv2d
from simdconv._arguments import check_choice, check_dtype, promote, show
from simdconv._errors import ShapeError
from simdconv._families import overridable
from simdconv._options import current_options, options

__all__ = ["convolve2d", "correlate2d"]

_MODES = ("full", "same", "valid")
_BOUNDARIES = {"fill": "constant", "pad": "constant", "wrap": "wrap", "circular": "wrap",
               "symm": "symmetric", "symmetric": "symmetric"}  # fmt: skip


def _check(mode: Any, boundary: Any, image: np.ndarray, kernel: np.ndarray) -> tuple[str, str]:
    mode = check_choice("mode", mode, _MODES)
    padding_mode = _BOUNDARIES[check_choice("boundary", boundary, tuple(_BOUNDARIES))]
    check_dtype("image", image.dtype)
    check_dtype("kernel", kernel.dtype)
    if image.ndim < 2:
        raise ShapeError(f"image must have at least 2 axes; got shape {image.shape}")
    if kernel.ndim != 2:
        raise ShapeError(f"kernel must have 2 axes; got shape {kernel.shape}")
    if 0 in kernel.shape or 0 in image.shape[-2:]:
        raise ShapeError(f"image and kernel must not be empty; got {image.shape}, {kernel.shape}")
    return mode, padding_mode


def _swap_needed(mode: str, image: np.ndarray, kernel: np.ndarray) -> bool:
    """Whether "valid" needs the operands the other way round: the larger one comes first."""
    if mode != "valid":
        return False
    pairs = list(zip(image.shape[-2:], kernel.shape, strict=True))
    if all(size >= k for size, k in pairs):
        return False
    if all(size <= k for size, k in pairs):
        return True
    raise ShapeError(
        "mode='valid' needs image or kernel to be at least as large as the other on both axes; "
        f"got {image.shape[-2:]} and {kernel.shape}"
    )


def _fill(fillvalue: Any, dtype: np.dtype, used: bool) -> Any:
    """Bring the fill value to the result's dtype; integers lose the fraction, as in SciPy.

    SciPy wants one number for every boundary, but looks at it only where it is used.
    """
    try:
        value = np.asarray(fillvalue)
    except Exception:  # no array at all: nested unevenly, or an object that refuses
        value = np.empty(0)
    if value.size != 1 or value.dtype.kind not in "biufc":
        raise ValueError(
            f"`fillvalue` must be scalar or an array with one element; got {show(fillvalue)}"
        )
    if not used:
        return dtype.type(0)
    uncastable = "could not cast `fillvalue` directly to the output type"  # SciPy's words
    number: Any = value.reshape(())[()]
    if dtype.kind != "c" and value.dtype.kind == "c":
        if number.imag:
            raise ValueError(f"{uncastable}, {dtype}: it is complex, {show(fillvalue)}")
        number = number.real
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not math.isfinite(number) or not limits.min <= int(number) <= limits.max:
            raise ValueError(f"{uncastable}, {dtype}: it is {show(fillvalue)}")
        number = int(number)
    with np.errstate(all="ignore"):
        return dtype.type(number)


def _number_beyond(
    image: np.ndarray, kernel: np.ndarray, padding_mode: str, fillvalue: Any
) -> tuple[np.dtype, Any]:
    """Return the result's dtype, and the fill value in it."""
    dtype, _ = promote([("image", image.dtype), ("kernel", kernel.dtype)])
    return dtype, _fill(fillvalue, dtype, padding_mode == "constant")


def _pads(mode: str, kernel: np.ndarray, flipped: bool) -> tuple[tuple[int, int], ...]:
    """Return what each axis needs on either side for the mode; for "same", SciPy's centring."""
    pads = []
    for k in kernel.shape:
        half = (k - 1) // 2
        same = (k - 1 - half, half) if flipped else (half, k - 1 - half)
        pads.append({"full": (k - 1, k - 1), "same": same, "valid": (0, 0)}[mode])
    return tuple(pads)


def _run(
    image: np.ndarray,
    kernel: np.ndarray,
    flipped: bool,
    mode: str,
    padding_mode: str,
    fillvalue: Any,
) -> np.ndarray:
    """Correlate a batch of images with a kernel that is flipped already, if it is to be."""
    pads = _pads(mode, kernel, flipped)
    dtype, fill = _number_beyond(image, kernel, padding_mode, fillvalue)
    copied = _joining_copies(image)
    if padding_mode == "constant" and fill != 0 and mode != "valid":
        size = math.prod(image.shape[:-2])
        size *= math.prod(n + sum(pad) for n, pad in zip(image.shape[-2:], pads, strict=True))
        fits = _fits(fill, image.dtype)
        copied = size * (image.itemsize if fits else 2 * dtype.itemsize)
        with _room_beside(copied):
            if not fits:
                image = image.astype(dtype)
            widths = ((0, 0),) * (image.ndim - 2) + pads
            constant = fill if image.dtype.kind == "c" else fill.real
            image = np.pad(image, widths, constant_values=constant)
        pads = ((0, 0), (0, 0))
    with _room_beside(copied):
        images = image.reshape(-1, 1, *image.shape[-2:])
        result = conv2d(images, kernel[None, None], padding=pads, padding_mode=padding_mode)
    result = result.reshape(*image.shape[:-2], *result.shape[-2:])
    return result if result.dtype == dtype else result.astype(dtype)


def _joining_copies(image: np.ndarray) -> int:
    """Bytes, at the most, that making one batch axis of the leading axes takes."""
    return 0 if image.ndim < 4 or image.flags.c_contiguous else image.nbytes


def _room_beside(copied: int) -> AbstractContextManager[Any]:
    """Leave the convolution what these copies leave of max_workspace, or raise MemoryError."""
    limit = current_options().max_workspace
    if limit is None or copied == 0:
        return nullcontext()
    if copied > limit:
        raise MemoryError(f"max_workspace={limit}: copies of the image take {copied} bytes")
    return options(max_workspace=limit - copied)


def _fits(fill: Any, dtype: np.dtype) -> bool:
    """Whether an image of this dtype can hold the fill value."""
    if dtype.kind != "c" and fill.imag != 0:
        return False
    number = fill if dtype.kind == "c" else fill.real
    with np.errstate(all="ignore"):
        return bool(np.asarray(number).astype(dtype) == number)


def _run_swapped(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Correlate the kernel, which is the larger one, with each image of the batch."""
    with _room_beside(_joining_copies(image)):
        filters = image.reshape(-1, 1, *image.shape[-2:])
        result = conv2d(kernel[None, None], filters)
    return result.reshape(*image.shape[:-2], *result.shape[-2:])


@overridable("image", "kernel", sequences=True)
def correlate2d(
    image: np.ndarray,
    kernel: np.ndarray,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
) -> np.ndarray:
    """Cross-correlate images with a kernel, as scipy.signal.correlate2d does.

    Parameters
    ----------
    image : array or nested list
        (..., h_in, w_in); the leading axes are a batch.
    kernel : array or nested list
        (h_f, w_f). Its complex conjugate is used.
    mode : {"full", "same", "valid"}
        Every overlap; the size of the image, centred; or complete overlaps only. With "valid", the
        larger of the two counts as the image.
    boundary : {"fill", "wrap", "symm"}
        Beyond the image: `fillvalue`, the image again, or its mirror image. "pad", "circular" and
        "symmetric" are other names of the three.
    fillvalue : number

    Returns
    -------
    array
        (..., h_out, w_out). Integers give int32 or int64 as in conv2d, and do not wrap.

    Raises
    ------
    ValueError, TypeError
        With the argument's name, what came and what is allowed.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> simdconv.correlate2d(np.array([[1.0, 2, 3]]), np.array([[1.0, 10]]))
    array([[10., 21., 32.,  3.]])
    """
    mode, padding_mode = _check(mode, boundary, image, kernel)
    if _swap_needed(mode, image, kernel):
        _number_beyond(image, kernel, padding_mode, fillvalue)
        return _run_swapped(image.conj(), kernel)[..., ::-1, ::-1]
    return _run(image, kernel.conj(), False, mode, padding_mode, fillvalue)


@overridable("image", "kernel", sequences=True)
def convolve2d(
    image: np.ndarray,
    kernel: np.ndarray,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
) -> np.ndarray:
    """Convolve images with a kernel, which is flipped, as scipy.signal.convolve2d does.

    Parameters
    ----------
    image, kernel, mode, boundary, fillvalue
        As in correlate2d; the kernel is not conjugated.

    Returns
    -------
    array
        As correlate2d's.

    Raises
    ------
    ValueError, TypeError
        As correlate2d's.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> simdconv.convolve2d(np.array([[1.0, 2, 3]]), np.array([[1.0, 10]]))
    array([[ 1., 12., 23., 30.]])
    """
    mode, padding_mode = _check(mode, boundary, image, kernel)
    if _swap_needed(mode, image, kernel):
        _number_beyond(image, kernel, padding_mode, fillvalue)
        return _run_swapped(image[..., ::-1, ::-1], kernel)
    return _run(image, kernel[::-1, ::-1], True, mode, padding_mode, fillvalue)
