"""Array family of a call, from the types of its arrays alone.

exact ndarray                 straight to the implementation
an adapter                    entry points "simdconv.array_types", named by the array's package
__array_function__ (NEP 18)   anyone may override our functions for their own arrays
CPU DLPack, or __array__      in without a copy, and out as the same library's array
anything else                 TypeError
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from simdconv._exchange import (
    common_exporter,
    dense_method,
    foreign_device,
    from_foreign,
    on_device,
    refuse,
    type_name,
)
from simdconv._lock import ModuleLock

__all__ = ["as_ndarrays", "call_adapter", "describe_family", "hand_over", "overridable"]

ENTRY_POINTS = "simdconv.array_types"
_INHERITED = np.ndarray.__array_function__

P = ParamSpec("P")
R = TypeVar("R")

# An adapter is called as adapter(function, args, kwargs) and may return NotImplemented.
Adapter = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_adapters: dict[str, Adapter | str] = {"dask": "simdconv.adapters.dask:adapter"}
_discovered = False
_lock = ModuleLock()


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _discover() -> None:
    """Read the entry points of installed packages, once, before any thread looks one up."""
    global _discovered
    from importlib.metadata import entry_points

    with _lock.held():
        if not _discovered:
            for point in entry_points(group=ENTRY_POINTS):
                _adapters.setdefault(point.name, point.value)
            _discovered = True


def find_adapter(kind: type) -> Adapter | None:
    """Return the adapter for a type, loaded if this is its first use."""
    if not _discovered:
        _discover()
    for base in kind.__mro__:
        if _root(base) in ("builtins", "numpy"):  # nobody's package may take these from us
            continue
        adapter = _adapters.get(_root(base))
        if isinstance(adapter, str):
            adapter = _load_adapter(_root(base), adapter)
        if adapter is not None:
            return adapter
    return None


def _load_adapter(name: str, value: str) -> Adapter:
    from importlib.metadata import EntryPoint

    try:
        adapter: Adapter = EntryPoint(name, value, ENTRY_POINTS).load()
    except (Exception, SystemExit) as error:
        raise ImportError(
            f"the adapter for {name} arrays, {value}, cannot be loaded: {error}"
        ) from error
    _adapters[name] = adapter
    return adapter


def overridable(
    *arrays: str, sequences: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function of ndarrays accept the other array families too.

    Parameters
    ----------
    *arrays : str
        The parameters that are arrays. Those that may be given by position come first, in order.
    sequences : bool
        Take nested lists, tuples and numbers too, as SciPy does.
    """

    def decorate(implementation: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(implementation)
        parameters = [signature.parameters[name] for name in arrays]
        count = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
        required = frozenset(p.name for p in parameters if p.default is p.empty)
        needed, ndarray = len(required), np.ndarray
        binder = _Binder(signature)

        @functools.wraps(implementation)
        def public(*args: P.args, **kwargs: P.kwargs) -> R:
            for value in args[:count]:
                if type(value) is not ndarray and (
                    value is not None or args[0] is None or args[needed - 1] is None
                ):
                    return call_foreign(public, arrays, binder, args, kwargs)
            if kwargs:
                for name in arrays:  # few, whereas kwargs may be many
                    if name in kwargs and type(value := kwargs[name]) is not ndarray:  # noqa: SIM102
                        if value is not None or name in required:
                            return call_foreign(public, arrays, binder, args, kwargs)
            return implementation(*args, **kwargs)

        def on_arguments(given: dict[str, Any]) -> R:
            given = dict(given)
            for name in arrays:
                value = given.get(name)
                if sequences and isinstance(value, (list, tuple, complex, float, int)):
                    value = np.asarray(value)
                if value is not None or name in required:
                    given[name] = from_foreign(name, value)
            return implementation(**given)  # type: ignore[call-arg]

        def on_ndarrays(*args: P.args, **kwargs: P.kwargs) -> R:
            """Take any readable arrays as ndarrays; numpy.ndarray.__array_function__ calls this."""
            given = binder.bind(args, kwargs)
            return implementation(*args, **kwargs) if given is None else on_arguments(given)

        public._implementation = on_ndarrays  # type: ignore[attr-defined]  # NEP 18's name for it
        public._on_arguments = on_arguments  # type: ignore[attr-defined]
        return public

    return decorate


class _Binder:
    """inspect.Signature.bind for functions without *args and **kwargs, in a tenth of the time."""

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        self.names = frozenset(p.name for p in parameters)
        self.positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self.required = frozenset(p.name for p in parameters if p.default is p.empty)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments by name, or None if the function cannot be called with them."""
        given = dict(zip(self.positional, args, strict=False))
        if len(args) > len(given) or not kwargs.keys().isdisjoint(given):
            return None
        given.update(kwargs)
        return given if self.required <= given.keys() <= self.names else None


def call_foreign(
    function: Callable[..., Any],
    arrays: Sequence[str],
    binder: _Binder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run a call of which at least one array is not exactly an ndarray."""
    given = binder.bind(args, kwargs)
    if given is None:  # Python's own error says why, and names the function
        return function.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]
    found = {name: given[name] for name in arrays if given.get(name) is not None}
    result = hand_over(function, found, args, kwargs)
    if result is not NotImplemented:
        return result
    export = common_exporter(found)
    result = function._on_arguments(given)  # type: ignore[attr-defined]
    return found["out"] if "out" in found else export(result)


