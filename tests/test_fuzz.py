"""Whole calls drawn at random, against the reference, with whole numbers compared by ==.

    SIMDCONV_TEST_PROFILE=ci pytest tests/test_fuzz.py        2,000 examples a test
    SIMDCONV_TEST_PROFILE=long pytest tests/test_fuzz.py      100,000

A call is drawn with everything that a user can write: sizes, window, layouts, dtypes, the memory
that each array lies in, `out`, threads, algorithm and backend. An example that fails is printed
with what reproduces it.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdconv
from simdconv import BackendNotImplementedError, Conv2d, conv2d

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
ALGORITHMS = ("auto", "fastest", "direct", "im2col", "im2win", "implicit")
EXACT = ("auto", "direct", "im2col", "im2win", "implicit")
MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
ACTIVATIONS = (None, None, "relu", "relu6", ("clip", -3, 7), ("leaky_relu", 0.5))
DTYPES = ("f4", "f4", "f8", "f8", "f2", "bf16", "c8", "c16", "i1", "u1", "i2", "u4", "i8", "g",
          ">f4", ">i2", ">c16")  # fmt: skip
MEMORY = ("plain", "fortran", "spread", "backwards", "misaligned", "permuted", "inside",
          "read-only", "field", "repeated")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of conv2d, and the memory its arrays lie in."""

    x_shape: tuple
    w_shape: tuple
    dtypes: tuple
    bias: bool
    keywords: dict[str, Any]
    memory: tuple
    seed: int

    def arrays(self):
        """x, w and bias of whole numbers."""
        rng = np.random.default_rng(self.seed)
        c_out = self.w_shape[self.keywords["weight_layout"].index("O")]
        shapes = (self.x_shape, self.w_shape, (c_out,))
        made = [
            placed(values(rng, shape, dtype), memory, rng)
            for shape, dtype, memory in zip(shapes, self.dtypes, self.memory, strict=True)
        ]
        return made[0], made[1], made[2] if self.bias else None


def dtype_of(name):
    """The dtype of a name in DTYPES; bfloat16 where ml_dtypes is there."""
    if name != "bf16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("f2")
    return np.dtype(ml_dtypes.bfloat16)


def values(rng, shape, name):
    """Whole numbers whose sums every dtype holds exactly."""
    dtype = dtype_of(name)
    few = 2 if dtype.itemsize == 2 and dtype.kind not in "iu" else 5
    array = rng.integers(0 if dtype.kind == "u" else 1 - few, few, shape)
    if dtype.kind == "c":
        array = array + 1j * rng.integers(1 - few, few, shape)
    return array.astype(dtype)


def placed(array, memory, rng):
    """The same values in memory of the kind that `memory` names; `repeated` changes them."""
    match memory:
        case "fortran":
            return np.asfortranarray(array)
        case "spread" | "inside":
            steps = [2 if memory == "spread" else 1] * array.ndim
            base = np.full([n * s + 3 for n, s in zip(array.shape, steps, strict=True)], 99)
            base = base.astype(array.dtype)
            view = base[
                tuple(slice(1, 1 + n * s, s) for n, s in zip(array.shape, steps, strict=True))
            ]
            view[...] = array
            return view
        case "backwards":
            back = tuple(slice(None, None, int(rng.choice([-1, 1]))) for _ in array.shape)
            return array[back].copy()[back]
        case "misaligned":
            view = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
            view[...] = array
            return view
        case "permuted":
            order = rng.permutation(array.ndim)
            return array.transpose(order).copy().transpose(np.argsort(order))
        case "read-only":
            array.flags.writeable = False
        case "field":
            records = np.zeros(array.shape, [("before", "i1"), ("it", array.dtype)])
            records["it"] = array
            return records["it"]
        case "repeated" if array.size:
            axis = int(rng.integers(array.ndim))
            one = array[(slice(None),) * axis + (slice(1),)]
            return np.broadcast_to(one, array.shape)
    return array


@st.composite
def windows(draw, size):
    """Kernel, stride, dilation and pads of one axis; mostly such that the window fits."""
    kernel = draw(st.sampled_from((1, 1, 2, 3, 3, 4, 5, 7)))
    stride = draw(st.sampled_from((1, 1, 1, 2, 3, 4, 9, 10**6)))
    dilation = draw(st.sampled_from((1, 1, 1, 2, 3, 6)))
    pads = draw(st.tuples(*[st.sampled_from((0, 0, 1, 2, 3, 7, 19))] * 2))
    missing = dilation * (kernel - 1) + 1 - size - sum(pads)
    if missing > 0 and draw(st.integers(0, 19)):
        kernel, dilation = max(1, min(kernel, size + sum(pads))), 1
    return kernel, stride, dilation, pads


