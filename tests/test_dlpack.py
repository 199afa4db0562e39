"""Arrays of other libraries by DLPack and the array API: in without a copy, out as their kind."""

import numpy as np
import pytest

import simdconv
from simdconv import conv2d

X = np.arange(50.0, dtype=np.float32).reshape(1, 2, 5, 5)
W = np.ones((3, 2, 3, 3), np.float32)
BIAS = np.array([1, 2, 3], np.float32)
EXPECTED = conv2d(X, W, BIAS, backend="numpy")


def _strict():
    strict = pytest.importorskip("array_api_strict")
    return strict.asarray, type(strict.asarray(1.0))


def _torch():
    torch = pytest.importorskip("torch")
    return lambda array: torch.from_numpy(array.copy()), torch.Tensor


def _jax():
    jax = pytest.importorskip("jax")
    return jax.numpy.asarray, jax.Array


each_library = pytest.mark.parametrize("library", [_strict, _torch, _jax], ids=lambda f: f.__name__)


@each_library
def test_every_function_gives_back_what_it_was_given(library):
    make, kind = library()
    x, w, bias = make(X), make(W), make(BIAS)
    kernel = make(W[0, 0])
    for name, y, expected in (
        ("conv2d", conv2d(x, w, bias), EXPECTED),
        ("strided", conv2d(x, w, stride=2, padding=1), conv2d(X, W, stride=2, padding=1)),
        ("im2col", simdconv.im2col(x, 3), simdconv.im2col(X, 3)),
        ("im2win", simdconv.im2win(x, (3, 2)), simdconv.im2win(X, (3, 2))),
        ("correlate2d", simdconv.correlate2d(x, kernel), simdconv.correlate2d(X, W[0, 0])),
        ("convolve2d", simdconv.convolve2d(x, kernel, "same", "symm"),
         simdconv.convolve2d(X, W[0, 0], "same", "symm")),
        ("module", simdconv.Conv2d(w, bias)(x), EXPECTED),
    ):  # fmt: skip
        assert isinstance(y, kind), name
        assert np.array_equal(np.from_dlpack(y), expected), name


@each_library
def test_ndarrays_mix_with_any_one_library(library):
    make, kind = library()
    for arrays in ((make(X), W, BIAS), (X, make(W), BIAS), (X, W, make(BIAS))):
        y = conv2d(*arrays)
        assert isinstance(y, kind)
        assert np.array_equal(np.from_dlpack(y), EXPECTED)


@each_library
def test_inputs_come_in_without_a_copy_and_unharmed(library):
    make, _ = library()
    x = make(X)
    seen = []

    class Spy:
        name, api_version = "spy", 1

        def declines(self, spec):
            return None

        def plan(self, spec):
            return simdconv.backends.get("numpy").plan(spec)

        def conv2d(self, spec, x, w, bias, out):
            seen.append((x, out))
            out[...] = 1

        def transform(self, spec, x, out):
            raise AssertionError

    before = dict(simdconv.backends._entries)
    simdconv.register_backend("spy", Spy)
    try:
        y = conv2d(x, make(W), backend="spy")
    finally:
        simdconv.backends._entries.clear()
        simdconv.backends._entries.update(before)
        simdconv.backends.generation += 1
    ((image, out),) = seen
    assert np.shares_memory(image, np.from_dlpack(x))
    if library is not _jax:  # which takes over memory only where it is aligned as its own
        assert np.shares_memory(out, np.from_dlpack(y))
    assert np.array_equal(np.from_dlpack(x), X)


@each_library
def test_out(library):
    make, _ = library()
    out = make(np.full_like(EXPECTED, np.nan))
    if library is _jax:
        with pytest.raises(ValueError, match="out is read-only"):
            conv2d(make(X), make(W), make(BIAS), out=out)
        assert np.all(np.isnan(np.from_dlpack(out)))
        return
    assert conv2d(make(X), make(W), make(BIAS), out=out) is out
    assert np.array_equal(np.from_dlpack(out), EXPECTED)
    assert conv2d(X, W, out=out) is out
    array = np.empty_like(EXPECTED)
    assert conv2d(make(X), make(W), make(BIAS), out=array) is array
    assert np.array_equal(array, EXPECTED)


