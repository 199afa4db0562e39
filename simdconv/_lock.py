"""A lock for what a module holds."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ModuleLock"]


class ModuleLock:
    """A re-entrant lock that a forked child finds free, whoever held it in the parent."""

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for a `with` block; the block of a thread that forks ends in both processes."""
        lock = self._lock
        with lock:
            yield
