"""set_options, options(), and their scope under threads and asyncio."""

import asyncio
import threading

import numpy as np
import pytest

import simdconv
from simdconv._options import current_options

X = np.ones((1, 3, 8, 8), np.float32)
W = np.ones((4, 3, 3, 3), np.float32)


@pytest.fixture(autouse=True)
def restored():
    before = current_options()
    yield
    simdconv.set_options(**{name: getattr(before, name) for name in before.__slots__})


def test_defaults():
    options = current_options()
    assert options.max_workspace is None
    assert options.num_threads is None
    assert options.flush_denormals is False
    assert options.algorithm == "auto"


def test_set_options_keeps_what_it_does_not_name():
    simdconv.set_options(num_threads=2)
    simdconv.set_options(max_workspace=1 << 20)
    assert (current_options().num_threads, current_options().max_workspace) == (2, 1 << 20)


def test_options_nest_and_are_restored():
    simdconv.set_options(num_threads=3)
    with simdconv.options(num_threads=2) as outer:
        assert outer.num_threads == 2
        with simdconv.options(max_workspace=5):
            assert (current_options().num_threads, current_options().max_workspace) == (2, 5)
            simdconv.set_options(algorithm="direct", num_threads=7)
            assert current_options().algorithm == "direct"
            assert current_options().num_threads == 2
        assert current_options().max_workspace is None
    assert current_options().num_threads == 7


def test_options_are_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), simdconv.options(num_threads=2):
        raise ZeroDivisionError
    assert current_options().num_threads is None


@pytest.mark.parametrize("front", [simdconv.set_options, simdconv.options])
def test_bad_options(front):
    for name, value, kind in (
        ("num_threads", 0, ValueError), ("num_threads", True, TypeError),
        ("num_threads", 1.0, TypeError), ("max_workspace", -1, ValueError),
        ("max_workspace", 1.5, TypeError), ("algorithm", "nonesuch", ValueError),
        ("algorithm", None, TypeError), ("flush_denormals", 1, TypeError),
        ("threads", 1, TypeError),
    ):  # fmt: skip
        with pytest.raises(kind, match=name):
            front(**{name: value})
    assert current_options().num_threads is None


def test_options_reach_the_call():
    with simdconv.options(num_threads=1, algorithm="im2col", max_workspace=10**9):
        plan = simdconv.explain(X, W)
        assert plan.algorithm == "im2col"
        assert (plan.spec.num_threads, plan.spec.max_workspace) == (1, 10**9)
        assert simdconv.explain(X, W, num_threads=2).spec.num_threads == 2
        assert simdconv.explain(X, W, algorithm="im2win").algorithm == "im2win"


def test_options_stay_in_their_thread():
    seen = []
    with simdconv.options(num_threads=2):
        thread = threading.Thread(target=lambda: seen.append(current_options().num_threads))
        thread.start()
        thread.join()
    assert seen == [None]


def test_options_stay_in_their_task():
    async def task(count):
        with simdconv.options(num_threads=count):
            for _ in range(3):
                await asyncio.sleep(0)
                assert current_options().num_threads == count
        return current_options().num_threads

    async def main():
        return await asyncio.gather(*(task(count) for count in range(1, 9)))

    assert asyncio.run(main()) == [None] * 8


@pytest.mark.parametrize("backend", [i.name for i in simdconv.list_backends() if i.available])
def test_a_workspace_too_small_is_a_memory_error_before_any_work(backend):
    out = np.full((1, 4, 6, 6), np.nan)
    x, w = X.astype(np.float64), W.astype(np.float64)
    try:
        with simdconv.options(max_workspace=0):
            needed = simdconv.explain(x, w, backend=backend).workspace_bytes
    except MemoryError as error:
        assert "max_workspace=0" in str(error)
        with simdconv.options(max_workspace=0), pytest.raises(MemoryError, match="max_workspace"):
            simdconv.conv2d(x, w, out=out, backend=backend)
        assert np.all(np.isnan(out))
    else:
        assert needed == 0


def test_workspace_limit_is_honoured_by_every_backend():
    for info in simdconv.list_backends():
        if not info.available:
            continue
        free = simdconv.explain(X, W, backend=info.name).workspace_bytes
        for limit in (free, free * 3 // 4, free // 2):
            with simdconv.options(max_workspace=limit):
                try:
                    plan = simdconv.explain(X, W, backend=info.name)
                except MemoryError:
                    continue
                assert plan.workspace_bytes <= limit
                y = simdconv.conv2d(X, W, backend=info.name)
                assert np.all(y == 27)
