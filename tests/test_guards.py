"""Every kernel between unreadable pages: nothing is read or written past an array's end or start.

An access out of bounds ends the process; the name of the test that was running tells the kernel.
"""

import functools

import numpy as np
import pytest

import simdconv
from simdconv import BackendNotImplementedError, Conv2d, conv2d, kernels, to_layout
from simdconv.backends.simd import SimdBackend
from simdconv.testing import PROBLEMS, guarded, make_arrays

DTYPES = {"f32": np.float32, "f64": np.float64}
SIMD = [kernel for kernel in kernels() if kernel.backend == "simd" and kernel.available]
UNAVAILABLE = sorted({k.isa for k in kernels() if k.backend == "simd" and not k.available})
BLAS = [k for k in kernels() if k.backend == "blas" and k.dtype in DTYPES]


@pytest.fixture
def backend_of(monkeypatch):
    """Make a backend that runs the kernels of one ISA, and return its name."""
    names = {}

    def make(kernel):
        if kernel.backend != "simd":
            return kernel.backend
        name = names.setdefault(kernel.isa, f"only-{kernel.isa}")
        if name not in simdconv.backends._entries:
            monkeypatch.setitem(simdconv.backends._entries, name, None)
            simdconv.register_backend(name, lambda: SimdBackend(kernel.isa))
        return name

    return make


@functools.cache
def guarded_case(index, layout, dtype, at):
    """x, w and bias of an awkward problem, each at the edge of its pages, and the right result."""
    problem = PROBLEMS["awkward"][index]
    x, w, bias = make_arrays(problem, DTYPES[dtype], layout=layout, seed=index)
    expected = conv2d(x, w, bias, backend="numpy", layout=layout, **problem.keywords)
    arrays = tuple(guarded(array, at) for array in (x, w, bias))
    return *arrays, guarded(np.empty_like(expected), at), expected


def check(y, expected, problem, layout):
    """Compare, but for the spare lanes of CHWN8."""
    y, expected = (to_layout(a, layout, "NCHW", n=problem.n) for a in (y, expected))
    assert np.array_equal(y, expected), problem


@pytest.mark.parametrize("kernel", [*SIMD, *BLAS], ids=lambda kernel: kernel.id)
def test_kernel_stays_within_its_arrays(kernel, backend_of):
    backend, layout = backend_of(kernel), kernel.layout
    ran = 0
    for index, problem in enumerate(PROBLEMS["awkward"]):
        at = ("end", "start")[index % 2]
        x, w, bias, out, expected = guarded_case(index, layout, kernel.dtype, at)
        keywords = {**problem.keywords, "layout": layout, "backend": backend,
                    "algorithm": kernel.algorithm}  # fmt: skip
        try:
            plan = simdconv.explain(x, w, bias, **keywords)
        except BackendNotImplementedError:
            continue
        assert plan.kernel == kernel.id
        out.fill(np.nan)
        conv2d(x, w, bias, out=out, **keywords)
        check(out, expected, problem, layout)
        ran += 1
    assert ran > 0


@pytest.mark.parametrize("kernel", SIMD, ids=lambda kernel: kernel.id)
def test_kernel_stays_within_its_packed_filter(kernel, backend_of):
    layout = kernel.layout
    for index, problem in list(enumerate(PROBLEMS["awkward"]))[::3]:
        x, w, bias, out, expected = guarded_case(index, layout, kernel.dtype, "end")
        conv = Conv2d(w, bias, layout=layout, backend=backend_of(kernel),
                      algorithm=kernel.algorithm, **problem.keywords)  # fmt: skip
        conv(x)
        for packed in conv._packed.values():
            packed.data = guarded(packed.data)
        out.fill(np.nan)
        check(conv(x, out=out), expected, problem, layout)


@pytest.mark.parametrize("kind", ["im2col", "im2win"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN", "CHWN8"])
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "f8", "c16"])
def test_transforms_stay_within_their_arrays(kind, layout, dtype):
    transform = getattr(simdconv, kind)
    for index, problem in list(enumerate(PROBLEMS["awkward"]))[::2]:
        x, _, _ = make_arrays(problem, dtype, layout=layout, seed=index)
        keywords = {**problem.keywords, "layout": layout}
        del keywords["groups"]
        size = (problem.h_f, problem.w_f)
        expected = transform(x, size, backend="numpy", **keywords)
        for at in ("end", "start"):
            out = guarded(np.full_like(expected, 77), at)
            transform(guarded(x, at), size, out=out, **keywords)
            assert np.array_equal(out, expected), problem


if UNAVAILABLE:

    def test_isas_that_this_machine_lacks():
        pytest.skip(f"not tested here, for want of the processor: {', '.join(UNAVAILABLE)}")
