"""Threads of Python around the kernels, and those within: same bits, nothing left behind."""

import concurrent.futures
import contextvars
import ctypes
import ctypes.util
import platform
import sys
import sysconfig
import threading
import time

import numpy as np
import pytest

import simdconv
from simdconv import Conv2d, conv2d, to_layout
from simdconv.backends.simd import _core

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
# what each backend has for filters larger than 1x1
RUNS = [(name, algorithm)
        for name in BACKENDS if name in ("simd", "blas", "numpy")
        for algorithm in ("auto", "direct", "im2col", "im2win", "implicit")
        if name == "simd" or algorithm == "auto" or (name, algorithm) == ("numpy", "direct")
        or (name == "blas" and algorithm != "direct")]  # fmt: skip
X86 = platform.machine() in ("x86_64", "AMD64") and sys.platform == "linux"
RNG = np.random.default_rng(31)
# 6 million products: enough work for many threads, however small a thread's share may be
X = RNG.standard_normal((11, 16, 14, 19)).astype(np.float32)
W = RNG.standard_normal((24, 16, 3, 3)).astype(np.float32)


def whole(seed, c_out=8):
    """An image, a filter and what they convolve to, exactly."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, (2, 8, 20 + seed % 5, 21)).astype(np.float32)
    w = rng.integers(-4, 5, (c_out, 8, 3, 3)).astype(np.float32)
    return x, w, conv2d(x, w, padding=1, backend="numpy")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("backend", "algorithm"), RUNS)
def test_same_bits_on_any_number_of_threads(backend, algorithm, layout):
    x = to_layout(X, "NCHW", layout)
    for padding, groups in ((0, 1), (2, 1), (1, 8)):
        keywords = {"layout": layout, "backend": backend, "algorithm": algorithm,
                    "padding": padding, "groups": groups}  # fmt: skip
        w = W[:, : 16 // groups]
        y = conv2d(x, w, num_threads=1, **keywords)
        for count in (2, 3, 5, 8):
            again = conv2d(x, w, num_threads=count, **keywords)
            assert again.tobytes() == y.tobytes(), (count, padding, groups)


def test_threads_are_really_used():
    if not _core.openmp():
        pytest.skip("built without OpenMP")
    for count in (1, 2, 3, 8):
        assert simdconv.explain(X, W, num_threads=count, backend="simd").num_threads == count


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("backend", "algorithm"), RUNS)
def test_same_bits_in_any_batch(backend, algorithm, layout):
    for padding, groups in ((0, 1), (2, 1), (1, 8)):
        keywords = {"layout": layout, "backend": backend, "algorithm": algorithm,
                    "padding": padding, "groups": groups}  # fmt: skip
        w = W[:, : 16 // groups]

        def run(images, keywords=keywords, w=w):
            y = conv2d(to_layout(images, "NCHW", layout), w, **keywords)
            return to_layout(y, layout, "NCHW", n=len(images))

        y = run(X)
        for part in (slice(0, 1), slice(10, 11), slice(0, 8), slice(3, 10), slice(None, None, -1)):
            assert run(X[part]).tobytes() == y[part].tobytes(), (part, padding, groups)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("backend", "algorithm"), RUNS)
def test_same_bits_where_few_pixels_are_left(backend, algorithm, layout):
    """7x7 and 10x10: whole vectors and one pixel or four; alone, in a batch, with gaps."""
    rng = np.random.default_rng(4)
    for size, window, padding in ((7, 3, 1), (7, 1, 0), (10, 1, 0), (12, 3, 0)):
        x = rng.standard_normal((5, 24, size, size)).astype(np.float32)
        w = rng.standard_normal((30, 24, window, window)).astype(np.float32)
        keywords = {"layout": layout, "backend": backend, "algorithm": algorithm,
                    "padding": padding}  # fmt: skip
        y = conv2d(to_layout(x, "NCHW", layout), w, **keywords)
        images = to_layout(y, layout, "NCHW", n=5)
        for i in range(5):
            one = conv2d(to_layout(x[i : i + 1], "NCHW", layout), w, **keywords)
            assert to_layout(one, layout, "NCHW", n=1).tobytes() == images[i].tobytes(), (size, i)
        plain = to_layout(x, "NCHW", layout)
        room = np.zeros([length + 1 for length in plain.shape[:-1]] + [plain.shape[-1]], x.dtype)
        gaps = room[tuple(slice(length) for length in plain.shape)]
        gaps[...] = plain
        assert conv2d(gaps, w, **keywords).tobytes() == y.tobytes(), (size, window)


@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_threads_with_filters_of_their_own(backend):
    cases = [whole(seed, 1 + seed) for seed in range(8)]
    start, wrong = threading.Barrier(8), []

    def work(x, w, expected):
        conv = Conv2d(w, padding=1, backend=backend)
        start.wait()
        for _ in range(10):
            for y in (conv2d(x, w, padding=1, backend=backend, num_threads=2), conv(x)):
                if not np.array_equal(y, expected):
                    wrong.append(w.shape)

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_futures_share_one_object():
    cases = [whole(seed) for seed in range(20)]
    conv = Conv2d(cases[0][1], padding=1)
    expected = [conv2d(x, conv.weight, padding=1, backend="numpy") for x, _, _ in cases]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for y, right in zip(pool.map(conv, [x for x, _, _ in cases]), expected, strict=True):
            assert np.array_equal(y, right)
        jobs = [pool.submit(conv2d, x, w, padding=1) for x, w, _ in cases]
        for job, (_, _, right) in zip(jobs, cases, strict=True):
            assert np.array_equal(job.result(), right)


def test_options_and_backends_belong_to_a_thread():
    x, w, expected = whole(1)
    seen, inside, leave = [], threading.Event(), threading.Event()

    def work():
        with simdconv.use_backend("numpy"), simdconv.options(num_threads=1, max_workspace=10**9):
            inside.set()
            leave.wait()
            seen.append(simdconv.get_backend())
            seen.append(np.array_equal(conv2d(x, w, padding=1), expected))

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    seen.append(simdconv.get_backend())
    with simdconv.use_backend("blas"):
        copied = contextvars.copy_context()
        assert copied.run(simdconv.get_backend) == "blas"
    leave.set()
    thread.join()
    assert seen == ["simd", "numpy", True]


@pytest.mark.parametrize("backend", ["simd", "blas"])
def test_gil_is_released(backend):
    """While one thread convolves, another one goes on; with the GIL held, it would stand still."""
    x, w = np.ones((1, 64, 130, 130), np.float32), np.ones((256, 64, 5, 5), np.float32)
    entered, done = threading.Event(), threading.Event()

    def work():
        entered.set()
        for _ in range(3):
            conv2d(x, w, backend=backend, num_threads=1)
        done.set()

    conv2d(x[:, :, :9, :9], w, backend=backend)
    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    turns = 0
    while not done.is_set():
        time.sleep(1e-3)
        turns += 1
    thread.join()
    assert turns >= 10  # three calls that held it would allow some three


def control_words():
    """The x87 and SSE control words of this thread; the status bits are not of interest."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    environment = (ctypes.c_uint32 * 8)()  # glibc's fenv_t: the x87 environment, then MXCSR
    libm.fegetenv(environment)
    return environment[0] & 0xFFFF, environment[7] & ~0x3F


