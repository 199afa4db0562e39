"""Arrays that are not exactly ndarrays: NEP 18, subclasses, DLPack, __array__."""

import subprocess
import sys
import types

import numpy as np
import pytest

import simdconv
from simdconv import conv2d

X = np.arange(50.0, dtype=np.float32).reshape(1, 2, 5, 5)
W = np.ones((3, 2, 3, 3), np.float32)
EXPECTED = conv2d(X, W, backend="numpy")


class Duck:
    """Overrides functions and records the calls."""

    def __init__(self, answer="duck"):
        self.answer, self.calls = answer, []

    def __array_function__(self, function, types, args, kwargs):
        self.calls.append((function, types, args, kwargs))
        return self.answer


class Drake(Duck):
    pass


class Goose(Duck):
    pass


def test_override_gets_the_call_as_it_was_written():
    duck = Duck()
    assert conv2d(duck, W, stride=2) == "duck"
    ((function, types, args, kwargs),) = duck.calls
    assert function is simdconv.conv2d
    assert set(types) == {Duck, np.ndarray}
    assert args == (duck, W)
    assert kwargs == {"stride": 2}


@pytest.mark.parametrize("place", ["x", "w", "bias", "out"])
def test_override_from_any_array_argument(place):
    arrays = {"x": X, "w": W, "bias": None, "out": None, place: Duck()}
    assert conv2d(**arrays) == "duck"


def test_every_function_is_overridable():
    assert simdconv.im2col(Duck(), 3) == "duck"
    assert simdconv.im2win(X, 3, out=Duck()) == "duck"
    assert simdconv.correlate2d(Duck(), W[0, 0]) == "duck"
    assert simdconv.convolve2d(X[0, 0], kernel=Duck()) == "duck"


def test_subclass_comes_first_then_left_to_right():
    duck, drake, goose = Duck("duck"), Drake("drake"), Goose("goose")
    assert conv2d(duck, drake) == "drake"
    assert conv2d(goose, drake) == "goose"
    goose.answer = NotImplemented
    assert conv2d(goose, drake) == "drake"


def test_nobody_implements():
    with pytest.raises(TypeError, match=r"no implementation found for 'simdconv.conv2d'.*Duck"):
        conv2d(Duck(NotImplemented), W)


def test_explain_of_an_override():
    with pytest.raises(TypeError, match=r"Duck, by __array_function__, which alone knows"):
        simdconv.explain(Duck(), W)


def test_subclass_of_ndarray_that_overrides():
    class Logged(np.ndarray):
        def __array_function__(self, function, types, args, kwargs):
            result = super().__array_function__(function, types, args, kwargs)
            return "logged", result

    name, y = conv2d(X.view(Logged), W)
    assert name == "logged"
    assert type(y) is np.ndarray
    assert np.array_equal(y, EXPECTED)


def test_plain_subclasses_come_out_as_ndarrays(tmp_path):
    class Plain(np.ndarray):
        pass

    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=X.shape)
    stored[...] = X
    for x in (X.view(Plain), stored):
        y = conv2d(x, W)
        assert type(y) is np.ndarray
        assert np.array_equal(y, EXPECTED)
    out = np.memmap(tmp_path / "y", np.float32, "w+", shape=EXPECTED.shape)
    assert conv2d(X, W, out=out) is out
    assert np.array_equal(out, EXPECTED)
    assert "memmap" not in simdconv.explain(X, W).array_family


def test_array_protocol():
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return X

    assert np.array_equal(conv2d(Wrapped(), W), EXPECTED)
    assert "__array__" in simdconv.explain(Wrapped(), W).array_family


def test_out_that_gives_copies_is_refused():
    class Lent:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    class Copied(Lent):
        def __array__(self, dtype=None, copy=None):
            return self.array.copy()

    lent = Lent(np.zeros_like(EXPECTED))
    assert conv2d(X, W, out=lent) is lent
    assert np.array_equal(lent.array, EXPECTED)
    for call in (conv2d, simdconv.explain):
        with pytest.raises(TypeError, match=r"out of type .*Copied gives a copy"):
            call(X, W, out=Copied(np.zeros_like(EXPECTED)))


