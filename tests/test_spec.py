"""Bad arguments: an error that names the argument, what came and what is allowed."""

import math
import pickle

import numpy as np
import pytest

import simdconv
from simdconv import LayoutError, ShapeError, conv2d, im2col, im2win
from simdconv._spec import conv2d_spec, transform_spec

X = np.ones((2, 4, 6, 7), np.float32)
W = np.ones((6, 4, 3, 3), np.float32)
HUGE = 10**30


def refuse(kind, match, x=X, w=W, bias=None, **keywords):
    """The call raises, through each front door, and leaves `out` alone."""
    with pytest.raises(kind, match=match):
        conv2d(x, w, bias, **keywords)
    with pytest.raises(kind, match=match):
        simdconv.explain(x, w, bias, **keywords)


@pytest.mark.parametrize("name", ["stride", "dilation"])
@pytest.mark.parametrize("value", [0, -1, HUGE, 2**31, (1, 0), (-1, 1), (1,), (1, 1, 1), (), [2]])
def test_values_of_stride_and_dilation(name, value):
    refuse(ValueError, name, **{name: value})


@pytest.mark.parametrize("name", ["stride", "dilation"])
@pytest.mark.parametrize(
    "value",
    [True, 1.0, 1.5, math.nan, math.inf, "2", None, 1j, np.float32(1), np.bool_(True), (1, 1.0),
     (True, 1), {1: 1}, object(), b"1", np.array(1.0)],
)  # fmt: skip
def test_types_of_stride_and_dilation(name, value):
    refuse(TypeError, name, **{name: value})


@pytest.mark.parametrize(
    "value",
    [-1, HUGE, (1, -1), (1,), (1, 2, 3), ((1, 1), (1,)), ((1, 1), 1), (1, (1, 1)), "full", "SAME",
     ((1, 1), (1, -1)), ((1, 1), (1, 1), (1, 1)), ()],
)  # fmt: skip
def test_values_of_padding(value):
    refuse(ValueError, "padding", padding=value)


@pytest.mark.parametrize(
    "value", [True, 1.0, math.nan, None, (1, 1.5), ((1, 1), (1, 1.0)), ((True, 1), (1, 1)), {}]
)
def test_types_of_padding(value):
    refuse(TypeError, "padding", padding=value)


@pytest.mark.parametrize("value", [0, -2, 3, HUGE])
def test_values_of_groups(value):
    refuse(ValueError, "groups", groups=value)


@pytest.mark.parametrize("value", [True, 1.0, None, (1,), "1"])
def test_types_of_groups(value):
    refuse(TypeError, "groups", groups=value)


def test_groups_must_divide_both_channel_counts():
    refuse(ShapeError, "c_out=6", w=np.ones((6, 1, 3, 3), np.float32), groups=4)
    refuse(ShapeError, "c_in=4", w=np.ones((6, 1, 3, 3), np.float32), groups=3)


@pytest.mark.parametrize("name", ["padding_mode", "algorithm"])
def test_unknown_names(name):
    refuse(ValueError, f"{name}.*expected one of", **{name: "nonesuch"})
    refuse(TypeError, name, **{name: 1})
    refuse(TypeError, name, **{name: ["auto"]})
    refuse(TypeError, name, **{name: None})


@pytest.mark.parametrize("name", ["layout", "weight_layout"])
def test_unknown_layouts(name):
    refuse(LayoutError, f"{name}.*expected one of", **{name: "WHCN"})
    refuse(TypeError, name, **{name: 4})
    refuse(TypeError, name, **{name: ["NCHW"]})


@pytest.mark.parametrize("value", [0, -1, HUGE])
def test_values_of_num_threads(value):
    refuse(ValueError, "num_threads", num_threads=value)


@pytest.mark.parametrize("value", [True, 1.0, "1", (1,)])
def test_types_of_num_threads(value):
    refuse(TypeError, "num_threads", num_threads=value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(ValueError, "gelu"), (ValueError, ("clip", 1)), (ValueError, ("clip", 2, 1)),
     (ValueError, ("clip", math.nan, 1)), (TypeError, ("clip", "a", 1)), (TypeError, 3),
     (ValueError, ("leaky_relu",)), (ValueError, ("leaky_relu", math.inf)),
     (TypeError, ("leaky_relu", True)), (TypeError, ("leaky_relu", 1j)), (TypeError, ()),
     (ValueError, (1, 2)), (ValueError, ("clip", 10**400, 10**401))],
)  # fmt: skip
def test_activation(kind, value):
    refuse(kind, "activation", activation=value)


def test_activation_against_dtype():
    whole = X.astype(np.int8), W.astype(np.int8)
    refuse(TypeError, "leaky_relu", *whole, activation=("leaky_relu", 0.5))
    refuse(ValueError, "whole", *whole, activation=("clip", 0.5, 3))
    refuse(TypeError, "ordered", X.astype(complex), W, activation="relu")
    y = conv2d(*whole, activation=("clip", -math.inf, HUGE))
    assert y.dtype == np.int32


