"""Which part of an input axis each block of outputs needs: whole numbers only.

    input chunks   |----------|----------|------|
    outputs        |--------|----------|--------|     cut where the windows' centres cross over
    block 1 reads         [==============]            its windows, so a halo of its neighbours

Working from the outputs back is what makes strides possible: the halo of a block depends on where
its first window starts, which is different for every block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

__all__ = ["Piece", "Span", "output_spans", "pieces", "whole_span"]

Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Span:
    """What one block of outputs needs of one axis.

    Attributes
    ----------
    size : int
        Outputs in the block.
    runs : tuple of (start, stop)
        What is read of the input; two runs where a border wraps round to the other end.
    take : ndarray or None
        Which of the elements read, the runs end to end, make up the padded piece; None for all of
        them as they are.
    pads : (int, int)
        Constant elements to put before and after.
    """

    size: int
    runs: tuple[Pair, ...]
    take: np.ndarray | None
    pads: Pair

    @property
    def length(self) -> int:
        """Elements that the block has on this axis, without its constant padding."""
        if self.take is not None:
            return len(self.take)
        return sum(stop - start for start, stop in self.runs)


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Elements start to stop of one chunk; `whole` if that is all of it."""

    chunk: int
    start: int
    stop: int
    whole: bool


def output_spans(
    chunks: Sequence[int], outputs: int, window: int, stride: int, pads: Pair, mode: str
) -> list[Span]:
    """Divide the outputs of an axis among the input's chunks.

    Parameters
    ----------
    chunks : sequence of int
        Sizes of the input's chunks.
    outputs : int
        Size of the output, at least 1.
    window : int
        Elements from a window's first to its last, both included: dilation*(k-1) + 1.
    stride : int
    pads : (int, int)
        Padding before and after.
    mode : str
        numpy.pad's name of how to pad.

    Returns
    -------
    list of Span
        No empty ones; their sizes add up to `outputs`.
    """
    centre = (window - 1) // 2 - pads[0]  # of output 0
    edges = [-((centre - edge) // stride) for edge in accumulate(chunks)]
    bounds = sorted({0, outputs, *(min(max(edge, 0), outputs) for edge in edges[:-1])})
    size = sum(chunks)
    padded = None if mode == "constant" else np.pad(np.arange(size), pads, mode=mode)  # type: ignore[call-overload]
    return [
        _span(last - first, first * stride, (last - 1) * stride + window, size, pads, padded)
        for first, last in pairwise(bounds)
    ]


def whole_span(chunks: Sequence[int], outputs: int, pads: Pair, mode: str) -> Span:
    """All of a padded axis, as one block."""
    size = sum(chunks)
    padded = None if mode == "constant" else np.pad(np.arange(size), pads, mode=mode)  # type: ignore[call-overload]
    return _span(outputs, 0, size + sum(pads), size, pads, padded)


def _span(
    outputs: int, start: int, stop: int, size: int, pads: Pair, padded: np.ndarray | None
) -> Span:
    """Elements `start` to `stop` of the padded axis."""
    if padded is None:
        start, stop = start - pads[0], stop - pads[0]
        run = (min(max(start, 0), size), min(max(stop, 0), size))
        before = min(stop, 0) - start if start < 0 else 0
        after = stop - max(start, size) if stop > size else 0
        return Span(outputs, (run,), None, (before, after))
    index = padded[start:stop]
    read = np.unique(index)
    gaps = np.flatnonzero(np.diff(read) > 1)
    firsts, lasts = [0, *(gaps + 1).tolist()], [*gaps.tolist(), len(read) - 1]
    runs = tuple((int(read[a]), int(read[b]) + 1) for a, b in zip(firsts, lasts, strict=True))
    if len(read) == len(index) and np.array_equal(read, index) and len(runs) == 1:
        return Span(outputs, runs, None, (0, 0))
    return Span(outputs, runs, np.searchsorted(read, index), (0, 0))


def pieces(chunks: Sequence[int], span: Span) -> list[Piece]:
    """Divide what a span reads among the chunks that hold it, in order."""
    found = []
    for start, stop in span.runs:
        first = 0
        for number, size in enumerate(chunks):
            low, high = max(start - first, 0), min(stop - first, size)
            if low < high:
                found.append(Piece(number, low, high, high - low == size))
            first += size
    return found or [Piece(0, 0, 0, chunks[0] == 0)]  # nothing but padding
