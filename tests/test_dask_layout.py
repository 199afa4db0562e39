"""to_layout on dask arrays: lazy, in whole blocks of eight, the same result as on ndarrays."""

import itertools

import numpy as np
import pytest

import simdconv
from simdconv import to_layout

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
WEIGHT_LAYOUTS = ("OIHW", "HWIO", "OHWI", "IHWO")
X = np.arange(19 * 2 * 5 * 6, dtype=np.float32).reshape(19, 2, 5, 6) + 1


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_same(lazy, expected):
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(lazy.compute(), expected)
    blocks = dask.compute(*lazy.to_delayed().ravel())
    shapes = itertools.product(*lazy.chunks)
    for block, shape in zip(blocks, shapes, strict=True):
        assert block.shape == shape
        assert block.flags.c_contiguous


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(LAYOUTS, repeat=2)))
@pytest.mark.parametrize("chunk", [3, 8, 19])
def test_images(src, dst, chunk):
    x = to_layout(X, "NCHW", src)
    chunks = {"N": chunk, "C": 1, "H": 3, "W": 4}
    sizes = (1, 1, 3, 4, 5) if src == "CHWN8" else tuple(chunks[axis] for axis in src)
    lazy = da.from_array(x, chunks=sizes)
    for n in {None, 19}:
        assert_same(to_layout(lazy, src, dst, n=n), to_layout(x, src, dst, n=n))


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(WEIGHT_LAYOUTS, repeat=2)))
def test_filters_and_one_image(src, dst):
    w = X[:3]
    assert_same(to_layout(da.from_array(w, chunks=2), src, dst), to_layout(w, src, dst))
    one = da.from_array(X[0], chunks=2)
    for source, target in itertools.product(LAYOUTS[:3], repeat=2):
        assert_same(to_layout(one, source, target), to_layout(X[0], source, target))


def test_nothing_is_computed_and_a_slice_reads_its_own_blocks():
    loads = []

    def load(block_info=None):
        loads.append(block_info[None]["chunk-location"])
        return np.ones((4, 2, 5, 3), np.float32)

    x = da.map_blocks(load, chunks=((4,) * 5, (2,), (5,), (3, 3)), dtype=np.float32,
                      meta=np.empty((0,) * 4, np.float32))  # fmt: skip
    blocks = to_layout(x, "NCHW", "CHWN8")
    back = to_layout(blocks, "CHWN8", "NHWC", n=20)
    assert loads == []
    assert blocks.chunks[0] == (1, 1, 1)
    assert back[:8, :, :3].compute().shape == (8, 5, 3, 2)
    assert {place[0] for place in loads} == {0, 1}
    assert {place[3] for place in loads} == {0}


def test_convolution_in_blocks_of_eight():
    w = np.ones((3, 2, 3, 3), np.float32)
    lazy = to_layout(da.from_array(X, chunks=(5, 1, 2, 3)), "NCHW", "CHWN8")
    y = to_layout(simdconv.conv2d(lazy, w, layout="CHWN8"), "CHWN8", "NCHW", n=19)
    assert_same(y, simdconv.conv2d(X, w))


def test_empty_and_errors():
    empty = da.from_array(X[:0])
    for dst in LAYOUTS:
        assert_same(to_layout(empty, "NCHW", dst), to_layout(X[:0], "NCHW", dst))
    x = da.from_array(X)
    with pytest.raises(simdconv.LayoutError, match="expected one of"):
        to_layout(x, "NCHW", "nhwc")
    with pytest.raises(simdconv.ShapeError, match="n=18"):
        to_layout(x, "NCHW", "NHWC", n=18)
    with pytest.raises(simdconv.LayoutError, match="CHWN8 has shape"):
        to_layout(x, "CHWN8", "NCHW")
    with pytest.raises(ValueError, match="unknown chunk sizes"):
        to_layout(x[x[:, 0, 0, 0] > 9], "NCHW", "NHWC")
