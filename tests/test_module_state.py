"""What the modules hold (registries, caches, options, the pool of blocks) under eight threads.

With the GIL these tests find what is wrong in the order of steps; without it, also what is wrong
in one step.
"""

import importlib.metadata
import sys
import threading

import numpy as np
import pytest

import simdconv
from simdconv import _dispatch, _families, _memory, _options, _spec, backends

THREADS = 8
RNG = np.random.default_rng(5)


def hammer(work, count=THREADS):
    """Run work(thread) in so many threads at the same time, and raise what they raised."""
    start, errors = threading.Barrier(count), []

    def run(thread):
        try:
            start.wait()
            work(thread)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]


@pytest.fixture
def old_options():
    before = _options._process
    yield
    _options._process = before


def test_set_options_of_many_threads_do_not_undo_one_another(old_options):
    names = ("max_workspace", "num_threads", "flush_denormals", "algorithm")
    values = {"max_workspace": (10**9, 10**8), "num_threads": (1, 2),
              "flush_denormals": (True, False), "algorithm": ("direct", "auto")}  # fmt: skip

    def work(thread):
        name = names[thread]
        for turn in range(2000):
            value = values[name][turn % 2]
            simdconv.set_options(**{name: value})
            assert getattr(_options.current_options(), name) == value

    hammer(work, len(names))


def test_options_of_a_thread_are_its_own(old_options):
    def work(thread):
        for _ in range(300):
            with simdconv.options(num_threads=thread + 1) as now:
                assert now.num_threads == thread + 1
                assert _options.current_options().num_threads == thread + 1
            simdconv.set_options(max_workspace=10**9 + thread)

    hammer(work)


class Points:
    """importlib.metadata.entry_points, slowly."""

    def __init__(self, *points):
        self.points, self.reads = points, 0

    def __call__(self, group):
        self.reads += 1
        threading.Event().wait(0.02)
        return [point for point in self.points if point.group == group]


def test_first_use_of_an_adapter(monkeypatch):
    """Nobody looks one up while another thread still reads what there is."""
    points = Points(
        importlib.metadata.EntryPoint("test_module_state", "builtins:id", _families.ENTRY_POINTS)
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", points)
    monkeypatch.setattr(_families, "_discovered", False)
    monkeypatch.setattr(_families, "_adapters", dict(_families._adapters))
    kind = type("Array", (), {"__module__": "test_module_state.arrays"})
    found = [None] * THREADS

    def work(thread):
        found[thread] = _families.find_adapter(kind)

    hammer(work)
    assert found == [id] * THREADS
    assert points.reads == 1


def test_first_use_of_a_backend(clean_registry, fake_backend):
    """It is loaded once, and everybody gets that one."""
    loads, got = [], [None] * THREADS

    def load():
        loads.append(1)
        threading.Event().wait(0.02)
        return fake_backend("late")

    simdconv.register_backend("late", load)

    def work(thread):
        got[thread] = backends.get("late")

    hammer(work)
    assert len(loads) == 1
    assert all(backend is got[0] for backend in got)


def test_registering_while_others_call(clean_registry, fake_backend):
    """A call finds the backend of before or of after, and after registering, that of after."""
    x, w = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 2, 2), np.float32)

    def work(thread):
        name = f"own{thread}"
        for value in range(40):
            backend = fake_backend(name, value)
            simdconv.register_backend(name, lambda backend=backend: backend)
            y = simdconv.conv2d(x, w, backend=name)
            assert np.all(y == value)
            with simdconv.use_backend(name):
                assert simdconv.get_backend() == name
                assert simdconv.conv2d(x, w)[0, 0, 0, 0] == value
            assert name in {info.name for info in simdconv.list_backends()}

    hammer(work)
    assert len(backends._entries) >= THREADS + len(backends.BUILT_IN)


def test_environment_is_read_anew_after_it_changed(monkeypatch, clean_registry):
    """A reading that began before set_backend(None) does not come after it."""
    read, go = threading.Event(), threading.Event()
    inner = _dispatch._names_in_environment

    def slowly():
        names = inner()
        read.set()
        go.wait()
        return names

    monkeypatch.setenv("SIMDCONV_BACKEND", "blas")
    simdconv.set_backend(None)
    monkeypatch.setattr(_dispatch, "_names_in_environment", slowly)
    thread = threading.Thread(target=simdconv.get_backend)
    thread.start()
    read.wait()
    monkeypatch.setattr(_dispatch, "_names_in_environment", inner)
    monkeypatch.setenv("SIMDCONV_BACKEND", "numpy")
    simdconv.set_backend(None)
    go.set()
    thread.join()
    assert simdconv.get_backend() == "numpy"
    monkeypatch.undo()


def test_caches_that_overflow(monkeypatch):
    """Specs, plans and choices are dropped and made anew while other threads use them."""
    monkeypatch.setattr(_dispatch, "_MOST_SELECTIONS", 7)
    w = RNG.integers(-3, 4, (5, 2, 3, 3)).astype(np.float32)
    images = [RNG.integers(-3, 4, (1, 2, 8 + i, 9)).astype(np.float32) for i in range(12)]
    expected = [simdconv.conv2d(x, w, backend="numpy") for x in images]
    conv = simdconv.Conv2d(w)

    def work(thread):
        for turn in range(120):
            i = (turn * (thread + 1)) % len(images)
            padded = simdconv.conv2d(images[i], w, padding=thread % 3)
            assert padded.shape[2] == expected[i].shape[2] + 2 * (thread % 3)
            assert np.array_equal(simdconv.conv2d(images[i], w), expected[i])
            assert np.array_equal(conv(images[i]), expected[i])
            assert np.array_equal(
                simdconv.conv2d(images[i], w, backend="blas", num_threads=2), expected[i]
            )
            if thread == 0 and turn % 10 == 0:
                _spec._cached_conv2d.cache_clear()

    hammer(work)


@pytest.mark.parametrize("size", [300_000, 1_200_000])
def test_blocks_for_results_are_never_shared(size):
    """The pool of blocks gives each block to one array, whatever is taken and given meanwhile."""

    def work(thread):
        held = []
        for turn in range(60):
            array = _memory.empty((size + (thread * turn) % 5 * 1000,), np.dtype(np.float32))
            array[:] = mark = thread * 1000 + turn
            held.append((array, mark))
            if len(held) > 3:
                old, mark = held.pop(turn % 3)
                assert old[0] == mark
                assert old[-1] == mark
                assert np.all(old[:: old.size // 50] == mark)
                del old

    hammer(work)


def test_blas_limit_is_put_back():
    """Calls of many threads share the limit of one BLAS thread; the last one lifts it."""
    from simdconv.backends import _blas_threads

    x, w = np.ones((2, 3, 20, 20), np.float32), np.ones((4, 3, 3, 3), np.float32)
    simdconv.conv2d(x, w, backend="blas")
    before = _blas_threads.blas_threads()

    def work(thread):
        for _ in range(50):
            simdconv.conv2d(x, w, backend="blas", num_threads=1 + thread % 3)
            assert _blas_threads.blas_threads() == before

    hammer(work)
    assert _blas_threads._limit.holders == 0
    assert _blas_threads.blas_threads() == before
