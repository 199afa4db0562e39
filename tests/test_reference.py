"""Hand-computed results, through every backend and algorithm that can be loaded."""

import numpy as np
import pytest

import simdconv
from simdconv import conv2d, im2col, im2win
from simdconv.testing import can_run

ALGORITHMS = ("auto", "fastest", "direct", "im2col", "im2win", "implicit")
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
BACKENDS = [info.name for info in simdconv.list_backends() if info.available]

PATHS = [
    (name, algorithm) for name in BACKENDS for algorithm in ALGORITHMS
    if can_run(name, np.zeros((1, 1, 4, 4)), np.zeros((1, 1, 3, 3)), algorithm=algorithm)
]  # fmt: skip

IMAGE = [[1, 2, 0, 1], [3, 1, 2, 0], [0, 1, 3, 2], [2, 0, 1, 3]]
KERNEL = [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def run(x, w, layout, algorithm, backend, **keywords):
    """conv2d of an NCHW image in another layout; the result in NCHW."""
    y = conv2d(
        simdconv.to_layout(x, "NCHW", layout), w, layout=layout, algorithm=algorithm,
        backend=backend, **keywords,
    )  # fmt: skip
    return simdconv.to_layout(y, layout, "NCHW", n=x.shape[0])


@pytest.mark.parametrize(("backend", "algorithm"), PATHS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_four_by_four(backend, algorithm, layout, dtype):
    x = np.array(IMAGE, dtype)[None, None]
    w = np.array(KERNEL, dtype)[None, None]
    y = run(x, w, layout, algorithm, backend)
    assert y.dtype == dtype
    assert np.array_equal(y, [[[[5, 8], [9, 7]]]])


@pytest.mark.parametrize(("backend", "algorithm"), PATHS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_channels(backend, algorithm, layout):
    x = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32)[None]
    w = np.array([[[1, 0], [0, 1]], [[1, 1], [1, 1]]], np.float32)[None]
    assert run(x, w, layout, algorithm, backend).tolist() == [[[[31.0]]]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_correlation_is_not_flipped(backend, layout):
    x = np.arange(1.0, 7.0).reshape(1, 1, 2, 3)
    w = np.array([[[[1.0, 10.0]]]])
    expected = [[[[21.0, 32.0], [54.0, 65.0]]]]
    assert run(x, w, layout, "auto", backend).tolist() == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_stride_padding_bias_activation(backend):
    x = np.arange(9.0).reshape(1, 3, 3)
    w = np.ones((1, 1, 2, 2))
    y = conv2d(x, w, np.array([-6.0]), stride=2, padding=((1, 0), (0, 1)), activation="relu",
               backend=backend)  # fmt: skip
    # padded rows: 0 0 0 0 | 0 1 2 0 | 3 4 5 0 | 6 7 8 0; sums 1, 2, 20, 13
    assert y.tolist() == [[[0.0, 0.0], [14.0, 7.0]]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_groups(backend):
    x = np.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 4, 1, 1)
    w = np.array([[1.0, 10.0], [100.0, 1000.0]]).reshape(2, 2, 1, 1)
    assert conv2d(x, w, groups=2, backend=backend).ravel().tolist() == [21.0, 4300.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_dilation(backend):
    x = np.arange(25.0).reshape(1, 5, 5)
    w = np.array([[[[1.0, 0.0], [0.0, 1.0]]]])
    y = conv2d(x, w, dilation=(2, 3), backend=backend)
    # x[i, j] + x[i+2, j+3]
    assert y.tolist() == [[[13.0, 15.0], [23.0, 25.0], [33.0, 35.0]]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_im2col_has_36_elements(backend, layout):
    x = simdconv.to_layout(np.array(IMAGE, np.float32)[None, None], "NCHW", layout)
    columns = im2col(x, 3, layout=layout, backend=backend)
    assert columns.size == (36 * 8 if layout == "CHWN8" else 36)


@pytest.mark.parametrize("backend", BACKENDS)
def test_im2col_rows_are_windows(backend):
    x = np.array(IMAGE)[None]
    columns = im2col(x, 3, backend=backend)
    assert columns[:, 0].tolist() == [1, 2, 0, 3, 1, 2, 0, 1, 3]
    assert columns[:, 3].tolist() == [1, 2, 0, 1, 3, 2, 0, 1, 3]
    nhwc = im2col(x.transpose(1, 2, 0), 3, layout="NHWC", backend=backend)
    assert np.array_equal(nhwc, columns.T)


@pytest.mark.parametrize("backend", BACKENDS)
def test_im2win_by_hand(backend):
    x = np.arange(9).reshape(1, 3, 3)
    strips = im2win(x, 2, backend=backend)
    assert strips.tolist() == [[[0, 3, 1, 4, 2, 5], [3, 6, 4, 7, 5, 8]]]


def test_images_without_batch_axis_come_out_without():
    x = np.array(IMAGE, np.float32)
    w = np.array(KERNEL, np.float32)[None, None]
    for layout, image in (("NCHW", x[None]), ("NHWC", x[..., None]), ("CHWN", x[None])):
        y = conv2d(image, w, layout=layout)
        assert y.ndim == 3
        assert np.array_equal(y.reshape(2, 2), [[5, 8], [9, 7]])
