"""to_layout, for images, results and filters."""

import itertools

import numpy as np
import pytest

import simdconv
from simdconv import LayoutError, ShapeError, to_layout

LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
WEIGHT_LAYOUTS = ("OIHW", "HWIO", "OHWI", "IHWO")
SHAPES = {
    "NCHW": (10, 3, 4, 5),
    "NHWC": (10, 4, 5, 3),
    "CHWN": (3, 4, 5, 10),
    "CHWN8": (2, 3, 4, 5, 8),
}


def images():
    return np.arange(600.0).reshape(SHAPES["NCHW"])


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(LAYOUTS, repeat=2)))
def test_round_trip(src, dst):
    first = to_layout(images(), "NCHW", src)
    assert first.shape == SHAPES[src]
    n = 10 if src == "CHWN8" else None
    second = to_layout(first, src, dst, n=n)
    assert second.shape == SHAPES[dst]
    assert second.flags.c_contiguous
    assert np.array_equal(to_layout(second, dst, "NCHW", n=10), images())


def test_elements():
    x = images()
    n, c, h, w = 9, 2, 1, 4
    assert to_layout(x, "NCHW", "NHWC")[n, h, w, c] == x[n, c, h, w]
    assert to_layout(x, "NCHW", "CHWN")[c, h, w, n] == x[n, c, h, w]
    assert to_layout(x, "NCHW", "CHWN8")[1, c, h, w, 1] == x[n, c, h, w]


def test_last_block_is_filled_with_zeros():
    blocks = to_layout(images() + 1, "NCHW", "CHWN8")
    assert np.all(blocks[1, ..., 2:] == 0)


def test_spare_lanes_stay_unless_n_is_given():
    blocks = to_layout(images(), "NCHW", "CHWN8")
    assert to_layout(blocks, "CHWN8", "NHWC").shape == (16, 4, 5, 3)
    assert to_layout(blocks, "CHWN8", "NHWC", n=10).shape == (10, 4, 5, 3)
    dirty = blocks.copy()
    dirty[1, ..., 2:] = 7
    assert np.array_equal(to_layout(dirty, "CHWN8", "CHWN8", n=10), blocks)


def test_one_image():
    x = images()[0]
    assert np.array_equal(to_layout(x, "NCHW", "NHWC"), x.transpose(1, 2, 0))
    assert np.array_equal(to_layout(x, "NCHW", "CHWN"), x)
    with pytest.raises(LayoutError, match="CHWN8"):
        to_layout(x, "CHWN8", "NCHW")
    with pytest.raises(LayoutError):
        to_layout(x, "NCHW", "CHWN8")


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(WEIGHT_LAYOUTS, repeat=2)))
def test_filters(src, dst):
    sizes = {"O": 2, "I": 3, "H": 4, "W": 5}
    w = np.arange(120).reshape([sizes[axis] for axis in src])
    moved = to_layout(w, src, dst)
    assert moved.shape == tuple(sizes[axis] for axis in dst)
    assert np.array_equal(to_layout(moved, dst, src), w)
    index = {"O": 1, "I": 2, "H": 3, "W": 4}
    assert moved[tuple(index[a] for a in dst)] == w[tuple(index[a] for a in src)]


def test_same_layout_is_no_copy():
    x = images()
    assert to_layout(x, "NCHW", "NCHW") is x


@pytest.mark.parametrize("n", [0, 8, 17, -1])
def test_n_must_belong_to_the_blocks(n):
    with pytest.raises(ShapeError, match="n="):
        to_layout(np.zeros(SHAPES["CHWN8"]), "CHWN8", "NCHW", n=n)


@pytest.mark.parametrize("n", [True, 10.0, "10"])
def test_n_is_an_integer(n):
    with pytest.raises(TypeError, match="n must be"):
        to_layout(np.zeros(SHAPES["CHWN8"]), "CHWN8", "NCHW", n=n)


@pytest.mark.parametrize(
    ("src", "dst"), [("nchw", "NHWC"), ("NCHW", "NCWH"), ("NCHW", "OIHW"), ("OIHW", "NCHW")]
)
def test_unknown_layouts(src, dst):
    with pytest.raises(LayoutError, match="expected one of"):
        to_layout(images(), src, dst)


def test_wrong_kinds():
    with pytest.raises(TypeError, match="src"):
        to_layout(images(), 3, "NCHW")
    with pytest.raises(TypeError, match="x must be a NumPy array"):
        to_layout([[1]], "NCHW", "NHWC")
    with pytest.raises(TypeError, match=r"masked array.*filled"):
        to_layout(np.ma.masked_array(images()), "NCHW", "NHWC")
    with pytest.raises(LayoutError):
        to_layout(np.zeros((2, 3, 4, 5, 7)), "CHWN8", "NCHW")
    with pytest.raises(LayoutError):
        to_layout(np.zeros((2, 3)), "NCHW", "NHWC")
    with pytest.raises(LayoutError):
        to_layout(np.zeros((2, 3)), "OIHW", "HWIO")


def test_every_layout_gives_the_same_result():
    x, w = images(), np.arange(2 * 3 * 2 * 2.0).reshape(2, 3, 2, 2)
    expected = simdconv.conv2d(x, w)
    for layout in LAYOUTS:
        y = simdconv.conv2d(to_layout(x, "NCHW", layout), w, layout=layout)
        assert np.array_equal(to_layout(y, layout, "NCHW", n=10), expected)
