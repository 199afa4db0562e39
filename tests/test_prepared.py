"""Repeated calls are kept ready: they must go on meaning what they say.

Each test makes a call once, so that it is kept, and then changes what it depends on.
"""

import multiprocessing
import pickle

import numpy as np
import pytest
import threadpoolctl

import simdconv
from simdconv import _prepared

KEYWORDS = {"padding": 1}


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (2, 8, 9, 9)).astype(np.float32)
    w = rng.integers(-4, 5, (16, 8, 3, 3)).astype(np.float32)
    return x, w, rng.integers(-4, 5, 16).astype(np.float32)


def wanted(x, w, bias=None, **keywords):
    return simdconv.conv2d(x, w, bias, backend="numpy", **keywords)


def is_kept(x, w, bias=None, **keywords):
    """Whether the next call of this kind would be a kept one."""
    before = dict(_prepared._table)
    simdconv.conv2d(x, w, bias, **keywords)
    return before.keys() == _prepared._table.keys() and any(before.values())


@pytest.fixture(autouse=True)
def _empty_table():
    _prepared._table.clear()
    yield
    _prepared._table.clear()


def test_a_repeated_call_is_kept_and_right(arrays):
    x, w, bias = arrays
    first = simdconv.conv2d(x, w, bias, **KEYWORDS)
    assert is_kept(x, w, bias, **KEYWORDS)
    other = x[::-1].copy()
    second = simdconv.conv2d(other, w, bias, **KEYWORDS)
    np.testing.assert_array_equal(first, wanted(x, w, bias, **KEYWORDS))
    np.testing.assert_array_equal(second, wanted(other, w, bias, **KEYWORDS))
    third = simdconv.conv2d(x, -w, None, **KEYWORDS)
    np.testing.assert_array_equal(third, wanted(x, -w, **KEYWORDS))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
def test_every_call_of_a_kind_has_the_same_bits(layout):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 7, 6, 4)).astype(np.float32)
    for weight_layout in ("OIHW", "HWIO", "OHWI", "IHWO"):
        c = {"NCHW": 7, "NHWC": 4, "CHWN": 5}[layout]
        sizes = {"O": 20, "I": c, "H": 3, "W": 2}
        w = rng.standard_normal([sizes[axis] for axis in weight_layout]).astype(np.float32)
        keywords = {"layout": layout, "weight_layout": weight_layout}
        results = [simdconv.conv2d(x, w, **keywords) for _ in range(3)]
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
        convolve = simdconv.Conv2d(w, **keywords)
        assert all(convolve(x).tobytes() == results[0].tobytes() for _ in range(3))


@pytest.mark.parametrize("name", ["stride", "dilation", "groups"])
@pytest.mark.parametrize("value", [True, 1.0])
def test_values_that_equal_a_kept_one_are_still_looked_at(arrays, name, value):
    x, w, _ = arrays
    simdconv.conv2d(x, w, **{name: 1})
    simdconv.conv2d(x, w, **{name: 1})
    with pytest.raises(TypeError, match=name):
        simdconv.conv2d(x, w, **{name: value})


def test_results_are_new_arrays(arrays):
    x, w, _ = arrays
    first, second, third = (simdconv.conv2d(x, w) for _ in range(3))
    assert not np.shares_memory(second, third)
    assert not np.shares_memory(first, second)
    out = np.empty_like(first)
    assert simdconv.conv2d(x, w, out=out) is out
    np.testing.assert_array_equal(out, first)


def test_a_backend_that_is_preferred_later_runs(arrays):
    x, w, _ = arrays

    class Marked:
        name, api_version = "marked", simdconv.backends._base.API_VERSION

        def declines(self, spec):
            return None

        def plan(self, spec):
            return simdconv.backends._base.Plan("marked", "direct", spec.layout, "marked", 0)

        def conv2d(self, spec, x, w, bias, out):
            out[...] = 77

        def transform(self, spec, x, out):
            raise NotImplementedError

    for _ in range(2):
        assert simdconv.conv2d(x, w).max() != 77
    simdconv.backends.register_backend("marked", Marked)
    try:
        for _ in range(2):
            assert (simdconv.conv2d(x, w, backend="marked") == 77).all()
        with simdconv.use_backend("marked"):
            for _ in range(2):
                assert (simdconv.conv2d(x, w) == 77).all()
        assert simdconv.conv2d(x, w).max() != 77
        simdconv.set_backend("marked")
        for _ in range(2):
            assert (simdconv.conv2d(x, w) == 77).all()
        simdconv.set_backend(None)
        assert simdconv.conv2d(x, w).max() != 77
    finally:
        simdconv.set_backend(None)
        simdconv.backends._entries.pop("marked", None)


