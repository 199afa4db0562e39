"""One frozen description of a call: all validation and all shape arithmetic, done once.

`conv2d_spec` and `transform_spec` take arrays and keywords as the user wrote them and return a
spec of plain, normalised values, or raise before any work is done. The spec depends on shapes,
dtypes and strides only, never on values, and a repeated call finds it in a cache.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from types import NoneType
from typing import Any

import numpy as np

from simdconv import _arguments as arguments
from simdconv import _geometry as geometry
from simdconv._arguments import Pads, Pair
from simdconv._layout import LANES, image_shape
from simdconv._options import current_options

__all__ = ["PLAIN", "Conv2dSpec", "TransformSpec", "conv2d_spec", "transform_spec"]

_CACHED_SPECS = 4096
PLAIN = 0x101  # NumPy's flags C_CONTIGUOUS and ALIGNED


@dataclasses.dataclass(frozen=True, slots=True)
class _WindowSpec:
    """What conv2d, im2col and im2win share: an image, a window, and how the window moves."""

    layout: str
    batched: bool
    n: int
    c_in: int
    h_in: int
    w_in: int
    h_f: int
    w_f: int
    h_out: int
    w_out: int
    stride: Pair
    dilation: Pair
    padding: Pads
    padding_mode: str
    dtype: np.dtype
    x_dtype: np.dtype
    num_threads: int | None
    max_workspace: int | None
    x_plain: bool
    x_rows: bool
    x_strides: tuple[int, ...] | None
    out_plain: bool

    @property
    def h_p(self) -> int:
        """Height of the padded image."""
        return self.h_in + sum(self.padding[0])

    @property
    def w_p(self) -> int:
        """Width of the padded image."""
        return self.w_in + sum(self.padding[1])

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return self.padding != ((0, 0), (0, 0))

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return image_shape(self.layout, self.batched, self.n, self.c_in, self.h_in, self.w_in)


@dataclasses.dataclass(frozen=True, slots=True)
class Conv2dSpec(_WindowSpec):
    """A conv2d call, normalised.

    Attributes
    ----------
    layout, weight_layout : str
        Axis order of the image and of the filter.
    batched : bool
        False if x came without its batch axis; then n is 1.
    n, c_in, h_in, w_in, c_out, h_f, w_f, groups, h_out, w_out : int
        Sizes. In CHWN8, n is eight times the number of blocks.
    stride, dilation : (int, int)
        Vertical, horizontal.
    padding : ((int, int), (int, int))
        Top and bottom, left and right, resolved.
    padding_mode : str
        One of NumPy's names.
    dtype, acc_dtype : dtype
        Of the result, and of the sums that it is made from.
    x_dtype, w_dtype, bias_dtype : dtype
        As they came; bias_dtype is None without a bias.
    activation : tuple or None
        ("relu",), ("relu6",), ("clip", lo, hi) or ("leaky_relu", slope).
    algorithm : str
    num_threads, max_workspace : int or None
    flush_denormals : bool
    x_plain, w_plain, out_plain : bool
        Whether the array is aligned and in C order. A plan may rely on it.
    x_rows, w_aligned, bias_plain : bool
        Whether x is aligned, strided by whole elements, and contiguous along its last axis; the
        first two of these for w; for bias as x_plain, and True without one.
    x_strides : tuple of int or None
        In elements, where x is not plain but x_rows holds.
    """

    weight_layout: str
    c_out: int
    groups: int
    acc_dtype: np.dtype
    w_dtype: np.dtype
    bias_dtype: np.dtype | None
    activation: tuple[Any, ...] | None
    algorithm: str
    flush_denormals: bool
    w_plain: bool
    w_aligned: bool
    bias_plain: bool
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = tuple(getattr(self, name) for name in _CONV2D_FIELDS)
        object.__setattr__(self, "_hash", hash(fields))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Conv2dSpec, tuple(getattr(self, name) for name in _CONV2D_FIELDS)

    @property
    def c_in_g(self) -> int:
        """Input channels of one group."""
        return self.c_in // self.groups

    @property
    def c_out_g(self) -> int:
        """Output channels of one group."""
        return self.c_out // self.groups

    @property
    def k(self) -> int:
        """Products summed into one output."""
        return self.c_in_g * self.h_f * self.w_f

    @property
    def w_shape(self) -> tuple[int, ...]:
        """Shape of the filter, in weight_layout."""
        sizes = {"O": self.c_out, "I": self.c_in_g, "H": self.h_f, "W": self.w_f}
        return tuple(sizes[axis] for axis in self.weight_layout)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return image_shape(self.layout, self.batched, self.n, self.c_out, self.h_out, self.w_out)

    @property
    def out_size(self) -> int:
        """Elements of the result."""
        return self.n * self.c_out * self.h_out * self.w_out

    @property
    def trivial(self) -> bool:
        """Whether there is no output, or no product to sum: then no backend is called."""
        return self.out_size == 0 or self.k == 0

    @property
    def flops(self) -> int:
        """Multiplications and additions, each counted as one."""
        return 2 * self.out_size * self.k


_CONV2D_FIELDS = tuple(field.name for field in dataclasses.fields(Conv2dSpec) if field.init)


@dataclasses.dataclass(frozen=True, slots=True)
class TransformSpec(_WindowSpec):
    """An im2col or im2win call, normalised; `kind` says which. Attributes as in Conv2dSpec."""

    kind: str

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        if self.kind == "im2col":
            depth, pixels = self.c_in * self.h_f * self.w_f, self.h_out * self.w_out
            one: tuple[int, ...] = (pixels, depth) if self.layout == "NHWC" else (depth, pixels)
        else:
            strip = self.w_p * self.h_f
            one = (self.c_in, self.h_out, strip)
            if self.layout == "NHWC":
                one = (self.h_out, strip, self.c_in)
        if self.layout == "CHWN8":
            return (self.n // LANES, *one, LANES)
        if not self.batched:
            return one
        return (*one, self.n) if self.layout == "CHWN" else (self.n, *one)

    @property
    def out_size(self) -> int:
        """Elements of the result."""
        size = self.n * self.c_in * self.h_f * self.h_out
        return size * (self.w_f * self.w_out if self.kind == "im2col" else self.w_p)


def _x_fields(shape: tuple[int, ...], memory: tuple[int, ...] | None) -> dict[str, Any]:
    """x_plain, x_rows and x_strides, from what _memory_of says, or None for plain arrays."""
    if not memory:
        return {"x_plain": memory is None, "x_rows": memory is None, "x_strides": None}
    rows = memory[-1] == 1 or shape[-1] == 1
    return {"x_plain": False, "x_rows": rows, "x_strides": memory if rows else None}


def _build_conv2d(
    x_shape: Any, x_dtype: Any, w_shape: Any, w_dtype: Any, bias_shape: Any, bias_dtype: Any,
    stride: Any, padding: Any, dilation: Any, groups: Any, padding_mode: Any, layout: Any,
    weight_layout: Any, activation: Any, algorithm: Any, num_threads: Any, max_workspace: Any,
    flush_denormals: bool, x_memory: Any, w_memory: Any, bias_plain: bool, out_plain: bool,
) -> Conv2dSpec:  # fmt: skip
    named = [("x", x_dtype), ("w", w_dtype)]
    if bias_dtype is not None:
        named.append(("bias", bias_dtype))
    dtype, acc_dtype = arguments.promote(named)
    name, weight = geometry.weight_sizes(w_shape, weight_layout)
    groups = arguments.check_integer("groups", groups, 1, arguments.LARGEST)
    kernel = (weight["H"], weight["W"])
    window = geometry.window_fields(
        x_shape, layout, kernel, stride, padding, dilation, padding_mode
    )
    geometry.check_channels(window["c_in"], weight, groups, window["layout"])
    c_out = weight["O"]
    geometry.check_bias(bias_shape, c_out)
    outputs = max(window["n"], 1) * window["h_out"] * window["w_out"]
    arguments.check_product("the result", outputs, max(c_out, 1))
    arguments.check_product("the sum over all products", outputs, max(c_out, 1), 2, *kernel,
                            max(weight["I"], 1))  # fmt: skip
    num_threads = arguments.check_threads(num_threads)
    return Conv2dSpec(
        **window, dtype=dtype, x_dtype=x_dtype, num_threads=num_threads,
        max_workspace=max_workspace, **_x_fields(x_shape, x_memory), out_plain=out_plain,
        weight_layout=name,
        c_out=c_out, groups=groups, acc_dtype=acc_dtype, w_dtype=w_dtype, bias_dtype=bias_dtype,
        activation=arguments.check_activation(activation, dtype),
        algorithm=arguments.check_choice("algorithm", algorithm, arguments.ALGORITHMS),
        flush_denormals=flush_denormals, w_plain=w_memory is None,
        w_aligned=w_memory != (), bias_plain=bias_plain,
    )  # fmt: skip


def _build_transform(
    kind: str, x_shape: Any, x_dtype: Any, kernel_size: Any, stride: Any, padding: Any,
    dilation: Any, padding_mode: Any, layout: Any, num_threads: Any, max_workspace: Any,
    x_memory: Any, out_plain: bool,
) -> TransformSpec:  # fmt: skip
    dtype = arguments.check_dtype("x", x_dtype)
    kernel = arguments.check_pair("kernel_size", kernel_size, 1)
    window = geometry.window_fields(
        x_shape, layout, kernel, stride, padding, dilation, padding_mode
    )
    num_threads = arguments.check_threads(num_threads)
    spec = TransformSpec(
        **window, dtype=dtype, x_dtype=x_dtype, num_threads=num_threads,
        max_workspace=max_workspace, **_x_fields(x_shape, x_memory), out_plain=out_plain, kind=kind,
    )  # fmt: skip
    arguments.check_product("the result", *(max(size, 1) for size in spec.out_shape))
    if spec.out_size:  # im2win has padded columns even where no window fits
        geometry.check_extension(spec.padding_mode, (spec.h_in, spec.w_in), spec.padding)
    return spec


# True == 1 == 1.0, so a cache must tell types apart: typed=True does for scalars, and what a tuple
# holds is looked at before it may meet the cache.
_cached_conv2d = lru_cache(maxsize=_CACHED_SPECS, typed=True)(_build_conv2d)
_cached_transform = lru_cache(maxsize=_CACHED_SPECS, typed=True)(_build_transform)


def _memory_of(array: np.ndarray) -> tuple[int, ...]:
    """Strides in elements of an array that is not plain; () if it is not aligned, or has parts."""
    size = array.itemsize or 1
    if not array.flags.aligned or any(stride % size for stride in array.strides):
        return ()
    return tuple(stride // size for stride in array.strides)


def _exact(value: object, kinds: tuple[type, ...] = (int, str, NoneType)) -> bool:
    """Whether values that equal this one are also the same as this one."""
    if type(value) is tuple:
        return all(_exact(item, kinds) for item in value)
    return type(value) in kinds


def conv2d_spec(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None = None, *, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: Any = 1, padding_mode: Any = "constant",
    layout: Any = "NCHW", weight_layout: Any = "OIHW", activation: Any = None,
    algorithm: Any = "auto", out: np.ndarray | None = None, num_threads: Any = None,
) -> Conv2dSpec:  # fmt: skip
    """Validate a conv2d call and describe it.

    Parameters
    ----------
    x, w, bias, out : ndarray
        As conv2d takes them. Only shape, dtype and flags are read; `out` is not checked here.
    stride, padding, dilation, groups, padding_mode, layout, weight_layout, activation, algorithm,
    num_threads
        As conv2d takes them.

    Returns
    -------
    Conv2dSpec

    Raises
    ------
    ValueError, TypeError
        With the name of the argument, what came and what is allowed.
    """
    chosen = current_options()
    if num_threads is None:
        num_threads = chosen.num_threads
    if type(algorithm) is str and algorithm == "auto":
        algorithm = chosen.algorithm
    bias_shape, bias_dtype = (None, None) if bias is None else (bias.shape, bias.dtype)
    key = (
        x.shape, x.dtype, w.shape, w.dtype, bias_shape, bias_dtype, stride, padding, dilation,
        groups, padding_mode, layout, weight_layout, activation, algorithm, num_threads,
        chosen.max_workspace, chosen.flush_denormals,
        None if x.flags.num & PLAIN == PLAIN else _memory_of(x),
        None if w.flags.num & PLAIN == PLAIN else _memory_of(w),
        bias is None or bias.flags.num & PLAIN == PLAIN,
        out is None or out.flags.num & PLAIN == PLAIN,
    )  # fmt: skip
    for value in (stride, padding, dilation):
        if type(value) is not int and not _exact(value):
            return _build_conv2d(*key)
    if activation is not None and not _exact(activation, (str, int, float)):
        return _build_conv2d(*key)
    try:
        return _cached_conv2d(*key)
    except Exception:  # unhashable, or wrong; suppress() would cost more than this
        pass  # built anew, without the cache, for the message
    return _build_conv2d(*key)


def transform_spec(
    kind: str, x: np.ndarray, kernel_size: Any, *, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, padding_mode: Any = "constant", layout: Any = "NCHW",
    out: np.ndarray | None = None, num_threads: Any = None,
) -> TransformSpec:  # fmt: skip
    """Validate an im2col or im2win call and describe it; arguments and errors as in conv2d_spec."""
    chosen = current_options()
    if num_threads is None:
        num_threads = chosen.num_threads
    key = (
        kind, x.shape, x.dtype, kernel_size, stride, padding, dilation, padding_mode, layout,
        num_threads, chosen.max_workspace,
        None if x.flags.num & PLAIN == PLAIN else _memory_of(x),
        out is None or out.flags.num & PLAIN == PLAIN,
    )  # fmt: skip
    if not all(_exact(value) for value in (kernel_size, stride, padding, dilation)):
        return _build_transform(*key)
    try:
        return _cached_transform(*key)
    except Exception:  # bad or unhashable: the builder below says which, without a chain
        pass
    return _build_transform(*key)
