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
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

__all__ = [
    "as_ndarrays",
    "call_adapter",
    "common_exporter",
    "describe_family",
    "from_foreign",
    "hand_over",
    "overridable",
    "refuse",
]

ENTRY_POINTS = "simdconv.array_types"
_CPU_DEVICES = (1, 3, 11, 13)  # DLPack: CPU, and memory of CUDA, ROCm that the CPU can read
_INHERITED = np.ndarray.__array_function__

P = ParamSpec("P")
R = TypeVar("R")

# An adapter is called as adapter(function, args, kwargs) and may return NotImplemented.
Adapter = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_adapters: dict[str, Adapter | str] = {"dask": "simdconv.adapters.dask:adapter"}
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
        required = frozenset(p.name for p in parameters if p.default is p.empty)
        needed, names, ndarray = len(required), frozenset(arrays), np.ndarray
        binder = _Binder(signature)

        @functools.wraps(implementation)
        def public(*args: P.args, **kwargs: P.kwargs) -> R:
            for value in args[:count]:
                if type(value) is not ndarray and (
                    value is not None or args[0] is None or args[needed - 1] is None
                ):
                    return call_foreign(public, arrays, binder, args, kwargs)
            for name, value in kwargs.items():
                if type(value) is not ndarray and name in names:  # noqa: SIM102  # once less, mostly
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
    for value in overriders:
        if (device := _foreign_device(value)) is not None:
            raise TypeError(_on_device(f"an argument of type {_name(value)}", device))
    advice = next((way for value in overriders if (way := _dense(value))), None)
    raise TypeError(
        f"no implementation found for 'simdconv.{function.__name__}' on types that implement "
        f"__array_function__: {list(types)}"
        + (f": make it dense with .{advice}()" if advice else "")
    )


def _dense(value: Any) -> str | None:
    """Name of the method by which a sparse array becomes an ndarray."""
    return next((name for name in ("toarray", "todense") if hasattr(value, name)), None)


def _foreign_device(value: Any) -> str | None:
    """Describe the device that an array is on, if the CPU cannot read it."""
    if not hasattr(value, "__dlpack_device__"):
        return None
    try:
        device = int(value.__dlpack_device__()[0])
    except (BufferError, RuntimeError, ValueError, TypeError) as error:  # says that there is none
        return str(error)
    return None if device in _CPU_DEVICES else f"DLPack device type {device}"


def _on_device(what: str, device: str) -> str:
    return f"{what} is on a device ({device}): copy it to the CPU first"


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
        if (device := _foreign_device(value)) is not None:
            raise TypeError(_on_device(name, device))
        return _read_dlpack(name, value)
    advice = f"use {name}.{_dense(value)}()" if _dense(value) else "use numpy.asarray"
    if hasattr(value, "__array__") and not isinstance(value, type):
        try:
            return np.asarray(value)
        except Exception as error:
            if isinstance(error, TypeError):
                raise
            raise TypeError(f"{name} of type {_name(value)} cannot be read: {error}") from error
    raise TypeError(
        f"{name} must be a NumPy array, or an array that has DLPack or __array__; "
        f"got {_name(value)}: {advice}"
    )


def _read_dlpack(name: str, value: Any) -> np.ndarray:
    if hasattr(value, "is_neg") and value.is_neg():  # PyTorch's DLPack forgets to negate it
        raise TypeError(f"{name} is a negative view: pass {name}.resolve_neg()")
    try:
        array = np.from_dlpack(value)
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        # NumPy's DLPack has no bfloat16; JAX's __array__ has, and does not copy either
        if "bfloat16" in str(getattr(value, "dtype", "")) and hasattr(value, "__array__"):
            try:
                return np.asarray(value)
            except TypeError:
                error = TypeError(f"{error} (bfloat16: convert it to float32)")
        raise TypeError(f"{name} of type {_name(value)} cannot be read: {error}") from error
    if name == "out" and not array.flags.writeable and hasattr(value, "__array__"):
        array = _writeable(value, array)
    return array


def _writeable(value: Any, read_only: np.ndarray) -> np.ndarray:
    """Take memory that DLPack gave read-only by __array__ instead, if that is the same memory."""
    array = np.asarray(value)
    return array if np.may_share_memory(array, read_only) else read_only


def _name(value: object) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{prefix}{kind.__qualname__}"


def _namespace(value: Any) -> Any:
    """Return the module of an array's functions, or None."""
    if hasattr(value, "__array_namespace__"):
        return value.__array_namespace__()
    return sys.modules.get(_root(type(value)))


def common_exporter(found: dict[str, Any]) -> Callable[[np.ndarray], Any]:
    """How to hand a result out as the library's array that came in; ndarrays mix with any one."""
    foreign: list[tuple[Any, str, Any]] = []  # no dict: a namespace may be one that has no hash
    for name, value in found.items():
        if not isinstance(value, (np.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
            namespace = _namespace(value)
            if all(namespace != known for known, _, _ in foreign):
                foreign.append((namespace, name, value))
    if not foreign:
        return lambda result: result
    if len(foreign) > 1:
        kinds = ", ".join(f"{name}: {_name(value)}" for _, name, value in foreign)
        raise TypeError(f"arrays of different libraries ({kinds}): convert them to one kind first")
    ((namespace, _, value),) = foreign
    return lambda result: _export(namespace, value, result)


def _export(namespace: Any, like: Any, result: np.ndarray) -> Any:
    """Make an array of this library that takes over the memory of a new result."""
    names = [name for name in ("from_dlpack", "asarray") if hasattr(namespace, name)]
    for name in names:
        try:
            array = getattr(namespace, name)(result)
        except (BufferError, RuntimeError, ValueError, TypeError):
            if name == names[-1]:
                raise
            continue
        device = getattr(like, "device", None)
        if getattr(array, "device", None) != device and hasattr(array, "to_device"):
            array = array.to_device(device)  # a library may divide the CPU into several devices
        return array
    return result


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
