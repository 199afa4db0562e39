"""Which backend and which array family runs a call."""

import asyncio
import concurrent.futures
import copy
import inspect
import logging
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import simdconv
from simdconv import BackendLoadError, BackendNotFoundError, BackendNotImplementedError

X = np.ones((1, 2, 5, 5), np.float32)
W = np.ones((3, 2, 3, 3), np.float32)
FIRST = simdconv.get_backend()


pytestmark = pytest.mark.usefixtures("clean_registry")


def value(**keywords):
    return float(simdconv.conv2d(X, W, **keywords).flat[0])


def test_registering_changes_nothing(seven, eight):
    assert value() == 18
    assert simdconv.get_backend() == FIRST


def test_precedence(seven, eight, monkeypatch):
    simdconv.set_backend("seven")
    assert value() == 7
    with simdconv.use_backend("eight"):
        assert value() == 8
        assert simdconv.get_backend() == "eight"
        with simdconv.use_backend("numpy"):
            assert value() == 18
            assert value(backend="seven") == 7
        assert value() == 8
    assert value() == 7
    simdconv.set_backend(None)
    assert value() == 18


def test_environment_is_read_late(seven, monkeypatch):
    monkeypatch.setenv("SIMDCONV_BACKEND", "seven")
    simdconv.set_backend(None)
    assert value() == 7
    simdconv.set_backend("numpy")
    assert value() == 18
    monkeypatch.setenv("SIMDCONV_BACKEND", "nonesuch")
    simdconv.set_backend(None)
    with pytest.raises(BackendNotFoundError, match="SIMDCONV_BACKEND='nonesuch'"):
        value()
    monkeypatch.setenv("SIMDCONV_BACKEND", "numpy, seven")
    simdconv.set_backend(None)
    assert simdconv.get_backend() == "numpy"


def test_lists_of_names(seven, eight):
    seven.reason = "has a cold"
    simdconv.set_backend(["seven", "eight"])
    assert value() == 8
    assert simdconv.explain(X, W).declined == (("seven", "has a cold"),)


def test_falling_through_is_logged_and_never_warned(seven, caplog, recwarn):
    seven.reason = "has a cold"
    with caplog.at_level(logging.DEBUG, "simdconv"), simdconv.use_backend("seven"):
        assert value() == 18
    assert "seven passed over: has a cold" in caplog.text
    assert not recwarn.list


def test_strict_backend_does_not_fall_through(seven):
    seven.reason = "has a cold"
    with pytest.raises(BackendNotImplementedError, match="has a cold") as caught:
        value(backend="seven")
    assert caught.value.reasons == {"seven": "has a cold"}
    copied = pickle.loads(pickle.dumps(caught.value))
    assert copied.reasons == caught.value.reasons


def test_named_algorithm_that_nobody_has():
    for algorithm in ("winograd", "fft"):
        with pytest.raises(BackendNotImplementedError, match=algorithm) as caught:
            value(algorithm=algorithm)
        assert set(caught.value.reasons) >= {"blas", "numpy"}
        assert isinstance(caught.value, NotImplementedError)
    assert value(algorithm="fastest") == 18


def test_named_algorithm_falls_through():
    assert value(algorithm="direct") == 18
    with simdconv.use_backend("numpy"):
        assert simdconv.explain(X, W, algorithm="im2col").backend != "numpy"
    with pytest.raises(BackendNotImplementedError, match="im2col"):
        value(algorithm="im2col", backend="numpy")


def test_threads_see_the_process_and_not_each_other(seven, eight):
    simdconv.set_backend("seven")
    barrier = threading.Barrier(2)

    def scoped():
        with simdconv.use_backend("eight"):
            barrier.wait()
            first = value()
            barrier.wait()
            return first

    def plain():
        barrier.wait()
        first = value()
        barrier.wait()
        return first

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        a, b = pool.submit(scoped), pool.submit(plain)
        assert (a.result(), b.result()) == (8, 7)


def test_tasks_do_not_see_each_other(seven, eight):
    async def task(name, expected):
        with simdconv.use_backend(name):
            for _ in range(5):
                await asyncio.sleep(0)
                assert value() == expected

    async def main():
        await asyncio.gather(*(task("seven", 7) if i % 2 else task("eight", 8) for i in range(10)))
        assert value() == 18

    asyncio.run(main())


def test_use_backend_is_left_after_an_error(seven):
    with pytest.raises(ZeroDivisionError), simdconv.use_backend("seven"):
        raise ZeroDivisionError
    assert value() == 18


@pytest.mark.parametrize("front", [simdconv.set_backend, simdconv.use_backend])
def test_unknown_names(front):
    with pytest.raises(BackendNotFoundError, match=r"nonesuch.*expected one of"):
        front("nonesuch")
    with pytest.raises(BackendNotFoundError):
        front(["numpy", "nonesuch"])
    with pytest.raises(TypeError):
        front(3)
    with pytest.raises(TypeError):
        front([3])
    assert value() == 18


