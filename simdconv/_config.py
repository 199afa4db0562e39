"""What this build is and what this machine has."""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from simdconv._arguments import check_choice

__all__ = ["cpu_info", "show_config", "version"]


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata

    try:
        return metadata.version("simdconv")
    except metadata.PackageNotFoundError:
        return "unknown"


def _core() -> Any:
    """Return the extension module, or None where it is not built or cannot be imported."""
    try:
        return import_module("simdconv.backends.simd._core")
    except ImportError:
        return None


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_info() -> dict[str, Any]:
    """Tell what is known of the processor.

    Returns
    -------
    dict
        machine, cpus (that this process may use), isas_built and isas_found (lists of names), and
        what the C library found: features, caches, the chosen ISA.
    """
    info: dict[str, Any] = {"machine": platform.machine(), "cpus": _usable_cpus()}
    core = _core()
    info["isas_built"] = list(core.isas_built()) if core else []
    info["isas_found"] = list(core.isas_found()) if core else []
    if core:
        info.update(core.cpu_info())
    return info


def _blas_info() -> list[dict[str, Any]]:
    try:
        from threadpoolctl import threadpool_info  # type: ignore[import-untyped]
    except ImportError:
        return []
    keys = ("internal_api", "version", "architecture", "num_threads", "threading_layer")
    return [
        {key: pool[key] for key in keys if pool.get(key) is not None}
        for pool in threadpool_info()
        if pool.get("user_api") == "blas"
    ]


def _core_value(core: Any, name: str) -> Any:
    function = getattr(core, name, None)
    return function() if callable(function) else None


def _collect() -> dict[str, Any]:
    from simdconv._dispatch import get_backend
    from simdconv._options import current_options
    from simdconv.backends import list_backends

    core = _core()
    return {
        "simdconv": version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "compiler": _core_value(core, "compiler") or "none: the extension is not there",
        "openmp": _core_value(core, "openmp"),
        "max_threads": _core_value(core, "max_threads"),
        "cpu": cpu_info(),
        "blas": _blas_info(),
        "backends": {
            info.name: "available" if info.available else info.reason for info in list_backends()
        },
        "backend": get_backend(),
        "options": {name: getattr(current_options(), name) for name in current_options().__slots__},
    }


def _lines(values: dict[str, Any], indent: str = "") -> list[str]:
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for item in value:
                lines += [f"{indent}{name}:", *_lines(item, indent + "  ")]
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple, set)) else value
            lines.append(f"{indent}{name}: {shown}")
    return lines


def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Print version, compiler, ISAs built and found, threads, BLAS and backends.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        "dicts" returns what would be printed.
    """
    mode = check_choice("mode", mode, ("stdout", "dicts"))
    values = _collect()
    if mode == "dicts":
        return values
    print("\n".join(_lines(values)))
    return None
