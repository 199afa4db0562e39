"""Arrays of other libraries: in as ndarrays without a copy, results out as arrays of their kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "common_exporter",
    "dense_method",
    "foreign_device",
    "from_foreign",
    "on_device",
    "refuse",
    "type_name",
]

_CPU_DEVICES = (1, 3, 11, 13)  # DLPack: CPU, and memory of CUDA, ROCm that the CPU can read


def refuse(name: str, value: object) -> None:
    """Raise for arrays whose meaning an ndarray would lose."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill it first, with {name}.filled(value)")
    if isinstance(value, np.matrix):
        raise TypeError(f"{name} is a numpy.matrix: convert it with numpy.asarray")


def dense_method(value: Any) -> str | None:
    """Name of the method by which a sparse array becomes an ndarray."""
    return next((name for name in ("toarray", "todense") if hasattr(type(value), name)), None)


def foreign_device(value: Any) -> str | None:
    """Describe the device that an array is on, if the CPU cannot read it."""
    if not hasattr(value, "__dlpack_device__"):
        return None
    try:
        device = int(value.__dlpack_device__()[0])
    except (BufferError, RuntimeError, ValueError, TypeError) as error:  # says that there is none
        return str(error)
    return None if device in _CPU_DEVICES else f"DLPack device type {device}"


def on_device(what: str, device: str) -> str:
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
    if isinstance(value, type):
        raise TypeError(f"{name} must be an array; got the type {value.__qualname__}")
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        if (device := foreign_device(value)) is not None:
            raise TypeError(on_device(name, device))
        return _read_dlpack(name, value)
    advice = f"use {name}.{dense_method(value)}()" if dense_method(value) else "use numpy.asarray"
    if hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
            if name == "out" and not np.may_share_memory(array, np.asarray(value)):
                raise TypeError(f"out of type {type_name(value)} gives a copy of its memory only")
            return array
        except Exception as error:
            if isinstance(error, TypeError):
                raise
            raise TypeError(f"{name} of type {type_name(value)} cannot be read: {error}") from error
    raise TypeError(
        f"{name} must be a NumPy array, or an array that has DLPack or __array__; "
        f"got {type_name(value)}: {advice}"
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
        raise TypeError(f"{name} of type {type_name(value)} cannot be read: {error}") from error
    if name == "out" and not array.flags.writeable and hasattr(value, "__array__"):
        array = _writeable(value, array)
    return array


def _writeable(value: Any, read_only: np.ndarray) -> np.ndarray:
    """Take memory that DLPack gave read-only by __array__ instead, if that is the same memory."""
    array = np.asarray(value)
    return array if np.may_share_memory(array, read_only) else read_only


def type_name(value: object) -> str:
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{prefix}{kind.__qualname__}"


def _namespace(value: Any) -> Any:
    """Return the module of an array's functions, or None."""
    if hasattr(value, "__array_namespace__"):
        return value.__array_namespace__()
    return sys.modules.get(type(value).__module__.partition(".")[0])


def common_exporter(found: dict[str, Any]) -> Callable[[np.ndarray], Any]:
    """How to hand a result out as the library's array that came in; ndarrays mix with any one."""
    foreign: list[tuple[Any, str, Any]] = []  # no dict: a namespace may be one that has no hash
    for name, value in found.items():
        known = isinstance(value, (np.ndarray, np.generic, type))
        if not known and hasattr(value, "__dlpack__"):
            namespace = _namespace(value)
            if all(namespace != other for other, _, _ in foreign):
                foreign.append((namespace, name, value))
    if not foreign:
        return lambda result: result
    if len(foreign) > 1:
        kinds = ", ".join(f"{name}: {type_name(value)}" for _, name, value in foreign)
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
