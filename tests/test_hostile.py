"""Arguments that nobody should write: each ends in an exception that names it, or does its work."""

import decimal
import fractions
import subprocess
import sys
import warnings

import numpy as np
import pytest

import simdconv

X = np.ones((1, 2, 8, 9), np.float32)
W = np.ones((2, 2, 3, 3), np.float32)
NAN, INF = float("nan"), float("inf")


class Index:
    """Converts to an integer, but is none."""

    def __index__(self):
        return 1


class Refuses:
    """Raises at whatever is done with it."""

    def __eq__(self, other):
        raise RuntimeError("compared")

    def __hash__(self):
        raise RuntimeError("hashed")

    def __repr__(self):
        raise RuntimeError("shown")


class OddInteger(int):
    """An integer that cannot be compared."""

    def __lt__(self, other):
        raise RuntimeError("compared")


class AnyString(str):
    """A string that equals every other."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return True


VALUES = [
    None, 0, -1, 1.0, 1.5, NAN, INF, -INF, True, False, "1", "", b"a", 1j, 2**31 - 1, 2**31, 2**63,
    10**400, -(10**400), (), (1,), (1, 1, 1), (1, (2, 3)), ((1, 2), 3), ((1, 2), (3,)), [1, 1],
    [[1, 1], [1, 1]], np.int8(1), np.uint64(2**63), np.float32(1), np.bool_(True), np.array(1),
    np.array([1, 1]), np.array([1.0, 1.0]), np.array([[1, 1], [1, 1]]), np.zeros(0), {}, {1: 2},
    set(), object(), Refuses(), Index(), OddInteger(1), fractions.Fraction(1), decimal.Decimal(1),
    range(2), lambda: 0, int, (NAN, NAN), (True, True), (1.0, 1), ("same", "same"), "same", "SAME",
    "reflect", AnyString("other"), ("clip",), ("clip", 1, 0), ("clip", NAN, 1), ("clip", -INF, INF),
    ("clip", 10**400, 10**401), ("clip", "a", 1), ("leaky_relu", NAN), ("leaky_relu", INF),
    ("relu", 1), np.datetime64("2020"), np.timedelta64(1), np.str_("relu"), slice(1), Ellipsis,
    memoryview(b"ab"), "\0", "a" * 10**6, np.void(b"12"), np.array("same"), np.ma.masked,
]  # fmt: skip
ARGUMENTS = ("stride", "padding", "dilation", "groups", "padding_mode", "layout", "weight_layout",
             "activation", "algorithm", "out", "num_threads", "backend", "bias")  # fmt: skip
EXPECTED = (ValueError, TypeError, LookupError, NotImplementedError)


def accept(name, call, *, say=True):
    """Run a call; an exception is of the promised kinds, names the argument and is short."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call()
    except EXPECTED as error:
        assert not say or name in str(error), error
        assert len(str(error)) < 500


@pytest.mark.parametrize("name", ARGUMENTS)
def test_conv2d(name):
    for value in VALUES:
        say = not (name in ("out", "bias") and isinstance(value, Refuses))
        accept(name, lambda v=value: simdconv.conv2d(X, W, **{name: v}), say=say)
        accept(name, lambda v=value: simdconv.explain(X, W, **{name: v}), say=say)
        if name != "out":
            accept(name, lambda v=value: simdconv.Conv2d(W, **{name: v})(X), say=say)


@pytest.mark.parametrize("function", ["im2col", "im2win"])
def test_transforms(function):
    names = ("kernel_size", "stride", "padding", "dilation", "padding_mode", "layout",
             "num_threads", "backend")  # fmt: skip
    run = getattr(simdconv, function)
    for name in names:
        for value in VALUES:
            large = name == "kernel_size" and value == 2**31 - 1 if type(value) is int else False
            keywords = {"kernel_size": 3, name: value}
            accept("window" if large else name, lambda k=keywords: run(X, **k))


@pytest.mark.parametrize("function", ["correlate2d", "convolve2d"])
@pytest.mark.parametrize("name", ["mode", "boundary", "fillvalue"])
def test_signal(function, name):
    for value in VALUES:
        accept(name, lambda v=value: getattr(simdconv, function)(X[0, 0], W[0, 0], **{name: v}))


@pytest.mark.parametrize("name", ["src", "dst", "n"])
def test_to_layout(name):
    for value in VALUES:
        keywords = {"src": "NCHW", "dst": "NHWC", name: value}
        accept(name, lambda k=keywords: simdconv.to_layout(X, **k))