@pytest.mark.parametrize("shape", [(), (5,), (7,), (6, 1), (1, 6), (0,)])
def test_bias_shape(shape):
    refuse(ShapeError, "bias.*c_out", bias=np.ones(shape, np.float32))


@pytest.mark.parametrize("shape", [(), (4,), (6, 7), (1, 2, 4, 6, 7)])
def test_axes_of_x(shape):
    refuse(ShapeError, "x in layout NCHW", x=np.ones(shape, np.float32))


@pytest.mark.parametrize("shape", [(2, 4, 6, 7), (1, 4, 6, 7, 4), (4, 6, 7)])
def test_axes_of_x_in_blocks(shape):
    refuse(ShapeError, "CHWN8", x=np.ones(shape, np.float32), layout="CHWN8")


@pytest.mark.parametrize("shape", [(), (6, 4, 3), (1, 6, 4, 3, 3)])
def test_axes_of_w(shape):
    refuse(ShapeError, "w in weight_layout OIHW", w=np.ones(shape, np.float32))


def test_channels_must_fit():
    refuse(ShapeError, "c_in=4.*it has 3", w=np.ones((6, 3, 3, 3), np.float32))
    refuse(ShapeError, "c_in=7", layout="NHWC")


@pytest.mark.parametrize("shape", [(6, 4, 0, 3), (6, 4, 3, 0)])
def test_kernel_axis_of_zero(shape):
    refuse(ShapeError, "w needs h_f >= 1", w=np.ones(shape, np.float32))


def test_window_larger_than_the_padded_image():
    refuse(ShapeError, r"height: .*spans 11 .*h_f=3, dilation=5.*image's 6", dilation=5)
    refuse(ShapeError, r"width: .*spans 9 .*image's 8 \(w_in=7, padding=\(1, 0\)\)",
           dilation=(1, 4), padding=((0, 0), (1, 0)))  # fmt: skip
    refuse(ShapeError, "height", x=X[:, :, :0])
    refuse(ShapeError, "height", x=X[:0, :, :2])


def test_sizes_that_overflow():
    refuse(ShapeError, "elements", padding=2**31 - 1)
    big = np.lib.stride_tricks.as_strided(X, (2**40, 4, 6, 7), (0, 0, 0, 0))
    refuse(ShapeError, "elements", x=big, padding=2**15)
    wide = np.lib.stride_tricks.as_strided(W, (2**40, 4, 3, 3), (0, 0, 0, 0))
    refuse(ShapeError, "elements", w=wide, x=np.ones((2**10, 4, 99, 99), np.float32))
    with pytest.raises(ShapeError, match="elements"):
        im2col(X, 3, padding=2**30 - 1)
    with pytest.raises(ShapeError, match="elements"):
        im2win(X, (2**30, 1), padding=(2**30 - 1, 2**28))


def test_large_but_sound_arguments():
    y = conv2d(X, W, stride=2**31 - 1, padding=0)
    assert y.shape == (2, 6, 1, 1)
    assert np.all(y == 36)


@pytest.mark.parametrize("dtype", [bool, object, "U3", "S3", "M8[s]", "m8[s]", [("a", "f4")], "V4"])
def test_dtypes_that_are_refused(dtype):
    x = np.zeros(X.shape, dtype)
    for transform in (im2col, im2win):
        with pytest.raises(TypeError, match="x has dtype"):
            transform(x, 3)
    refuse(TypeError, "x has dtype", x=x)
    refuse(TypeError, "w has dtype", w=np.zeros(W.shape, dtype))
    refuse(TypeError, "bias has dtype", bias=np.zeros(6, dtype))


def test_uint64_is_refused():
    refuse(TypeError, "x is uint64", x=X.astype(np.uint64))
    refuse(TypeError, "bias is uint64", X.astype(int), W.astype(int), np.ones(6, np.uint64))


def test_no_common_dtype():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    refuse(TypeError, "no common dtype", x=X.astype(bfloat16), w=W.astype(np.float16))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", ["x", "w", "bias", "out"])
def test_sequences_masked_arrays_and_matrices_are_refused(name):
    arrays = {"x": X, "w": W, "bias": np.ones(6, np.float32), "out": None}
    for value, match in (
        ([1.0, 2.0], "numpy.asarray"), ("text", "numpy.asarray"), (3, "numpy.asarray"),
        (np.ma.masked_array([1.0]), "masked"), (np.matrix([[1.0]]), "matrix"),
    ):  # fmt: skip
        given = {**arrays, name: value}
        out = given.pop("out")
        with pytest.raises(TypeError, match=match):
            conv2d(*given.values(), out=out)


def test_unknown_keywords_and_missing_arrays():
    with pytest.raises(TypeError):
        conv2d(X, W, strides=2)
    with pytest.raises(TypeError):
        conv2d(X)
    with pytest.raises(TypeError):
        conv2d(X, W, None, 2)


