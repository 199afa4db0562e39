"""Options: one process-wide set, and a context manager on top of it.

A keyword of the call wins over options(), which wins over set_options(). The scope of options() is
a ContextVar, so it is right under threads and under asyncio.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from simdconv._arguments import ALGORITHMS, check_choice, check_integer, show
from simdconv._lock import ModuleLock
from simdconv._scope import Scope, changed

__all__ = ["Options", "current_options", "options", "set_options"]


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What a call does when its keywords do not say.

    Attributes
    ----------
    max_workspace : int or None
        Most bytes of scratch memory that one call may allocate.
    num_threads : int or None
        Threads of one call; None lets the backend choose.
    flush_denormals : bool
        Treat denormal numbers as zero in the simd kernels.
    algorithm : str
        Used where a call says "auto".
    """

    max_workspace: int | None = None
    num_threads: int | None = None
    flush_denormals: bool = False
    algorithm: str = "auto"


_NAMES = tuple(field.name for field in dataclasses.fields(Options))
_process = Options()
_lock = ModuleLock()  # two threads that set different options must not undo one another's
_scoped: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("simdconv_options", default=())


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if name not in _NAMES:
            raise TypeError(f"unknown option {name!r}: expected one of {', '.join(_NAMES)}")
        if name == "algorithm":
            check_choice("algorithm", value, ALGORITHMS)
        elif name == "flush_denormals":
            if not isinstance(value, bool):
                raise TypeError(f"flush_denormals must be True or False; got {show(value)}")
        elif value is not None:
            lowest = 1 if name == "num_threads" else 0
            values[name] = check_integer(name, value, lowest)
    return values


def is_scoped() -> bool:
    """Whether options() is in force here."""
    return bool(_scoped.get())


def current_options() -> Options:
    """Return the options in force here."""
    scoped = _scoped.get()
    return dataclasses.replace(_process, **scoped[-1]) if scoped else _process


def set_options(**values: Any) -> None:
    """Set options for the whole process.

    Parameters
    ----------
    max_workspace, num_threads, flush_denormals, algorithm
        See `Options`. What is not named keeps its value.
    """
    global _process
    checked = _checked(values)
    with _lock.held():
        _process = dataclasses.replace(_process, **checked)
        changed()


def options(**values: Any) -> Scope:
    """Set options for a `with` block or a decorated function, in this thread or task only.

    Parameters
    ----------
    max_workspace, num_threads, flush_denormals, algorithm
        See `Options`. What is not named keeps its value.

    Examples
    --------
    >>> import simdconv
    >>> with simdconv.options(num_threads=1) as now:
    ...     now.num_threads
    1
    """
    checked = _checked(values)
    return Scope(_scoped, lambda outer: {**(outer or {}), **checked}, current_options)
