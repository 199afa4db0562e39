"""Memory of every kind going in and coming out, and axes of length zero."""

import numpy as np
import pytest

import simdconv
from simdconv import BackendNotImplementedError, conv2d, to_layout
from simdconv.testing import can_run, guarded

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
ALGORITHMS = ("auto", "direct", "im2col", "im2win", "implicit")
RNG = np.random.default_rng(12)
X = RNG.integers(-4, 5, (3, 4, 6, 7)).astype(np.float32)
W = RNG.integers(-4, 5, (6, 4, 3, 2)).astype(np.float32)
BIAS = RNG.integers(-4, 5, 6).astype(np.float32)

PATHS = [(name, algorithm) for name in BACKENDS for algorithm in ALGORITHMS
         if can_run(name, X, W, algorithm=algorithm)]  # fmt: skip

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_layout = pytest.mark.parametrize("layout", LAYOUTS)


def valid(x, w, bias=None):
    """Plain convolution of whole numbers, exactly."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    y = np.einsum("nchwuv,ocuv->nohw", windows.astype(np.float64), w.astype(np.float64))
    return y if bias is None else y + bias[:, None, None]


def views(array):
    """The same values in memory of many kinds."""
    f_order = np.asfortranarray(array)
    spread = np.full(tuple(2 * size for size in array.shape), 99, array.dtype)
    spread = spread[tuple(slice(1, None, 2) for _ in array.shape)]
    spread[...] = array
    backwards = array[..., ::-1].copy()[..., ::-1]
    upside_down = array[:, ::-1, ::-1].copy()[:, ::-1, ::-1]
    shifted = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    locked = array.copy()
    locked.flags.writeable = False
    swapped = array.astype(array.dtype.newbyteorder())
    moved = np.moveaxis(np.moveaxis(array, 1, -1).copy(), -1, 1)
    made = {"F order": f_order, "spread": spread, "backwards": backwards, "moved": moved,
            "upside down": upside_down, "misaligned": shifted, "read-only": locked,
            "byte order": swapped}  # fmt: skip
    made.update(guarded=guarded(array), guarded_start=guarded(array, "start"))
    return made


@each_backend
@each_layout
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inputs_of_any_strides_alignment_and_byte_order(backend, layout, dtype):
    x, w = to_layout(X, "NCHW", layout).astype(dtype), W.astype(dtype)
    keywords = {"layout": layout, "backend": backend, "padding": 1}
    expected = conv2d(x, w, **keywords)
    assert np.array_equal(to_layout(expected, layout, "NCHW", n=3),
                          valid(np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1))), W))  # fmt: skip
    for name, view in views(x).items():
        before = view.copy()
        assert np.array_equal(conv2d(view, w, **keywords), expected), name
        assert np.array_equal(view, before)
    for name, view in views(w).items():
        assert np.array_equal(conv2d(x, view, **keywords), expected), name


@pytest.mark.parametrize(("backend", "algorithm"), PATHS)
@pytest.mark.parametrize("layout", ("NCHW", "NHWC", "CHWN"))
@pytest.mark.parametrize("axis", ("H", "W"))
@pytest.mark.parametrize("filters", (1, 3, 6))
def test_lines_of_every_other_pixel(backend, algorithm, layout, axis, filters):
    """An axis of one pixel says nothing about how the pixels of the other one lie."""
    line = RNG.integers(-4, 5, (1, 4, 120, 1) if axis == "H" else (1, 4, 1, 120)).astype(np.float32)
    w = RNG.integers(-4, 5, (filters, 4, 1, 1)).astype(np.float32)
    x = to_layout(line, "NCHW", layout)
    expected = to_layout(valid(line, w), "NCHW", layout)
    at = layout.index(axis)
    for step in (2, -1, -3):
        room = np.full(
            [size * abs(step) if i == at else size for i, size in enumerate(x.shape)], 99.0
        )
        room = room.astype(np.float32)
        view = room[tuple(slice(None, None, step) if i == at else slice(None) for i in range(4))]
        view[...] = x
        found = conv2d(view, w, layout=layout, backend=backend, algorithm=algorithm)
        np.testing.assert_array_equal(found, expected)


@each_backend
@each_layout
def test_repeated_images_and_filters(backend, layout):
    x = np.broadcast_to(X[:1, :1, :, :1], X.shape)
    w = np.broadcast_to(W[:1, :1], W.shape)
    axes = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), "CHWN": (1, 2, 3, 0)}
    image = to_layout(x, "NCHW", "CHWN8") if layout == "CHWN8" else x.transpose(axes[layout])
    y = conv2d(image, w, np.broadcast_to(BIAS[:1], 6), layout=layout, backend=backend)
    expected = valid(np.array(x), np.array(w), np.full(6, BIAS[0]))
    assert np.array_equal(to_layout(y, layout, "NCHW", n=3), expected)


@each_layout
@pytest.mark.parametrize(("backend", "algorithm"), PATHS)
def test_out_is_filled_and_returned(backend, layout, algorithm):
    x = to_layout(X, "NCHW", layout)
    keywords = {"layout": layout, "backend": backend, "algorithm": algorithm}
    expected = conv2d(x, W, BIAS, **keywords)
    for name, view in views(np.full_like(expected, np.nan)).items():
        if name in ("read-only", "byte order"):
            continue
        assert conv2d(x, W, BIAS, out=view, **keywords) is view
        same = to_layout(view, layout, "NCHW", n=3) == to_layout(expected, layout, "NCHW", n=3)
        assert np.all(same), name
    base = np.full(tuple(2 * size for size in expected.shape), np.nan, np.float32)
    conv2d(x, W, BIAS, out=base[tuple(slice(None, None, 2) for _ in base.shape)], **keywords)
    assert np.count_nonzero(np.isnan(base)) >= base.size - expected.size


@each_backend
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
def test_one_image_without_batch_axis(backend, layout):
    x = to_layout(X[:1], "NCHW", layout)
    axis = {"NCHW": 0, "NHWC": 0, "CHWN": 3}[layout]
    for dtype in (np.float32, np.float16):
        keywords = {"layout": layout, "backend": backend, "padding": 1}
        try:
            y = conv2d(x.squeeze(axis).astype(dtype), W.astype(dtype), **keywords)
        except BackendNotImplementedError:
            continue
        assert np.array_equal(y, conv2d(x, W, **keywords).squeeze(axis))
        out = np.empty_like(y)
        assert conv2d(x.squeeze(axis).astype(dtype), W.astype(dtype), out=out, **keywords) is out
        assert np.array_equal(out, y)


@each_backend
@each_layout
def test_empty_axes(backend, layout):
    def shape(n, c):
        return to_layout(np.ones((n, c, 5, 5), np.float32), "NCHW", layout)

    keywords = {"layout": layout, "backend": backend}
    assert conv2d(shape(0, 4), W, **keywords).size == 0
    y = conv2d(shape(2, 4), W[:0], **keywords)
    assert y.size == 0
    y = conv2d(shape(2, 0), W[:, :0], BIAS, **keywords)
    assert np.array_equal(to_layout(y, layout, "NCHW", n=2),
                          np.broadcast_to(BIAS[:, None, None], (2, 6, 3, 4)))  # fmt: skip
    assert np.all(conv2d(shape(2, 0), W[:, :0], **keywords) == 0)
    out = np.full_like(y, np.nan)
    conv2d(shape(2, 0), W[:, :0], out=out, **keywords)
    assert np.all(out == 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transform", ["im2col", "im2win"])
def test_transforms_of_empty_images(backend, transform):
    """im2win has w_p columns, and so something to fill, even where no window fits."""
    run = getattr(simdconv, transform)
    for shape in ((1, 1, 5, 0), (1, 1, 0, 5), (1, 1, 0, 0), (0, 1, 5, 0)):
        x = np.ones(shape, np.float32)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
            keywords = {"padding": "same", "padding_mode": mode, "backend": backend}
            if transform == "im2win" and mode != "constant" and shape == (1, 1, 5, 0):
                with pytest.raises(ValueError, match="cannot extend an image of width 0"):
                    run(x, 3, **keywords)
            else:
                assert not run(x, 3, **keywords).any()


def test_empty_images():
    x = np.ones((2, 4, 0, 7), np.float32)
    y = conv2d(x, W, BIAS, padding=((2, 1), (0, 0)))
    assert np.array_equal(y, np.broadcast_to(BIAS[:, None, None], (2, 6, 1, 6)))
    assert conv2d(x, W, padding="same").shape == (2, 6, 0, 7)
    assert conv2d(x, W, padding="same", padding_mode="wrap").shape == (2, 6, 0, 7)
    with pytest.raises(ValueError, match="cannot extend an image of height 0"):
        conv2d(x, W, padding=2, padding_mode="reflect")
