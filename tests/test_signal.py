"""correlate2d and convolve2d: by hand, against plain loops, and against SciPy where it is there."""

import itertools

import numpy as np
import pytest

import simdconv
from simdconv import ShapeError, convolve2d, correlate2d

MODES = ("full", "same", "valid")
BOUNDARIES = ("fill", "wrap", "symm")
PAD_MODES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
FUNCTIONS = [correlate2d, convolve2d]


def whole(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0 if np.dtype(dtype).kind == "u" else -5, 6, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.integers(-5, 6, shape)
    return values.astype(dtype)


def by_loops(function, image, kernel, mode, boundary, fillvalue=0):
    """SciPy's definition, written with np.pad and a loop over the kernel; no swap."""
    h, w = kernel.shape
    kernel = kernel[::-1, ::-1] if function is convolve2d else kernel.conj()
    options = {"constant_values": fillvalue} if boundary == "fill" else {}
    padded = np.pad(image, ((h - 1, h - 1), (w - 1, w - 1)), PAD_MODES[boundary], **options)
    rows, columns = image.shape[0] + h - 1, image.shape[1] + w - 1
    full = sum(
        kernel[u, v] * padded[u : u + rows, v : v + columns].astype(np.result_type(kernel, image))
        for u, v in np.ndindex(h, w)
    )
    if mode == "full":
        return full
    if mode == "valid":
        return full[h - 1 : image.shape[0], w - 1 : image.shape[1]]
    # "same": convolution starts at (k-1)//2, and its mirror image, correlation, at k//2
    top, left = ((h - 1) // 2, (w - 1) // 2) if function is convolve2d else (h // 2, w // 2)
    return full[top : top + image.shape[0], left : left + image.shape[1]]


def test_by_hand():
    image = np.array([[1, 2], [3, 4]])
    kernel = np.array([[1, 10]])
    assert convolve2d(image, kernel).tolist() == [[1, 12, 20], [3, 34, 40]]
    assert correlate2d(image, kernel).tolist() == [[10, 21, 2], [30, 43, 4]]
    assert convolve2d(image, kernel, "same").tolist() == [[1, 12], [3, 34]]
    assert correlate2d(image, kernel, "same").tolist() == [[21, 2], [43, 4]]
    assert convolve2d(image, kernel, "valid").tolist() == [[12], [34]]
    assert correlate2d(image, kernel, "valid").tolist() == [[21], [43]]
    assert convolve2d(image, kernel, "full", "wrap").tolist() == [[21, 12, 21], [43, 34, 43]]
    assert convolve2d(image, kernel, "full", "symm").tolist() == [[11, 12, 22], [33, 34, 44]]
    assert convolve2d(image, kernel, fillvalue=7).tolist() == [[71, 12, 27], [73, 34, 47]]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128, np.int64])
def test_against_loops(function, mode, boundary, dtype):
    for kernel_shape in ((1, 1), (2, 3), (3, 2), (4, 4), (5, 1)):
        image, kernel = whole((6, 7), dtype), whole(kernel_shape, dtype, 1)
        actual = function(image, kernel, mode, boundary)
        assert actual.dtype == dtype
        assert np.array_equal(actual, by_loops(function, image, kernel, mode, boundary))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mode", ["full", "same"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_kernels_larger_than_the_image(function, mode, boundary):
    image, kernel = whole((3, 2), float), whole((8, 7), float, 1)
    expected = by_loops(function, image, kernel, mode, boundary)
    assert np.array_equal(function(image, kernel, mode, boundary), expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_valid_swaps_operands(function):
    image, kernel = whole((2, 3), complex), whole((5, 4), complex, 1)
    if function is convolve2d:
        expected = by_loops(function, kernel, image, "valid", "fill")
    else:
        expected = by_loops(function, kernel, image, "valid", "fill")[::-1, ::-1]
    assert np.array_equal(function(image, kernel, "valid"), expected)
    batch = np.stack([image, 2 * image, image + 1])
    many = function(batch, kernel, "valid")
    for index in range(3):
        assert np.array_equal(many[index], function(batch[index], kernel, "valid"))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_leading_axes_are_a_batch(function, boundary):
    images, kernel = whole((2, 3, 5, 6), np.float32), whole((3, 4), np.float32, 1)
    for mode in MODES:
        many = function(images, kernel, mode, boundary, 2)
        for index in np.ndindex(2, 3):
            one = function(images[index], kernel, mode, boundary, 2)
            assert np.array_equal(many[index], one)
    assert function(images[:0], kernel).shape == (0, 3, 7, 9)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("image", "kernel", "expected"),
    [("i1", "i1", "i4"), ("u1", "u1", "i4"), ("u1", "i2", "i8"), ("f2", "f2", "f2"),
     ("f4", "f8", "f8"), ("i4", "f4", "f8"), ("f4", "c8", "c8"), ("f8", "c8", "c16")],
)  # fmt: skip
def test_dtypes(function, image, kernel, expected):
    a, b = whole((5, 6), image), whole((2, 3), kernel, 1)
    for fill in (0, 3):
        y = function(a, b, fillvalue=fill)
        assert y.dtype == np.dtype(expected)
        wide = np.complex128 if y.dtype.kind == "c" else np.float64
        expected_values = by_loops(function, a.astype(wide), b.astype(wide), "full", "fill", fill)
        assert np.array_equal(y.astype(wide), expected_values)


