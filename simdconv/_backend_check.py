"""The contract of a backend, checked by calling it: what it returns, and what it leaves alone.

testing.check_backend calls this after it has compared results over the whole catalogue.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from simdconv import backends
from simdconv._api import conv2d
from simdconv._errors import BackendNotImplementedError
from simdconv._explain import explain
from simdconv._layout import LAYOUTS, WEIGHT_LAYOUTS, to_layout, weights_to
from simdconv._options import options
from simdconv._spec import conv2d_spec, transform_spec
from simdconv.backends._base import API_VERSION, Plan

__all__ = ["check_contract"]


def check_contract(backend: str, layouts: tuple[str, ...] = LAYOUTS) -> None:
    """Check that a backend keeps to the protocol of simdconv.backends.kit.Backend.

    Parameters
    ----------
    backend : str
    layouts : tuple of str
        Those in which it is called.

    Raises
    ------
    AssertionError
        That says what is wrong.
    BackendNotFoundError, BackendLoadError
        If there is no such backend, or it cannot be loaded.
    """
    loaded = backends.get(backend)
    _require(loaded.name == backend, f"{backend!r} calls itself {loaded.name!r}")
    _require(loaded.api_version == API_VERSION, f"{backend}.api_version is {loaded.api_version!r}")
    x, w, bias = _arrays()
    _check_plans(backend, loaded, x, w, layouts)
    _check_operands(backend, x, w, bias)
    _check_results(backend, x, w, bias, layouts)
    _check_numbers(backend, x, w, layouts)
    _check_repeatable(backend, x, w, bias)


def _require(condition: bool, message: str) -> None:
    """Assert, also under python -O."""
    if not condition:
        raise AssertionError(message)


def _arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = ((3, 4, 9, 10), (6, 4, 3, 2), (6,))
    x, w, bias = (rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    return x, w, bias


def _check_plans(
    name: str, backend: Any, x: np.ndarray, w: np.ndarray, layouts: tuple[str, ...]
) -> None:
    specs: list[Any] = [transform_spec(kind, x, 3) for kind in ("im2col", "im2win")]
    algorithms = ("auto", "direct", "im2col", "im2win", "implicit", "winograd", "fft")
    specs += [conv2d_spec(x, w, algorithm=algorithm) for algorithm in algorithms]
    for spec in specs:
        reason = backend.declines(spec)
        _require(reason is None or (isinstance(reason, str) and bool(reason)),
                 f"{name}.declines returned {reason!r}: it must be None, or why not")  # fmt: skip
        if reason is not None and hasattr(spec, "algorithm"):
            try:
                backend.plan(spec)
            except BackendNotImplementedError as error:
                _require(bool(error.reasons), f"{name}.plan raised an error without its reasons")
            else:
                raise AssertionError(f"{name} declines {spec.algorithm}, but plans it")
    for layout in layouts:
        for dtype in (np.float32, np.float64):
            images = to_layout(x.astype(dtype), "NCHW", layout)
            plan = explain(images, w.astype(dtype), layout=layout, backend=name).plan
            _check_plan(name, layout, plan)
    for limit in (0, 10**9):
        with options(max_workspace=limit):
            try:
                used = explain(x, w, backend=name).workspace_bytes
            except MemoryError:
                _require(limit == 0, f"{name} finds a workspace of {limit} bytes too small")
                continue
            _require(used <= limit, f"{name} plans {used} bytes where max_workspace is {limit}")


def _check_plan(name: str, layout: str, plan: Any) -> None:
    _require(isinstance(plan, Plan), f"{name}.plan returned {type(plan).__name__}, not a Plan")
    _require(plan.backend == name, f"{name}'s plan says backend={plan.backend!r}")
    _require(plan.layout == layout, f"{name}'s plan of {layout} says layout={plan.layout!r}")
    _require(bool(plan.algorithm) and bool(plan.kernel), f"{name}'s plan lacks its kernel's id")
    for field in ("workspace_bytes", "num_threads"):
        value = getattr(plan, field)
        _require(type(value) is int and value >= 0, f"{name}'s plan says {field}={value!r}")
    chosen = [candidate for candidate in plan.candidates if candidate.chosen]
    _require(len(chosen) == 1 or not plan.candidates, f"{name}'s plan chose {len(chosen)} kernels")


def _awkward(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield an array in the forms that a caller may hand in, with equal contents."""
    yield "in Fortran order", np.asfortranarray(array)
    yield "reversed", np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    spread[..., ::2] = array
    yield "strided", spread[..., ::2]
    yield "byte-swapped", array.astype(array.dtype.newbyteorder())
    memory = np.zeros(array.nbytes + 1, np.uint8)
    unaligned = memory[1:].view(array.dtype).reshape(array.shape)
    unaligned[...] = array
    yield "unaligned", unaligned


