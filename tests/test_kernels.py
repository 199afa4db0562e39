"""Every kernel of the table, at the sizes where tiles, vectors and segments end.

Whole numbers and ==: the sums are exact, so any difference is a bug, not rounding. Results are
filled with NaN before, so an element that no kernel wrote is seen.
"""

import itertools
import os

import numpy as np
import pytest

import simdconv
from simdconv.testing import assert_conv_close

_core = pytest.importorskip("simdconv.backends.simd._core")
KERNELS = [k for k in simdconv.kernels() if k.backend == "simd"]
ISA = simdconv.backends.get("simd").isa
RUNNABLE = [k for k in KERNELS if k.isa == ISA]
DTYPES = {"f32": np.float32, "f64": np.float64}

# n, groups, c_in and c_out of a group, h_in, w_in, h_f, w_f, stride, padding, dilation
SHAPES = [
    (1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1),
    (1, 1, 3, 5, 4, 5, 3, 2, 1, 0, 1),
    (2, 1, 4, 16, 6, 15, 3, 3, 1, 1, 1),
    (3, 1, 5, 33, 5, 29, 2, 3, 1, 0, 1),
    (1, 1, 17, 31, 7, 18, 3, 3, 2, 1, 1),
    (2, 1, 2, 32, 9, 43, 3, 5, 3, 2, 1),
    (8, 1, 7, 15, 6, 14, 3, 3, 1, 2, 2),
    (9, 1, 3, 13, 5, 7, 1, 1, 1, 0, 1),
    (5, 1, 6, 65, 8, 9, 1, 1, 2, 0, 1),
    (16, 1, 2, 47, 4, 6, 2, 2, 2, 1, 1),
    (17, 2, 3, 7, 5, 8, 3, 3, 1, 1, 1),
    (33, 3, 1, 2, 6, 5, 3, 2, 2, 1, 1),
    (2, 4, 4, 4, 7, 17, 3, 3, 1, 1, 1),
    (1, 8, 1, 1, 9, 31, 3, 3, 1, 1, 1),
    (1, 19, 1, 1, 12, 40, 5, 5, 2, 2, 1),
    (2, 35, 1, 1, 7, 7, 7, 7, 1, 3, 1),
    (1, 6, 3, 5, 10, 18, 3, 3, 2, 1, 1),
    (2, 9, 2, 2, 6, 11, 3, 3, 1, 1, 1),
    (1, 5, 8, 8, 7, 10, 3, 3, 2, 1, 1),
    (2, 1, 9, 29, 7, 7, 3, 3, 1, 1, 1),
    (3, 1, 33, 17, 3, 6, 1, 1, 1, 0, 1),
    (1, 2, 5, 15, 1, 19, 1, 1, 1, 0, 1),
    (2, 1, 3, 5, 14, 14, 3, 3, 1, 1, 1),
    (1, 1, 1, 1, 25, 256, 15, 4, 1, 0, 1),
    (4, 1, 9, 20, 3, 3, 3, 3, 1, 0, 1),
    (2, 1, 3, 6, 12, 100, 5, 7, 1, 3, 1),
    (1, 1, 2, 3, 30, 6, 4, 3, 1, 0, 5),
    (2, 1, 3, 29, 6, 58, 3, 3, 1, 0, 1),
    (1, 2, 4, 17, 7, 56, 3, 3, 1, 1, 1),
    (1, 1, 3, 14, 9, 80, 5, 5, 2, 2, 1),
    (1, 1, 2, 33, 9, 147, 3, 5, 2, 0, 1),
    (2, 1, 6, 19, 9, 100, 3, 3, 2, 0, 1),
    (1, 2, 3, 17, 13, 40, 3, 3, 1, 0, 3),
    (2, 1, 4, 18, 12, 9, 5, 1, 1, 0, 1),
    (1, 1, 1024, 17, 4, 5, 1, 1, 1, 0, 1),
    (1, 1, 512, 15, 5, 17, 1, 1, 2, 0, 1),
    (1, 1, 5, 17, 4, 6, 1, 1, 2, 1, 1),
    (1, 3, 4, 3, 9, 56, 3, 3, 1, 1, 1),
    (2, 4, 2, 4, 11, 23, 5, 5, 2, 2, 1),
    (1, 7, 1, 2, 10, 4, 3, 3, 1, 1, 1),
    (1, 4, 1, 4, 9, 42, 3, 3, 1, 0, 1),
    (2, 2, 3, 3, 19, 9, 3, 3, 1, 1, 3),
    (1, 1, 70, 40, 6, 30, 1, 1, 1, 0, 1),
]


