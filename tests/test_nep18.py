"""NEP 18: our functions are overridden by NumPy's own rules, and stay ordinary functions."""

import concurrent.futures
import copy
import functools
import inspect
import pickle

import numpy as np
import pytest

import simdconv

X = np.arange(50.0, dtype=np.float32).reshape(1, 2, 5, 5)
W = np.ones((3, 2, 3, 3), np.float32)
IMAGE, KERNEL = X[0, 0], W[0, 0]
FUNCTIONS = [
    simdconv.conv2d,
    simdconv.convolve2d,
    simdconv.correlate2d,
    simdconv.im2col,
    simdconv.im2win,
]
CALLS = {
    "conv2d": (X, W),
    "convolve2d": (IMAGE, KERNEL),
    "correlate2d": (IMAGE, KERNEL),
    "im2col": (X, 3),
    "im2win": (X, 3),
}
each_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


class Duck:
    """A duck array with the registry that NEP 18 shows."""

    handled: dict = {}  # noqa: RUF012  # one for the class, as in the NEP

    def __init__(self, array):
        self.array = array

    def __array_function__(self, function, types, args, kwargs):
        if function not in self.handled:
            return NotImplemented
        if not all(issubclass(kind, (Duck, np.ndarray)) for kind in types):
            return NotImplemented
        return self.handled[function](*args, **kwargs)


def implements(function):
    def register(implementation):
        Duck.handled[function] = implementation
        return implementation

    return register


@implements(simdconv.conv2d)
def _duck_conv2d(x, w, *rest, **keywords):
    arrays = [a.array if isinstance(a, Duck) else a for a in (x, w)]
    return Duck(simdconv.conv2d(*arrays, *rest, **keywords))


class Recorder:
    log: list = []  # noqa: RUF012

    def __init__(self, answer=NotImplemented):
        self.answer = answer

    def __array_function__(self, function, types, args, kwargs):
        self.log.append((type(self).__name__, set(types)))
        return self.answer


class Child(Recorder):
    pass


class Stranger:
    __init__ = Recorder.__init__
    __array_function__ = Recorder.__array_function__
    log = Recorder.log


@pytest.fixture(autouse=True)
def empty_log():
    Recorder.log.clear()


def names():
    return [name for name, _ in Recorder.log]


def test_duck_array_in_duck_array_out():
    expected = simdconv.conv2d(X, W, stride=2)
    for x, w in ((Duck(X), W), (X, Duck(W)), (Duck(X), Duck(W))):
        y = simdconv.conv2d(x, w, stride=2)
        assert type(y) is Duck
        assert np.array_equal(y.array, expected)


@each_function
def test_type_error_lists_the_types(function):
    first, *rest = CALLS[function.__name__]
    with pytest.raises(TypeError) as caught:
        function(Recorder(), *rest)
    message = str(caught.value)
    assert f"no implementation found for 'simdconv.{function.__name__}'" in message
    assert "Recorder" in message
    # the words are NumPy's, so who looks for them finds ours too
    with pytest.raises(TypeError) as theirs:
        np.concatenate([Recorder(), first])
    assert str(theirs.value).split("'")[0] == message.split("'")[0]


def test_order_is_numpys():
    cases = [
        (Recorder(), Child(), Stranger()),
        (Stranger(), Recorder(), Child()),
        (Child(), Recorder(), Stranger()),
        (Recorder(), Stranger(), Recorder()),
    ]
    for arrays in cases:
        Recorder.log.clear()
        with pytest.raises(TypeError):
            np.concatenate(list(arrays))
        numpys, Recorder.log[:] = names(), []
        with pytest.raises(TypeError):
            simdconv.conv2d(*arrays)
        assert names() == numpys, arrays


def test_types_hold_each_type_once_and_ndarray_too():
    with pytest.raises(TypeError):
        simdconv.conv2d(X, Recorder(), Recorder(), out=Stranger())
    assert all(types == {np.ndarray, Recorder, Stranger} for _, types in Recorder.log)
    assert names() == ["Recorder", "Stranger"]


def test_not_implemented_passes_to_the_next():
    assert simdconv.conv2d(Recorder(), Stranger("second")) == "second"
    assert names() == ["Recorder", "Stranger"]


def test_arguments_that_are_no_arrays_do_not_dispatch():
    with pytest.raises(TypeError):
        simdconv.im2col(X, Recorder("never"))
    with pytest.raises(TypeError, match="mode"):
        simdconv.correlate2d(IMAGE, KERNEL, Recorder("never"))
    with pytest.raises(TypeError):
        simdconv.conv2d(X, W, stride=Recorder("never"))
    assert names() == []


