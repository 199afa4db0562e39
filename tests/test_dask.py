"""dask arrays: graphs of blocks that agree with one call on the whole array."""

import concurrent.futures
import pickle

import numpy as np
import pytest

import simdconv
from simdconv import conv2d, convolve2d, correlate2d, im2col, im2win, to_layout
from simdconv.testing import assert_conv_close

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from simdconv.adapters._blocks import output_spans, pieces, whole_span  # noqa: E402

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
RNG = np.random.default_rng(5)
X = RNG.integers(-4, 5, (3, 4, 23, 31)).astype(np.float32)
W = RNG.integers(-4, 5, (6, 4, 3, 2)).astype(np.float32)
BIAS = RNG.integers(-4, 5, 6).astype(np.float32)


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def chunked(x, layout="NCHW", n=(2, 1), c=(1, 3), h=(7, 9, 7), w=(10, 11, 10)):
    """Chunk every axis of an image, unevenly."""
    x = to_layout(x, "NCHW", layout)
    chunks = {"N": n, "C": c, "H": h, "W": w}
    if layout == "CHWN8":
        return da.from_array(x, chunks=((1,), c, h, w, (4, 4)))
    return da.from_array(x, chunks=tuple(chunks[axis] for axis in layout))


def assert_same(lazy, expected):
    """Compare the array, what it says of itself before, and each of its blocks."""
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    y = lazy.compute()
    assert type(y) is np.ndarray
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(y, expected, equal_nan=expected.dtype.kind in "fc")
    for index in np.ndindex(lazy.numblocks):
        block = lazy.blocks[index]
        assert block.compute().shape == block.shape


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_padding_stride_and_dilation(layout, mode):
    whole = to_layout(X, "NCHW", layout)
    for keywords in (
        {"padding": 1},
        {"padding": "same", "stride": (2, 3)},
        {"padding": "same_lower", "dilation": (3, 2)},
        {"padding": ((5, 2), (0, 9)), "stride": 2, "dilation": 2},
        {"padding": ((40, 0), (33, 70)), "stride": (1, 4)},
        {"padding": ((0, 3), (1, 0)), "stride": (9, 13)},
    ):
        keywords |= {"layout": layout, "padding_mode": mode}
        y = conv2d(chunked(X, layout), W, BIAS, **keywords)
        expected = conv2d(whole, W, BIAS, **keywords)
        if layout == "CHWN8":
            y, expected = y[..., :3], expected[..., :3]
        assert_same(y, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("weight_layout", ["OIHW", "HWIO"])
def test_groups_bias_activation(layout, weight_layout):
    w = to_layout(W[:, :2], "OIHW", weight_layout)
    keywords = {"layout": layout, "weight_layout": weight_layout, "groups": 2, "padding": 1,
                "activation": ("clip", -3, 20)}  # fmt: skip
    y = conv2d(chunked(X, layout), w, BIAS, **keywords)
    expected = conv2d(to_layout(X, "NCHW", layout), w, BIAS, **keywords)
    if layout == "CHWN8":
        y, expected = y[..., :3], expected[..., :3]
    assert_same(y, expected)


def test_depthwise_dtypes_and_the_unbatched():
    depthwise = W[:4, :1]
    assert_same(conv2d(chunked(X), depthwise, groups=4), conv2d(X, depthwise, groups=4))
    one = chunked(X)[1]
    assert_same(conv2d(one, W, stride=2), conv2d(X[1], W, stride=2))
    for x_dtype, w_dtype in (("int8", "uint8"), ("int16", "int32"), ("float16", "float16"),
                             ("complex64", "float32"), ("float32", "float64")):  # fmt: skip
        x, w = X.astype(x_dtype), np.abs(W).astype(w_dtype)
        assert_same(conv2d(chunked(x), w, padding=1), conv2d(x, w, padding=1))


def test_output_chunks_follow_the_inputs():
    y = conv2d(chunked(X), W[..., :1].repeat(3, 3), padding=1)
    assert y.chunks == ((2, 1), (6,), (7, 9, 7), (10, 11, 10))
    y = conv2d(chunked(X), W, padding="same", stride=2)
    assert y.numblocks == (2, 1, 3, 3)
    for outs, sizes in zip(y.chunks[2:], chunked(X).chunks[2:], strict=True):
        assert all(abs(out - size / 2) <= 1 for out, size in zip(outs, sizes, strict=True))
    y = conv2d(chunked(X, h=(1,) * 23), W, stride=5)
    assert y.chunks[2] == (1,) * 5


def test_nothing_is_computed_until_it_is_asked_for():
    loads = []

    def load(block_info=None):
        loads.append(block_info[None]["chunk-location"])
        return np.ones((1, 4, 10, 10), np.float32)

    x = da.map_blocks(load, chunks=((1,), (4,), (10,) * 6, (10,) * 6), dtype=np.float32,
                      meta=np.empty((0,) * 4, np.float32))  # fmt: skip
    w = np.ones((6, 4, 3, 3), np.float32)
    y = conv2d(x, w, padding=1)
    simdconv.explain(x, w, padding=1)
    correlate2d(x, W[0, 0])
    im2col(x, 3)
    assert loads == []
    part = y[:, :, 20:30, 40:50].compute()
    assert part.shape == (1, 6, 10, 10)
    assert {place[2:] for place in loads} == {(i, j) for i in (1, 2, 3) for j in (3, 4, 5)}


def test_weights_may_be_dask_arrays_too():
    w, bias = da.from_array(W, chunks=2), da.from_array(BIAS, chunks=4)
    expected = conv2d(X, W, BIAS)
    assert_same(conv2d(chunked(X), w, bias), expected)
    assert_same(conv2d(X, w, BIAS), expected)
    assert_same(conv2d(X, W, bias), expected)
    assert_same(simdconv.Conv2d(W, BIAS, padding=1)(chunked(X)), conv2d(X, W, BIAS, padding=1))
    torch = pytest.importorskip("torch")
    assert_same(conv2d(chunked(X), torch.from_numpy(W), BIAS), expected)


def test_whoever_overrides_functions_is_asked_before_dask_is():
    class Duck:
        def __array_function__(self, function, types, args, kwargs):
            return function.__name__, types

    for call in (conv2d(chunked(X), Duck()), conv2d(Duck(), W, chunked(X)),
                 conv2d(chunked(X), W, bias=Duck())):  # fmt: skip
        assert call[0] == "conv2d"
        assert Duck in call[1]


def test_random_numbers_stay_within_the_bound():
    x = np.random.default_rng(0).standard_normal((1, 8, 40, 40)).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((4, 8, 5, 5)).astype(np.float32)
    y = conv2d(da.from_array(x, chunks=(1, 8, 13, 17)), w, padding=2, padding_mode="reflect")
    assert_conv_close(y.compute(), x, w, random=True, padding=2, padding_mode="reflect")


def test_nan_and_inf_touch_their_windows_only():
    x = X.copy()
    x[0, 1, 7, 10], x[1, 0, 16, 20] = np.nan, np.inf
    assert_same(conv2d(chunked(x), W, padding=1), conv2d(x, W, padding=1))
    w = W.copy()
    w[0, 0, 0, 0] = np.inf  # times the zeros of the padding: NaN in every border block
    assert_same(conv2d(chunked(X), w, padding=3), conv2d(X, w, padding=3))


@pytest.mark.parametrize("function", [im2col, im2win])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_transforms(function, layout):
    whole = to_layout(X, "NCHW", layout)
    for keywords in ({}, {"padding": 2, "stride": (2, 3)},
                     {"padding": ((1, 4), (0, 6)), "padding_mode": "wrap",
                      "dilation": 2}):  # fmt: skip
        keywords["layout"] = layout
        y = function(chunked(X, layout), (3, 2), **keywords)
        expected = function(whole, (3, 2), **keywords)
        assert_same(y, expected)
        assert max(y.numblocks) == 3
    if layout == "NCHW":
        assert_same(function(chunked(X)[0], 3), function(X[0], 3))


@pytest.mark.parametrize("function", [correlate2d, convolve2d])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_scipys_functions(function, boundary, mode):
    for kernel in (W[0, 0], W[1, 1, :1, :], np.arange(-10.0, 10).reshape(4, 5)):
        for image in (chunked(X), chunked(X)[0, 1]):
            assert_same(function(image, kernel, mode, boundary),
                        function(image.compute(), kernel, mode, boundary))  # fmt: skip


def test_scipys_functions_fill_swap_and_dtypes():
    image = X[0, 0].astype(np.int8)
    lazy = da.from_array(image, chunks=(7, 10))
    for fill in (3, 1000, -2.7):
        for function in (correlate2d, convolve2d):
            assert_same(function(lazy, image[:3, :2], "full", "fill", fill),
                        function(image, image[:3, :2], "full", "fill", fill))  # fmt: skip
    complex_kernel = (W[0, 0] + 1j * W[1, 0]).astype(np.complex64)
    assert_same(correlate2d(lazy, complex_kernel, "same", fillvalue=2j),
                correlate2d(image, complex_kernel, "same", fillvalue=2j))  # fmt: skip
    small = da.from_array(X[:, :, :3, :4], chunks=(1, 2, 2, 2))
    for function in (correlate2d, convolve2d):
        assert_same(function(small, X[0, 0], "valid"), function(X[:, :, :3, :4], X[0, 0], "valid"))
        assert_same(function(lazy, da.from_array(W[0, 0], chunks=1)), function(image, W[0, 0]))
        assert_same(function(lazy, [[1, 2], [3, 4]]), function(image, [[1, 2], [3, 4]]))


def test_empty_arrays():
    for x, w in ((X[:0], W), (X, W[:0]), (X[:, :0], W[:, :0])):
        assert_same(conv2d(da.from_array(x), w, BIAS[: len(w)]), conv2d(x, w, BIAS[: len(w)]))
    empty = da.from_array(X[:, :, :0])
    assert_same(conv2d(empty, W, padding="same"), conv2d(X[:, :, :0], W, padding="same"))
    gaps = da.concatenate([chunked(X)[:, :, :0], chunked(X)[:, :, :5], chunked(X)[:, :, :0],
                           chunked(X)[:, :, 5:]], axis=2)  # fmt: skip
    for mode in MODES:
        keywords = {"padding": 4, "padding_mode": mode, "stride": 2}
        assert_same(conv2d(gaps, W, **keywords), conv2d(X, W, **keywords))


def test_errors_come_when_the_graph_is_made():
    x = chunked(X)
    with pytest.raises(ValueError, match=r"c_in=4.*it has 3"):
        conv2d(x, W[:, :3])
    with pytest.raises(ValueError, match="stride"):
        conv2d(x, W, stride=0)
    with pytest.raises(ValueError, match="height: the window spans 24"):
        conv2d(x, np.ones((1, 4, 24, 1), np.float32))
    with pytest.raises(simdconv.BackendNotFoundError, match="nonesuch"):
        conv2d(x, W, backend="nonesuch")
    with pytest.raises(simdconv.BackendNotImplementedError, match="im2col"):
        conv2d(x, W, backend="numpy", algorithm="im2col")
    with pytest.raises(TypeError, match="out cannot be used with dask"):
        conv2d(x, W, out=np.empty((3, 6, 21, 30), np.float32))
    with pytest.raises(ValueError, match=r"unknown chunk sizes.*compute_chunk_sizes"):
        conv2d(x[x[:, 0, 0, 0] > 9], W)
    with pytest.raises(TypeError, match="masked array"):
        conv2d(da.ma.masked_less(x, 3), W)
    with pytest.raises(TypeError, match="dtype bool"):
        conv2d(x > 0, W)
    with pytest.raises(TypeError, match="missing 1 required"):
        conv2d(x)


def test_explain_describes_a_block():
    plan = simdconv.explain(chunked(X), W, padding=1, backend="numpy")
    assert "dask.array.core.Array, by its adapter: 18 blocks" in plan.array_family
    assert plan.spec.x_shape == (2, 4, 11, 11)
    assert plan.num_threads == 1
    assert plan.kernel == "direct-nchw-numpy-f32"


class Recording:
    """A backend that tells how it was called."""

    name, api_version = "recording", 1

    def __init__(self):
        self.specs = []

    def declines(self, spec):
        return None

    def plan(self, spec):
        return simdconv.backends.get("numpy").plan(spec)

    def conv2d(self, spec, x, w, bias, out):
        self.specs.append(spec)
        simdconv.backends.get("numpy").conv2d(spec, x, w, bias, out)

    def transform(self, spec, x, out):
        self.specs.append(spec)
        simdconv.backends.get("numpy").transform(spec, x, out)


@pytest.fixture
def recording():
    before, backend = dict(simdconv.backends._entries), Recording()
    simdconv.register_backend("recording", lambda: backend)
    yield backend
    simdconv.backends._entries.clear()
    simdconv.backends._entries.update(before)
    simdconv.backends.generation += 1


CALLS = {
    "conv2d": lambda: conv2d(chunked(X), W),
    "im2col": lambda: im2col(chunked(X), 3),
    "im2win": lambda: im2win(chunked(X), 3),
    "correlate2d": lambda: correlate2d(chunked(X), W[0, 0], "same"),
    "convolve2d": lambda: convolve2d(chunked(X), W[0, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_tasks_pin_what_held_when_the_graph_was_made(recording, name):
    with simdconv.use_backend("recording"), simdconv.options(max_workspace=10**8, num_threads=2):
        lazy = CALLS[name]()
    expected = CALLS[name]().compute()
    assert not recording.specs
    with simdconv.use_backend("numpy"), simdconv.options(max_workspace=10**9):
        assert np.array_equal(lazy.compute(scheduler="threads"), expected)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert np.array_equal(pool.submit(lazy.compute).result(), expected)
    assert len(recording.specs) == 2 * np.prod(lazy.numblocks)
    assert {(spec.num_threads, spec.max_workspace) for spec in recording.specs} == {(1, 10**8)}


def test_keywords_are_pinned_too(recording):
    y = conv2d(chunked(X), W, backend="recording", num_threads=3, algorithm="direct")
    y.compute()
    assert {(s.num_threads, s.algorithm) for s in recording.specs} == {(3, "direct")}


def test_names_tell_calls_apart():
    x = chunked(X)
    names = {conv2d(x, W).name, conv2d(x, W, BIAS).name, conv2d(x, W, stride=2).name,
             conv2d(x, W * 2).name, conv2d(x, W, backend="numpy").name}  # fmt: skip
    with simdconv.options(max_workspace=10**9):
        names.add(conv2d(x, W).name)
    with simdconv.use_backend("numpy"):
        names.add(conv2d(x, W, BIAS).name)
    names |= {correlate2d(x, W[0, 0]).name, convolve2d(x, W[0, 0]).name, im2col(x, 3).name,
              im2win(x, 3).name, im2win(x, 2).name}  # fmt: skip
    assert len(names) == 12
    assert conv2d(x, W).name == conv2d(x, W).name


def test_graphs_travel():
    y = conv2d(chunked(X), W, padding=1, padding_mode="wrap")
    graph = pickle.loads(pickle.dumps(dict(y.__dask_graph__())))
    results = dask.get(graph, [(y.name, 0, 0, 0, 0)])
    assert np.array_equal(results[0], y.blocks[0, 0, 0, 0].compute())


def test_two_worker_processes():
    distributed = pytest.importorskip("distributed")
    x = chunked(X)
    keywords = {"padding": "same", "stride": 2, "padding_mode": "wrap"}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                 dashboard_address=None) as cluster,
        distributed.Client(cluster),
        dask.config.set(scheduler=None),
    ):  # fmt: skip
        y = conv2d(x, W, BIAS, **keywords)
        z = convolve2d(x, W[0, 0], "same", "symm")
        y, z, cols = dask.compute(y, z, im2col(x, 3))
    assert np.array_equal(y, conv2d(X, W, BIAS, **keywords))
    assert np.array_equal(z, convolve2d(X, W[0, 0], "same", "symm"))
    assert np.array_equal(cols, im2col(X, 3))


@given(
    chunks=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(sum),
    window=st.integers(1, 12), stride=st.integers(1, 7),
    pads=st.tuples(st.integers(0, 15), st.integers(0, 15)), mode=st.sampled_from(MODES),
)  # fmt: skip
@settings(max_examples=300, deadline=None, derandomize=True)
def test_spans_read_what_the_windows_need(chunks, window, stride, pads, mode):
    size = sum(chunks)
    outputs = (size + sum(pads) - window) // stride + 1
    if outputs < 1:
        return
    line = np.arange(1, size + 1)
    padded = np.pad(line, pads, mode=mode)
    spans = output_spans(chunks, outputs, window, stride, pads, mode)
    assert sum(span.size for span in spans) == outputs
    assert all(span.size for span in spans)
    starts = np.cumsum([0, *chunks])
    first = 0
    for span in [*spans, whole_span(chunks, 0, pads, mode)]:
        read = np.concatenate([
            line[starts[p.chunk] + p.start : starts[p.chunk] + p.stop] for p in pieces(chunks, span)
        ])  # fmt: skip
        assert all(p.whole == (p.stop - p.start == chunks[p.chunk]) for p in pieces(chunks, span))
        block = read if span.take is None else read[span.take]
        assert len(block) == span.length
        block = np.pad(block, span.pads)
        if span.size == 0:
            assert np.array_equal(block, padded)
            continue
        last = first + span.size
        assert np.array_equal(block, padded[first * stride : (last - 1) * stride + window])
        first = last