def made(shape, dtype, layout, seed=0):
    """x in its layout, w, bias and the keywords of a call: whole numbers."""
    n, groups, c_in, c_out, h, w, h_f, w_f, stride, padding, dilation = shape
    rng = np.random.default_rng(seed)
    if dilation * (h_f - 1) + 1 > h + 2 * padding:
        h = dilation * (h_f - 1) + 1
    if dilation * (w_f - 1) + 1 > w + 2 * padding:
        w = dilation * (w_f - 1) + 1
    x = rng.integers(-8, 9, (n, groups * c_in, h, w)).astype(dtype)
    weight = rng.integers(-8, 9, (groups * c_out, c_in, h_f, w_f)).astype(dtype)
    bias = rng.integers(-8, 9, groups * c_out).astype(dtype)
    keywords = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "layout": layout,
    }
    return simdconv.to_layout(x, "NCHW", layout), weight, bias, keywords


def test_the_table_is_complete():
    ids = [k.id for k in KERNELS]
    assert len(ids) == len(set(ids))
    algorithms = ("direct", "im2win", "im2col", "implicit")
    layouts = ("nchw", "nhwc", "chwn", "chwn8")
    for parts in itertools.product(algorithms, layouts, _core.isas_built(), DTYPES):
        assert "-".join(parts) in ids
    assert {k.isa for k in KERNELS if k.available} <= set(_core.isas_found())
    assert len(RUNNABLE) == 32


def test_the_isa_is_the_one_that_was_forced():
    forced = os.environ.get("SIMDCONV_ISA")
    if not forced:
        assert _core.isas_found()[-1] == ISA
    elif forced in _core.isas_found():
        assert forced == ISA


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_whole_numbers(kernel, shape):
    x, w, bias, keywords = made(shape, DTYPES[kernel.dtype], kernel.layout)
    expected = simdconv.conv2d(x, w, bias, backend="numpy", **keywords)
    for threads in (1, 2, 3):
        out = np.full(expected.shape, np.nan, expected.dtype)
        simdconv.conv2d(
            x, w, bias, backend="simd", algorithm=kernel.algorithm, num_threads=threads, out=out,
            **keywords,
        )  # fmt: skip
        assert np.array_equal(out, expected)
    prepared = simdconv.Conv2d(w, bias, backend="simd", algorithm=kernel.algorithm, **keywords)
    assert np.array_equal(prepared(x), expected)


@pytest.mark.parametrize(
    "width", [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 56, 95, 97]
)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_every_width_of_rows_and_filters(kernel, width):
    """One size at a time goes through V-1, V, V+1, 2V and their like."""
    dtype = DTYPES[kernel.dtype]
    for shape in (
        (1, 1, 2, 3, 3, width + 2, 3, 3, 1, 0, 1),
        (2, 1, 3, width, 4, 5, 2, 2, 1, 1, 1),
        (width, 1, 2, 3, 3, 4, 2, 2, 2, 0, 1),
        (1, 1, width, 3, 3, 5, 3, 3, 1, 1, 1),
    ):
        x, w, _, keywords = made(shape, dtype, kernel.layout, seed=width)
        expected = simdconv.conv2d(x, w, backend="numpy", **keywords)
        y = simdconv.conv2d(x, w, backend="simd", algorithm=kernel.algorithm, **keywords)
        assert np.array_equal(y, expected)


