"""Layouts: what each axis of an image, a result or a filter means.

    NCHW   (n, c, h, w)            CHWN   (c, h, w, n)
    NHWC   (n, h, w, c)            CHWN8  (ceil(n/8), c, h, w, 8), the last block zero-filled

A layout names the logical axis order. It is an argument, and is never guessed from strides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdconv._arguments import check_integer, plain_str, show
from simdconv._errors import LayoutError, ShapeError
from simdconv._families import overridable

__all__ = ["LANES", "LAYOUTS", "WEIGHT_LAYOUTS", "to_layout"]

LANES = 8  # images in a block of CHWN8
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
WEIGHT_LAYOUTS = ("OIHW", "HWIO", "OHWI", "IHWO")


def image_shape(layout: str, batched: bool, n: int, c: int, h: int, w: int) -> tuple[int, ...]:
    """Shape of an image or a result of these sizes, without the batch axis if not batched."""
    if layout == "CHWN8":
        return (n // LANES, c, h, w, LANES)
    if not batched:
        return (h, w, c) if layout == "NHWC" else (c, h, w)
    if layout == "NCHW":
        return (n, c, h, w)
    return (n, h, w, c) if layout == "NHWC" else (c, h, w, n)


def one_of_batch(array: np.ndarray, layout: str, batched: bool, index: int) -> np.ndarray:
    """View what belongs to one image: the batch axis taken out, the others in their order."""
    if layout == "CHWN8":
        return array[index // LANES, ..., index % LANES]
    if not batched:
        return array
    return array[..., index] if layout == "CHWN" else array[index]


def chw_image(array: np.ndarray, layout: str, batched: bool, index: int) -> np.ndarray:
    """Image `index` of a batch as a view of shape (c, h, w)."""
    image = one_of_batch(array, layout, batched, index)
    return image.transpose(2, 0, 1) if layout == "NHWC" else image


def weights_to(weight: np.ndarray, src: str, dst: str) -> np.ndarray:
    """View a filter with its axes in another order."""
    if src == dst:
        return weight
    return weight.transpose([src.index(axis) for axis in dst])


def check_layout(layout: object, name: str = "layout", known: tuple[str, ...] = LAYOUTS) -> str:
    """Return `layout` if it is one of `known`, else raise."""
    if not isinstance(layout, str):
        raise TypeError(
            f"{name} must be a str, one of {', '.join(known)}; got {type(layout).__name__}"
        )
    text = plain_str(layout)
    if text not in known:
        raise LayoutError(f"unknown {name} {show(text)}: expected one of {', '.join(known)}")
    return text


def to_images(x: np.ndarray, src: str) -> np.ndarray:
    """Bring images from layout `src` to (n, c, h, w), as a view except from CHWN8."""
    if src == "CHWN8":
        blocks, c, h, w, _ = x.shape
        return x.transpose(0, 4, 1, 2, 3).reshape(blocks * LANES, c, h, w)
    return x.transpose([src.index(axis) for axis in "NCHW"])


def to_blocks(images: np.ndarray) -> np.ndarray:
    """(n, c, h, w) images in blocks of eight, the last block filled up with zeros."""
    n, c, h, w = images.shape
    blocks = np.zeros((-(-n // LANES), c, h, w, LANES), images.dtype)
    for index in range(n):
        blocks[index // LANES, ..., index % LANES] = images[index]
    return blocks


def check_conversion(shape: tuple[int, ...], src: Any, dst: Any, n: Any) -> None:
    """Raise unless an array of this shape can be brought from layout `src` to `dst`."""
    filters = isinstance(src, str) and plain_str(src) in WEIGHT_LAYOUTS
    known = WEIGHT_LAYOUTS if filters else LAYOUTS
    if n is not None:
        try:
            n = check_integer("n", n, 0)
        except ValueError:
            raise ShapeError(f"n={show(n)} does not belong to x of shape {shape}") from None
    src, dst = check_layout(src, "src", known), check_layout(dst, "dst", known)
    if filters:
        if len(shape) != 4:
            raise LayoutError(f"a filter in layout {src} has 4 axes; got shape {shape}")
        return
    if len(shape) == 3 and "CHWN8" not in (src, dst):
        if n not in (None, 1):
            raise ShapeError(f"x of shape {shape} is one image without its batch axis; n={n}")
        return
    if src == "CHWN8" and (len(shape) != 5 or shape[4] != LANES):
        raise LayoutError(f"x in layout CHWN8 has shape (ceil(n/8), c, h, w, 8); got {shape}")
    if src != "CHWN8" and len(shape) != 4:
        raise LayoutError(f"x in layout {src} has 4 axes, or 3 without the batch; got {shape}")
    if n is None:
        return
    count = shape[0] * LANES if src == "CHWN8" else shape[src.index("N")]
    fits = count - LANES < n <= count if src == "CHWN8" else n == count
    if not fits:
        raise ShapeError(f"n={n} does not belong to x of shape {shape} in layout {src}")


@overridable("x")
def to_layout(x: np.ndarray, src: str, dst: str, *, n: int | None = None) -> np.ndarray:
    """Bring images, results or filters from one layout into another.

    Parameters
    ----------
    x : array
        In layout `src`. Images may lack their batch axis, except to and from CHWN8.
    src, dst : str
        Two image layouts (NCHW, NHWC, CHWN, CHWN8) or two filter layouts (OIHW, HWIO, OHWI, IHWO).
    n : int, optional
        The number of images. From CHWN8 it drops the spare lanes of the last block.

    Returns
    -------
    array, of the kind of x
        In C order. `x` itself, or another array of its memory, if it is that already.

    Raises
    ------
    LayoutError
        For an unknown layout, or an array that cannot be in layout `src`.
    ShapeError
        If `n` does not belong to the shape of `x`.
    TypeError
        As conv2d's, for what is no array.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> simdconv.to_layout(np.zeros((10, 3, 32, 32)), "NCHW", "CHWN8").shape
    (2, 3, 32, 32, 8)
    """
    check_conversion(x.shape, src, dst, n)
    if x.ndim == 3 or plain_str(src) in WEIGHT_LAYOUTS:
        if x.ndim == 3:
            src, dst = src.replace("N", ""), dst.replace("N", "")
        return np.ascontiguousarray(weights_to(x, src, dst))
    images = to_images(x, src)
    if src == dst and n in (None, len(images)):
        return np.ascontiguousarray(x)
    if dst == "CHWN8":
        return to_blocks(images[:n])
    return np.ascontiguousarray(images[:n].transpose(["NCHW".index(axis) for axis in dst]))