def test_broken_backends_are_listed_with_their_reason(fake_backend):
    simdconv.register_backend("broken", lambda: 1 / 0)
    simdconv.register_backend("absent", "no_such_package.module:load")
    simdconv.register_backend(
        "old", lambda: type("Old", (fake_backend,), {"api_version": 0})("old")
    )
    simdconv.register_backend("empty", lambda: type("Empty", (), {"api_version": 1})())
    listed = {info.name: info for info in simdconv.list_backends()}
    assert "ZeroDivisionError" in listed["broken"].reason
    assert "no_such_package" in listed["absent"].reason
    assert "api_version 0" in listed["old"].reason
    assert "lacks declines" in listed["empty"].reason
    assert listed["numpy"].available
    assert not listed["broken"].available
    for name in ("broken", "absent", "old", "empty"):
        with pytest.raises(BackendLoadError, match=name):
            simdconv.set_backend(name)
        with pytest.raises(BackendLoadError, match=name):
            value(backend=name)
    assert value() == 18


def test_list_is_ordered_by_priority(seven, eight):
    names = [info.name for info in simdconv.list_backends()]
    order = [name for name in names if name in ("eight", "simd", "blas", "numpy", "seven")]
    assert order == ["eight", "simd", "blas", "numpy", "seven"]


def test_register_checks_its_arguments():
    with pytest.raises(ValueError, match="built-in"):
        simdconv.register_backend("numpy", lambda: None)
    for arguments, keywords in (
        ((3, len), {}), (("", len), {}), (("new", 3), {}), (("new", "no colon"), {}),
        (("new", len), {"priority": 1.5}),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            simdconv.register_backend(*arguments, **keywords)


def test_loaders_run_late_and_once(fake_backend):
    calls = []

    def load():
        calls.append(1)
        return fake_backend("lazy")

    simdconv.register_backend("lazy", load)
    assert value() == 18
    assert not calls
    assert value(backend="lazy") == 7
    assert value(backend="lazy") == 7
    assert calls == [1]


def test_registering_again_replaces(seven, fake_backend):
    assert value(backend="seven") == 7
    simdconv.register_backend("seven", lambda: fake_backend("seven", 77))
    assert value(backend="seven") == 77


def test_backends_never_see_empty_results_or_sums(seven):
    with simdconv.use_backend("seven"):
        assert simdconv.conv2d(X[:0], W).shape == (0, 3, 3, 3)
        bias = np.array([1, -2, 3], np.float32)
        y = simdconv.conv2d(X[:, :0], W[:, :0], bias, activation="relu")
    assert y[0, :, 0, 0].tolist() == [1, 0, 3]
    assert seven.calls == 0


def test_explain():
    plan = simdconv.explain(X, W, backend="numpy", padding="same")
    assert (plan.backend, plan.algorithm, plan.kernel) == (
        "numpy", "direct", "direct-nchw-numpy-f32")  # fmt: skip
    assert isinstance(plan.workspace_bytes, int)
    text = str(plan)
    for word in ("numpy.ndarray", "direct-nchw-numpy-f32", "workspace", "threads", "candidate"):
        assert word in text
    with pytest.raises(ValueError, match="stride"):
        simdconv.explain(X, W, stride=0)


def test_kernels_are_named_by_their_coordinates():
    ids = [kernel.id for kernel in simdconv.kernels()]
    assert len(ids) == len(set(ids))
    assert "im2col-nhwc-blas-f32" in ids
    assert "direct-chwn8-numpy-bf16" in ids
    for kernel in simdconv.kernels():
        parts = (kernel.algorithm, kernel.layout.lower(), kernel.isa, kernel.dtype)
        assert kernel.id == "-".join(parts)
    assert simdconv.explain(X, W).kernel in ids


def test_config(capsys):
    assert simdconv.show_config() is None
    printed = capsys.readouterr().out
    for word in ("simdconv", "numpy", "blas", "backends", "cpu"):
        assert word in printed
    assert simdconv.show_config("dicts")["backends"]["numpy"] == "available"
    assert {"machine", "cpus", "isas_built", "isas_found"} <= set(simdconv.cpu_info())
    with pytest.raises(ValueError, match="mode"):
        simdconv.show_config("json")


def test_import_is_quiet_and_starts_no_thread():
    code = (
        "import sys, threading, numpy, simdconv;"
        "print(threading.active_count(), 'threadpoolctl' in sys.modules, 'scipy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False", "False"]
    assert done.stderr == ""


def test_functions_look_like_functions():
    assert simdconv.conv2d.__name__ == "conv2d"
    assert list(inspect.signature(simdconv.conv2d).parameters)[:3] == ["x", "w", "bias"]
    assert pickle.loads(pickle.dumps(simdconv.conv2d)) is simdconv.conv2d
    assert copy.copy(simdconv.im2win) is simdconv.im2win