def shape_in(layout, n, c, h, w, batched=True):
    """Shape of an image in a layout."""
    if layout == "CHWN8":
        return (-(-n // 8), c, h, w, 8)
    sizes = {"N": n, "C": c, "H": h, "W": w}
    return tuple(sizes[axis] for axis in layout if batched or axis != "N")


@st.composite
def calls(draw):
    """A whole call."""
    layout = draw(st.sampled_from(("NCHW", "NHWC", "CHWN", "CHWN8")))
    groups = draw(st.sampled_from((1, 1, 1, 2, 3, 8, 17)))
    depthwise = groups > 1 and draw(st.booleans())
    c_in_g = 1 if depthwise else draw(st.sampled_from((1, 1, 2, 3, 4, 5, 8, 9, 0)))
    c_out_g = draw(st.sampled_from((1, 1, 2, 3, 4, 8, 15, 16, 17, 33, 0)))
    n = draw(st.sampled_from((1, 1, 2, 3, 7, 8, 9, 17, 0)))
    h, w = (draw(st.sampled_from((1, 2, 3, 5, 8, 13, 16, 17, 31, 0))) for _ in range(2))
    k_h, s_h, d_h, pads_h = draw(windows(h))
    k_w, s_w, d_w, pads_w = draw(windows(w))
    padding = draw(
        st.sampled_from(("numbers", "numbers", "numbers", "valid", "same", "same_lower"))
    )
    weight_layout = draw(st.sampled_from(("OIHW", "HWIO", "OHWI", "IHWO")))
    sizes = {"O": groups * c_out_g, "I": c_in_g, "H": k_h, "W": k_w}
    first = draw(st.sampled_from(DTYPES))
    second = first if draw(st.integers(0, 3)) else draw(st.sampled_from(DTYPES))
    keywords = {
        "stride": (s_h, s_w), "dilation": (d_h, d_w), "groups": groups, "layout": layout,
        "padding": (pads_h, pads_w) if padding == "numbers" else padding,
        "padding_mode": draw(st.sampled_from(("constant", *MODES))),
        "weight_layout": weight_layout, "activation": draw(st.sampled_from(ACTIVATIONS)),
    }  # fmt: skip
    batched = layout == "CHWN8" or n != 1 or draw(st.booleans())
    return Call(
        shape_in(layout, n, groups * c_in_g, h, w, batched),
        tuple(sizes[axis] for axis in weight_layout),
        (first, second, draw(st.sampled_from((first, second)))),
        draw(st.booleans()), keywords,
        draw(st.tuples(*[st.sampled_from(MEMORY)] * 3)), draw(st.integers(0, 2**32 - 1)),
    )  # fmt: skip


def outcome(function):
    """The result, or the kind of error: every backend has the same."""
    try:
        return function(), None
    except (ValueError, TypeError) as error:
        return None, type(error)


def assert_same(actual, expected):
    """Equal in dtype, shape and value."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert np.all(actual == expected)


@given(calls(), st.sampled_from([b for b in BACKENDS if b != "numpy"]), st.sampled_from(ALGORITHMS),
       st.sampled_from((None, 1, 2, 3)), st.sampled_from((None, *MEMORY)))  # fmt: skip
def test_conv2d(call, backend, algorithm, num_threads, out_memory):
    x, w, bias = call.arrays()
    before = [None if a is None else a.tobytes() for a in (x, w, bias)]
    expected, error = outcome(lambda: conv2d(x, w, bias, backend="numpy", **call.keywords))
    out = None
    if expected is not None and out_memory not in (None, "read-only", "repeated"):
        rng = np.random.default_rng(call.seed)
        out = placed(np.full(expected.shape, 77).astype(expected.dtype), out_memory, rng)
    more = {"num_threads": num_threads, "algorithm": algorithm, "out": out}
    try:
        y, same = outcome(lambda: conv2d(x, w, bias, backend=backend, **more, **call.keywords))
    except BackendNotImplementedError:
        y = conv2d(x, w, bias, num_threads=num_threads, out=out, **call.keywords)
        same = None
    assert same is error
    if error is None:
        assert out is None or y is out
        assert_same(y, expected)
    assert before == [None if a is None else a.tobytes() for a in (x, w, bias)]


@given(calls(), st.sampled_from(EXACT))
def test_conv2d_object(call, algorithm):
    """A filter that was prepared once gives the bits of a call, twice."""
    x, w, bias = call.arrays()
    try:
        expected, error = outcome(lambda: conv2d(x, w, bias, algorithm=algorithm, **call.keywords))
    except BackendNotImplementedError:
        return
    if error is not None:
        with pytest.raises(error):
            Conv2d(w, bias, algorithm=algorithm, **call.keywords)(x)
        return
    conv = Conv2d(w, bias, algorithm=algorithm, **call.keywords)
    for _ in range(2):
        assert_same(conv(x), expected)


@given(calls(), st.sampled_from(["im2col", "im2win"]), st.sampled_from(["simd", "blas"]))
def test_transforms(call, kind, backend):
    x, _, _ = call.arrays()
    sizes = dict(zip(call.keywords["weight_layout"], call.w_shape, strict=True))
    names = ("stride", "padding", "dilation", "padding_mode", "layout")
    keywords = {name: call.keywords[name] for name in names}
    transform, kernel = getattr(simdconv, kind), (sizes["H"], sizes["W"])
    expected, error = outcome(lambda: transform(x, kernel, backend="numpy", **keywords))
    try:
        y, same = outcome(lambda: transform(x, kernel, backend=backend, **keywords))
    except BackendNotImplementedError:
        return
    assert same is error
    if error is None:
        assert_same(y, expected)
