"""2-D convolution for NumPy: every algorithm and every layout behind one function.

>>> import numpy as np, simdconv
>>> x = np.ones((1, 3, 32, 32), np.float32)
>>> w = np.ones((8, 3, 3, 3), np.float32)
>>> simdconv.conv2d(x, w, stride=2, padding=1).shape
(1, 8, 16, 16)
"""

import sys as _sys
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import Any as _Any


def _require_build() -> None:
    """Say what to do when this is the source tree and not the built package."""
    package = _find_spec("simdconv.backends.simd")  # importing it would need the extension
    places = None if package is None else package.submodule_search_locations
    name = "simdconv.backends.simd._core"
    if places is None or not any(finder.find_spec(name, places, None) for finder in _sys.meta_path):
        raise ImportError(
            "simdconv's extension module is not here: this looks like the source tree, not the "
            "built package. Build and install it with `pip install .` in the repository's root "
            "(`pip install --no-build-isolation --editable .` while you work on it), and start "
            "Python from another directory if you do not install it as editable."
        )


_require_build()

from simdconv._api import conv2d, im2col, im2win, kernels  # noqa: E402
from simdconv._config import cpu_info, show_config  # noqa: E402
from simdconv._dispatch import get_backend, set_backend, use_backend  # noqa: E402
from simdconv._errors import (  # noqa: E402
    BackendLoadError,
    BackendNotFoundError,
    BackendNotImplementedError,
    LayoutError,
    ShapeError,
)
from simdconv._explain import explain  # noqa: E402
from simdconv._layout import to_layout  # noqa: E402
from simdconv._module import Conv2d  # noqa: E402
from simdconv._options import options, set_options  # noqa: E402
from simdconv._signal import convolve2d, correlate2d  # noqa: E402
from simdconv.backends import list_backends, register_backend  # noqa: E402

__all__ = [
    "BackendLoadError",
    "BackendNotFoundError",
    "BackendNotImplementedError",
    "Conv2d",
    "LayoutError",
    "ShapeError",
    "conv2d",
    "convolve2d",
    "correlate2d",
    "cpu_info",
    "explain",
    "get_backend",
    "im2col",
    "im2win",
    "kernels",
    "list_backends",
    "options",
    "register_backend",
    "set_backend",
    "set_options",
    "show_config",
    "to_layout",
    "use_backend",
]

_ON_DEMAND = ("roofline", "testing")  # submodules that a plain import does not need


def __getattr__(name: str) -> _Any:
    if name in _ON_DEMAND:
        return _import_module(f"simdconv.{name}")
    if name == "__version__":
        from simdconv._config import version

        return version()
    raise AttributeError(f"module 'simdconv' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ON_DEMAND, "__version__"])
