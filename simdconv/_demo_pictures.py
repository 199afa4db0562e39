"""The demo's pictures: read one, shrink it, and draw results, mosaics and the contact sheet."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

__all__ = [
    "Picture",
    "contact_sheet",
    "edges",
    "mosaic",
    "orientations",
    "photograph",
    "read",
    "shown",
]

_WHITE = (255, 255, 255)
_INK, _PAPER, _FAINT = (236, 236, 240), (22, 22, 28), (150, 150, 162)
_CELL, _GAP, _CAPTION, _HEADER = 440, 20, 54, 92  # pixels of the contact sheet
# dark violet, through red and orange, to pale yellow: lightness rises all the way
_HEAT = np.array(
    [[8, 6, 24], [74, 18, 108], [160, 42, 96], [228, 92, 48], [250, 174, 64], [252, 252, 190]]
)


class Picture(NamedTuple):
    """A result for the contact sheet."""

    name: str
    caption: str
    image: Image.Image


def photograph() -> tuple[np.ndarray, str]:
    """The astronaut Eileen Collins, by NASA; shipped in scikit-image, in the public domain.

    Returns
    -------
    pixels : ndarray, uint8, shape (512, 512, 3)
    name : str
    """
    from skimage import data

    return np.asarray(data.astronaut()), "astronaut"


def read(path: str | Path) -> np.ndarray:
    """Read the first frame of an image file of any mode as it should be looked at.

    Parameters
    ----------
    path : path

    Returns
    -------
    ndarray, uint8, shape (h, w, 3)
        Turned as its EXIF data says, transparency laid on white, more than 8 bits scaled down.

    Raises
    ------
    ValueError
        With the file's name, if it is not an image that Pillow reads.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                image.load()
                return _rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise whatever they like on a broken file
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        if isinstance(error, Image.UnidentifiedImageError):
            reason = "not an image that Pillow reads"
        raise ValueError(f"cannot read {str(path)!r}: {reason}") from None


def _rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I") or image.mode == "F":
        return np.repeat(_eight_bits(np.asarray(image))[..., None], 3, axis=2)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, (*_WHITE, 255)), clear)
    return np.asarray(image.convert("RGB"))


def _eight_bits(values: np.ndarray) -> np.ndarray:
    """Grey of more than 8 bits: integers from their full range, floats from what is there."""
    values = values.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 65535 and np.array_equal(finite, np.trunc(finite)):
        low, high = 0.0, 255.0 if high <= 255 else 65535.0
    scaled = (values - low) / (high - low or 1.0) * 255
    return np.nan_to_num(np.clip(scaled, 0, 255)).round().astype(np.uint8)


def shrink(pixels: np.ndarray, longest: int) -> np.ndarray:
    """Shrink uint8 pixels (h, w, 3) so that the longest side is at most `longest`."""
    height, width = pixels.shape[:2]
    if max(height, width) <= longest:
        return pixels
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))


def shown(result: np.ndarray) -> Image.Image:
    """A (3, h, w) result in [0, 1], as a picture."""
    return Image.fromarray(
        (np.clip(result, 0, 1) * 255).round().astype(np.uint8).transpose(1, 2, 0)
    )


def _to_unit(values: np.ndarray, percent: float = 99.5) -> np.ndarray:
    top = float(np.percentile(values, percent))
    return np.clip(values / (top or 1.0), 0, 1)


def edges(result: np.ndarray) -> Image.Image:
    """The length of the gradient whose two components are the channels of (2, h, w)."""
    length = _to_unit(np.hypot(result[0], result[1])) ** 0.7
    return Image.fromarray((length * 255).round().astype(np.uint8))


def orientations(result: np.ndarray) -> Image.Image:
    """Hue: which of the (c, h, w) channels answers most, of either sign. Brightness: how much."""
    answer = np.abs(result)
    hue = np.argmax(answer, axis=0) / len(result) * 255
    value = _to_unit(answer.max(axis=0)) ** 0.6 * 255
    planes = np.stack([hue, np.full_like(hue, 205), value], axis=-1)
    return Image.fromarray(planes.round().astype(np.uint8), "HSV").convert("RGB")


def _thickened(channel: np.ndarray, factor: int) -> np.ndarray:
    """The largest of each factor x factor block, so that thin lines survive shrinking."""
    if factor < 2 or min(channel.shape) < factor:
        return channel
    height, width = (size - size % factor for size in channel.shape)
    blocks = channel[:height, :width].reshape(height // factor, factor, width // factor, factor)
    return blocks.max(axis=(1, 3))


def mosaic(result: np.ndarray, cell: int = 128) -> Image.Image:
    """The channels of (c, h, w) in a square, each on the scale of its own brightest."""
    columns = math.isqrt(len(result) - 1) + 1
    height, width = result.shape[1:]
    scale = cell / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    rows = -(-len(result) // columns)
    sheet = Image.new("RGB", (columns * (size[0] + 2) - 2, rows * (size[1] + 2) - 2), _PAPER)
    levels = np.linspace(0, 1, len(_HEAT))
    for index, channel in enumerate(result):
        level = _to_unit(_thickened(channel, max(height, width) // cell), 99) ** 0.6
        colours = np.stack([np.interp(level, levels, _HEAT[:, c]) for c in range(3)], axis=-1)
        tile = Image.fromarray(colours.round().astype(np.uint8)).resize(size, Image.Resampling.BOX)
        row, column = divmod(index, columns)
        sheet.paste(tile, (column * (size[0] + 2), row * (size[1] + 2)))
    return sheet


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    try:
        return ImageFont.load_default(size)
    except (ImportError, OSError):  # a Pillow without FreeType has one small font
        return ImageFont.load_default()


def _plain(text: str) -> str:
    """What the built-in font can draw."""
    return text.encode("latin-1", "replace").decode("latin-1")


def contact_sheet(title: str, subtitle: str, pictures: list[Picture]) -> Image.Image:
    """All pictures on one sheet, three in a row, each with its name and caption."""
    columns = 3
    rows = -(-len(pictures) // columns)
    width = columns * _CELL + (columns + 1) * _GAP
    height = _HEADER + rows * (_CELL + _CAPTION + _GAP)
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((_GAP, 16), _plain(title), font=_font(30), fill=_INK)
    draw.text((_GAP, 54), _plain(subtitle), font=_font(16), fill=_FAINT)
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        left = _GAP + column * (_CELL + _GAP)
        top = _HEADER + row * (_CELL + _CAPTION + _GAP)
        longest = max(picture.image.size)
        few = longest < 64  # pixels that one wants to see as they are
        method = Image.Resampling.NEAREST if few else Image.Resampling.LANCZOS
        size = tuple(max(1, round(side * _CELL / longest)) for side in picture.image.size)
        image = picture.image.convert("RGB").resize((size[0], size[1]), method)
        sheet.paste(image, (left + (_CELL - size[0]) // 2, top + (_CELL - size[1]) // 2))
        draw.text((left, top + _CELL + 6), _plain(picture.name), font=_font(19), fill=_INK)
        draw.text((left, top + _CELL + 30), _plain(picture.caption), font=_font(14), fill=_FAINT)
    return sheet
