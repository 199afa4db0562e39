"""What use_backend and options have in common: a value in force within a block.

A ContextVar holds the stack of values, so each thread and asyncio task has its own. A scope keeps
nothing of where it is entered: one object can be entered again, within itself and by many threads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import Any

from simdconv._lock import ModuleLock

__all__ = ["Scope", "changed"]

changes = 0  # of what holds in the whole process: what was prepared before is prepared again
_lock = ModuleLock()


def changed() -> None:
    """Say that a process-wide preference or option has another value now."""
    global changes
    with _lock.held():
        changes += 1


class Scope(ContextDecorator):
    """A context manager and decorator.

    Parameters
    ----------
    stack : ContextVar of tuple
    push : callable
        Called with the innermost value, or None, when the block is entered; returns the new one.
    target : callable, optional
        Called after that; returns what `as` names.
    """

    def __init__(
        self,
        stack: ContextVar[tuple[Any, ...]],
        push: Callable[[Any], Any],
        target: Callable[[], Any] = lambda: None,
    ) -> None:
        self._stack, self._push, self._target = stack, push, target

    def __enter__(self) -> Any:
        values = self._stack.get()
        self._stack.set((*values, self._push(values[-1] if values else None)))
        return self._target()

    def __exit__(self, *exception: object) -> None:
        self._stack.set(self._stack.get()[:-1])

    def __call__(self, function: Any) -> Any:
        """Decorate a function or a coroutine function."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__} is a generator, which this cannot decorate: "
                "its body runs in its callers' contexts"
            )
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return inside
