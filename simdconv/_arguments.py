"""Normalise one argument at a time: plain Python values, or an error that names it."""

from __future__ import annotations

import itertools
import math
import os
from numbers import Real
from typing import Any

import numpy as np

from simdconv._errors import ShapeError

ALGORITHMS = ("auto", "fastest", "direct", "im2col", "im2win", "implicit", "winograd", "fft")
PADDING_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
_MODE_ALIASES = {"zeros": "constant", "replicate": "edge", "circular": "wrap"}
PADDING_NAMES = ("valid", "same", "same_lower")

LARGEST = 2**31 - 1  # of a stride, dilation, pad or kernel size
LARGEST_PRODUCT = 2**62  # of an array, and of the work
# More threads than this gain nothing, and an OpenMP runtime that cannot start one ends the process.
MOST_THREADS = max(16, 4 * (os.cpu_count() or 1))

Pair = tuple[int, int]
Pads = tuple[Pair, Pair]


def check_integer(name: str, value: object, lowest: int, largest: int | None = None) -> int:
    """Return `value` as an int in range; bool and float, 1.0 too, are not integers."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer >= {lowest}; got {show(value)}")
    # a subclass may have its own idea of comparing
    number = int.__index__(value) if isinstance(value, int) else int(value)
    if number < lowest:
        raise ValueError(f"{name} must be an integer >= {lowest}; got {show(number)}")
    if largest is not None and number > largest:
        raise ValueError(f"{name} must be at most {largest}; got {show(number)}")
    return number


def check_threads(value: object) -> int | None:
    """None, or a number of threads that can be started."""
    if value is None:
        return None
    return min(check_integer("num_threads", value, 1, LARGEST), MOST_THREADS)


def show(value: object) -> str:
    """Write a value into a message: shortened, and whatever its repr does."""
    kind = type(value).__name__
    if isinstance(value, int) and int.bit_length(value) > 100:
        return f"an integer of {int.bit_length(value)} bits"
    try:
        text = repr(value)
    except Exception:
        return f"an object of type {kind}"
    return f"{text} ({kind})" if len(text) <= 100 else f"{text[:100]}... ({kind})"


def plain_str(value: str) -> str:
    """Exactly a str: a subclass may have its own idea of equality."""
    return value if type(value) is str else str.__str__(value)


_MOST_PARTS = 5  # one more than any argument has; an array of no memory may have 2**60


def _sequence(value: object) -> list[Any] | None:
    """List the parts of a sequence, as many as show whether there are too many of them."""
    if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim > 0):
        return list(itertools.islice(value, _MOST_PARTS))
    return None


def check_pair(name: str, value: object, lowest: int) -> Pair:
    """Return (vertical, horizontal) from an integer for both, or from a pair."""
    values = _sequence(value)
    if values is None:
        single = check_integer(name, value, lowest, LARGEST)
        return single, single
    if len(values) != 2:
        raise ValueError(f"{name} must be an integer or (vertical, horizontal); got {show(value)}")
    first = check_integer(f"{name}[0]", values[0], lowest, LARGEST)
    return first, check_integer(f"{name}[1]", values[1], lowest, LARGEST)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`, else raise."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, one of {', '.join(choices)}; got {show(value)}")
    text = plain_str(value)
    if text not in choices:
        raise ValueError(f"unknown {name} {show(text)}: expected one of {', '.join(choices)}")
    return text


def check_padding_mode(value: object) -> str:
    """NumPy's name of a padding mode."""
    known = PADDING_MODES + tuple(_MODE_ALIASES)
    mode = check_choice("padding_mode", value, known)
    return _MODE_ALIASES.get(mode, mode)