@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_rounding_stays_within_the_bound(kernel):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((8, 40, 12, 13)).astype(DTYPES[kernel.dtype])
    w = rng.standard_normal((37, 40, 3, 3)).astype(DTYPES[kernel.dtype])
    images = simdconv.to_layout(x, "NCHW", kernel.layout)
    y = simdconv.conv2d(
        images, w, padding=1, layout=kernel.layout, algorithm=kernel.algorithm, backend="simd"
    )
    assert_conv_close(y, images, w, padding=1, layout=kernel.layout)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_padding_wider_than_the_image(kernel, mode):
    shape = (2, 1, 3, 5, 4, 5, 3, 3, 1, 0, 1)
    x, w, bias, keywords = made(shape, DTYPES[kernel.dtype], kernel.layout)
    keywords |= {"padding": ((9, 2), (3, 14)), "padding_mode": mode, "stride": (2, 1)}
    expected = simdconv.conv2d(x, w, bias, backend="numpy", **keywords)
    y = simdconv.conv2d(x, w, bias, backend="simd", algorithm=kernel.algorithm, **keywords)
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "wrap"])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_wide_rows_of_few_filters(kernel, mode):
    """Rows in several segments, with padding before and behind them: what a row ends in is not what
    the next one starts with. Twice, as what a call leaves in its workspace is not cleared."""
    n, width = {"CHWN8": (8, 900)}.get(kernel.layout, (1, 7011))
    x, w, bias, keywords = made(
        (n, 2, 2, 3, 5, width, 3, 5, 1, 0, 1), DTYPES[kernel.dtype], kernel.layout
    )
    for stride in ((1, 1), (2, 2)):
        keywords |= {"padding": ((1, 2), (4, 3)), "padding_mode": mode, "stride": stride}
        expected = simdconv.conv2d(x, w, bias, backend="blas", **keywords)
        call = keywords | {"backend": "simd", "algorithm": kernel.algorithm}
        simdconv.conv2d(np.full_like(x, np.nan), w, bias, **call)
        assert np.array_equal(simdconv.conv2d(x, w, bias, **call), expected), stride


@pytest.mark.parametrize("channels", [(512, 128), (128, 512), (64, 37)])
def test_pointwise_is_one_row_to_the_cost_model(channels):
    """Rows of 1x1 that follow one another are one: their length does not decide."""
    c_in, c_out = channels
    w = np.ones((c_out, c_in, 1, 1), np.float32)
    plans = [
        simdconv.explain(np.ones((1, c_in, *size), np.float32), w, backend="simd").candidates
        for size in ((28, 28), (1, 784), (14, 56), (112, 7))
    ]
    assert all(plan == plans[0] for plan in plans)


@pytest.mark.parametrize("channels", [8, 64, 100, 1024])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_reversed_images(kernel, channels):
    """Pixels and rows at negative distances, whatever they come to in bytes."""
    width = {"NCHW": 3, "NHWC": 2, "CHWN": 2, "CHWN8": 3}[kernel.layout]
    n = 8 if kernel.layout == "CHWN8" else 1
    for stride, padding in ((1, 0), (2, 0), (1, 1)):
        shape = (n, 1, channels, 18, 4, 31, 3, 3, stride, padding, 1)
        x, w, bias, keywords = made(shape, DTYPES[kernel.dtype], kernel.layout)
        for axes in ((width,), (width - 1,), (width - 1, width)):
            image = np.flip(x, axes)
            expected = simdconv.conv2d(image.copy(), w, bias, backend="blas", **keywords)
            y = simdconv.conv2d(
                image, w, bias, backend="simd", algorithm=kernel.algorithm, **keywords
            )
            assert np.array_equal(y, expected)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_infinite_weights_meet_padding_zeros(kernel, size):
    """0 * Inf is NaN: rows of padding may be left out only where the filter is finite."""
    shape = (2, 1, 3, 5, 6, 7, size, size, 1, 1, 1)
    x, w, _, keywords = made(shape, DTYPES[kernel.dtype], kernel.layout)
    w[3, 1, 0, -1] = np.inf
    expected = simdconv.conv2d(x, w, backend="numpy", **keywords)
    y = simdconv.conv2d(x, w, backend="simd", algorithm=kernel.algorithm, **keywords)
    assert np.isnan(expected).any()
    assert np.array_equal(y, expected, equal_nan=True)