def test_integers_do_not_wrap():
    image, kernel = np.full((3, 3), 255, np.uint8), np.full((3, 3), 255, np.uint8)
    assert convolve2d(image, kernel, "valid").item() == 9 * 255 * 255


def test_fill_values():
    image, kernel = np.ones((2, 2), np.int8), np.ones((2, 2), np.int8)
    for fill in (300, 300.9, np.float32(300), [300], np.array([[300]])):
        y = correlate2d(image, kernel, fillvalue=fill)
        assert y.dtype == np.int32
        assert y[0, 0] == 901
    real, unit = np.ones((1, 1)), np.ones((1, 2), complex)
    assert convolve2d(real, unit, fillvalue=2j).tolist() == [[1 + 2j, 1 + 2j]]
    assert np.isnan(convolve2d(real, np.ones((1, 2)), fillvalue=np.nan)).all()
    for fill in (1j, [1, 2], "a", None, [], np.inf, 2**40):
        with pytest.raises(ValueError, match="fillvalue"):
            correlate2d(image, kernel, fillvalue=fill)


def test_lists_are_taken():
    assert convolve2d([[1, 2]], [[1, 1]]).tolist() == [[1, 3, 2]]


def test_bad_arguments():
    image, kernel = np.ones((4, 5)), np.ones((2, 2))
    for keywords in ({"mode": "half"}, {"boundary": "edge"}):
        with pytest.raises(ValueError, match="expected one of"):
            convolve2d(image, kernel, **keywords)
    for keywords in ({"mode": 2}, {"boundary": None}):
        with pytest.raises(TypeError, match="must be a str"):
            convolve2d(image, kernel, **keywords)
    with pytest.raises(ShapeError, match="image must have at least 2"):
        correlate2d(image[0], kernel)
    with pytest.raises(ShapeError, match="kernel must have 2"):
        correlate2d(image, kernel[None])
    with pytest.raises(ShapeError, match="empty"):
        correlate2d(image[:0], kernel)
    with pytest.raises(ShapeError, match="empty"):
        correlate2d(image, kernel[:, :0])
    with pytest.raises(ShapeError, match="'valid'"):
        correlate2d(np.ones((2, 5)), np.ones((5, 2)), "valid")
    for dtype in (bool, object, np.uint64):
        with pytest.raises(TypeError, match="image"):
            correlate2d(image.astype(dtype), kernel)
    with pytest.raises(TypeError, match="masked"):
        correlate2d(np.ma.masked_array(image), kernel)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_against_scipy(function, mode, boundary):
    signal = pytest.importorskip("scipy.signal")
    theirs = getattr(signal, function.__name__)
    shapes = ((1, 1), (2, 2), (3, 3), (4, 3), (7, 6))
    for a, b in itertools.product(((7, 6), (8, 9)), shapes):
        for dtype in (np.float64, np.complex128, np.int64):
            image, kernel = whole(a, dtype), whole(b, dtype, 1)
            expected = theirs(image, kernel, mode, boundary, 0)
            actual = function(image, kernel, mode, boundary)
            assert actual.dtype == expected.dtype
            assert np.array_equal(actual, expected)
        if mode == "valid":
            expected = theirs(kernel, image, mode, boundary)
            assert np.array_equal(function(kernel, image, mode, boundary), expected)
    fill = 3.5
    image, kernel = whole((5, 6), float), whole((2, 3), float, 1)
    expected = theirs(image, kernel, mode, "fill", fill)
    assert np.array_equal(function(image, kernel, mode, "fill", fill), expected)


def test_torch_in_and_out():
    torch = pytest.importorskip("torch")
    y = correlate2d(torch.ones(2, 4, 4), torch.ones(2, 2), "valid")
    assert isinstance(y, torch.Tensor)
    assert y.shape == (2, 3, 3)


@pytest.mark.parametrize("backend", [i.name for i in simdconv.list_backends() if i.available])
def test_every_backend(backend):
    image, kernel = whole((9, 11), np.float32), whole((4, 3), np.float32, 1)
    with simdconv.use_backend(backend):
        for mode, boundary in itertools.product(MODES, BOUNDARIES):
            expected = by_loops(convolve2d, image, kernel, mode, boundary)
            assert np.array_equal(convolve2d(image, kernel, mode, boundary), expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_fillvalue_is_looked_at_where_scipy_does(function):
    """Only a boundary that is filled must fit it, also in "valid" with the operands swapped."""
    image, kernel = np.ones((3, 3)), np.ones((2, 2))
    for boundary in ("wrap", "symm"):
        assert np.array_equal(
            function(image, kernel, "full", boundary, 2 + 1j),
            function(image, kernel, "full", boundary),
        )
        with pytest.raises(ValueError, match="fillvalue"):
            function(image, kernel, "full", boundary, [1, 2])
    for a, b in ((image, kernel), (kernel, image)):
        for bad in (2 + 1j, [1, 2], "x"):
            with pytest.raises(ValueError, match="fillvalue"):
                function(a, b, "valid", "fill", bad)
