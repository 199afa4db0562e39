"""explain(...).workspace_bytes counts the copies of arrays that kernels cannot take as they lie."""

import itertools
import tracemalloc

import numpy as np
import pytest

import simdconv
from simdconv import conv2d, to_layout
from simdconv.backends.simd import _core

LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
ALGORITHMS = ("direct", "im2win", "im2col", "implicit")
# the interpreter's objects of a call; every copied array here is larger
OBJECTS = 6_000


def spaced(array, axis):
    """The same numbers, every second element of memory along an axis."""
    shape = list(array.shape)
    shape[axis] *= 2
    wide = np.zeros(shape, array.dtype)
    view = wide[(slice(None),) * (axis % array.ndim) + (slice(None, None, 2),)]
    view[...] = array
    return view


def misaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    memory[...] = array
    return memory


def record_field(array):
    """A field of a packed record: strides that are no multiple of the element's size."""
    records = np.zeros(array.shape, [("before", np.uint8), ("it", array.dtype)])
    records["it"] = array
    return records["it"]


MEMORY = {
    "plain": lambda a: a,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "other dtype": lambda a: a.astype(np.int16 if a.dtype == np.float32 else np.float32),
    "Fortran order": np.asfortranarray,
    "every second row": lambda a: spaced(a, 0),
    "every second last": lambda a: spaced(a, -1),
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
    "misaligned": misaligned,
    "field of a record": record_field,
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
}


def announced_and_allocated(x, w, bias, out, **keywords):
    plan = simdconv.explain(x, w, bias, out=out, **keywords)
    conv2d(x, w, bias, out=out, **keywords)
    tracemalloc.start()
    conv2d(x, w, bias, out=out, **keywords)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if plan.backend == "simd":
        peak += _core.last_allocation()
    return plan.workspace_bytes, peak


def arrays(layout, dtype=np.float32, k=3, n=8, size=(16, 17), c_out=32):
    rng = np.random.default_rng(0)
    x = to_layout(rng.integers(-4, 5, (n, 6, *size)).astype(dtype), "NCHW", layout)
    w = rng.integers(-4, 5, (c_out, 6, k, k)).astype(dtype)
    return x, w, rng.integers(-4, 5, c_out).astype(dtype)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_simd_announces_its_copies(layout, algorithm):
    keywords = {"layout": layout, "backend": "simd", "num_threads": 1, "algorithm": algorithm}
    for dtype, k in ((np.float32, 3), (np.float64, 3), (np.float32, 1)):
        x, w, bias = arrays(layout, dtype, k)
        for of_x, of_w in itertools.product(MEMORY, ("plain", "Fortran order")):
            changed = MEMORY[of_x](x), MEMORY[of_w](w)
            out = np.empty_like(conv2d(*changed, bias, **keywords))
            said, got = announced_and_allocated(*changed, bias, out, **keywords)
            assert said <= got <= said + OBJECTS, (dtype, k, of_x, of_w)


@pytest.mark.parametrize("weight_layout", ["OIHW", "HWIO", "OHWI", "IHWO"])
def test_filters_bias_and_out(weight_layout):
    order = ["OIHW".index(axis) for axis in weight_layout]
    for algorithm, k in itertools.product(ALGORITHMS, (1, 3)):
        keywords = {"weight_layout": weight_layout, "backend": "simd", "num_threads": 1,
                    "algorithm": algorithm}  # fmt: skip
        x, w, bias = arrays("NCHW", k=k)
        w = np.ascontiguousarray(w.transpose(order))
        expected = conv2d(x, w, bias, **keywords)
        for of_w, of_bias, of_out in itertools.product(
            MEMORY, ("plain", "backwards"), ("plain", "misaligned", "every second last")
        ):
            out = MEMORY[of_out](np.empty_like(expected))
            changed = x, MEMORY[of_w](w), MEMORY[of_bias](bias)
            if changed[1].dtype == np.int16:
                changed = changed[0], w.astype(np.float16), changed[2]
            said, got = announced_and_allocated(*changed, out, **keywords)
            assert said <= got <= said + OBJECTS, (algorithm, k, of_w, of_bias, of_out)
            if of_w != "repeated":
                assert np.array_equal(out, expected), (algorithm, k, of_w, of_bias, of_out)


