"""The checks themselves: they must fail where a result is wrong."""

import dataclasses
import faulthandler
import os
import signal

import numpy as np
import pytest

import simdconv
from simdconv import conv2d, testing
from simdconv._backend_check import check_contract
from simdconv.backends._base import Plan
from simdconv.testing import PROBLEMS, Problem, assert_conv_close, guarded, make_arrays

SOME = Problem("some", 2, 5, 7, 8, 6, 3, 3, 1, 1)


def test_catalogue():
    counts = {name: len(problems) for name, problems in PROBLEMS.items()}
    assert counts["paper"] == 12
    assert counts["network"] == 11
    assert counts["depthwise"] == 6
    assert counts["image"] == 7
    assert counts["tiny"] == 4
    assert counts["awkward"] > 100
    for name, problems in PROBLEMS.items():
        assert len({problem.name for problem in problems}) == len(problems), name
    conv1, dw = PROBLEMS["paper"][0], PROBLEMS["depthwise"][1]
    assert (conv1.h_out, conv1.w_out, conv1.flops) == (55, 55, 2 * 8 * 96 * 55 * 55 * 363)
    assert (dw.groups, dw.stride, dw.h_out) == (96, 2, 56)


def test_every_awkward_size_is_every_kind_of_size():
    for size in testing.AWKWARD_SIZES:
        for kind in ("c_out", "c_in", "n", "w_out"):
            assert any(getattr(p, kind) == size for p in PROBLEMS["awkward"]), (kind, size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.complex64])
@pytest.mark.parametrize("layout", ["NCHW", "CHWN8"])
def test_right_results_pass_and_wrong_ones_do_not(dtype, layout):
    for whole in (True, False):
        x, w, bias = make_arrays(SOME, dtype, layout=layout, whole=whole)
        keywords = {**SOME.keywords, "layout": layout}
        y = conv2d(x, w, bias, **keywords)
        assert_conv_close(y, x, w, bias, n=2, random=not whole, **keywords)
        wrong = y.copy()
        wrong[0, 1, 2, 3] += 1
        with pytest.raises(AssertionError, match=r"\d of"):
            assert_conv_close(wrong, x, w, bias, n=2, random=not whole, **keywords)


def test_bound_is_not_blind():
    x, w, bias = make_arrays(SOME, np.float32, whole=False)
    y = conv2d(x, w, bias, **SOME.keywords)
    size = conv2d(abs(x), abs(w), abs(bias), **SOME.keywords)
    off = (y + 2.0**-24 * 4.1 * np.sqrt(45) * size + 2.0**-22 * size).astype(np.float32)
    with pytest.raises(AssertionError, match="bound"):
        assert_conv_close(off, x, w, bias, random=True, **SOME.keywords)
    assert_conv_close(off, x, w, bias, **SOME.keywords)


def test_exact_check_sees_one_unit():
    x, w, bias = make_arrays(SOME)
    y = conv2d(x, w, bias, **SOME.keywords)
    y[1, 2, 3, 4] = np.nextafter(y[1, 2, 3, 4], np.float32(99))
    with pytest.raises(AssertionError, match=r"differ from the exact result; at \(1, 2, 3, 4\)"):
        assert_conv_close(y, x, w, bias, **SOME.keywords)


def test_nan_must_be_where_it_belongs():
    x, w, bias = make_arrays(SOME, whole=False)
    x[0, 0, 3, 3] = np.nan
    y = conv2d(x, w, bias, **SOME.keywords)
    assert_conv_close(y, x, w, bias, **SOME.keywords)
    for place, value in (((0, 0, 3, 3), 1.0), ((1, 0, 0, 0), np.nan)):
        wrong = y.copy()
        wrong[place] = value
        with pytest.raises(AssertionError):
            assert_conv_close(wrong, x, w, bias, **SOME.keywords)


def test_shape_and_dtype_are_checked():
    x, w, bias = make_arrays(SOME)
    y = conv2d(x, w, bias, **SOME.keywords)
    for wrong in (y[:1], y.astype(np.float64)):
        with pytest.raises(AssertionError, match="expected"):
            assert_conv_close(wrong, x, w, bias, **SOME.keywords)