# Results that go past the caches (more than 8 MiB): rows of odd length, which are no whole lines;
# rows that fill vectors where they lie, or padded; rows of whole lines; in CHWN numbers of images
# that are no whole vectors
STREAMED = {
    "stride_1": (8, 1, 2, 45, 67, 131, 3, 3, 1, 0, 1),
    "stride_2": (33, 1, 2, 19, 95, 145, 3, 2, 2, 1, 1),
    "whole_vectors": (3, 1, 1, 33, 103, 223, 2, 2, 1, 0, 1),
    "padded": (3, 1, 2, 30, 110, 221, 3, 3, 1, 1, 1),
    "whole_lines": (8, 1, 2, 45, 67, 130, 3, 3, 1, 0, 1),
    "padded_whole_lines": (8, 1, 1, 36, 66, 128, 3, 3, 1, 1, 1),
}


@pytest.mark.parametrize("shape", STREAMED.values(), ids=STREAMED)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_results_that_no_cache_holds(kernel, shape):
    if kernel.layout == "CHWN8":
        shape = (-(-shape[0] // 8) * 8, *shape[1:])
    dtype = DTYPES[kernel.id[-3:]]
    x, w, bias, keywords = made(shape, dtype, kernel.layout)
    keywords |= {"activation": "relu"}
    expected = simdconv.conv2d(x, w, bias, backend="blas", **keywords)
    assert expected.nbytes > 8 << 20
    line = 64 // expected.itemsize
    room = np.empty(expected.size + 3 * line, dtype)
    start = -room.ctypes.data % 64 // expected.itemsize + line
    for threads, off in ((1, 0), (2, 0), (1, 1), (2, line - 4)):  # elements past a line
        room.fill(np.nan)
        out = room[start + off :][: expected.size].reshape(expected.shape)
        simdconv.conv2d(
            x, w, bias, backend="simd", algorithm=kernel.algorithm, num_threads=threads, out=out,
            **keywords,
        )  # fmt: skip
        assert np.array_equal(out, expected), (threads, off)
        out.fill(np.nan)
        assert np.isnan(room).all(), (threads, off)


@pytest.mark.parametrize("mode", ["constant", "reflect"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_filters_that_outgrow_l2(kernel, dilation, mode):
    """Several groups of filter blocks, and padded rows that are staged once for each."""
    shape = (8 if kernel.layout == "CHWN8" else 2, 1, 420, 150, 6, 7, 3, 3, 1, 2, dilation)
    x, w, bias, keywords = made(shape, DTYPES[kernel.id[-3:]], kernel.layout)
    keywords |= {"padding_mode": mode}
    for weight in (w, np.where(w == 8, x.dtype.type(np.inf), w)):
        with np.errstate(invalid="ignore"):
            expected = simdconv.conv2d(x, weight, bias, backend="blas", **keywords)
        result = simdconv.conv2d(
            x, weight, bias, backend="simd", algorithm=kernel.algorithm, num_threads=1, **keywords
        )
        assert np.array_equal(result, expected, equal_nan=True)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda k: k.id)
def test_workspace_is_what_the_allocator_hands_out(kernel, prepared):
    x, w, bias, keywords = made(
        (8, 1, 9, 20, 20, 21, 3, 3, 1, 1, 1), DTYPES[kernel.dtype], kernel.layout
    )
    keywords |= {"backend": "simd", "algorithm": kernel.algorithm, "num_threads": 1}
    simdconv.conv2d(x, w, bias, **keywords)
    assert simdconv.explain(x, w, bias, **keywords).workspace_bytes == _core.last_allocation()
    if prepared:
        whole = _core.last_allocation()
        simdconv.Conv2d(w, bias, **keywords)(x)
        assert _core.last_allocation() <= whole


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN", "CHWN8"])
@pytest.mark.parametrize("kind", ["im2col", "im2win"])
def test_stored_transforms(kind, layout):
    for code in ("u1", "i2", "f4", "f8", "c16"):
        x, _, _, _ = made((9, 1, 3, 1, 7, 11, 3, 2, 2, 1, 2), np.float64, layout)
        x = x.astype(code)
        transform = getattr(simdconv, kind)
        keywords = {
            "stride": (2, 1),
            "padding": ((1, 2), (0, 3)),
            "dilation": (2, 3),
            "layout": layout,
        }
        expected = transform(x, (3, 2), backend="numpy", **keywords)
        for threads in (1, 2):
            y = transform(x, (3, 2), backend="simd", num_threads=threads, **keywords)
            assert np.array_equal(y, expected)
