"""What conv2d promises, on every backend that can be loaded."""

import warnings

import numpy as np
import pytest

import simdconv
from simdconv import BackendNotImplementedError, conv2d, to_layout
from simdconv.testing import PROBLEMS, assert_conv_close, can_run, check_backend, make_arrays

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
FAST = [name for name in BACKENDS if name != "numpy"]
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
ALGORITHMS = ("auto", "direct", "im2col", "im2win", "implicit")
MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
RNG = np.random.default_rng(11)
X = RNG.integers(-4, 5, (3, 4, 6, 7)).astype(np.float32)
W = RNG.integers(-4, 5, (6, 4, 3, 2)).astype(np.float32)
BIAS = RNG.integers(-4, 5, 6).astype(np.float32)

each_backend = pytest.mark.parametrize("backend", BACKENDS)


def taking(*dtypes):
    """Backends that convolve arrays of this dtype, or of these two."""
    arrays = np.zeros((1, 1, 1, 1), dtypes[0]), np.zeros((1, 1, 1, 1), dtypes[-1])
    return [name for name in BACKENDS if can_run(name, *arrays)]


each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def run(x, w, bias=None, *, layout="NCHW", **keywords):
    """conv2d of an NCHW image through another layout."""
    y = conv2d(to_layout(x, "NCHW", layout), w, bias, layout=layout, **keywords)
    return to_layout(y, layout, "NCHW", n=x.shape[0])


def valid(x, w, bias=None, stride=(1, 1), dilation=(1, 1)):
    """Plain convolution of a padded image, exact for whole numbers."""
    span = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, span, axis=(2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    y = np.einsum("nchwuv,ocuv->nohw", windows.astype(np.complex128), w.astype(np.complex128))
    return y if bias is None else y + bias[:, None, None]


@each_backend
@each_layout
@pytest.mark.parametrize("mode", MODES)
def test_padding_is_np_pad_at_any_width(backend, layout, mode):
    for pads in (((1, 1), (1, 1)), ((2, 0), (0, 3)), ((13, 9), (17, 20)), ((0, 0), (1, 0))):
        padded = np.pad(X, ((0, 0), (0, 0), *pads), mode=mode)
        for stride, dilation in (((1, 1), (1, 1)), ((2, 3), (1, 2))):
            y = run(X, W, BIAS, layout=layout, backend=backend, padding=pads, padding_mode=mode,
                    stride=stride, dilation=dilation)  # fmt: skip
            assert np.array_equal(y, valid(padded, W, BIAS, stride, dilation))


@each_backend
@pytest.mark.parametrize("mode", MODES)
def test_padding_an_image_of_one_pixel(backend, mode):
    x = np.full((1, 1, 1, 1), 3.0)
    y = run(x, np.ones((1, 1, 3, 3)), backend=backend, padding=((1, 2), (4, 1)), padding_mode=mode)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (4, 1)), mode=mode)
    assert np.array_equal(y, valid(padded, np.ones((1, 1, 3, 3))))


