"""The registry of backends: built-in, registered, and announced by installed packages.

A backend is loaded when it is first asked for. One that cannot be loaded stays listed, with its
reason, and harms no other.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

from simdconv._arguments import plain_str, show
from simdconv._errors import BackendLoadError, BackendNotFoundError
from simdconv._lock import ModuleLock
from simdconv.backends._base import API_VERSION, Backend

__all__ = ["BackendInfo", "get", "list_backends", "names", "register_backend"]

ENTRY_POINTS = "simdconv.backends"
BUILT_IN = ("simd", "blas", "numpy")  # in the order in which a call tries them
_METHODS = ("declines", "plan", "conv2d", "transform")

Loader = Callable[[], Backend] | str


@dataclasses.dataclass(frozen=True, slots=True)
class BackendInfo:
    """A line of list_backends().

    Attributes
    ----------
    name : str
    priority : int
    available : bool
        Whether it could be loaded.
    reason : str or None
        Why it could not.
    """

    name: str
    priority: int
    available: bool
    reason: str | None = None


class BrokenBackendError(BackendLoadError):
    """A loader that failed by accident: a call that did not ask for this backend passes it over."""


@dataclasses.dataclass(slots=True)
class _Entry:
    name: str
    loader: Loader
    priority: int
    backend: Backend | None = None


_lock = ModuleLock()
_entries = {
    "simd": _Entry("simd", "simdconv.backends.simd:load", 30),
    "blas": _Entry("blas", "simdconv.backends.blas:load", 20),
    "numpy": _Entry("numpy", "simdconv.backends.numpy:load", 10),
}
_discovered = False
generation = 0  # changes when the registry does, so that what was chosen before is chosen again


def register_backend(name: str, loader: Loader, *, priority: int = 0) -> None:
    """Make a backend known. It changes nothing until someone asks for it by name.

    Parameters
    ----------
    name : str
        Replaces a backend of that name, except a built-in one.
    loader : callable or str
        Returns the backend object when called without arguments; or "package.module:function".
        It is called when the backend is first used.
    priority : int
        Place in list_backends(), highest first.

    Raises
    ------
    TypeError, ValueError
        If the name is taken by a built-in backend, or an argument is of the wrong kind.
    """
    global generation
    if not isinstance(name, str) or not name:
        raise TypeError(f"name must be a str that is not empty; got {show(name)}")
    if name in BUILT_IN:
        raise ValueError(f"name {name!r} belongs to a built-in backend")
    if not callable(loader) and not (isinstance(loader, str) and ":" in loader):
        raise TypeError(f"loader must be callable or 'package.module:function'; got {show(loader)}")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"priority must be an integer; got {show(priority)}")
    with _lock.held():
        _discover()
        _entries[name] = _Entry(name, loader, priority)
        generation += 1


def _discover() -> None:
    """Read the entry points of installed packages, once; nothing of theirs is imported."""
    global _discovered
    with _lock.held():
        if _discovered:
            return
        _discovered = True
        from importlib.metadata import entry_points

        for point in entry_points(group=ENTRY_POINTS):
            if point.name not in _entries:
                _entries[point.name] = _Entry(point.name, _entry_point_loader(point), 0)


def _entry_point_loader(point: Any) -> Callable[[], Backend]:
    def load() -> Backend:
        loaded = point.load()
        is_backend = hasattr(loaded, "conv2d") and not isinstance(loaded, type)
        return loaded if is_backend else loaded()

    return load


def names() -> list[str]:
    """Every known name, by priority."""
    _discover()
    with _lock.held():
        return sorted(_entries, key=lambda name: -_entries[name].priority)


def check_name(name: object) -> str:
    """Return `name` if a backend is registered under it, else raise BackendNotFoundError."""
    if not isinstance(name, str):
        raise TypeError(f"a backend is named by a str; got {show(name)}")
    text = plain_str(name)
    if text not in _entries:
        _discover()
    if text not in _entries:
        known = ", ".join(names())
        raise BackendNotFoundError(f"unknown backend {show(text)}: expected one of {known}")
    return text


def get(name: str) -> Backend:
    """Return a backend, loading it if this is its first use.

    Raises
    ------
    BackendNotFoundError
        If nobody registered the name.
    BackendLoadError
        If it cannot be loaded; the cause is chained.
    """
    entry = _entries.get(name)
    if entry is not None and entry.backend is not None:
        return entry.backend
    entry = _entries[check_name(name)]
    with _lock.held():
        if entry.backend is None:
            entry.backend = _load(entry)
        return entry.backend


def _load(entry: _Entry) -> Backend:
    try:
        loader = entry.loader
        if isinstance(loader, str):
            module, _, function = loader.partition(":")
            loader = getattr(importlib.import_module(module), function)
        backend: Backend = loader()
    except BackendLoadError:
        raise
    except (Exception, SystemExit) as error:  # a package may take its import for a program's start
        raise BrokenBackendError(
            f"backend {entry.name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    missing = [method for method in _METHODS if not callable(getattr(backend, method, None))]
    version = getattr(backend, "api_version", None)
    if version != API_VERSION:
        raise BackendLoadError(
            f"backend {entry.name!r} has api_version {version!r}; "
            f"this simdconv works with {API_VERSION}: update one of them"
        )
    if missing:
        raise BackendLoadError(f"backend {entry.name!r} lacks {', '.join(missing)}")
    return backend


def list_backends() -> list[BackendInfo]:
    """Every known backend, by priority, and whether it can be loaded.

    Returns
    -------
    list of BackendInfo
    """
    listed = []
    for name in names():
        reason = None
        try:
            get(name)
        except BackendLoadError as error:
            reason = str(error)
        listed.append(BackendInfo(name, _entries[name].priority, reason is None, reason))
    return listed
