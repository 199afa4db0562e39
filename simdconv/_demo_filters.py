"""The demo's bank of filters, each one conv2d problem with a picture at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from simdconv import _demo_pictures as pictures

__all__ = ["Filter", "bank"]

_LUMA = np.array([0.299, 0.587, 0.114])  # how bright red, green and blue look (Rec. 601)
# luma, red against green, blue against yellow: the three axes of colour vision
_AXES = np.array([_LUMA, [0.5, -0.5, 0.0], [-0.25, -0.25, 0.5]])
# of the stem's eight rows of eight directions, on the contact sheet: edges, of every kind, in four
_FEW = [8 * kind + direction for kind in (1, 3, 5, 7) for direction in (0, 2, 4, 6)]


@dataclasses.dataclass(frozen=True)
class Filter:
    """One filter of the bank.

    Attributes
    ----------
    name, caption : str
    x : ndarray, float32, shape (1, c_in, h, w)
    w : ndarray, float32, shape (c_out, c_in/groups, h_f, w_f)
    keywords : dict
        What conv2d is told besides.
    draw : callable
        Makes the picture from (c_out, h_out, w_out).
    few : list of int, optional
        The channels that the contact sheet has room for.
    """

    name: str
    caption: str
    x: np.ndarray
    w: np.ndarray
    keywords: dict[str, Any]
    draw: Callable[[np.ndarray], Any]
    few: list[int] | None = None


def gaussian(size: int, sigma: float) -> np.ndarray:
    """A (size, size) bell of sum 1."""
    steps = np.arange(size) - (size - 1) / 2
    bell = np.exp(-(steps**2) / (2 * sigma**2))
    return np.outer(bell, bell) / bell.sum() ** 2


def gabor(size: int, angle: float, wavelength: float, phase: float) -> np.ndarray:
    """A (size, size) wave under a bell: mean 0, and sum of squares 1.

    `angle` is the direction in which the wave travels, in radians; `wavelength` is in pixels.
    """
    v, u = np.mgrid[:size, :size] - (size - 1) / 2
    along = u * np.cos(angle) + v * np.sin(angle)
    bell = gaussian(size, size / 5)
    wave = bell * np.cos(2 * np.pi * along / wavelength + phase)
    wave -= bell * (wave.sum() / bell.sum())
    return wave / np.sqrt((wave**2).sum())


def stem() -> np.ndarray:
    """64 filters of (3, 7, 7), of the kinds that the first layer of a trained network shows.

    Eight rows of eight directions: fine and coarse waves of brightness, and waves of colour
    against its opposite; each even (a line) and odd (an edge).
    """
    rows = [(0, 3.5), (0, 6.0), (1, 6.0), (2, 6.0)]
    filters = [
        _AXES[axis][:, None, None] * gabor(7, np.pi * direction / 8, wavelength, phase)
        for axis, wavelength in rows
        for phase in (0.0, np.pi / 2)
        for direction in range(8)
    ]
    return np.stack(filters)


def bank(pixels: np.ndarray) -> list[Filter]:
    """The filters for a picture of uint8, shape (h, w, 3)."""
    x = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None] / np.float32(255))
    grey = (_LUMA.astype(np.float32)[:, None, None] * x).sum(axis=1, keepdims=True)
    one = np.zeros((5, 5))
    one[2, 2] = 1
    sobel_x = np.outer([1, 2, 1], [-1, 0, 1]) / 4
    filters: list[tuple[str, str, np.ndarray, np.ndarray, dict[str, Any], Callable]] = [
        ("blur", "5x5 Gaussian, dilation 2, each colour alone (groups=3)", x,
         np.stack([gaussian(5, 1.3)[None]] * 3), {"dilation": 2, "groups": 3}, pictures.shown),
        ("sharpen", "5x5 unsharp mask, each colour alone (groups=3)", x,
         np.stack([(one + 1.5 * (one - gaussian(5, 1.2)))[None]] * 3), {"groups": 3},
         pictures.shown),
        ("sobel", "3x3, 1 to 2 channels; length of the gradient", grey,
         np.stack([sobel_x[None], sobel_x.T[None]]), {}, pictures.edges),
        ("gabor", "9x9, 1 to 8 channels; hue is the direction", grey,
         np.stack([gabor(9, np.pi * i / 8, 5.0, np.pi / 2)[None] for i in range(8)]), {},
         pictures.orientations),
        ("stem", "7x7, 3 to 64 channels, stride 2, ReLU: a network's first layer", x, stem(),
         {"stride": 2, "activation": "relu"}, pictures.mosaic),
    ]  # fmt: skip
    common: dict[str, Any] = {"padding": "same", "padding_mode": "edge"}
    return [
        Filter(
            name,
            caption,
            image,
            w.astype(np.float32),
            {**common, **keywords},
            draw,
            _FEW if name == "stem" else None,
        )
        for name, caption, image, w, keywords, draw in filters
    ]