@pytest.mark.parametrize("backend", ["blas", "numpy"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_backends_announce_theirs(layout, backend):
    """Images are larger than the buffers of NumPy's ufuncs."""
    x, w, bias = arrays(layout, n=8 if layout == "CHWN8" else 1, size=(120, 170), c_out=2)
    cases = [*itertools.product(MEMORY, ("plain",), ("plain",)),
             *itertools.product(("plain",), MEMORY, ("plain", "other dtype"))]  # fmt: skip
    for of_x, of_w, of_bias in cases:
        changed = MEMORY[of_x](x), MEMORY[of_w](w), MEMORY[of_bias](bias)
        keywords = {"layout": layout, "backend": backend, "num_threads": 1}
        out = np.empty_like(conv2d(*changed, **keywords))
        said, got = announced_and_allocated(*changed, out, **keywords)
        assert said <= got + 16 <= said + 300_000, (of_x, of_w, of_bias)


def test_a_limit_counts_copies():
    x, w, _ = arrays("NCHW")
    strided = spaced(x, -1)
    keywords = {"backend": "simd", "algorithm": "direct", "num_threads": 1}
    plain = simdconv.explain(x, w, **keywords).workspace_bytes
    assert simdconv.explain(strided, w, **keywords).workspace_bytes == plain + x.nbytes
    assert simdconv.explain(spaced(x, 0), w, **keywords).workspace_bytes == plain
    with simdconv.options(max_workspace=plain):
        assert np.array_equal(conv2d(x, w, **keywords), conv2d(spaced(x, 0), w, **keywords))
        with pytest.raises(MemoryError, match=f"max_workspace={plain}"):
            conv2d(strided, w, **keywords)


def images_of_one_pixel(layout):
    """Axes of one element, whose strides NumPy leaves as they come."""
    at = {"NCHW": np.s_[:, :, None, None], "NHWC": np.s_[:, None, None, :],
          "CHWN": np.s_[:, None, None, :], "CHWN8": np.s_[None, :, None, None]}  # fmt: skip
    shape = (8, 16) if layout in ("NCHW", "NHWC") else (16, 8)
    return np.arange(8 * 16, dtype=np.float32).reshape(shape)[at[layout]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_that_1x1_filters_see_as_one_row(layout):
    """Rows and images that follow one another are joined; slices with gaps are not."""
    rng = np.random.default_rng(1)
    wide = to_layout(rng.integers(-4, 5, (16, 8, 13, 14)).astype(np.float32), "NCHW", layout)
    views = [images_of_one_pixel(layout), wide]
    for axis in range(wide.ndim):
        views += [np.moveaxis(np.moveaxis(wide, axis, 0)[part], 0, axis)
                  for part in (slice(1, None), slice(None, None, 2), slice(0, 1), slice(3, 4))
                  if layout != "CHWN8" or axis < 4]  # fmt: skip
    views = [view for view in views if view.size]
    for x, algorithm in itertools.product(views, ALGORITHMS):
        c_in = x.shape[{"NCHW": 1, "NHWC": 3, "CHWN": 0, "CHWN8": 1}[layout]]
        w = rng.integers(-4, 5, (9, c_in, 1, 1)).astype(np.float32)
        keywords = {"layout": layout, "num_threads": 2}
        expected = conv2d(x, w, backend="numpy", **keywords)
        plan = simdconv.explain(x, w, backend="simd", algorithm=algorithm, **keywords)
        y = conv2d(x, w, backend="simd", algorithm=algorithm, **keywords)
        assert np.array_equal(y, expected)
        copies = plan.plan.details["operand_copies"]
        assert _core.last_allocation() + copies == plan.workspace_bytes, (x.shape, x.strides)


@pytest.mark.parametrize("backend", ["simd", "blas", "numpy"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_transforms_honour_the_limit(layout, backend):
    """MemoryError, or no more scratch memory than allowed."""
    x = to_layout(np.ones((8, 12, 20, 210), np.float32), "NCHW", layout)
    for name, view in itertools.product(("im2col", "im2win"), ("plain", "backwards")):
        transform, image = getattr(simdconv, name), MEMORY[view](x)
        expected = transform(image, 3, layout=layout, padding=1, backend=backend)
        out, done = np.empty_like(expected), 0
        for limit in (0, 20_000, 300_000, 10**8):
            out[...] = np.nan
            with simdconv.options(max_workspace=limit):
                tracemalloc.start()
                try:
                    transform(image, 3, layout=layout, padding=1, backend=backend, out=out)
                except MemoryError as error:
                    assert f"max_workspace={limit}" in str(error)
                    assert np.isnan(out).all()
                    continue
                finally:
                    _, peak = tracemalloc.get_traced_memory()
                    tracemalloc.stop()
            # as_strided leaves objects in cycles, some hundred bytes a call, to the collector
            assert peak <= limit + 600_000, (name, view, limit)
            assert np.array_equal(out, expected)
            done += 1
        assert done


@pytest.mark.parametrize("function", [simdconv.correlate2d, simdconv.convolve2d])
def test_scipys_functions_honour_the_limit(function):
    """What pads with a value, and what joins leading axes, is copied first."""
    image, kernel = np.ones((2, 3, 120, 210), np.float32), np.ones((3, 3), np.float32)
    joined = image.transpose(1, 0, 2, 3)
    for given, keywords in ((image, {"fillvalue": 3}), (joined, {}), (image, {"fillvalue": 1e39})):
        expected = function(given, kernel, **keywords)
        with simdconv.options(max_workspace=100_000), pytest.raises(MemoryError, match="max_work"):
            function(given, kernel, **keywords)
        with simdconv.options(max_workspace=3 * image.nbytes):
            assert np.array_equal(function(given, kernel, **keywords), expected)
    with simdconv.options(max_workspace=200_000):
        assert np.array_equal(function(image, kernel), function(image, kernel, fillvalue=0))
