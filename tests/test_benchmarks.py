"""Each benchmark runs once, on its cheapest problem, so that none rots."""

import importlib
import inspect
import itertools
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "asv_bench"
MODULES = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if path.stem not in ("__init__", "common")
)
KINDS = ("time_", "peakmem_", "track_", "timeraw_")

sys.path.insert(0, str(ROOT))
try:
    LOADED = {name: importlib.import_module(f"benchmarks.{name}") for name in MODULES}
    COMMON = importlib.import_module("benchmarks.common")
finally:
    sys.path.remove(str(ROOT))


def cheapest(values):
    known = {name: problem for name, problem in COMMON._BY_NAME.items() if name in values}
    return [min(known, key=lambda name: known[name].flops)] if known else values


def cases():
    for module in LOADED.values():
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__:
                continue
            methods = [m for m in dir(cls) if m.startswith(KINDS)]
            assert methods, f"{name} measures nothing"
            axes = [cheapest(values) for values in getattr(cls, "params", [])]
            for arguments in itertools.product(*axes):
                yield pytest.param(cls, methods, arguments, id="-".join([name, *arguments]))


@pytest.mark.parametrize(("cls", "methods", "arguments"), list(cases()))
def test_runs(cls, methods, arguments):
    benchmark = cls()
    if hasattr(benchmark, "setup"):
        benchmark.setup(*arguments)
    for method in methods:
        result = getattr(benchmark, method)(*arguments)
        if method.startswith("track_"):
            assert result >= 0
        if method.startswith("timeraw_"):
            exec(result, {})


def test_problems_and_kernels_are_those_of_the_package():
    assert set(COMMON.CONVOLUTIONS + COMMON.TRANSFORMS + COMMON.TINY) <= set(COMMON._BY_NAME)
    assert {kernel.backend for kernel in COMMON.kernels().values()} == {"simd", "blas"}