def hand_over(
    function: Callable[..., Any],
    found: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Let an adapter or __array_function__ of the arrays in `found` run a call; NotImplemented."""
    for name, value in found.items():
        refuse(name, value)
    result = call_adapter(function, found, args, kwargs)
    if result is not NotImplemented:
        return result
    overriders = _overriders(list(found.values()))
    if not overriders:
        return NotImplemented
    return _call_overriders(function, overriders, args, kwargs)


def call_adapter(
    function: Callable[..., Any],
    found: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Let the adapters of the arrays in `found` run a call, left to right; else NotImplemented."""
    for kind in dict.fromkeys(type(value) for value in found.values()):
        adapter = None if kind is np.ndarray else find_adapter(kind)
        if adapter is not None:
            result = adapter(function, args, kwargs)
            if result is not NotImplemented:
                return result
    return NotImplemented


def _overriders(values: list[Any]) -> list[Any]:
    """List arguments that override functions: subclasses before bases, then left to right."""
    ordered: list[Any] = []
    for value in values:
        kind = type(value)
        method = getattr(kind, "__array_function__", None)
        if method is None or any(type(other) is kind for other in ordered):
            continue
        place = len(ordered)
        for position, other in enumerate(ordered):
            if issubclass(kind, type(other)):
                place = position
                break
        ordered.insert(place, value)
    if all(type(value).__array_function__ is _INHERITED for value in ordered):
        return []
    return ordered


def _call_overriders(
    function: Callable[..., Any],
    overriders: list[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    types = tuple(type(value) for value in overriders)
    for value in overriders:
        result = value.__array_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in overriders:
        if (device := foreign_device(value)) is not None:
            raise TypeError(on_device(f"an argument of type {type_name(value)}", device))
    advice = next((way for value in overriders if (way := dense_method(value))), None)
    raise TypeError(
        f"no implementation found for 'simdconv.{function.__name__}' on types that implement "
        f"__array_function__: {list(types)}"
        + (f": make it dense with .{advice}()" if advice else "")
    )


def as_ndarrays(found: dict[str, Any]) -> dict[str, Any]:
    """Take the arrays of a call as ndarrays, for a function that only looks at them."""
    for name, value in found.items():
        refuse(name, value)
    common_exporter(found)  # which raises where a result could not be handed out
    return {name: from_foreign(name, value) for name, value in found.items()}


def describe_family(given: dict[str, Any]) -> str:
    """Which of the ways at the top of this file the arrays of a call take, in words."""
    kinds = dict.fromkeys(type(value) for value in given.values() if value is not None)
    for kind in kinds:
        if kind is not np.ndarray and find_adapter(kind) is not None:
            return f"{_root(kind)}, by its adapter"
    for kind in kinds:
        if getattr(kind, "__array_function__", _INHERITED) is not _INHERITED:
            return f"{kind.__module__}.{kind.__qualname__}, by __array_function__"
    for kind in kinds:
        if not issubclass(kind, np.ndarray):
            how = "DLPack" if hasattr(kind, "__dlpack__") else "__array__"
            return f"{kind.__module__}.{kind.__qualname__}, by {how}"
    return "numpy.ndarray"
