"""Processes: forked at any moment, spawned, in pools; each computes, and none hangs."""

import concurrent.futures
import functools
import multiprocessing
import os
import pickle
import signal
import threading

import numpy as np
import pytest

import simdconv
from simdconv import Conv2d, conv2d
from simdconv.backends.simd import _core

BACKENDS = [info.name for info in simdconv.list_backends() if info.available]
RNG = np.random.default_rng(41)
X = RNG.integers(-4, 5, (4, 16, 40, 41)).astype(np.float32)
W = RNG.integers(-4, 5, (24, 16, 3, 3)).astype(np.float32)
EXPECTED = conv2d(X, W, backend="numpy")
SECONDS = 60  # a child that needs as long hangs

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def in_child(work):
    """Exit code of a forked child: 0 if work() returns True, minus SIGALRM if it hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def right(backend, **keywords):
    """Whether a call gives the right result."""
    return np.array_equal(conv2d(X, W, backend=backend, **keywords), EXPECTED)


@needs_fork
@pytest.mark.parametrize("backend", BACKENDS)
def test_child_forked_after_a_parallel_convolution(backend):
    assert right(backend, num_threads=2)
    conv = Conv2d(W, backend=backend)
    assert np.array_equal(conv(X), EXPECTED)

    def work():
        again = right(backend), right(backend, num_threads=2)
        return all(again) and np.array_equal(conv(X), EXPECTED) and in_child(conv_again) == 0

    def conv_again():
        return right(backend) and np.array_equal(conv(X), EXPECTED)

    for _ in range(3):
        assert in_child(work) == 0
    assert right(backend, num_threads=2)


@needs_fork
def test_child_runs_one_thread():
    assert right("simd", num_threads=2)
    assert in_child(lambda: _core.max_threads() == 1) == 0
    assert _core.max_threads() >= 1


@needs_fork
def test_child_forked_while_other_threads_convolve():
    """Of the simd backend: OpenBLAS itself may hang in fork() while other threads multiply."""
    large = np.ones((2, 8, 260, 260), np.float32)  # its result comes from the kept blocks
    w = np.ones((8, 8, 3, 3), np.float32)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            conv2d(large, w, backend="simd", num_threads=2)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert in_child(lambda: conv2d(large, w, backend="simd")[0, 0, 0, 0] == 72) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_multiprocessing(method):
    assert right("simd", num_threads=2)
    context = multiprocessing.get_context(method)
    conv = Conv2d(W)
    with context.Pool(2) as pool:
        results = pool.map_async(functools.partial(conv2d, w=W), list(X[:, None])).get(SECONDS)
        assert np.array_equal(np.concatenate(results), EXPECTED)
        results = pool.map_async(conv, list(X[:, None])).get(SECONDS)
        assert np.array_equal(np.concatenate(results), EXPECTED)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_process_pool_executor(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        jobs = [pool.submit(conv2d, x[None], W, num_threads=2) for x in X]
        results = [job.result(SECONDS) for job in jobs]
    assert np.array_equal(np.concatenate(results), EXPECTED)


@pytest.mark.parametrize("kind", ["loky", "threading", "multiprocessing"])
def test_joblib(kind):
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    work = joblib.delayed(conv2d)
    results = joblib.Parallel(2, backend=kind)(work(x[None], W) for x in X)
    assert np.array_equal(np.concatenate(results), EXPECTED)


@needs_fork
def test_options_and_backend_are_inherited():
    with simdconv.options(num_threads=1), simdconv.use_backend("blas"):
        assert in_child(lambda: simdconv.explain(X, W).backend == "blas") == 0


def test_pickled_object_gives_the_same_bits():
    x = RNG.standard_normal(X.shape).astype(np.float32)
    conv = Conv2d(RNG.standard_normal(W.shape).astype(np.float32), padding=1)
    y = conv(x)
    assert pickle.loads(pickle.dumps(conv))(x).tobytes() == y.tobytes()
