"""Which wish wins, what threads and tasks inherit of it, and what explain() says of the losers."""

import asyncio
import concurrent.futures
import contextlib
import contextvars

import numpy as np
import pytest

import simdconv
from simdconv import backends
from simdconv._options import current_options

X = np.ones((1, 2, 5, 5), np.float32)
W = np.ones((3, 2, 3, 3), np.float32)
FIRST = simdconv.get_backend()


pytestmark = pytest.mark.usefixtures("clean_registry")


def value(**keywords):
    return float(simdconv.conv2d(X, W, **keywords).flat[0])


RULES = ("keyword", "inner", "outer", "set", "environment")  # from the strongest to the weakest


@pytest.mark.parametrize("strongest", range(len(RULES)))
def test_each_rule_wins_over_those_after_it(monkeypatch, strongest, fake_backend):
    for number, rule in enumerate(RULES):
        simdconv.register_backend(
            rule, lambda rule=rule, number=number: fake_backend(rule, 100 + number)
        )
    held = RULES[strongest:]
    monkeypatch.setenv("SIMDCONV_BACKEND", "environment")
    simdconv.set_backend(None)
    with contextlib.ExitStack() as stack:
        if "set" in held:
            simdconv.set_backend("set")
        for rule in ("outer", "inner"):
            if rule in held:
                stack.enter_context(simdconv.use_backend(rule))
        keyword = {"backend": "keyword"} if "keyword" in held else {}
        assert value(**keyword) == 100 + strongest
        assert simdconv.explain(X, W, **keyword).backend == RULES[strongest]
        if not keyword:
            assert simdconv.get_backend() == RULES[strongest]
            others = [name for name, _ in simdconv.explain(X, W).others]
            order = [rule for rule in (*held[1:],) if rule != "outer" or "inner" not in held]
            assert others[: len(order)] == order


def test_without_a_wish_it_is_simd_then_blas_then_numpy(monkeypatch):
    built_in = [simdconv.backends.get(name) for name in ("simd", "blas", "numpy")]
    for number, backend in enumerate(built_in):
        plan = simdconv.explain(X, W)
        assert plan.backend == backend.name
        assert plan.declined == tuple((b.name, "is away") for b in built_in[:number])
        if number < 2:
            monkeypatch.setattr(type(backend), "declines", lambda self, spec: "is away")
            backends.generation += 1
    monkeypatch.undo()
    backends.generation += 1
    with pytest.raises(TypeError):
        value(backend=["blas"])


def test_what_threads_and_tasks_inherit(seven, eight):
    """Python's rules for ContextVars: tasks and to_thread inherit, plain threads do not."""
    simdconv.set_backend("eight")

    async def main(pool):
        loop = asyncio.get_running_loop()
        with simdconv.use_backend("seven"), simdconv.options(num_threads=1):
            task = asyncio.create_task(asyncio.sleep(0, value))
            inherited = [await asyncio.to_thread(value), (await task)(), value()]
            carried = contextvars.copy_context()
            plain = [await loop.run_in_executor(pool, value), pool.submit(value).result()]
            inherited.append(pool.submit(carried.run, value).result())
            threads = await asyncio.to_thread(lambda: current_options().num_threads)
        return inherited, plain, threads

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        inherited, plain, threads = asyncio.run(main(pool))
    assert inherited == [7, 7, 7, 7]
    assert plain == [8, 8]  # set_backend's: that is for the whole process
    assert threads == 1


def test_threads_that_change_their_minds_do_not_disturb_each_other(seven, eight):
    def work(name, expected):
        for _ in range(50):
            with simdconv.use_backend(name), simdconv.options(num_threads=int(expected)):
                assert value() == expected
                assert current_options().num_threads == expected
            assert value() == 18
            assert current_options().num_threads is None
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(work, *("seven", 7) if i % 2 else ("eight", 8)) for i in range(8)]
        assert all(job.result() for job in jobs)


def test_a_scope_holds_where_it_is_entered(seven):
    with simdconv.use_backend("seven"):
        carried = contextvars.copy_context()
        scope = simdconv.use_backend("numpy")  # made here, entered later
    assert value() == 18
    assert carried.run(value) == 7
    with scope:
        assert simdconv.get_backend() == "numpy"
    assert simdconv.get_backend() == FIRST


def test_explain_says_why_every_other_backend_is_not_used(seven, eight):
    seven.reason = "has a cold"
    with simdconv.use_backend(["seven", "blas"]):
        plan = simdconv.explain(X, W)
    assert plan.backend == "blas"
    assert plan.declined == (("seven", "has a cold"),)
    others = dict(plan.others)
    assert set(others) == {info.name for info in simdconv.list_backends()} - {"seven", "blas"}
    assert others["simd"] == others["numpy"] == "comes after blas"
    assert others["eight"].startswith("not asked for")
    named = dict(simdconv.explain(X, W, algorithm="im2col", backend="blas").others)
    assert set(named.values()) == {"backend='blas' allows no other"}
    after = dict(simdconv.explain(X, W, algorithm="im2col").others)
    assert after["numpy"].startswith(f"comes after {FIRST}, and declines: has no im2col")
    for item in plan.candidates:
        assert item.reason
    text = str(plan)
    assert "declined" in text
    assert "not used" in text
    assert "has a cold" in text


def test_explain_loads_no_backend_that_nobody_asked_for():
    simdconv.register_backend("broken", lambda: 1 / 0)
    reasons = dict(simdconv.explain(X, W).others)
    assert reasons["broken"].startswith("not asked for")  # and was not loaded to find out


def test_a_scope_may_be_entered_again_and_within_itself(seven):
    scope, limit = simdconv.use_backend("seven"), simdconv.options(num_threads=3)
    for _ in range(2):
        with scope, limit as now, scope, limit:
            assert value() == 7
            assert now.num_threads == 3
        assert simdconv.get_backend() == FIRST
        assert current_options().num_threads is None
    with concurrent.futures.ThreadPoolExecutor(4) as pool:

        def work(_):
            with scope, limit:
                return value()

        assert set(pool.map(work, range(100))) == {7}


def test_scopes_decorate_functions_and_coroutines(seven):
    @simdconv.options(num_threads=3)
    @simdconv.use_backend("seven")
    def plain():
        return value(), current_options().num_threads

    @simdconv.use_backend("seven")
    async def coroutine():
        await asyncio.sleep(0)
        return value()

    async def both():
        return await asyncio.gather(coroutine(), asyncio.to_thread(simdconv.get_backend))

    assert plain() == plain() == (7, 3)
    assert asyncio.run(both()) == [7, FIRST]
    with pytest.raises(TypeError, match=r"steps is a generator"):

        @simdconv.use_backend("seven")
        def steps():
            yield