@each_library
def test_explain_and_errors(library):
    make, _ = library()
    assert "DLPack" in simdconv.explain(make(X), make(W)).array_family
    with pytest.raises(ValueError, match="stride"):
        conv2d(make(X), make(W), stride=0)
    with pytest.raises(ValueError, match="c_in=2"):
        conv2d(make(X), make(W[:, :1]))
    with pytest.raises(TypeError, match="dtype bool"):
        conv2d(make(X > 3), make(W))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float64", "complex64"])
def test_dtypes(dtype):
    make, kind = _torch()
    y = conv2d(make(X.astype(dtype)), make(W.astype(dtype)))
    expected = conv2d(X.astype(dtype), W.astype(dtype))
    assert isinstance(y, kind)
    assert y.numpy().dtype == expected.dtype
    assert np.array_equal(y.numpy(), expected)


def test_strict_devices_are_kept():
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    y = conv2d(strict.asarray(X, device=device), strict.asarray(W, device=device))
    assert y.device == device


def test_jax_bfloat16():
    jnp = pytest.importorskip("jax").numpy
    y = conv2d(jnp.asarray(X, jnp.bfloat16), jnp.asarray(W, jnp.bfloat16))
    assert y.dtype == jnp.bfloat16
    exact = conv2d(X, W)
    assert np.allclose(np.asarray(y, np.float32), exact, rtol=2.0**-8)


def test_jax_transformations():
    jax = pytest.importorskip("jax")
    x, w = jax.numpy.asarray(X), jax.numpy.asarray(W)
    with pytest.raises(TypeError, match="traced"):
        jax.jit(conv2d)(x, w)
    with pytest.raises(TypeError, match="traced"):
        jax.grad(lambda weight: conv2d(x, weight).sum())(w)
    shape = jax.ShapeDtypeStruct(EXPECTED.shape, np.float32)
    y = jax.jit(lambda x, w: jax.pure_callback(conv2d, shape, x, w))(x, w)
    assert np.array_equal(y, conv2d(X, W))


class OnDevice:
    """An array that no CPU can read."""

    def __init__(self, error=None):
        self.error = error

    def __dlpack__(self, **keywords):
        raise AssertionError("must not be asked")

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("must not be copied behind its user's back")

    def __dlpack_device__(self):
        if self.error:
            raise self.error
        return (2, 0)


class OverridingOnDevice(OnDevice):
    def __array_function__(self, function, types, args, kwargs):
        return NotImplemented


@pytest.mark.parametrize("place", ["x", "w", "bias", "out"])
@pytest.mark.parametrize(
    "array", [OnDevice(), OnDevice(ValueError("no such device")), OverridingOnDevice()]
)
def test_device_arrays_are_told_to_come_to_the_cpu(place, array):
    arrays = {"x": X, "w": W, "bias": BIAS, "out": None, place: array}
    with pytest.raises(TypeError, match=r"is on a device \(.*\): copy it to the CPU first"):
        conv2d(**arrays)


def test_what_torch_does_not_show():
    torch = pytest.importorskip("torch")
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    for bad, words in (
        (x.to("meta"), "on a device"),
        (x.to_sparse(), "strided"),
        (x.bfloat16(), "convert it to float32"),
        (x.clone().requires_grad_(), "detach"),
        (x.to(torch.complex64).conj(), "conj"),
        (x.to(torch.complex64).conj().imag, "resolve_neg"),
    ):
        with pytest.raises(TypeError, match=words):
            conv2d(bad, w)
    with torch.inference_mode():
        assert torch.equal(conv2d(x, w), torch.from_numpy(conv2d(X, W)))
    assert torch.equal(conv2d(x.flip(2)[:, :, ::2], w[..., :1]),
                       torch.from_numpy(conv2d(X[:, :, ::-2], W[..., :1])))  # fmt: skip


def test_libraries_do_not_mix():
    torch = pytest.importorskip("torch")
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match=r"different libraries \(x: .*strict.*w: torch\.Tensor\)"):
        conv2d(strict.asarray(X), torch.from_numpy(W))
    with pytest.raises(TypeError, match="different libraries"):
        conv2d(X, strict.asarray(W), torch.from_numpy(BIAS))
    with pytest.raises(TypeError, match="different libraries"):
        conv2d(torch.from_numpy(X), W, out=strict.asarray(EXPECTED))
    with pytest.raises(TypeError, match="different libraries"):
        simdconv.explain(strict.asarray(X), torch.from_numpy(W))