def test_arguments_are_refused_after_equal_ones_were_cached():
    """True == 1 == 1.0 hash alike, and must not find each other's spec."""
    for value in (1, (1, 1), ((1, 1), (1, 1))):
        conv2d(X, W, padding=value)
    conv2d(X, W, stride=1, num_threads=1)
    refuse(TypeError, "padding", padding=1.0)
    refuse(TypeError, "padding", padding=(1, True))
    refuse(TypeError, "padding", padding=((1, 1), (1, 1.0)))
    refuse(TypeError, "stride", stride=True)
    refuse(TypeError, "num_threads", num_threads=1.0)


def test_numpy_integers_lists_and_arrays_are_taken():
    expected = conv2d(X, W, stride=2, padding=((1, 2), (0, 1)), groups=1)
    for pads in ([[1, 2], [0, 1]], np.array([[1, 2], [0, 1]]), ((np.int8(1), 2), [0, np.int64(1)])):
        y = conv2d(X, W, stride=np.uint8(2), padding=pads, groups=np.int16(1))
        assert np.array_equal(y, expected)


@pytest.mark.parametrize("size", [0, -1, HUGE, (3, 0), (3,), (1, 2, 3), ()])
@pytest.mark.parametrize("transform", [im2col, im2win])
def test_values_of_kernel_size(transform, size):
    with pytest.raises(ValueError, match="kernel_size"):
        transform(X, size)


@pytest.mark.parametrize("size", [3.0, True, None, "3", (3, 3.0)])
@pytest.mark.parametrize("transform", [im2col, im2win])
def test_types_of_kernel_size(transform, size):
    with pytest.raises(TypeError, match="kernel_size"):
        transform(X, size)


def test_spec_is_frozen_hashable_and_cached():
    spec = conv2d_spec(X, W, stride=2, padding="same")
    assert spec is conv2d_spec(X, W, stride=2, padding="same")
    assert hash(spec) == hash(pickle.loads(pickle.dumps(spec)))
    assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(AttributeError):
        spec.n = 3


def test_spec_properties():
    w = np.ones((6, 2, 3, 2), np.float32)
    spec = conv2d_spec(X, w, groups=2, stride=(1, 2), padding=(1, 2))
    assert (spec.n, spec.c_in, spec.h_in, spec.w_in) == (2, 4, 6, 7)
    assert (spec.c_out, spec.h_f, spec.w_f, spec.h_out, spec.w_out) == (6, 3, 2, 6, 5)
    assert (spec.c_in_g, spec.c_out_g, spec.k, spec.h_p, spec.w_p) == (2, 3, 12, 8, 11)
    assert spec.x_shape == X.shape
    assert spec.w_shape == (6, 2, 3, 2)
    assert spec.out_shape == (2, 6, 6, 5)
    assert spec.out_size == 360
    assert spec.flops == 2 * 360 * 12
    assert transform_spec("im2win", X, 3).out_shape == (2, 4, 4, 21)


def check_out(out, kind, match):
    before = np.array(out)
    with pytest.raises(kind, match=match):
        conv2d(X, W, out=out)
    assert np.array_equal(out, before, equal_nan=True)


def test_out_is_checked_and_left_untouched():
    good = np.full((2, 6, 4, 5), np.nan, np.float32)
    check_out(good[..., :4], ShapeError, "out must have the result's shape")
    check_out(good[0], ShapeError, "shape")
    check_out(good.astype(np.float64), TypeError, "out must have the result's dtype")
    check_out(good.astype(">f4"), TypeError, "native byte order")
    locked = good.copy()
    locked.flags.writeable = False
    check_out(locked, ValueError, "read-only")
    narrow = np.lib.stride_tricks.as_strided(good, good.shape, (0, 0, 20, 4))
    check_out(narrow, ValueError, "overlaps itself")


@pytest.mark.parametrize("name", ["x", "w", "bias"])
def test_out_must_not_overlap_an_input(name):
    memory = np.ones(4000, np.float32)
    arrays = {"x": X, "w": W, "bias": np.ones(6, np.float32)}
    arrays[name] = memory[100 : 100 + arrays[name].size].reshape(arrays[name].shape)
    out = memory[:240].reshape(2, 6, 4, 5)
    with pytest.raises(ValueError, match=f"out shares memory with {name}"):
        conv2d(**arrays, out=out)
    assert np.all(memory == 1)


def test_out_may_interleave_with_an_input():
    memory = np.ones((2, 6, 4, 5, 2), np.float32)
    x = np.ones((2, 4, 6, 7, 2), np.float32)
    both = np.concatenate([memory.ravel(), x.ravel()])
    pairs = both[: memory.size].reshape(memory.shape)
    y = conv2d(x[..., 0], W, out=pairs[..., 0])
    assert np.all(y == 36)
    assert np.all(pairs[..., 1] == 1)


def test_unknown_backend_names():
    refuse(LookupError, "unknown backend 'nonesuch'", backend="nonesuch")
    refuse(TypeError, "backend", backend=3)
    refuse(TypeError, "backend", backend=["numpy"])
