"""Which backend runs a call.

    backend= (strict) > innermost use_backend > set_backend > SIMDCONV_BACKEND > simd > blas > numpy

A preference that cannot run a call is passed over, which explain() shows and the DEBUG log tells.
The choice for a spec is remembered, so a repeated call pays for a look-up only.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from contextvars import ContextVar
from functools import lru_cache

import numpy as np

from simdconv import backends
from simdconv._arguments import show
from simdconv._errors import BackendNotImplementedError, ShapeError
from simdconv._layout import chw_image
from simdconv._lock import ModuleLock
from simdconv._scope import Scope, changed
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends._base import Backend, PackedFilter

__all__ = [
    "check_out",
    "get_backend",
    "run_conv2d",
    "run_transform",
    "select",
    "set_backend",
    "use_backend",
]

ENVIRONMENT = "SIMDCONV_BACKEND"
_log = logging.getLogger("simdconv")

Names = tuple[str, ...]
_process: Names = ()
_environment: Names | None = None  # None until it is first needed
_scoped: ContextVar[tuple[Names, ...]] = ContextVar("simdconv_backend", default=())
_lock = ModuleLock()
_forgotten = 0  # how often set_backend(None) asked for a new reading of the environment


def _checked_names(name: str | Sequence[str]) -> Names:
    names = [name] if isinstance(name, str) else name
    if not isinstance(names, (list, tuple)):
        raise TypeError(f"a backend is a name or a list of names; got {show(name)}")
    for item in names:
        backends.get(backends.check_name(item))
    return tuple(names)


def set_backend(name: str | Sequence[str] | None) -> None:
    """Prefer a backend, or several in this order, in the whole process.

    Parameters
    ----------
    name : str, list of str or None
        A call that these cannot run goes to simd, blas or numpy. None forgets the preference and
        reads SIMDCONV_BACKEND anew.

    Raises
    ------
    BackendNotFoundError, BackendLoadError
        If a name is unknown, or its backend cannot be loaded.
    """
    global _process, _environment, _forgotten
    names = () if name is None else _checked_names(name)
    with _lock.held():
        _process = names
        if name is None:
            _environment = None
            _forgotten += 1
        changed()


def use_backend(name: str | Sequence[str]) -> Scope:
    """Prefer a backend, or several in this order, within a `with` block or a decorated function.

    The preference holds in this thread or asyncio task only. Errors as in set_backend.

    Examples
    --------
    >>> import simdconv
    >>> with simdconv.use_backend("numpy"):
    ...     simdconv.get_backend()
    'numpy'
    """
    names = _checked_names(name)
    return Scope(_scoped, lambda outer: names)


def _read_environment() -> Names:
    global _environment
    forgotten = _forgotten
    names = _names_in_environment()
    with _lock.held():
        if _forgotten == forgotten:  # else this may be older than set_backend(None)
            _environment = names
    return names


def _names_in_environment() -> Names:
    text = os.environ.get(ENVIRONMENT, "")
    names = tuple(item.strip() for item in text.split(",") if item.strip())
    for name in names:
        try:
            backends.check_name(name)
        except LookupError as error:
            raise type(error)(f"{ENVIRONMENT}={text!r}: {error}") from None
    return names


@lru_cache(maxsize=256)
def _ordered(scoped: Names, process: Names, environment: Names) -> tuple[Names, frozenset[str]]:
    asked = (*scoped, *process, *environment)
    return tuple(dict.fromkeys((*asked, *backends.BUILT_IN))), frozenset(asked)


def is_scoped() -> bool:
    """Whether use_backend() is in force here."""
    return bool(_scoped.get())


def preference() -> tuple[Names, frozenset[str]]:
    """Return the backends in the order in which a call tries them, and those asked for."""
    environment = _environment if _environment is not None else _read_environment()
    scoped = _scoped.get()
    return _ordered(scoped[-1] if scoped else (), _process, environment)


def get_backend() -> str:
    """Return the name of the backend that a call tries first.

    Returns
    -------
    str
    """
    return preference()[0][0]


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The backend that runs a spec, and those before it that declined: (name, reason)."""

    backend: Backend
    declined: tuple[tuple[str, str], ...]


_selections: dict[tuple, Selection] = {}
_MOST_SELECTIONS = 8192