@pytest.mark.parametrize(
    ("alias", "name"), [("zeros", "constant"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_aliases_of_padding_modes(alias, name):
    expected = conv2d(X, W, padding=2, padding_mode=name)
    assert np.array_equal(conv2d(X, W, padding=2, padding_mode=alias), expected)


@each_backend
@pytest.mark.parametrize("mode", MODES)
def test_padding_weights_that_are_not_finite(backend, mode):
    w = np.array([[[[np.nan, 1.0], [np.inf, 1.0]]]])
    x = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    expected = run(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode), w, backend="numpy")
    y = run(x, w, backend=backend, padding=1, padding_mode=mode)
    assert np.array_equal(y, expected, equal_nan=True)


@each_backend
@each_layout
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("name", ["same", "same_lower"])
def test_same(backend, layout, stride, dilation, name):
    y = run(X, W, layout=layout, backend=backend, stride=stride, dilation=dilation, padding=name)
    pads = []
    for size, k in zip(X.shape[2:], W.shape[2:], strict=True):
        out = -(-size // stride)
        total = max((out - 1) * stride + dilation * (k - 1) + 1 - size, 0)
        odd = (total // 2, total - total // 2)
        pads.append(odd if name == "same" else odd[::-1])
    padded = np.pad(X, ((0, 0), (0, 0), *pads))
    assert y.shape == (3, 6, -(-6 // stride), -(-7 // stride))
    assert np.array_equal(y, valid(padded, W, None, (stride, stride), (dilation, dilation)))


@each_backend
def test_valid_and_pairs(backend):
    expected = run(X, W, backend=backend)
    assert np.array_equal(run(X, W, backend=backend, padding="valid"), expected)
    pairs = run(X, W, backend=backend, padding=((2, 2), (1, 1)))
    assert np.array_equal(run(X, W, backend=backend, padding=(2, 1)), pairs)


@each_backend
@each_layout
def test_groups_are_separate_convolutions(backend, layout):
    for groups in (2, 4):
        w = RNG.integers(-4, 5, (8, 4 // groups, 3, 3)).astype(np.float64)
        y = run(X.astype(float), w, layout=layout, backend=backend, groups=groups)
        c_in, c_out = 4 // groups, 8 // groups
        for g in range(groups):
            part = X[:, g * c_in : (g + 1) * c_in], w[g * c_out : (g + 1) * c_out]
            assert np.array_equal(y[:, g * c_out : (g + 1) * c_out], valid(*part))


@each_backend
@each_layout
@pytest.mark.parametrize("weight_layout", ["OIHW", "HWIO", "OHWI", "IHWO"])
def test_weight_layouts(backend, layout, weight_layout):
    w = to_layout(W, "OIHW", weight_layout)
    y = run(X, w, BIAS, layout=layout, weight_layout=weight_layout, backend=backend)
    assert np.array_equal(y, valid(X, W, BIAS))


@each_backend
@pytest.mark.parametrize(
    ("activation", "function"),
    [("relu", lambda y: np.maximum(y, 0)), (("relu",), lambda y: np.maximum(y, 0)),
     ("relu6", lambda y: np.clip(y, 0, 6)), (("clip", -5, 9), lambda y: np.clip(y, -5, 9)),
     (("clip", -np.inf, 2.5), lambda y: np.minimum(y, 2.5)),
     (("leaky_relu", 0.25), lambda y: np.where(y < 0, y * 0.25, y)),
     (["leaky_relu", 2], lambda y: np.where(y < 0, y * 2, y))],
)  # fmt: skip
def test_activations_come_after_the_bias_and_pass_nan(backend, activation, function):
    x = X.copy()
    x[1, 2, 3, 4] = np.nan
    y = run(x, W, BIAS, backend=backend, activation=activation)
    plain = run(x, W, BIAS, backend=backend)
    assert np.isnan(plain).any()
    assert np.array_equal(y, function(plain), equal_nan=True)


@pytest.mark.parametrize("backend", taking("i1"))
def test_activation_of_integers(backend):
    x, w = X.astype(np.int8), W.astype(np.int8)
    y = run(x, w, backend=backend, activation=("clip", -10, 20))
    assert np.array_equal(y, np.clip(valid(X, W).real, -10, 20))
    assert y.dtype == np.int32


@each_layout
@pytest.mark.parametrize(
    ("backend", "algorithm"),
    [(name, algorithm) for name in BACKENDS for algorithm in ALGORITHMS
     if can_run(name, X, W[:, :, :1, :1], algorithm=algorithm)],
)  # fmt: skip
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_window(backend, layout, algorithm, bad):
    x, w = X.copy(), np.ones((6, 4, 3, 2), np.float32)
    x[1, 2, 3, 4] = bad
    if algorithm == "direct" and backend == "blas":
        w = w[:, :, :1, :1].copy()
    y = run(x, w, layout=layout, backend=backend, algorithm=algorithm)
    touched = np.zeros(y.shape, bool)
    h_f, w_f = w.shape[2:]
    touched[1, :, max(0, 4 - h_f) : 4, max(0, 5 - w_f) : 5] = True
    assert np.array_equal(~np.isfinite(y), touched)


DTYPES = {
    "f2 f2": "f2", "f4 f4": "f4", "f8 f8": "f8", "f4 f8": "f8", "f2 f4": "f4", "c8 c8": "c8",
    "c16 c16": "c16", "f4 c8": "c8", "f8 c8": "c16", "i1 i1": "i4", "u1 i1": "i4", "u1 u1": "i4",
    "i1 i2": "i8", "u2 u2": "i8", "i4 u4": "i8", "i8 i8": "i8", "i1 f4": "f4", "i2 f2": "f4",
    "i4 f4": "f8", "g g": "g", "f4 g": "g", "G G": "G",
}  # fmt: skip


@pytest.mark.parametrize(
    ("backend", "pair"),
    [(name, pair) for pair in DTYPES for name in taking(*pair.split())],
)  # fmt: skip
def test_dtypes(backend, pair):
    x_dtype, w_dtype = map(np.dtype, pair.split())
    x, w = np.abs(X).astype(x_dtype), np.abs(W).astype(w_dtype)
    for layout in LAYOUTS:
        y = run(x, w, layout=layout, backend=backend)
        assert y.dtype == np.dtype(DTYPES[pair])
        assert np.array_equal(y, valid(np.abs(X), np.abs(W)))
        with_bias = run(x, w, np.arange(6).astype(w_dtype), layout=layout, backend=backend)
        assert np.array_equal(with_bias, valid(np.abs(X), np.abs(W), np.arange(6)))


@each_backend
def test_bias_takes_part_in_promotion(backend):
    bias = BIAS.astype(np.float64) + 2.0**-40
    y = run(X, W, bias, backend=backend)
    assert y.dtype == np.float64
    assert np.array_equal(y, valid(X, W, bias))


@pytest.mark.parametrize("backend", taking("i1"))
def test_bias_takes_part_in_promotion_of_integers(backend):
    whole = run(X.astype(np.int8), W.astype(np.int8), BIAS.astype(np.int32), backend=backend)
    assert whole.dtype == np.int64


@pytest.mark.parametrize("backend", taking("c16"))
def test_complex_is_not_conjugated(backend):
    x = np.full((1, 1, 1, 1), 2 + 3j)
    assert run(x, np.full((1, 1, 1, 1), 5 + 7j), backend=backend).item() == (2 + 3j) * (5 + 7j)


@pytest.mark.parametrize("backend", taking("f2"))
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_sums_in_float32_and_rounds_once(backend, kind):
    dtype = np.float16 if kind == "float16" else pytest.importorskip("ml_dtypes").bfloat16
    x = np.ones((1, 4096, 1, 1), dtype)  # sums in half precision would stop at 2048, or at 256
    y = run(x, x, np.array([1], dtype), backend=backend)
    assert y.dtype == dtype
    assert y.item() == 4096
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 9, 8, 8), (5, 9, 3, 3)))
    y = run(x, w, backend=backend)
    single = run(x.astype(np.float32), w.astype(np.float32), backend="numpy")
    ulp = np.abs(single).astype(dtype).astype(np.float32) * 2.0**-7 + 1e-6
    assert np.all(np.abs(y.astype(np.float32) - single) <= ulp)
    assert_conv_close(y, x, w, random=True)


@each_backend
@each_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_batch_or_threads(backend, layout, dtype):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((9, 5, 9, 11)).astype(dtype)
    w = rng.standard_normal((7, 5, 3, 3)).astype(dtype)
    for padding in (0, 2):
        y = run(x, w, layout=layout, backend=backend, padding=padding)
        for index in (0, 3, 8):
            one = run(x[index : index + 1], w, layout=layout, backend=backend, padding=padding)
            assert np.array_equal(one[0], y[index])
        for count in (1, 2, 3):
            again = run(x, w, layout=layout, backend=backend, padding=padding, num_threads=count)
            assert np.array_equal(again, y)


@each_backend
def test_no_warning_escapes(backend):
    x = np.array([np.inf, -np.inf, 3e38, np.nan], np.float32).reshape(1, 1, 2, 2)
    w = np.array([0, 3e38, -3e38, 1], np.float32).reshape(1, 1, 2, 2)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert np.isnan(run(x, w, backend=backend, activation="relu6")).all()
        if backend != "simd":
            wide = np.full((1, 1, 2, 2), 6e4, np.float16)
            assert np.isinf(run(wide, wide, backend=backend)).all()
            assert run(wide.astype(complex), w, backend=backend).shape == (1, 1, 1, 1)


@each_backend
def test_whole_catalogue_of_small_problems(backend):
    sets = ("tiny",) if backend == "numpy" else ("tiny", "awkward")
    ran, _ = check_backend(backend, sets=sets, dtypes=(np.float32,))
    assert ran > 0


@pytest.mark.parametrize("backend", FAST)
@each_layout
def test_rounding_stays_within_the_bound(backend, layout):
    for problem in PROBLEMS["awkward"][::7]:
        for dtype in (np.float32, np.float64):
            x, w, bias = make_arrays(problem, dtype, layout=layout, whole=False)
            keywords = {**problem.keywords, "layout": layout}
            for algorithm in ALGORITHMS:
                try:
                    y = conv2d(x, w, bias, backend=backend, algorithm=algorithm, **keywords)
                except BackendNotImplementedError:
                    continue
                assert_conv_close(y, x, w, bias, n=problem.n, random=True, **keywords)


@each_backend
def test_module_gives_the_same_bits(backend):
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 9, 8), (6, 4, 3, 3)))
    keywords = {"padding": "same", "stride": 2, "activation": "relu", "backend": backend}
    weight = w.copy()
    conv = simdconv.Conv2d(weight, BIAS, **keywords)
    weight[...] = np.nan
    for image in (x, x[:1], x[0], np.pad(x, 3)[:, 3:7], x.astype(np.float64)):
        expected = conv2d(image, w, BIAS, **keywords)
        for _ in range(2):
            assert np.array_equal(conv(image), expected)
        out = np.full_like(expected, np.nan)
        assert conv(image, out) is out
        assert np.array_equal(out, expected)
