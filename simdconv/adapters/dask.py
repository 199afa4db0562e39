"""dask arrays: conv2d, im2col, im2win, correlate2d, convolve2d and to_layout as lazy graphs.

Each block of the result is one task. It is handed the chunks that its windows reach, or parts of
them, cut out by tasks of their own so that a halo and not a chunk travels between machines. Images
are chunked along the batch and both spatial axes; the channels of an image are brought into one
chunk. Everything that a call depends on is settled when the graph is made: the backend, the options
and the number of threads, which is 1, since dask runs the blocks side by side.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from simdconv._api import conv2d
from simdconv._exchange import from_foreign, refuse
from simdconv._explain import Explanation, explain
from simdconv._layout import LANES
from simdconv._spec import Conv2dSpec, TransformSpec, conv2d_spec, transform_spec
from simdconv.adapters import _dask_layout, _dask_signal
from simdconv.adapters._blocks import Span, output_spans, whole_span
from simdconv.adapters._dask_graph import (
    Constants,
    Task,
    as_dask,
    choices,
    make_array,
    one_chunk,
    pins,
    stand_in,
)

__all__ = ["adapter"]

_INHERITED = np.ndarray.__array_function__

_TRANSFORMED = {
    "im2col": {"NCHW": "NKP", "NHWC": "NPK", "CHWN": "KPN", "CHWN8": "NKP8"},
    "im2win": {"NCHW": "NCHS", "NHWC": "NHSC", "CHWN": "CHSN", "CHWN8": "NCHS8"},
}  # K: a window's elements, P: output pixels, S: a strip's elements


def adapter(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one of simdconv's functions on dask arrays; simdconv calls this.

    Returns
    -------
    dask.array.Array, or NotImplemented
    """
    runner = _RUNNERS.get(function.__name__)
    if runner is None or any(_overrides(value) for value in (*args, *kwargs.values())):
        return NotImplemented
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.arguments.pop("out", None) is not None:
        raise TypeError("out cannot be used with dask arrays: they cannot be written to")
    return runner(function, **bound.arguments)


def _overrides(value: Any) -> bool:
    """Whether an argument has an __array_function__ of its own, which knows of more than we do."""
    method = getattr(type(value), "__array_function__", _INHERITED)
    return method is not _INHERITED and not isinstance(value, da.Array)


def _axes(spec: Conv2dSpec | TransformSpec) -> str:
    """Return the letter of each axis of x; 8 is that of CHWN8's lanes."""
    letters = "NCHW8" if spec.layout == "CHWN8" else spec.layout
    return letters if spec.batched else letters.replace("N", "")


@dataclasses.dataclass(slots=True)
class _Conv2d:
    """A conv2d call: its arrays, its spec, and its blocks."""

    x: Any
    w: Any
    bias: Any
    backend: str | None
    keywords: dict[str, Any]
    spec: Conv2dSpec = dataclasses.field(init=False)
    axes: tuple[int, int] = dataclasses.field(init=False)
    spans: tuple[list[Span], list[Span]] = dataclasses.field(init=False)
    tasks: dict[Any, Task] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.x, self.w = as_dask("x", self.x), _operand("w", self.w)
        self.bias = None if self.bias is None else _operand("bias", self.bias)
        if self.keywords["num_threads"] is None:
            self.keywords["num_threads"] = 1
        self.spec = spec = conv2d_spec(*self.stand_ins(), **self.keywords)
        letters = _axes(spec)
        self.x = one_chunk(self.x, letters, "C8")
        self.axes = (letters.index("H"), letters.index("W"))
        self.spans = (
            output_spans(self.x.chunks[self.axes[0]], spec.h_out,
                         spec.dilation[0] * (spec.h_f - 1) + 1, spec.stride[0], spec.padding[0],
                         spec.padding_mode),
            output_spans(self.x.chunks[self.axes[1]], spec.w_out,
                         spec.dilation[1] * (spec.w_f - 1) + 1, spec.stride[1], spec.padding[1],
                         spec.padding_mode),
        ) if spec.out_size else ([], [])  # fmt: skip
        # of the padding, a block keeps the zeros; any other mode's elements are read as such
        self.keywords |= {"padding_mode": "constant", "algorithm": spec.algorithm}

    def stand_ins(self, shape: tuple[int, ...] | None = None) -> tuple[Any, Any, Any]:
        """Return x, or a block of x of this shape, w and bias, as far as a spec needs them."""
        bias = None if self.bias is None else stand_in(self.bias)
        return stand_in(self.x, shape), stand_in(self.w), bias

    def block(self, shape: tuple[int, ...], pair: tuple[Span, Span]) -> dict[str, Any]:
        """Return conv2d's keywords for a block of x of this shape."""
        return {**self.keywords, "padding": (pair[0].pads, pair[1].pads)}

    def make_task(self, shape: tuple[int, ...], pair: tuple[Span, Span]) -> Task:
        """Return the task for a block of x of this shape."""
        keywords = self.block(shape, pair)
        key = (shape, keywords["padding"])
        if key not in self.tasks:
            name, options = pins(conv2d_spec(*self.stand_ins(shape), **keywords), self.backend)
            keywords["backend"] = name
            self.tasks[key] = Task(conv2d, self.axes, (None, None), name, options, keywords)
        takes = (pair[0].take, pair[1].take)
        if takes[0] is None and takes[1] is None:
            return self.tasks[key]
        return dataclasses.replace(self.tasks[key], takes=takes)


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, da.Array):
        return as_dask(name, value)
    refuse(name, value)
    return from_foreign(name, value)