class Celsius(np.ndarray):
    """A subclass that keeps its type, the way NumPy's documentation shows."""

    def __array_function__(self, function, types, args, kwargs):
        if function is not simdconv.conv2d:
            return super().__array_function__(function, types, args, kwargs)
        args = [a.view(np.ndarray) if isinstance(a, Celsius) else a for a in args]
        return function(*args, **kwargs).view(Celsius)


def test_subclass_that_overrides_one_function_and_inherits_the_others():
    y = simdconv.conv2d(X.view(Celsius), W)
    assert type(y) is Celsius
    assert np.array_equal(y, simdconv.conv2d(X, W))
    cols = simdconv.im2col(X.view(Celsius), 3)
    assert np.array_equal(cols, simdconv.im2col(X, 3))


def test_subclass_beside_a_stranger():
    class Silent(np.ndarray):
        pass

    with pytest.raises(TypeError, match="no implementation found"):
        simdconv.conv2d(X.view(Silent), Recorder())
    assert names() == ["Recorder"]
    assert simdconv.conv2d(X.view(Silent), Recorder("mine")) == "mine"


@each_function
def test_overridable_functions_are_functions(function):
    assert inspect.isfunction(function)
    assert function.__module__.startswith("simdconv.")
    assert function.__qualname__ == function.__name__
    assert inspect.signature(function) == inspect.signature(function.__wrapped__)
    assert function.__doc__ == function.__wrapped__.__doc__
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(function, protocol)) is function
    assert copy.deepcopy(function) is function


@each_function
def test_wrapping_works(function):
    call = CALLS[function.__name__]
    expected = function(*call)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)

    assert inspect.signature(wrapped) == inspect.signature(function)
    assert np.array_equal(wrapped(*call), expected)
    assert np.array_equal(functools.partial(function, *call)(), expected)
    names = list(inspect.signature(function).parameters)
    assert np.array_equal(function(**dict(zip(names, call, strict=False))), expected)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for result in pool.map(function, *([item] * 4 for item in call)):
            assert np.array_equal(result, expected)


@each_function
@pytest.mark.parametrize("kind", ["ndarray", "duck"])
def test_a_wrong_call_names_the_function(function, kind):
    first = CALLS[function.__name__][0]
    x = first if kind == "ndarray" else Recorder()
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) missing 1 required"):
        function(x)
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected .*'striide'"):
        function(*(x, *CALLS[function.__name__][1:]), striide=2)


def test_none_is_an_array_that_is_missing():
    for bias in ({"bias": None}, {"bias": None, "out": None}, {}):
        assert simdconv.conv2d(X, W, **bias).shape == (1, 3, 3, 3)
    assert simdconv.conv2d(X, W, None).shape == (1, 3, 3, 3)
    for args in ((None, W), (X, None), (None, None), (X, None, None), (None, W, None)):
        with pytest.raises(TypeError, match="must be a NumPy array"):
            simdconv.conv2d(*args)
    with pytest.raises(TypeError, match="w must be a NumPy array"):
        simdconv.conv2d(X, w=None)


def test_arrays_whose_meaning_would_be_lost():
    for call in (simdconv.conv2d, simdconv.explain):
        with pytest.raises(TypeError, match=r"x is a masked array.*filled"):
            call(np.ma.masked_less(X, 3), W)
        with pytest.raises(TypeError, match=r"w is a masked array.*filled"):
            call(X, np.ma.array(W))
        with pytest.raises(TypeError, match=r"x has dtype object.*numeric"):
            call(X.astype(object), W)
    with pytest.raises(TypeError, match=r"image is a numpy\.matrix.*asarray"):
        simdconv.correlate2d(np.asmatrix(IMAGE), KERNEL)
    with pytest.raises(TypeError, match="masked"):
        simdconv.conv2d(X, W, out=np.ma.zeros((1, 3, 3, 3), np.float32))


def test_sparse_arrays_are_told_to_be_dense():
    class Sparse:
        def toarray(self):
            raise AssertionError("made dense behind its user's back")

    class Protocol(Sparse):
        def __array_function__(self, function, types, args, kwargs):
            return NotImplemented

    class Refusing:
        def todense(self):
            raise AssertionError

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("Cannot convert a sparse array to dense automatically")

    with pytest.raises(TypeError, match=r"image\.toarray\(\)"):
        simdconv.correlate2d(Sparse(), KERNEL)
    with pytest.raises(TypeError, match=r"no implementation.*\.toarray\(\)"):
        simdconv.correlate2d(Protocol(), KERNEL)
    with pytest.raises(TypeError, match="sparse array to dense"):
        simdconv.correlate2d(Refusing(), KERNEL)


def test_scipy_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_array, sparse.coo_matrix):
        with pytest.raises(TypeError, match=r"image\.toarray\(\)"):
            simdconv.correlate2d(kind(IMAGE), KERNEL)
