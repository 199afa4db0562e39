"""Conv2d: snapshot, packed filters, errors, pickling."""

import importlib.util
import pickle
import threading
import types

import numpy as np
import pytest

import simdconv
from simdconv import Conv2d, ShapeError
from simdconv.backends._base import PackedFilter, Plan

X = np.arange(2 * 3 * 6 * 6, dtype=np.float32).reshape(2, 3, 6, 6)
W = np.ones((4, 3, 3, 3), np.float32)


class Packing:
    """A backend that wants its filter packed once for each layout."""

    name, api_version = "packing", 1

    def __init__(self):
        self.packed, self.got = 0, []

    def declines(self, spec):
        return None

    def plan(self, spec):
        return Plan(self.name, "direct", spec.layout, "direct", 0)

    def pack_key(self, spec):
        return spec.stride

    def pack(self, spec, w):
        self.packed += 1
        packed = PackedFilter()
        packed.key = spec.stride
        return packed

    def conv2d(self, spec, x, w, bias, out):
        self.got.append(w)
        out[...] = 1

    def transform(self, spec, x, out):
        raise AssertionError


def test_filter_is_packed_once(monkeypatch):
    backend = Packing()
    monkeypatch.setitem(simdconv.backends._entries, "packing", None)
    simdconv.register_backend("packing", lambda: backend)
    conv = Conv2d(W, backend="packing")
    for batch in (2, 1, 2):
        conv(X[:batch])
    assert backend.packed == 1
    assert all(isinstance(w, PackedFilter) for w in backend.got)
    simdconv.conv2d(X, W, backend="packing")
    assert isinstance(backend.got[-1], np.ndarray)
    conv(X[:0])
    assert len(backend.got) == 4


class Dlpack:
    """An array of a library of its own, which is CPU memory and exchanges it by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return types.SimpleNamespace(from_dlpack=Dlpack)


def library(name):
    """How a library makes an array, and the type it is of."""
    if name == "torch":
        torch = importlib.import_module(name)
        return lambda array: torch.from_numpy(array.copy()), torch.Tensor
    if name == "jax":
        jax = importlib.import_module(name)
        return jax.numpy.asarray, jax.Array
    if name == "array_api_strict":
        strict = importlib.import_module(name)
        return strict.asarray, type(strict.asarray(1.0))
    return Dlpack, Dlpack


LIBRARIES = [
    name for name in ("torch", "jax", "array_api_strict") if importlib.util.find_spec(name)
]


@pytest.mark.parametrize("name", [*LIBRARIES, "its own"])
def test_other_libraries_arrays_meet_the_packed_filter(monkeypatch, name):
    make, kind = library(name)
    backend = Packing()
    monkeypatch.setitem(simdconv.backends._entries, "packing", None)
    simdconv.register_backend("packing", lambda: backend)
    conv = Conv2d(make(W), np.zeros(4, np.float32), backend="packing")
    for batch in (2, 1):
        y = conv(make(X[:batch]))
        assert isinstance(y, kind)
        assert np.array_equal(np.from_dlpack(y), np.ones((batch, 4, 4, 4)))
    assert backend.packed == 1
    assert all(isinstance(w, PackedFilter) for w in backend.got)
    out = np.zeros((2, 4, 4, 4), np.float32)
    assert conv(make(X), out) is out
    assert np.all(out == 1)
    assert backend.packed == 1
    assert np.array_equal(np.from_dlpack(Conv2d(W)(make(X))), Conv2d(W)(X))


def test_weights_are_read_only_snapshots():
    w, bias = W.copy(), np.zeros(4, np.float32)
    conv = Conv2d(w, bias)
    expected = conv(X)
    w[...] = bias[...] = np.nan
    assert np.array_equal(conv(X), expected)
    with pytest.raises(ValueError, match="read-only"):
        conv.weight[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        conv.bias[...] = 0


def test_bad_arguments_at_construction():
    for keywords, name in (
        ({"stride": 0}, "stride"), ({"padding": -1}, "padding"), ({"padding": "full"}, "padding"),
        ({"dilation": (1, 0)}, "dilation"), ({"groups": 3}, "groups"), ({"layout": "X"}, "layout"),
        ({"weight_layout": "X"}, "weight_layout"), ({"padding_mode": "x"}, "padding_mode"),
        ({"activation": "x"}, "activation"), ({"algorithm": "x"}, "algorithm"),
        ({"num_threads": 0}, "num_threads"), ({"bias": np.zeros(3)}, "bias"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=name):
            Conv2d(W, **keywords)
    with pytest.raises(LookupError, match="nonesuch"):
        Conv2d(W, backend="nonesuch")
    with pytest.raises(TypeError, match="w must be"):
        Conv2d([[[[1.0]]]])
    with pytest.raises(TypeError, match="masked"):
        Conv2d(np.ma.masked_array(W))
    with pytest.raises(TypeError, match="w has dtype bool"):
        Conv2d(W.astype(bool))
    with pytest.raises(ShapeError, match="4 axes"):
        Conv2d(W[0])
    with pytest.raises(ShapeError, match="h_f >= 1"):
        Conv2d(W[:, :, :0])


def test_bad_arguments_at_the_call():
    conv = Conv2d(W)
    with pytest.raises(ShapeError, match="c_in"):
        conv(X[:, :2])
    for bad, words in (([1.0], "x must be"), (None, "x must be"), (np.ma.masked_array(X), "filled"),
                       (np.asmatrix(X[0, 0]), "matrix"), (X.astype(object), "object")):  # fmt: skip
        with pytest.raises(TypeError, match=words):
            conv(bad)
    with pytest.raises(ShapeError, match="out"):
        conv(X, np.empty((1, 1, 1, 1), np.float32))
    with pytest.raises(ValueError, match="shares memory"):
        conv(X, X.ravel()[:128].reshape(2, 4, 4, 4))


def test_pickle_and_repr():
    conv = Conv2d(W, padding=(1, 2), layout="NCHW")
    conv(X)
    again = pickle.loads(pickle.dumps(conv))
    assert np.array_equal(again(X), conv(X))
    assert "padding=(1, 2)" in repr(conv) or "padding=((1, 1), (2, 2))" in repr(conv)


def test_many_threads_share_one():
    conv = Conv2d(W)
    expected, wrong = conv(X), []

    def work():
        for _ in range(20):
            if not np.array_equal(conv(X), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_arrays(tmp_path):
    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=X.shape)
    stored[...] = X
    conv = Conv2d(W)
    assert type(conv(stored)) is np.ndarray
    assert np.array_equal(conv(stored), conv(X))
    torch = pytest.importorskip("torch")
    assert isinstance(Conv2d(torch.ones(4, 3, 3, 3))(torch.from_numpy(X)), torch.Tensor)


@pytest.mark.parametrize("padding", [((3, 1), (3, 1)), ((1, 3), (2, 3)), ((2, 2), (2, 2)), (1, 2)])
def test_every_form_of_padding_is_what_conv2d_makes_of_it(padding):
    x = np.random.default_rng(3).standard_normal((2, 3, 9, 10)).astype(np.float32)
    w = np.random.default_rng(4).standard_normal((4, 3, 3, 3)).astype(np.float32)
    expected = simdconv.conv2d(x, w, padding=padding)
    assert simdconv.Conv2d(w, padding=padding)(x).tobytes() == expected.tobytes()
