"""Threads of the blas backend.

A BLAS splits one product over its threads in ways that change the result's bits. So each product
runs in one BLAS thread, and the threads of a call are ours: they share out tiles whose shape does
not depend on how many threads there are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["blas_threads", "run_shared", "single_blas_thread"]


class _Limit:
    """The process-wide limit of one BLAS thread, held while at least one call needs it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = 1
        self.restore: Any = None
        self.controller: ThreadpoolController | None = None

    def _libraries(self) -> ThreadpoolController:
        if self.controller is None:
            self.controller = ThreadpoolController().select(user_api="blas")
        return self.controller

    def _now(self) -> int:
        pools = self._libraries().lib_controllers
        return max((pool.num_threads or 1 for pool in pools), default=1)

    def threads(self) -> int:
        """BLAS threads as the caller has set them."""
        with self.lock:
            if self.holders:
                return self.before
            return self._now()

    def enter(self) -> None:
        with self.lock:
            if self.holders == 0:
                libraries = self._libraries()
                self.before = self._now()
                self.restore = libraries.limit(limits=1)
            self.holders += 1

    def leave(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                self.restore.restore_original_limits()
                self.restore = None


_limit = _Limit()


def _reset_in_child() -> None:
    """Start anew in a forked child, which has none of the threads that held the limit."""
    global _limit
    inherited, _limit = _limit, _Limit()
    if inherited.restore is not None:
        inherited.restore.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)


def blas_threads() -> int:
    """BLAS threads as the caller has set them."""
    return _limit.threads()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run BLAS in one thread, and put back what was before when the last user leaves."""
    limit = _limit
    limit.enter()
    try:
        yield
    finally:
        limit.leave()


def run_shared(work: Callable[[int, int], None], workers: int) -> None:
    """Call work(worker, workers) for each worker, at the same time."""

    def quietly(worker: int) -> None:
        with np.errstate(all="ignore"):
            work(worker, workers)

    with single_blas_thread():
        if workers == 1:
            quietly(0)
            return
        errors: list[BaseException] = []

        def elsewhere(worker: int) -> None:
            try:
                quietly(worker)
            except BaseException as error:
                errors.append(error)

        here, threads = [0], []
        for worker in range(1, workers):
            thread = threading.Thread(target=elsewhere, args=(worker,))
            try:
                thread.start()
                threads.append(thread)
            except RuntimeError:  # the system starts no more: this thread does that one's work
                here.append(worker)
        try:
            for worker in here:
                quietly(worker)
        finally:
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]