@pytest.mark.parametrize("call", [conv2d, simdconv.explain])
def test_what_is_no_array_at_all(call):
    for bad in (None, 3, "x", [[1.0]], np):
        with pytest.raises(TypeError, match="x must be a NumPy array"):
            call(bad, W)
        with pytest.raises(TypeError, match="w must be a NumPy array"):
            call(X, w=bad)
    for bad in (np.ndarray, Duck):
        with pytest.raises(TypeError, match=r"x must be an array; got the type"):
            call(bad, W)


def test_device_arrays_are_refused():
    class OnDevice:
        def __dlpack__(self, **keywords):
            raise AssertionError("must not be asked")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(TypeError, match=r"x is on a device.*CPU"):
        conv2d(OnDevice(), W)


def test_torch():
    torch = pytest.importorskip("torch")
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    y = conv2d(x, w, stride=2)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.nn.functional.conv2d(x, w, stride=2))
    out = torch.empty(EXPECTED.shape)
    assert conv2d(x, w, out=out) is out
    assert np.array_equal(out.numpy(), EXPECTED)
    assert isinstance(conv2d(x, W), torch.Tensor)
    assert isinstance(simdconv.im2col(x, 3), torch.Tensor)
    with pytest.raises(TypeError, match=r"detach"):
        conv2d(x.requires_grad_(), w)
    assert "DLPack" in simdconv.explain(x.detach(), w).array_family


def test_two_libraries_do_not_mix():
    torch = pytest.importorskip("torch")

    class Other:
        __module__ = "other.arrays"

        def __dlpack__(self, **keywords):
            return X.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    with pytest.raises(TypeError, match="different libraries"):
        conv2d(Other(), torch.from_numpy(W))


def test_a_namespace_needs_no_hash():
    class Own:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __array_namespace__(self):
            return types.SimpleNamespace(from_dlpack=Own)

    simdconv.explain(Own(X), Own(W))
    y = conv2d(Own(X), Own(W))
    assert type(y) is Own
    assert np.array_equal(y.array, EXPECTED)


def test_adapters(monkeypatch):
    from simdconv import _families

    class Strange:
        __module__ = "strange.arrays"

    def adapter(function, args, kwargs):
        return function.__name__, len(args), kwargs

    monkeypatch.setitem(_families._adapters, "strange", adapter)
    assert conv2d(Strange(), W, stride=2) == ("conv2d", 2, {"stride": 2})
    monkeypatch.setitem(_families._adapters, "strange", "no_such_package:adapter")
    with pytest.raises(ImportError, match="adapter for strange"):
        conv2d(Strange(), W)


def test_numpys_own_arrays_have_no_adapter(monkeypatch):
    from simdconv import _families

    class Plain(np.ndarray):
        pass

    for name in ("numpy", "builtins"):
        monkeypatch.setitem(_families._adapters, name, lambda *call: "taken")
    assert np.array_equal(conv2d(X.view(Plain), W), EXPECTED)
    with pytest.raises(TypeError, match="x must be a NumPy array"):
        conv2d([1.0], W)


def test_adapters_may_pass(monkeypatch):
    from simdconv import _families

    class Modest(Duck):
        __module__ = "modest.arrays"

    class Heir(Modest):
        __module__ = "heir.arrays"

    asked = []

    def adapter(function, args, kwargs):
        asked.append(function.__name__)
        return NotImplemented

    monkeypatch.setitem(_families._adapters, "modest", adapter)
    assert conv2d(Modest("own"), W) == "own"
    assert conv2d(X, Heir("heir's")) == "heir's"  # found by its base class
    assert asked == ["conv2d", "conv2d"]


def test_adapters_explain(monkeypatch):
    from simdconv import _families

    class Strange:
        __module__ = "strange.arrays"

    def adapter(function, args, kwargs):
        assert function is simdconv.explain
        return function(X, W, backend=kwargs["backend"])

    monkeypatch.setitem(_families._adapters, "strange", adapter)
    assert simdconv.explain(Strange(), W, backend="numpy").backend == "numpy"


def test_importing_simdconv_imports_no_other_library():
    code = (
        "import sys, simdconv, numpy as np;"
        "simdconv.conv2d(np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1)));"
        "print({'dask', 'torch', 'jax', 'xarray'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