def _one_axis_same(size: int, kernel: int, stride: int, dilation: int, lower: bool) -> Pair:
    size_out = -(-size // stride)
    total = max((size_out - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def check_padding(value: object, sizes: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> Pads:
    """((top, bottom), (left, right)) from any of the forms that padding may have."""
    if isinstance(value, str):
        name = check_choice("padding", value, PADDING_NAMES)
        if name == "valid":
            return (0, 0), (0, 0)
        lower = name == "same_lower"
        return (
            _one_axis_same(sizes[0], kernel[0], stride[0], dilation[0], lower),
            _one_axis_same(sizes[1], kernel[1], stride[1], dilation[1], lower),
        )
    values = _sequence(value)
    if values is None:
        pad = check_integer("padding", value, 0, LARGEST)
        return (pad, pad), (pad, pad)
    inner = [_sequence(item) for item in values]
    if len(values) == 2 and inner == [None, None]:
        vertical, horizontal = check_pair("padding", values, 0)
        return (vertical, vertical), (horizontal, horizontal)
    if len(values) == 2 and all(item is not None and len(item) == 2 for item in inner):
        return check_pair("padding[0]", values[0], 0), check_pair("padding[1]", values[1], 0)
    raise ValueError(
        "padding must be an integer, (vertical, horizontal), ((top, bottom), (left, right)), "
        f"'valid', 'same' or 'same_lower'; got {show(value)}"
    )


def _activation_number(name: str, value: object) -> float | int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, np.number)):
        raise TypeError(f"activation: {name} must be a real number; got {show(value)}")
    if isinstance(value, np.complexfloating):
        raise TypeError(f"activation: {name} must be a real number; got {show(value)}")
    if isinstance(value, (int, np.integer)):
        return int(value)
    number = float(value)
    if math.isnan(number):
        raise ValueError(f"activation: {name} must not be NaN")
    return number


def check_activation_form(value: object) -> tuple[Any, ...] | None:
    """None or a tuple of its name and its numbers, before the result's dtype is known."""
    if value is None:
        return None
    parts = [value] if isinstance(value, str) else _sequence(value)
    if parts and isinstance(parts[0], str):
        parts[0] = plain_str(parts[0])
    allowed = "None, 'relu', 'relu6', ('clip', lo, hi) or ('leaky_relu', slope)"
    if not parts:
        raise TypeError(f"activation must be {allowed}; got {show(value)}")
    sizes = {"relu": 1, "relu6": 1, "clip": 3, "leaky_relu": 2}
    name = parts[0]
    if not isinstance(name, str) or sizes.get(name) != len(parts):
        raise ValueError(f"activation must be {allowed}; got {show(value)}")
    if name == "leaky_relu":
        slope = _floating_bound("slope", _activation_number("slope", parts[1]))
        if math.isinf(slope):
            raise ValueError("activation: slope must be finite")
        return name, slope
    if name == "clip":
        lo, hi = (_activation_number(*item) for item in zip(("lo", "hi"), parts[1:], strict=True))
        if lo > hi:
            raise ValueError(f"activation: clip needs lo <= hi; got lo={lo}, hi={hi}")
        return name, lo, hi
    return (name,)


def check_activation(value: object, dtype: np.dtype) -> tuple[Any, ...] | None:
    """None or a tuple of its name and its numbers, as the result's dtype takes them."""
    activation = check_activation_form(value)
    if activation is None:
        return None
    name = activation[0]
    integral = dtype.kind in "iu"
    if dtype.kind == "c":
        raise TypeError(f"activation {name!r} needs an ordered dtype; the result is {dtype}")
    if name == "leaky_relu" and integral:
        raise TypeError(f"activation 'leaky_relu' needs a floating dtype; the result is {dtype}")
    if name == "clip":
        _, lo, hi = activation
        if integral:
            return name, _integral_bound("lo", lo, dtype), _integral_bound("hi", hi, dtype)
        return name, _floating_bound("lo", lo), _floating_bound("hi", hi)
    return activation


def _floating_bound(name: str, value: float | int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"activation: {name} is too large for a float") from None


def _integral_bound(name: str, value: float | int, dtype: np.dtype) -> int:
    limits = np.iinfo(dtype)
    if isinstance(value, float) and math.isfinite(value) and value != int(value):
        raise ValueError(f"activation: {name}={value} must be whole for a result of {dtype}")
    return int(min(max(value, int(limits.min)), int(limits.max)))


def is_bfloat16(dtype: np.dtype) -> bool:
    """Whether this is ml_dtypes' bfloat16."""
    return dtype.type.__name__ == "bfloat16" and dtype.type.__module__ == "ml_dtypes"


def native(dtype: np.dtype) -> np.dtype:
    """Return the same dtype in the machine's byte order."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def check_dtype(name: str, dtype: np.dtype) -> np.dtype:
    """Return the dtype in native byte order if simdconv computes with it, else raise TypeError."""
    allowed = "integers up to int64, uint8 to uint32, float16, bfloat16, float32, float64, complex"
    if dtype.kind in "iufc" and dtype.names is None:
        if dtype.kind == "u" and dtype.itemsize == 8:
            raise TypeError(f"{name} is uint64, whose sums fit no integer: cast it, say to int64")
        if dtype.type.__module__ == "numpy":
            return native(dtype)
    elif is_bfloat16(dtype):
        return dtype
    advice = {"b": ": cast it, say to uint8", "O": ": convert it to a numeric dtype"}
    raise TypeError(f"{name} has dtype {dtype}; allowed are {allowed}{advice.get(dtype.kind, '')}")


def promote(named: list[tuple[str, np.dtype]]) -> tuple[np.dtype, np.dtype]:
    """Return the result's dtype, and the dtype in which its sums are made."""
    dtypes = [check_dtype(name, dtype) for name, dtype in named]
    if all(dtype.kind in "iu" for dtype in dtypes):
        small = all(dtype.itemsize == 1 for dtype in dtypes)
        result = np.dtype(np.int32 if small else np.int64)
        return result, result
    try:
        result = native(np.result_type(*dtypes))
    except TypeError:
        shown = ", ".join(f"{name} {dtype}" for name, dtype in named)
        raise TypeError(f"no common dtype for {shown}: cast one of them") from None
    half = result == np.float16 or is_bfloat16(result)
    return result, np.dtype(np.float32) if half else result


def check_product(what: str, *sizes: int) -> int:
    """Return the product of the sizes if an index can hold it."""
    product = math.prod(sizes)
    if product >= LARGEST_PRODUCT:
        shown = " * ".join(map(str, sizes))
        raise ShapeError(f"{what} would have {shown} elements; it must have fewer than 2**62")
    return product