def _conv2d(function: Any, x: Any, w: Any, bias: Any, backend: str | None, **keywords: Any) -> Any:
    call = _Conv2d(x, w, bias, backend, dict(keywords))
    spec, axes = call.spec, call.axes
    if spec.out_size == 0:
        return da.zeros(spec.out_shape, dtype=spec.dtype)
    token = tokenize(call.x, call.w, call.bias, keywords, choices(backend))
    constants = Constants(f"simdconv-conv2d-{token}")
    shared = (constants.add("w", call.w), constants.add("bias", call.bias))
    sizes: dict[str, tuple[int, ...]] = {"C": (spec.c_out,), "8": (LANES,)}
    for letter, spans in zip("HW", call.spans, strict=True):
        sizes[letter] = tuple(span.size for span in spans)
    chunks = tuple(
        sizes.get(letter, call.x.chunks[axis]) for axis, letter in enumerate(_axes(spec))
    )

    def place(index: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
        return tuple(i if a == axes[0] else j if a == axes[1] else n for a, n in enumerate(index))

    return make_array(call.x, axes, call.spans, call.make_task, constants, shared, place, chunks,
                      spec.dtype)  # fmt: skip


def _explain(
    function: Any, x: Any, w: Any, bias: Any, backend: str | None, **keywords: Any
) -> Explanation:
    """Explain the largest block."""
    call = _Conv2d(x, w, bias, backend, dict(keywords))
    shape, pair = list(call.x.chunksize), None
    if call.spec.out_size:
        pair = tuple(max(spans, key=lambda span: span.size) for spans in call.spans)
        for axis, span in zip(call.axes, pair, strict=True):
            shape[axis] = span.length
        keywords = call.block(tuple(shape), pair)  # type: ignore[arg-type]
    stand_ins = [None if a is None else np.empty(a.shape, a.dtype)
                 for a in call.stand_ins(tuple(shape))]  # fmt: skip
    shown = explain(*stand_ins, backend=backend, **keywords)  # type: ignore[arg-type]
    blocks = len(call.spans[0]) * len(call.spans[1])
    for axis, count in enumerate(call.x.numblocks):
        blocks *= 1 if axis in call.axes else count
    family = f"dask.array.core.Array, by its adapter: {blocks} blocks, here the largest"
    return dataclasses.replace(shown, array_family=family)


def _transform(
    function: Any, x: Any, kernel_size: Any, backend: str | None, **keywords: Any
) -> Any:
    kind = function.__name__
    x = as_dask("x", x)
    if keywords["num_threads"] is None:
        keywords["num_threads"] = 1
    spec = transform_spec(kind, stand_in(x), kernel_size, **keywords)
    if 0 in spec.out_shape:
        return da.zeros(spec.out_shape, dtype=spec.dtype)
    letters = _axes(spec)
    x = one_chunk(x, letters, "CW8")  # a pixel's or a strip's place depends on the whole width
    axes = (letters.index("H"), letters.index("W"))
    rows = output_spans(x.chunks[axes[0]], spec.h_out, spec.dilation[0] * (spec.h_f - 1) + 1,
                        spec.stride[0], spec.padding[0], spec.padding_mode)  # fmt: skip
    width = whole_span(x.chunks[axes[1]], spec.w_out, spec.padding[1], spec.padding_mode)
    name, options = pins(spec, backend)
    token = tokenize(x, kernel_size, keywords, choices(backend))
    keywords |= {"padding_mode": "constant", "backend": name, "kernel_size": kernel_size}

    def make_task(shape: tuple[int, ...], pair: tuple[Span, Span]) -> Task:
        own = {**keywords, "padding": (pair[0].pads, pair[1].pads)}
        return Task(function, axes, (pair[0].take, pair[1].take), name, options, own)

    target = _TRANSFORMED[kind][spec.layout]
    target = target if spec.batched else target.replace("N", "")

    def place(index: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
        numbers = {"N": index[letters.index("N")] if spec.batched else 0, "H": i, "P": i}
        return tuple(numbers.get(letter, 0) for letter in target)

    sizes = {
        "N": x.chunks[letters.index("N")] if spec.batched else (), "8": (LANES,),
        "C": (spec.c_in,), "K": (spec.c_in * spec.h_f * spec.w_f,), "S": (spec.w_p * spec.h_f,),
        "H": tuple(span.size for span in rows), "P": tuple(span.size * spec.w_out for span in rows),
    }  # fmt: skip
    return make_array(x, axes, (rows, [width]), make_task, Constants(f"simdconv-{kind}-{token}"),
                      (), place, tuple(sizes[letter] for letter in target), spec.dtype)  # fmt: skip


_RUNNERS: dict[str, Callable[..., Any]] = {
    "conv2d": _conv2d,
    "convolve2d": partial(_dask_signal.run, flipped=True),
    "correlate2d": partial(_dask_signal.run, flipped=False),
    "explain": _explain,
    "im2col": _transform,
    "im2win": _transform,
    "to_layout": _dask_layout.run,
}