def _check_operands(name: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> None:
    expected = conv2d(x, w, bias, padding=1, backend="numpy")
    for position, array in enumerate((x, w, bias)):
        for how, form in _awkward(array):
            arrays = [x.copy(), w.copy(), bias.copy()]
            before = form.tobytes()
            form.flags.writeable = False
            arrays[position] = form
            result = conv2d(*arrays, padding=1, backend=name)
            what = f"{('x', 'w', 'bias')[position]} {how}"
            _require(np.array_equal(result, expected), f"{name} is wrong with {what}")
            _require(form.tobytes() == before, f"{name} modified {what}")
    whole = np.full((*expected.shape[:-1], 2 * expected.shape[-1]), np.nan, expected.dtype)
    conv2d(x, w, bias, padding=1, backend=name, out=whole[..., ::-2])
    _require(np.array_equal(whole[..., ::-2], expected), f"{name} is wrong with out reversed")
    _require(bool(np.isnan(whole[..., ::2]).all()), f"{name} wrote beside a strided out")


def _check_results(
    name: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray, layouts: tuple[str, ...]
) -> None:
    calls: list[dict[str, Any]] = [
        {"padding": ((3, 1), (0, 12)), "padding_mode": mode, "stride": (2, 3)}
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
    ]
    activations = ("relu", "relu6", ("clip", -2.0, 9.0), ("leaky_relu", 0.5))
    calls += [{"activation": activation} for activation in activations]
    calls += [{"weight_layout": order, "dilation": (2, 3)} for order in WEIGHT_LAYOUTS]
    for call in calls:
        weight = weights_to(w, "OIHW", call.get("weight_layout", "OIHW"))
        for layout in layouts:
            images = to_layout(x, "NCHW", layout)
            for b in (None, bias):
                y, expected = (
                    to_layout(conv2d(images, weight, b, layout=layout, backend=which, **call),
                              layout, "NCHW", n=len(x))
                    for which in (name, "numpy")
                )  # fmt: skip
                _require(np.array_equal(y, expected), f"{name} is wrong with {call} in {layout}")
    for layout in (layout for layout in layouts if layout != "CHWN8"):
        image = to_layout(x[0], "NCHW", layout)
        y, expected = (conv2d(image, w, bias, layout=layout, backend=b) for b in (name, "numpy"))
        _require(np.array_equal(y, expected), f"{name} is wrong with one image in {layout}")


def _check_numbers(name: str, x: np.ndarray, w: np.ndarray, layouts: tuple[str, ...]) -> None:
    """Numbers that are not finite, padding that meets them, half precision; without warnings."""
    odd_x, odd_w = x.copy(), w.copy()
    odd_x[0, 1, 4, 4], odd_x[1, 0, 3, 7] = np.nan, np.inf
    odd_w[0, 0, 0, 0], odd_w[1, 1, 2, 1] = np.nan, -np.inf
    half = np.ones((1, 1, 1, 5000), np.float16)  # ones that are summed in float16 stay at 2048
    cases = {
        "x that is not finite": (odd_x, w),
        "weights that are not finite, and padding": (x, odd_w),
        "a sum of float16": (half, half),
    }
    for (what, (image, weight)), layout in itertools.product(cases.items(), layouts):
        images = to_layout(image, "NCHW", layout)
        pads = 0 if image is half else 1
        expected = conv2d(images, weight, padding=pads, layout=layout, backend="numpy")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", RuntimeWarning)
            try:
                y = conv2d(images, weight, padding=pads, layout=layout, backend=name)
            except BackendNotImplementedError:
                continue
        y, expected = (to_layout(a, layout, "NCHW", n=len(image)) for a in (y, expected))
        same = np.array_equal(y, expected, equal_nan=True)
        _require(same, f"{name} is wrong with {what} in {layout}")
        runtime = [item for item in seen if issubclass(item.category, RuntimeWarning)]
        _require(not runtime, f"{name} lets a warning escape with {what} in {layout}")


def _check_repeatable(name: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    x, w, bias = (rng.standard_normal(array.shape).astype(array.dtype) for array in (x, w, bias))
    result = conv2d(x, w, bias, padding=1, backend=name)
    again = conv2d(x, w, bias, padding=1, backend=name)
    _require(np.array_equal(result, again), f"{name} gives other bits when called again")
    for threads in (1, 2):
        other = conv2d(x, w, bias, padding=1, backend=name, num_threads=threads)
        _require(np.array_equal(result, other), f"{name} gives other bits with {threads} threads")
    alone = conv2d(x[1:2], w, bias, padding=1, backend=name)
    _require(np.array_equal(result[1:2], alone), f"{name} gives an image other bits in a batch")
