"""Repeated calls: what a call of conv2d on plain arrays came to is kept by its arguments.

    conv2d -> recall: found     a function of the backend's, which takes the arrays and runs
                      not found the long way (_spec, _dispatch), then remember

Python that runs a thousand times a second is cheap; once between two pieces of work that fill the
caches, each object it touches comes from memory. So a repeated call touches few: a key, a table, a
function. Only what is plain is kept: NumPy's arrays in C order, settings that are int, str or None,
nothing in force by use_backend() or options().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simdconv import _dispatch, _options, _scope, backends
from simdconv._spec import PLAIN, Conv2dSpec
from simdconv.backends._base import Backend, PackedFilter

__all__ = ["recall", "remember", "state"]

Run = Callable[..., "np.ndarray | None"]

_table: dict[tuple, Run | None] = {}
_MOST = 4096
_EXACT = frozenset((int, str, type(None)))  # True == 1 == 1.0, but only one of them is an int


def state() -> tuple[int, int] | None:
    """What a prepared call depends on beside its arguments; None where something is in force."""
    if _options.is_scoped() or _dispatch.is_scoped():
        return None
    return _scope.changes, backends.generation


def recall(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, *settings: Any
) -> tuple[tuple | None, Run | None]:
    """Find what to call for these arrays, and the key to remember it by, or None."""
    now = state()
    if now is None or x.flags.num & w.flags.num & PLAIN != PLAIN:
        return None, None
    for value in settings:
        if type(value) not in _EXACT:
            return None, None
    key: tuple[Any, ...]
    if bias is None:
        key = (now, x.shape, x.dtype, w.shape, w.dtype, settings)
    elif bias.flags.num & PLAIN == PLAIN:
        key = (now, x.shape, x.dtype, w.shape, w.dtype, settings, bias.shape, bias.dtype)
    else:
        return None, None
    found: Any = _table.get(key, _table)  # which no call came to
    if found is _table:
        return key, None
    return (None, None) if found is None else (key, found)


def remember(
    key: tuple, spec: Conv2dSpec, backend: Backend, w: np.ndarray | PackedFilter,
    table: dict[tuple, Run | None] = _table, most: int = _MOST,
) -> None:  # fmt: skip
    """Keep the backend's function of such calls, or that it has none."""
    ask = getattr(backend, "prepare_conv2d", None)
    if len(table) >= most:
        table.clear()
    table[key] = None if ask is None or spec.trivial else ask(spec, w)