def test_names_of_backends(clean_registry):
    for value in VALUES:
        for run in (simdconv.set_backend, simdconv.use_backend):
            accept("backend", lambda v=value, run=run: run(v))
        accept("", lambda v=value: simdconv.register_backend(v, None))
        accept("", lambda v=value: simdconv.register_backend("x", int, priority=v))
        accept("loader", lambda v=value: simdconv.register_backend("x", v))


PARTS = """
import resource, sys
import numpy as np, simdconv
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
x, w = np.ones((1, 2, 8, 9), np.float32), np.ones((2, 2, 3, 3), np.float32)
for shape in (2**40,), (2**40, 2), (2, 2**40):
    value = np.broadcast_to(1, shape)
    for name in ("stride", "padding", "dilation", "activation"):
        try:
            simdconv.conv2d(x, w, **{name: value})
        except (ValueError, TypeError) as error:
            assert name in str(error)
            continue
        raise AssertionError(name)
print("alive")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sets RLIMIT_AS")
def test_arguments_of_a_million_million_parts():
    done = subprocess.run([sys.executable, "-P", "-c", PARTS], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


@pytest.mark.parametrize("name", ["max_workspace", "num_threads", "flush_denormals", "algorithm"])
def test_options(name):
    def run(value):
        with simdconv.options(**{name: value}):
            simdconv.conv2d(X, W)

    for value in VALUES:
        try:
            accept(name, lambda v=value: run(v))
        except MemoryError as error:
            assert name == "max_workspace"
            assert "max_workspace" in str(error)


def test_arrays_that_are_none():
    bad = [1, 1.5, "a", [[1]], object(), np.float32(3), np.ones(()), np.ones(3), np.ones((1,) * 7)]
    bad += [np.ones(X.shape, dtype) for dtype in (bool, object, "U3", "M8[s]", "u8", "V4")]
    bad += [np.ma.ones(X.shape), memoryview(b"abc"), int]
    for value in bad:
        for arguments in ((value, W), (X, value), (X, W, value)):
            with pytest.raises((ValueError, TypeError)):
                simdconv.conv2d(*arguments)
        with pytest.raises((ValueError, TypeError)):
            simdconv.conv2d(X, W, out=value)
        for run in (simdconv.im2col, simdconv.im2win):
            with pytest.raises((ValueError, TypeError)):
                run(value, 3)


def test_sizes_that_no_memory_holds():
    """Arrays that repeat one element have any size; no result of theirs can be allocated."""
    one = np.float32(1)
    huge = [(1, 2, 2**20, 2**20), (2**20, 2, 2**15, 2**15), (1, 2, 2**40, 3), (1, 2**40, 3, 3)]
    for shape in huge:
        x = np.broadcast_to(one, shape)
        for backend in ("simd", "blas", "numpy"):
            with pytest.raises((ValueError, MemoryError)):
                simdconv.conv2d(x, W, backend=backend)
            with pytest.raises((ValueError, MemoryError)):
                simdconv.im2col(x, 3, backend=backend)
    for filters in ((2**34, 2, 3, 3), (2**50, 2, 1, 1)):
        with pytest.raises((ValueError, MemoryError)):
            simdconv.conv2d(X, np.broadcast_to(one, filters))


HUGE = """
import resource
import numpy as np, simdconv
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
x, w = np.ones((1, 2, 8, 9), np.float32), np.ones((2, 2, 3, 3), np.float32)
for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
    for keywords in ({"padding": 10**8, "stride": 10**8}, {"padding": 10**6, "dilation": 10**6},
                     {"padding": ((0, 0), (2**31 - 1, 0)), "stride": (1, 2**31 - 1)},
                     {"padding": 2**31 - 1, "stride": 2**31 - 1, "dilation": 2**31 - 1}):
        for backend in ("simd", "blas", "numpy"):
            try:
                y = simdconv.conv2d(x, w, padding_mode=mode, backend=backend, **keywords)
                assert y.size < 200, y.shape
            except (ValueError, MemoryError, NotImplementedError):
                pass
print("alive")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sets RLIMIT_AS")
def test_pads_strides_and_dilations_of_billions():
    done = subprocess.run([sys.executable, "-P", "-c", HUGE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


def test_nothing_is_copied_for_wrong_arguments():
    """A filter that repeats one element has any size; Conv2d copies it when all else is right."""
    w = np.broadcast_to(np.float32(1), (2**34, 4, 3, 3))
    for keywords in ({"groups": 3}, {"stride": 0}, {"bias": w}, {"padding_mode": "none"}):
        with pytest.raises(ValueError, match=r"groups|stride|bias|padding_mode"):
            simdconv.Conv2d(w, **keywords)
    with pytest.raises(MemoryError):
        simdconv.Conv2d(w)