def test_options_that_are_set_later_hold(arrays):
    x, w, _ = arrays
    for _ in range(2):
        simdconv.conv2d(x, w)
    with simdconv.options(algorithm="winograd"), pytest.raises(NotImplementedError):
        simdconv.conv2d(x, w)
    simdconv.set_options(algorithm="winograd")
    try:
        with pytest.raises(NotImplementedError):
            simdconv.conv2d(x, w)
    finally:
        simdconv.set_options(algorithm="auto")
    simdconv.conv2d(x, w)
    denormal = np.full_like(x, 1e-40)
    assert simdconv.conv2d(denormal, w).any()
    with simdconv.options(flush_denormals=True):
        assert not simdconv.conv2d(denormal, w, backend="simd").any()


def test_arrays_that_are_not_plain_take_the_long_way(arrays):
    x, w, bias = arrays
    for _ in range(2):
        simdconv.conv2d(x, w, bias, **KEYWORDS)
    want = wanted(x, w, bias, **KEYWORDS)
    spread = np.zeros((2, 8, 9, 18), np.float32)[..., ::2]
    spread[...] = x
    backwards = w[::-1].copy()[::-1]
    for a, b in ((spread, w), (x, backwards), (x[:, :, ::-1].copy()[:, :, ::-1], w)):
        np.testing.assert_array_equal(simdconv.conv2d(a, b, bias, **KEYWORDS), want)
        np.testing.assert_array_equal(simdconv.Conv2d(b, bias, **KEYWORDS)(a), want)
    swapped = x.astype(x.dtype.newbyteorder())
    wide = np.repeat(bias, 2)[::2]
    np.testing.assert_array_equal(simdconv.conv2d(swapped, w, wide, **KEYWORDS), want)


def test_threads_that_are_limited_later(arrays):
    x, w, _ = arrays
    x = np.repeat(np.repeat(x, 8, 2), 8, 3)
    first, _ = simdconv.conv2d(x, w), simdconv.conv2d(x, w)
    convolve = simdconv.Conv2d(w)
    convolve(x)
    for limit in (1, 2, 3):
        with threadpoolctl.threadpool_limits(limit):
            for _ in range(2):
                assert simdconv.conv2d(x, w).tobytes() == first.tobytes()
                assert convolve(x).tobytes() == first.tobytes()
            (run,), (kept,) = _prepared._table.values(), convolve._prepared.values()
            assert run(x, w, None) is not None  # which was made for this number
            assert kept(x, w, None) is not None


def _in_child(x, w, queue):
    queue.put(simdconv.conv2d(x, w))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_a_forked_child(arrays):
    x, w, _ = arrays
    want, _ = simdconv.conv2d(x, w), simdconv.conv2d(x, w)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(x, w, queue))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=60), want)
    child.join(60)


def test_a_module_keeps_its_calls(arrays):
    x, w, bias = arrays
    convolve = simdconv.Conv2d(w, bias, **KEYWORDS)
    want = wanted(x, w, bias, **KEYWORDS)
    for _ in range(3):
        np.testing.assert_array_equal(convolve(x), want)
    one = x[0]
    for _ in range(3):
        np.testing.assert_array_equal(convolve(one), want[0])
    np.testing.assert_array_equal(convolve(x.astype(np.float64)), want)
    assert convolve._prepared
    again = pickle.loads(pickle.dumps(convolve))
    assert not again._prepared
    np.testing.assert_array_equal(again(x), want)
    simdconv.set_backend("numpy")
    try:
        np.testing.assert_array_equal(convolve(x), want)
    finally:
        simdconv.set_backend(None)
    for size in range(3, 3 + 80):
        convolve(np.ones((1, 8, size, 3), np.float32))
    assert len(convolve._prepared) <= 64


def test_weights_of_a_module_cannot_be_replaced(arrays):
    x, w, bias = arrays
    convolve = simdconv.Conv2d(w, bias)
    convolve(x)
    for name in ("weight", "bias"):
        with pytest.raises(AttributeError):
            setattr(convolve, name, np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        convolve.bias[0] = 1


def test_bad_arguments_of_a_kept_kind(arrays):
    x, w, _ = arrays
    for _ in range(2):
        simdconv.conv2d(x, w, padding="same", activation="relu")
    with pytest.raises(ValueError, match="activation"):
        simdconv.conv2d(x, w, padding="same", activation="relu7")
    with pytest.raises(TypeError, match="layout"):
        simdconv.conv2d(x, w, layout=["NCHW"])
    with pytest.raises(LookupError, match="nowhere"):
        simdconv.conv2d(x, w, backend="nowhere")
