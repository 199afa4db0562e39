"""im2win and im2col against their index formulas, element by element, in all four layouts."""

import numpy as np
import pytest

import simdconv
from simdconv import im2col, im2win, to_layout

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
WINDOWS = [
    {"kernel_size": (3, 3)},
    {"kernel_size": (2, 3), "stride": (2, 1)},
    {"kernel_size": (3, 2), "stride": (1, 3), "padding": ((1, 0), (2, 1))},
    {"kernel_size": (2, 2), "dilation": (2, 3), "padding": 1, "padding_mode": "reflect"},
    {"kernel_size": (1, 1), "stride": 2},
    {"kernel_size": (3, 1), "dilation": (2, 1), "padding": (4, 0), "padding_mode": "wrap"},
]
N, C, H, W = 9, 3, 6, 7


def window_arguments(keywords):
    """Kernel, strides, dilations, pads and mode of one of WINDOWS, written out."""

    def pair(value):
        return value if isinstance(value, tuple) else (value, value)

    pads = keywords.get("padding", 0)
    if not (isinstance(pads, tuple) and isinstance(pads[0], tuple)):
        pads = tuple((p, p) for p in pair(pads))
    return (
        keywords["kernel_size"],
        pair(keywords.get("stride", 1)),
        pair(keywords.get("dilation", 1)),
        pads,
        keywords.get("padding_mode", "constant"),
    )


def at(array, layout, index, *rest):
    """One element of a result: the image's index goes where the layout has it."""
    if layout == "CHWN8":
        return array[(index // 8, *rest, index % 8)]
    return array[(*rest, index)] if layout == "CHWN" else array[(index, *rest)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keywords", WINDOWS)
def test_im2win_formula(backend, layout, keywords):
    x = np.arange(N * C * H * W, dtype=np.float32).reshape(N, C, H, W)
    (h_f, _), (s_h, _), (d_h, _), pads, mode = window_arguments(keywords)
    padded = np.pad(x, ((0, 0), (0, 0), *pads), mode=mode)
    h_out = (padded.shape[2] - d_h * (h_f - 1) - 1) // s_h + 1
    w_p = padded.shape[3]
    strips = im2win(to_layout(x, "NCHW", layout), **keywords, layout=layout, backend=backend)
    shapes = {
        "NCHW": (N, C, h_out, w_p * h_f),
        "NHWC": (N, h_out, w_p * h_f, C),
        "CHWN": (C, h_out, w_p * h_f, N),
        "CHWN8": (2, C, h_out, w_p * h_f, 8),
    }
    assert strips.shape == shapes[layout]
    assert strips.dtype == x.dtype
    for n, c, m, k, u in np.ndindex(N, C, h_out, w_p, h_f):
        place = (m, k * h_f + u, c) if layout == "NHWC" else (c, m, k * h_f + u)
        assert at(strips, layout, n, *place) == padded[n, c, m * s_h + u * d_h, k]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keywords", WINDOWS)
def test_im2col_formula(backend, layout, keywords):
    x = np.arange(N * C * H * W, dtype=np.float64).reshape(N, C, H, W)
    (h_f, w_f), (s_h, s_w), (d_h, d_w), pads, mode = window_arguments(keywords)
    padded = np.pad(x, ((0, 0), (0, 0), *pads), mode=mode)
    h_out = (padded.shape[2] - d_h * (h_f - 1) - 1) // s_h + 1
    w_out = (padded.shape[3] - d_w * (w_f - 1) - 1) // s_w + 1
    columns = im2col(to_layout(x, "NCHW", layout), **keywords, layout=layout, backend=backend)
    k, pixels = C * h_f * w_f, h_out * w_out
    shapes = {
        "NCHW": (N, k, pixels),
        "NHWC": (N, pixels, k),
        "CHWN": (k, pixels, N),
        "CHWN8": (2, k, pixels, 8),
    }
    assert columns.shape == shapes[layout]
    for n, c, u, v, i, j in np.ndindex(N, C, h_f, w_f, h_out, w_out):
        row, pixel = (c * h_f + u) * w_f + v, i * w_out + j
        place = (pixel, (u * w_f + v) * C + c) if layout == "NHWC" else (row, pixel)
        expected = padded[n, c, i * s_h + u * d_h, j * s_w + v * d_w]
        assert at(columns, layout, n, *place) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
def test_one_image_without_batch_axis(backend, layout):
    x = np.arange(60.0).reshape(1, 3, 4, 5)
    batch = to_layout(x, "NCHW", layout)
    axis = {"NCHW": 0, "NHWC": 0, "CHWN": -1}[layout]
    for transform in (im2col, im2win):
        one = transform(batch.squeeze(axis), 2, layout=layout, backend=backend)
        assert np.array_equal(one, transform(batch, 2, layout=layout).squeeze(axis))


@pytest.mark.parametrize("backend", BACKENDS)
def test_window_of_a_column_is_a_run(backend):
    x = np.arange(2 * 5 * 9.0).reshape(1, 2, 5, 9)
    h_f, w_f, s_w = 3, 4, 2
    strips = im2win(x, (h_f, w_f), stride=(1, s_w), backend=backend)
    for c, m, j in np.ndindex(2, 3, 3):
        run = strips[0, c, m, j * s_w * h_f : j * s_w * h_f + w_f * h_f]
        window = x[0, c, m : m + h_f, j * s_w : j * s_w + w_f]
        assert np.array_equal(run, window.T.ravel())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f2", "c16", ">f4"])
def test_dtype_is_kept(backend, dtype):
    x = np.arange(2 * 4 * 4).reshape(1, 2, 4, 4).astype(dtype)
    for transform in (im2col, im2win):
        stored = transform(x, 2, backend=backend)
        assert stored.dtype == np.dtype(dtype).newbyteorder("=")
        assert np.array_equal(stored, transform(x.real.astype("f8"), 2).astype(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transform", [im2col, im2win])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_of_any_strides(backend, transform, layout):
    x = to_layout(np.arange(9 * 2 * 4 * 5.0).reshape(9, 2, 4, 5), "NCHW", layout)
    expected = transform(x, 2, padding=1, layout=layout, backend="numpy")
    base = np.full(tuple(2 * size for size in expected.shape), np.nan)
    out = base[tuple(slice(None, None, 2) for _ in expected.shape)]
    assert transform(x, 2, padding=1, layout=layout, out=out, backend=backend) is out
    assert np.array_equal(out, expected)
    assert np.count_nonzero(np.isnan(base)) == base.size - out.size


def test_empty_batch_and_no_channels():
    assert im2col(np.ones((0, 2, 4, 4)), 3).shape == (0, 18, 4)
    assert im2col(np.ones((2, 0, 4, 4)), 3).shape == (2, 0, 4)
    assert im2win(np.ones((0, 4, 4, 2)), 3, layout="NHWC").shape == (0, 2, 12, 2)
