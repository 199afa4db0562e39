"""Graphs of dask arrays whose blocks are tasks on parts of their input's chunks."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

import simdconv
from simdconv._dispatch import preference, select
from simdconv._exchange import from_foreign, refuse
from simdconv._options import current_options
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.adapters._blocks import Span, pieces

__all__ = ["Constants", "Task", "as_dask", "choices", "make_array", "one_chunk", "pins", "stand_in"]


def as_dask(name: str, value: Any) -> Any:
    """Return the argument as a dask array of ndarrays and of known size; TypeError, ValueError."""
    if not isinstance(value, da.Array):
        refuse(name, value)
        array = from_foreign(name, value)
        return da.from_array(array, chunks=array.shape)
    refuse(name, value._meta)
    if not isinstance(value._meta, np.ndarray):
        raise TypeError(
            f"{name} is a dask array of {type(value._meta).__module__}.{type(value._meta).__name__}"
            f": bring its blocks into NumPy arrays first, with {name}.map_blocks"
        )
    if any(size != size for size in value.shape):  # NaN: dask does not know it yet
        raise ValueError(f"{name} has unknown chunk sizes: call {name}.compute_chunk_sizes() first")
    return value


def stand_in(array: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Something with the shape and dtype of an array, without its memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape if shape is None else shape)


def pins(spec: Conv2dSpec | TransformSpec, backend: str | None) -> tuple[str, dict[str, Any]]:
    """Return the backend and the options that a task runs with, wherever it runs."""
    options = {**dataclasses.asdict(current_options()), "num_threads": 1}
    return select(spec, backend).backend.name, options


def choices(backend: str | None) -> tuple[Any, ...]:
    """Return all that decides how a call is computed, besides its arguments, for a graph's name."""
    return current_options(), backend or preference()[0]


def one_chunk(x: Any, letters: str, single: str) -> Any:
    """Bring each axis that has a letter of `single` into one chunk."""
    return x.rechunk({axis: -1 for axis, letter in enumerate(letters) if letter in single})


class Constants:
    """Arrays that every task needs, once in the graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.layer: dict[Any, Any] = {}
        self.collections: list[Any] = []

    def add(self, what: str, array: Any) -> Any:
        """Return what stands for the array in a task."""
        if array is None:
            return None
        if isinstance(array, da.Array):
            single = array.rechunk(-1)
            self.collections.append(single)
            return (single.name, *([0] * single.ndim))
        key = f"{self.name}-{what}"
        self.layer[key] = array
        return key


def _cut(chunk: np.ndarray, index: tuple[slice, ...]) -> np.ndarray:
    """Copy a part of a chunk: a view would keep the whole of it in memory."""
    return chunk[index].copy()


def _assemble(
    parts: list[list[np.ndarray]], axes: tuple[int, int], takes: tuple[Any, Any]
) -> np.ndarray:
    """Put the parts of a block together, a list of rows of parts along two axes."""
    block = parts[0][0]
    if len(parts) > 1 or len(parts[0]) > 1:
        shape = list(block.shape)
        shape[axes[0]] = sum(row[0].shape[axes[0]] for row in parts)
        shape[axes[1]] = sum(part.shape[axes[1]] for part in parts[0])
        block = np.empty(shape, block.dtype)
        index = [slice(None)] * block.ndim
        top = 0
        for row in parts:
            left, bottom = 0, top + row[0].shape[axes[0]]
            for part in row:
                right = left + part.shape[axes[1]]
                index[axes[0]], index[axes[1]] = slice(top, bottom), slice(left, right)
                block[tuple(index)] = part
                left = right
            top = bottom
    for axis, take in zip(axes, takes, strict=True):
        if take is not None:
            block = block.take(take, axis)
    return block


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a task does with the parts of its block; the tasks of most blocks are one object."""

    function: Callable[..., Any]
    axes: tuple[int, int]
    takes: tuple[np.ndarray | None, np.ndarray | None]
    backend: str
    options: dict[str, Any]
    keywords: dict[str, Any]

    def __call__(self, parts: list[list[np.ndarray]], *arrays: Any) -> np.ndarray:
        block = _assemble(parts, self.axes, self.takes)
        with simdconv.options(**self.options), simdconv.use_backend(self.backend):
            result: np.ndarray = self.function(block, *arrays, **self.keywords)
        return result


def make_array(
    x: Any,
    axes: tuple[int, int],
    spans: tuple[list[Span], list[Span]],
    make_task: Callable[[tuple[int, ...], tuple[Span, Span]], Task],
    constants: Constants,
    shared: tuple[Any, ...],
    place: Callable[[tuple[int, ...], int, int], tuple[int, ...]],
    chunks: tuple[tuple[int, ...], ...],
    dtype: np.dtype,
) -> Any:
    """Make the array of which each block is a task on the parts of `x` that its spans read."""
    name, layer = constants.name, dict(constants.layer)
    cuts_name = f"{name}-cut"
    cutters: dict[tuple[int, ...], Any] = {}
    reads = [[pieces(x.chunks[a], span) for span in s] for a, s in zip(axes, spans, strict=True)]
    others = [range(1) if axis in axes else range(n) for axis, n in enumerate(x.numblocks)]

    def part(index: tuple[int, ...], row: Any, column: Any) -> Any:
        key = list(index)
        key[axes[0]], key[axes[1]] = row.chunk, column.chunk
        if row.whole and column.whole:
            return (x.name, *key)
        bounds = (row.start, row.stop, column.start, column.stop)
        cut = (cuts_name, *key, *bounds)
        if cut not in layer:
            if bounds not in cutters:  # few, for many blocks: they are made once
                where = [slice(None)] * x.ndim
                where[axes[0]] = slice(row.start, row.stop)
                where[axes[1]] = slice(column.start, column.stop)
                cutters[bounds] = partial(_cut, index=tuple(where))
            layer[cut] = (cutters[bounds], (x.name, *key))
        return cut

    for index in itertools.product(*others):
        for (i, rows), (j, columns) in itertools.product(*(enumerate(read) for read in reads)):
            pair = (spans[0][i], spans[1][j])
            shape = [x.chunks[axis][number] for axis, number in enumerate(index)]
            shape[axes[0]], shape[axes[1]] = pair[0].length, pair[1].length
            parts = [[part(index, row, column) for column in columns] for row in rows]
            task = make_task(tuple(shape), pair)
            layer[(name, *place(index, i, j))] = (task, parts, *shared)
    graph = HighLevelGraph.from_collections(name, layer, [x, *constants.collections])
    return da.Array(graph, name, chunks, dtype=dtype, meta=np.empty((0,) * len(chunks), dtype))