def test_activations_and_leaky_rounding():
    x, w, bias = make_arrays(SOME, whole=False)
    for activation in ("relu", ("clip", -0.3, 0.7), ("leaky_relu", 0.3), ("leaky_relu", -3)):
        y = conv2d(x, w, bias, activation=activation, **SOME.keywords)
        assert_conv_close(y, x, w, bias, activation=activation, random=True, **SOME.keywords)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize(("at", "offset"), [("end", 1), ("start", -1)])
def test_guarded_arrays_end_the_process(at, offset):
    array = guarded(np.arange(10, dtype=np.int16), at)
    assert array.tolist() == list(range(10))
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # the end of the child is no news
        beyond = array.ctypes.data + (array.nbytes if offset > 0 else -2)
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int16 * 1).from_address(beyond)).copy()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == -signal.SIGSEGV


def test_guarded_arguments():
    assert guarded(np.zeros((0, 3))).shape == (0, 3)
    big = np.arange(5000.0).reshape(50, 100)
    assert np.array_equal(guarded(big), big)
    with pytest.raises(ValueError, match="at must be"):
        guarded(big, "middle")


def test_check_backend_finds_a_wrong_backend(monkeypatch):
    class Off:
        """Right, but for one element."""

        name, api_version = "off", 1

        def declines(self, spec):
            return None

        def plan(self, spec):
            return Plan(self.name, "direct", spec.layout, "direct", 0)

        def conv2d(self, spec, x, w, bias, out):
            simdconv.backends.get("numpy").conv2d(spec, x, w, bias, out)
            out.flat[-1] += spec.layout == "NHWC"

        def transform(self, spec, x, out):
            simdconv.backends.get("numpy").transform(spec, x, out)

    monkeypatch.setitem(simdconv.backends._entries, "off", None)
    simdconv.register_backend("off", Off)
    ran, declined = testing.check_backend("off", sets=("tiny",), layouts=("NCHW",))
    assert ran > 0
    assert declined == 0
    with pytest.raises(AssertionError, match="tiny-1 float32 NHWC auto on off"):
        testing.check_backend("off", sets=("tiny",))


def test_workspace_of_the_reference():
    import tracemalloc

    x, w, bias = make_arrays(Problem("reference", 2, 8, 60, 60, 16, 3, 3, 1, 1))
    keywords = {"padding": 1, "backend": "numpy", "activation": ("leaky_relu", 0.5)}
    plan = simdconv.explain(x, w, bias, **keywords)
    out = conv2d(x, w, bias, **keywords)
    tracemalloc.start()
    conv2d(x, w, bias, out=out, **keywords)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.workspace_bytes <= peak <= plan.workspace_bytes + 100_000


class Copied:
    """A backend that is right, for others to be wrong in one way."""

    api_version = 1

    def __init__(self, name):
        self.name, self.reference = name, simdconv.backends.get("numpy")

    def declines(self, spec):
        return self.reference.declines(spec)

    def plan(self, spec):
        return dataclasses.replace(self.reference.plan(spec), backend=self.name)

    def conv2d(self, spec, x, w, bias, out):
        self.reference.conv2d(spec, x, w, bias, out)

    def transform(self, spec, x, out):
        self.reference.transform(spec, x, out)


class SkipsPadding(Copied):
    def conv2d(self, spec, x, w, bias, out):
        super().conv2d(spec, x, np.nan_to_num(w) if spec.padded else w, bias, out)


class SumsInHalf(Copied):
    def conv2d(self, spec, x, w, bias, out):
        super().conv2d(dataclasses.replace(spec, acc_dtype=spec.dtype), x, w, bias, out)


class Warns(Copied):
    def conv2d(self, spec, x, w, bias, out):
        super().conv2d(spec, x, w, bias, out)
        np.float32(np.inf) * np.float32(0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "message"),
    [(SkipsPadding, "weights that are not finite"), (SumsInHalf, "a sum of float16"),
     (Warns, "lets a warning escape"), (Copied, None)],
)  # fmt: skip
def test_contract_finds_wrong_numbers(kind, message, clean_registry):
    simdconv.register_backend("copied", lambda: kind("copied"))
    if message is None:
        check_contract("copied")
    else:
        with pytest.raises(AssertionError, match=message):
            check_contract("copied")
