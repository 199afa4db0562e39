"""Array family of a call, from the types of its arrays alone.

exact ndarray                 straight to the implementation
a registered adapter          entry points "simdconv.array_types", named by the array's package
__array_function__ (NEP 18)   anyone may override our functions for their own arrays
CPU DLPack, or __array__      in without a copy, and out as the same library's array
anything else                 TypeError
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

__all__ = ["as_ndarrays", "describe_family", "from_foreign", "overridable", "refuse"]

ENTRY_POINTS = "simdconv.array_types"
_CPU_DEVICES = (1, 3, 11, 13)  # DLPack: CPU, and memory of CUDA, ROCm that the CPU can read
_INHERITED = np.ndarray.__array_function__

P = ParamSpec("P")
R = TypeVar("R")

# An adapter is called as adapter(function, args, kwargs) and may return NotImplemented.
Adapter = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_adapters: dict[str, Adapter | str] = {}
_discovered = False


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def find_adapter(kind: type) -> Adapter | None:
    """Return the adapter for a type, loaded if this is its first use."""
    global _discovered
    if not _discovered:
        _discovered = True
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINTS):
            _adapters.setdefault(point.name, point.value)
    for base in kind.__mro__:
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
    except Exception as error:
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
        required = [p.name for p in parameters if p.default is p.empty]
        needed = len(required)

        @functools.wraps(implementation)
        def public(*args: P.args, **kwargs: P.kwargs) -> R:
            for value in args[:needed]:
                if type(value) is not np.ndarray:
                    return call_foreign(public, arrays, signature, args, kwargs)
            for value in args[needed:count]:
                if type(value) is not np.ndarray and value is not None:
                    return call_foreign(public, arrays, signature, args, kwargs)
            if kwargs:
                for name in arrays:
                    value = kwargs.get(name)
                    if type(value) is not np.ndarray and (
                        value is not None or (name in required and name in kwargs)
                    ):
                        return call_foreign(public, arrays, signature, args, kwargs)
            return implementation(*args, **kwargs)

        def on_ndarrays(*args: P.args, **kwargs: P.kwargs) -> R:
            """Take any readable arrays as ndarrays; numpy.ndarray.__array_function__ calls this."""
            bound = signature.bind(*args, **kwargs)
            for name in arrays:
                value = bound.arguments.get(name)
                if sequences and isinstance(value, (list, tuple, complex, float, int)):
                    value = np.asarray(value)
                if value is not None or name in required:
                    bound.arguments[name] = from_foreign(name, value)
            return implementation(*bound.args, **bound.kwargs)

        public._implementation = on_ndarrays  # type: ignore[attr-defined]  # NEP 18's name for it
        return public

    return decorate


def call_foreign(
    function: Callable[..., Any],
    arrays: Sequence[str],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run a call of which at least one array is not exactly an ndarray."""
    bound = signature.bind(*args, **kwargs)
    found = {name: bound.arguments[name] for name in arrays if name in bound.arguments}
    found = {name: value for name, value in found.items() if value is not None}
    for name, value in found.items():
        refuse(name, value)
    for kind in dict.fromkeys(type(value) for value in found.values()):
        adapter = None if kind is np.ndarray else find_adapter(kind)
        if adapter is not None:
            result = adapter(function, args, kwargs)
            if result is not NotImplemented:
                return result
    overriders = _overriders(list(found.values()))
    if overriders:
        return _call_overriders(function, overriders, args, kwargs)
    export = common_exporter(found)
    result = function._implementation(*args, **kwargs)  # type: ignore[attr-defined]
    return found["out"] if "out" in found else export(result)


def refuse(name: str, value: object) -> None:
    """Raise for arrays whose meaning an ndarray would lose."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill it first, with {name}.filled(value)")
    if isinstance(value, np.matrix):
        raise TypeError(f"{name} is a numpy.matrix: convert it with numpy.asarray")


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
    raise TypeError(
        f"no implementation found for 'simdconv.{function.__name__}' on types that implement "
        f"__array_function__: {list(types)}"
    )


def from_foreign(name: str, value: Any) -> np.ndarray:
    """Take an array of another library as an ndarray, without a copy.

    Raises
    ------
    TypeError
        If it is no array, is on another device, or does not let its memory be read.
    """
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        device = int(value.__dlpack_device__()[0])
        if device not in _CPU_DEVICES:
            raise TypeError(
                f"{name} is on a device (DLPack device type {device}): copy it to the CPU first"
            )
        try:
            array = np.from_dlpack(value)
            if name == "out" and not array.flags.writeable and hasattr(value, "__array__"):
                array = _writeable(value, array)
            return array
        except (BufferError, RuntimeError, ValueError, TypeError) as error:
            raise TypeError(f"{name} of type {_name(value)} cannot be read: {error}") from error
    if hasattr(value, "__array__") and not isinstance(value, type):
        return np.asarray(value)
    advice = f"{name}.toarray()" if hasattr(value, "toarray") else "numpy.asarray"
    raise TypeError(
        f"{name} must be a NumPy array, or an array that has DLPack or __array__; "
        f"got {_name(value)}: use {advice}"
    )


def _writeable(value: Any, read_only: np.ndarray) -> np.ndarray:
    """Take memory that DLPack gave read-only by __array__ instead, if that is the same memory."""
    array = np.asarray(value)
    return array if np.may_share_memory(array, read_only) else read_only


def _name(value: object) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{prefix}{kind.__qualname__}"


def common_exporter(found: dict[str, Any]) -> Callable[[np.ndarray], Any]:
    """How to hand a result out as the library's array that came in; ndarrays mix with any one."""
    foreign: dict[str, tuple[str, Any]] = {}
    for name, value in found.items():
        if not isinstance(value, (np.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
            foreign.setdefault(_root(type(value)), (name, value))
    if not foreign:
        return lambda result: result
    if len(foreign) > 1:
        kinds = ", ".join(f"{name}: {_name(value)}" for name, value in foreign.values())
        raise TypeError(f"arrays of different libraries ({kinds}): convert them to one kind first")
    ((root, (_, value)),) = foreign.items()
    namespace = value.__array_namespace__() if hasattr(value, "__array_namespace__") else None
    for module in (namespace, sys.modules.get(root)):
        for function in ("from_dlpack", "asarray"):
            if hasattr(module, function):
                exporter: Callable[[np.ndarray], Any] = getattr(module, function)
                return exporter
    return lambda result: result


def as_ndarrays(given: dict[str, Any]) -> dict[str, Any]:
    """Take the arrays of a call as ndarrays, for a function that only looks at them."""
    for name, value in given.items():
        if value is not None:
            refuse(name, value)
    return {
        name: None if value is None else from_foreign(name, value) for name, value in given.items()
    }


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