def set_mxcsr(bits):
    """Set or clear bits of the SSE control word, and return the function that undoes it."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    before, after = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    libm.fegetenv(before)
    libm.fegetenv(after)
    after[7] = (after[7] | bits) & ~0x3F
    libm.fesetenv(after)
    return lambda: libm.fesetenv(before)


@pytest.mark.skipif(not X86, reason="reads the control words of x86-64 Linux")
@pytest.mark.parametrize("bits", [0, 0x8000, 0x8040, 0x2000, 0x6000])
def test_floating_point_control_words_survive(bits):
    """Flush-to-zero, denormals-are-zero, and two rounding modes, as the caller has set them."""
    restore = set_mxcsr(bits)
    try:
        before = control_words()
        after = []
        for backend in BACKENDS:
            for flush in (False, True):
                with simdconv.options(flush_denormals=flush):
                    for count in (1, 2):
                        conv2d(X, W, backend=backend, num_threads=count)
                        after.append(control_words())
    finally:
        restore()
    assert set(after) == {before}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [1, 2])
def test_denormals_are_flushed_only_where_asked(layout, count):
    """On the worker threads too: no thread keeps the mode of the call before."""
    tiny = np.full((11, 16, 14, 19), 1e-40, np.float32)
    x, w = to_layout(tiny, "NCHW", layout), np.ones((24, 16, 3, 3), np.float32)
    keywords = {"layout": layout, "num_threads": count, "backend": "simd"}
    exact = conv2d(x, w, **{**keywords, "backend": "numpy"})
    for _ in range(2):
        with simdconv.options(flush_denormals=True):
            flushed = to_layout(conv2d(x, w, **keywords), layout, "NCHW", n=11)
        assert np.all(flushed == 0)
        y = conv2d(x, w, **keywords)
        assert np.all(np.abs(y - exact) <= 2e-45 * 146)
        assert np.float32(1e-40) * np.float32(1) != 0


def test_normal_numbers_do_not_change_where_denormals_are_flushed():
    expected = conv2d(X, W)
    with simdconv.options(flush_denormals=True):
        assert conv2d(X, W).tobytes() == expected.tobytes()


def test_thread_limits_survive():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def limits():
        return [(pool["internal_api"], pool["num_threads"]) for pool in
                threadpoolctl.threadpool_info()]  # fmt: skip

    for backend in BACKENDS:
        conv2d(X, W, backend=backend)
    before = limits()
    for backend in BACKENDS:
        for count in (1, 2, 3):
            conv2d(X, W, backend=backend, num_threads=count)
            assert limits() == before
    if _core.openmp():
        with threadpoolctl.threadpool_limits(1):
            assert _core.max_threads() == 1
            assert simdconv.explain(X, W, backend="simd").num_threads == 1
        assert limits() == before


def test_more_threads_than_can_be_started():
    for count in (10**4, 2**31 - 1):
        y = conv2d(X, W, num_threads=count)
        assert y.tobytes() == conv2d(X, W, num_threads=1).tobytes()
        cols = simdconv.im2col(X, 3, num_threads=count)
        assert np.array_equal(cols, simdconv.im2col(X, 3, num_threads=1))


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="not a free-threaded Python"
)
def test_import_leaves_the_gil_disabled():
    assert not sys._is_gil_enabled()
