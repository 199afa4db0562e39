"""Memory: what is allocated was announced, limits hold, nothing grows, and failing is clean."""

import itertools
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import simdconv
from simdconv import BackendNotImplementedError, conv2d
from simdconv.backends.simd import _core
from simdconv.testing import PROBLEMS, Problem, make_arrays

LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
ALGORITHMS = ("auto", "direct", "im2col", "im2win", "implicit")
MEDIUM = (
    Problem("medium", 3, 24, 31, 33, 40, 3, 3, 1, 1),
    Problem("medium-strided", 2, 16, 40, 37, 24, 5, 3, 2, 2),
    Problem("medium-grouped", 2, 32, 30, 30, 32, 3, 3, 1, 1, 1, 32),
    Problem("medium-1x1", 2, 64, 20, 20, 48, 1, 1),
    Problem("medium-dilated", 1, 16, 40, 40, 16, 3, 3, 1, 3, 3),
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and sets RLIMIT_AS")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_simd_allocates_what_explain_says(layout, algorithm):
    for problem, count in itertools.product((*PROBLEMS["awkward"][::4], *MEDIUM), (1, 2, 3)):
        for dtype in (np.float32, np.float64):
            x, w, bias = make_arrays(problem, dtype, layout=layout)
            keywords = {**problem.keywords, "layout": layout, "algorithm": algorithm,
                        "backend": "simd", "num_threads": count}  # fmt: skip
            try:
                plan = simdconv.explain(x, w, bias, **keywords)
            except BackendNotImplementedError as error:
                pytest.skip(str(error))
            conv2d(x, w, bias, **keywords)
            assert _core.last_allocation() == plan.workspace_bytes, problem


@pytest.mark.parametrize("backend", ["simd", "blas", "numpy"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("problem", MEDIUM, ids=lambda problem: problem.name)
def test_limit_is_honoured(problem, layout, backend):
    """Every limit: either a plan that stays within it, or MemoryError, and nothing in between."""
    x, w, bias = make_arrays(problem, layout=layout)
    keywords = {**problem.keywords, "layout": layout, "backend": backend}
    expected = conv2d(x, w, bias, backend="numpy", **problem.keywords, layout=layout)
    free = simdconv.explain(x, w, bias, **keywords).workspace_bytes
    out = np.empty_like(expected)
    conv2d(x, w, bias, out=out, **keywords)
    worked = []
    for limit in (0, 100, 10_000, free // 8, free // 2, max(free - 1, 0), free, 2 * free):
        with simdconv.options(max_workspace=limit):
            try:
                plan = simdconv.explain(x, w, bias, **keywords)
            except MemoryError as error:
                assert "max_workspace" in str(error)
                with pytest.raises(MemoryError):
                    conv2d(x, w, bias, **keywords)
                continue
            assert plan.workspace_bytes <= limit
            tracemalloc.start()
            conv2d(x, w, bias, out=out, **keywords)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        if backend == "simd":
            assert _core.last_allocation() == plan.workspace_bytes
            peak += plan.workspace_bytes
        # Python's own objects, and the buffers of NumPy's ufuncs, of 64 KiB a thread
        assert peak <= plan.workspace_bytes + 300_000
        n = problem.n
        assert np.array_equal(
            *(simdconv.to_layout(a, layout, "NCHW", n=n) for a in (out, expected))
        )
        worked.append(limit)
    assert {free, 2 * free} <= set(worked)


def test_limit_is_part_of_the_choice():
    """Without backend=, a call that the first backend cannot keep small goes to another one."""
    x, w, _ = make_arrays(MEDIUM[0])
    least = []
    for backend in ("simd", "blas", "numpy"):
        for limit in range(0, 400_000, 2_000):
            with simdconv.options(max_workspace=limit):
                try:
                    least.append(simdconv.explain(x, w, backend=backend).workspace_bytes)
                    break
                except MemoryError:
                    continue
    with simdconv.options(max_workspace=min(least)):
        assert simdconv.explain(x, w).workspace_bytes <= min(least)
        assert np.array_equal(conv2d(x, w), conv2d(x, w))
    with simdconv.options(max_workspace=0), pytest.raises(MemoryError, match="max_workspace=0"):
        conv2d(x, w)


def in_fresh_interpreter(code):
    """Run code, and return what it printed."""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


RANDOM_SHAPES = """
import numpy as np, simdconv
rng = np.random.default_rng(0)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

def some(count):
    for _ in range(count):
        n, c, o, k = (int(v) for v in rng.integers(1, [4, 12, 16, 6]))
        h, w = (int(v) for v in rng.integers(k, 60, 2))
        layout = str(rng.choice(["NCHW", "NHWC", "CHWN", "CHWN8"]))
        x = simdconv.to_layout(np.zeros((n, c, h, w), np.float32), "NCHW", layout)
        filters = np.zeros((o, c, k, k), np.float32)
        padding = int(rng.integers(0, 3))
        backend = str(rng.choice(["simd", "simd", "simd", "blas"]))
        simdconv.conv2d(x, filters, layout=layout, padding=padding, backend=backend)
        if h % 4 == 0:
            simdconv.Conv2d(filters, layout=layout, padding=padding)(x)
            simdconv.im2win(x, k, layout=layout)

some(500)
before = resident()
some(2000)
print(before, resident())
"""


@linux
def test_resident_memory_is_flat_over_random_shapes():
    """Specs and plans are kept up to fixed numbers, result blocks up to a bound (workspace.c)."""
    before, after = map(int, in_fresh_interpreter(RANDOM_SHAPES))
    assert after - before < 96  # MiB


def test_workspace_does_not_grow_with_the_images():
    """CHWN, images that fill no whole vectors, a result that goes past the caches."""
    x, w = np.empty((16, 1, 1, 100_001), np.float32), np.empty((256, 16, 1, 1), np.float32)
    plan = simdconv.explain(x, w, layout="CHWN", backend="simd", algorithm="direct", num_threads=1)
    assert plan.workspace_bytes < simdconv.cpu_info()["l2_bytes"] + w.nbytes


NO_MEMORY = """
import resource
import numpy as np, simdconv
small = np.ones((1, 2, 9, 9), np.float32), np.ones((3, 2, 3, 3), np.float32)
x, w = np.ones((1, 64, 700, 700), np.float32), np.ones((8, 64, 1, 2), np.float32)  # 120 MiB
simdconv.set_options(num_threads=1)  # OpenMP and OpenBLAS end a process that can start no thread
for backend in ("simd", "blas", "numpy"):
    simdconv.conv2d(*small, backend=backend)
    simdconv.conv2d(x[:, :, :80, :80], w, backend=backend)

with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * 4096
failed = ran = 0
for room in (4, 32, 140, 300):
    resource.setrlimit(resource.RLIMIT_AS, (now + (room << 20), resource.RLIM_INFINITY))
    for backend in ("simd", "blas", "numpy"):
        calls = [lambda: simdconv.im2col(x, 2, backend=backend),
                 lambda: simdconv.im2win(x, 2, backend=backend),
                 lambda: simdconv.conv2d(x[:, ::-1, :, ::-1], w, backend=backend),
                 lambda: simdconv.conv2d(x, w[::-1].transpose(0, 1, 3, 2), backend=backend),
                 lambda: simdconv.correlate2d(x[0], w[0, 0], boundary="wrap"),
                 lambda: simdconv.Conv2d(np.broadcast_to(w[:1], (1_000_000, 64, 1, 2)))]
        if backend != "numpy":  # the reference takes a while where it has the memory
            calls += [lambda a=a: simdconv.conv2d(x, w, algorithm=a, backend=backend)
                      for a in ("auto", "im2col", "im2win", "implicit")]
        for call in calls:
            try:
                call()
                ran += 1
            except MemoryError as error:
                assert str(error)
                failed += 1
        assert simdconv.conv2d(*small, backend=backend)[0, 0, 0, 0] == 18
print(ran, failed)
"""


@linux
def test_failing_to_allocate_is_a_memory_error():
    """Under an address space that is too small, and as useful as before after it."""
    ran, failed = map(int, in_fresh_interpreter(NO_MEMORY))
    assert failed >= 15
    assert ran >= 1
