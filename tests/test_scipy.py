"""SciPy's own tests of convolve2d and correlate2d on ours; np.pad, cv2.filter2D and ndimage."""

import itertools

import numpy as np
import pytest

import simdconv
from simdconv import conv2d, convolve2d, correlate2d

OURS = {"convolve2d": convolve2d, "correlate2d": correlate2d}
RNG = np.random.default_rng(23)
IMAGE = RNG.integers(-9, 10, (17, 14)).astype(np.float64)
ODD = [(1, 1), (3, 3), (1, 5), (7, 3), (5, 5), (9, 11)]


def scipys_tests():
    """(class, method, arguments) of each case in SciPy's two classes."""
    try:
        from scipy.signal.tests import test_signaltools as suite
    except Exception:  # no SciPy, or one that comes without its tests
        return [pytest.param(None, None, {}, marks=pytest.mark.skip(reason="no scipy tests"))]
    cases = []
    for name in ("TestConvolve2d", "TestCorrelate2d"):
        for method, function in vars(getattr(suite, name)).items():
            if not method.startswith("test_") or method == "test_large_array":  # it takes 4 GiB
                continue
            marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
            axes = []
            for mark in marks:
                names = [item.strip() for item in mark.args[0].split(",")]
                rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
                axes.append([dict(zip(names, row, strict=True)) for row in rows])
            for rows in itertools.product(*axes):
                arguments = {key: value for row in rows for key, value in row.items()}
                label = f"{name}-{method}-{len(cases)}"
                cases.append(pytest.param(name, method, arguments, id=label))
    return cases


@pytest.mark.parametrize(("name", "method", "arguments"), scipys_tests())
def test_scipys_own(name, method, arguments, monkeypatch):
    from scipy import signal
    from scipy.signal.tests import test_signaltools as suite

    for function, ours in OURS.items():
        monkeypatch.setattr(suite, function, ours)
        monkeypatch.setattr(signal, function, ours)
    if "func" in arguments:  # which SciPy's parametrization has taken from itself
        arguments = {**arguments, "func": OURS[arguments["func"].__name__]}
    namespace = getattr(suite, "np_compat", np)
    getattr(getattr(suite, name)(), method)(**arguments, xp=namespace)


def test_suite_is_not_empty():
    pytest.importorskip("scipy.signal.tests.test_signaltools", reason="no scipy tests")
    assert len(scipys_tests()) >= 20


@pytest.mark.parametrize("function", list(OURS))
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_random_images_of_all_sizes(function, mode, boundary):
    signal = pytest.importorskip("scipy.signal", reason="scipy is not installed")
    for _ in range(40):
        a, b = (tuple(int(n) for n in RNG.integers(1, 10, 2)) for _ in range(2))
        if mode == "valid" and not all(p >= q for p, q in zip(a, b, strict=True)):
            a, b = (max(a[0], b[0]), max(a[1], b[1])), (min(a[0], b[0]), min(a[1], b[1]))
        image, kernel = RNG.integers(-9, 10, a), RNG.integers(-9, 10, b)
        dtype = RNG.choice(["f4", "f8", "c8", "c16", "i8"])
        image, kernel = image.astype(dtype), kernel.astype(dtype)
        fill = int(RNG.integers(-3, 4)) if boundary == "fill" else 0
        expected = getattr(signal, function)(image, kernel, mode, boundary, fill)
        actual = OURS[function](image, kernel, mode, boundary, fill)
        assert actual.dtype == expected.dtype
        assert np.array_equal(actual, expected), (a, b, dtype, fill)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_padding_is_np_pad(mode):
    """Padded by conv2d, and padded by np.pad before: the same results, at any width."""
    for _ in range(60):
        c, h, w = (int(n) for n in RNG.integers(1, 8, 3))
        pads = tuple((int(a), int(b)) for a, b in RNG.integers(0, 20, (2, 2)))
        x = RNG.integers(-9, 10, (2, c, h, w)).astype(np.float32)
        padded_sizes = (n + sum(p) for n, p in zip((h, w), pads, strict=True))
        k_h, k_w = (int(min(RNG.integers(1, 5), n)) for n in padded_sizes)
        filters = RNG.integers(-9, 10, (3, c, k_h, k_w)).astype(np.float32)
        stride = int(RNG.integers(1, 4))
        padded = np.pad(x, ((0, 0), (0, 0), *pads), mode=mode)
        expected = conv2d(padded, filters, stride=stride, backend="numpy")
        for backend in ("simd", "blas", "numpy"):
            y = conv2d(x, filters, padding=pads, padding_mode=mode, stride=stride, backend=backend)
            assert np.array_equal(y, expected), (pads, backend)
        for transform in (simdconv.im2col, simdconv.im2win):
            stored = transform(x, (k_h, k_w), padding=pads, padding_mode=mode, stride=stride)
            assert np.array_equal(stored, transform(padded, (k_h, k_w), stride=stride))


@pytest.mark.parametrize("shape", ODD)
@pytest.mark.parametrize(
    ("mode", "border"),
    [("constant", "BORDER_CONSTANT"), ("edge", "BORDER_REPLICATE"),
     ("reflect", "BORDER_REFLECT_101"), ("symmetric", "BORDER_REFLECT")],
)  # fmt: skip
def test_opencv(shape, mode, border):
    cv2 = pytest.importorskip("cv2", reason="opencv is not installed")
    kernel = RNG.integers(-9, 10, shape).astype(np.float64)
    expected = cv2.filter2D(IMAGE, -1, kernel, borderType=getattr(cv2, border))
    y = conv2d(IMAGE[None], kernel[None, None], padding="same", padding_mode=mode)[0]
    # filter2D takes Fourier transforms for large kernels
    assert np.allclose(y, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [*ODD, (2, 2), (4, 3)])
@pytest.mark.parametrize(
    ("mode", "theirs"),
    [("constant", "constant"), ("edge", "nearest"), ("reflect", "mirror"),
     ("symmetric", "reflect"), ("wrap", "grid-wrap")],
)  # fmt: skip
def test_ndimage(shape, mode, theirs):
    ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed")
    kernel = RNG.integers(-9, 10, shape).astype(np.float64)
    expected = ndimage.correlate(IMAGE, kernel, mode=theirs)
    # the centre of an even kernel is the element after the middle: the odd pad comes first
    y = conv2d(IMAGE[None], kernel[None, None], padding="same_lower", padding_mode=mode)[0]
    assert np.array_equal(y, expected)
    small = IMAGE[:3, :2].copy()  # the kernel is larger than the image
    expected = ndimage.correlate(small, kernel, mode=theirs)
    y = conv2d(small[None], kernel[None, None], padding="same_lower", padding_mode=mode)[0]
    assert np.array_equal(y, expected)