def select(spec: Conv2dSpec | TransformSpec, backend: str | None = None) -> Selection:
    """Choose the backend for a spec; `backend` is strict.

    Raises
    ------
    BackendNotFoundError, BackendLoadError
        If a backend that was asked for does not exist or cannot be loaded.
    BackendNotImplementedError
        If every backend declines.
    MemoryError
        If every backend declines, one at least for want of workspace.
    """
    if backend is not None and type(backend) is not str:
        backend = backends.check_name(backend)
    names, asked = preference() if backend is None else ((backend,), None)
    key = (spec, names, backend, backends.generation)
    found = _selections.get(key)
    if found is not None:
        return found
    selection = _select(spec, names, asked)
    if len(_selections) >= _MOST_SELECTIONS:
        _selections.clear()
    _selections[key] = selection
    return selection


def _select(
    spec: Conv2dSpec | TransformSpec, names: Names, asked: frozenset[str] | None
) -> Selection:
    declined: list[tuple[str, str]] = []
    out_of_memory = False
    for name in names:
        backends.check_name(name)
        try:
            backend = backends.get(name)
            reason = backend.declines(spec)
            if reason is None and isinstance(spec, Conv2dSpec) and not spec.trivial:
                backend.plan(spec)
        except backends.BrokenBackendError as error:
            if asked is None or name in asked:
                raise
            reason = str(error)
        except BackendNotImplementedError as error:
            reason = str(error)
        except MemoryError as error:
            out_of_memory, reason = True, str(error)
        if reason is None:
            return Selection(backend, tuple(declined))
        _log.debug("%s passed over: %s", name, reason)
        declined.append((name, reason))
    what = f"algorithm={spec.algorithm!r}" if isinstance(spec, Conv2dSpec) else spec.kind
    listed = "; ".join(f"{name}: {reason}" for name, reason in declined)
    if out_of_memory:
        limit = f"max_workspace={spec.max_workspace}"
        raise MemoryError(f"{limit} is too small for this call: {listed}")
    raise BackendNotImplementedError(
        f"no backend can run {what} with {spec.dtype}, layout {spec.layout}: {listed}",
        dict(declined),
    )


def run_conv2d(
    spec: Conv2dSpec,
    backend: Backend,
    x: np.ndarray,
    w: np.ndarray | PackedFilter,
    bias: np.ndarray | None,
    out: np.ndarray,
) -> None:
    """Fill `out`. Results without elements, and sums without terms, are dealt with here."""
    if out.size == 0:
        return
    if spec.k == 0:
        _run_without_terms(spec, bias, out)
    else:
        backend.conv2d(spec, x, w, bias, out)


def _run_without_terms(spec: Conv2dSpec, bias: np.ndarray | None, out: np.ndarray) -> None:
    """Fill `out` with the bias: an image without channels convolves to zeros."""
    from simdconv.backends.numpy import activate

    with np.errstate(all="ignore"):
        value = np.zeros((spec.c_out, 1, 1), spec.acc_dtype)
        if bias is not None:
            value[:, 0, 0] = bias
        activate(value, spec.activation)
        for index in range(spec.n):
            chw_image(out, spec.layout, spec.batched, index)[...] = value


def run_transform(spec: TransformSpec, backend: Backend, x: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` with im2col or im2win."""
    if out.size:
        backend.transform(spec, x, out)


def check_out(
    out: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, inputs: dict[str, np.ndarray | None]
) -> None:
    """Raise unless `out` can take the result: before any work, so that it stays untouched."""
    if out.shape != shape:
        raise ShapeError(f"out must have the result's shape {shape}; got {out.shape}")
    if out.dtype != dtype or not out.dtype.isnative:
        raise TypeError(
            f"out must have the result's dtype {dtype} in native byte order; got {out.dtype.str}"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    if not out.flags.c_contiguous and _overlaps_itself(out):
        raise ValueError(f"out overlaps itself: shape {out.shape}, strides {out.strides}")
    for name, array in inputs.items():
        if array is not None and _overlap(out, array):
            raise ValueError(f"out shares memory with {name}: pass another array, or a copy")


_OVERLAP_WORK = 10_000  # steps of the exact test; what it cannot settle counts as an overlap


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: np.ndarray) -> bool:
    """Whether elements may share memory: an axis steps less than the axes inside it span."""
    axes = zip(array.strides, array.shape, strict=True)
    steps = sorted((abs(stride), size) for stride, size in axes if size > 1)
    span = array.itemsize
    for stride, size in steps:
        if stride < span:
            return array.size > 0
        span += stride * (size - 1)
    return False
