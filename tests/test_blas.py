"""The blas backend: exactness, bits, workspace and threads."""

import dataclasses
import os
import threading
import tracemalloc

import numpy as np
import pytest
import threadpoolctl

import simdconv
from simdconv import conv2d, to_layout
from simdconv.testing import PROBLEMS, Problem, assert_conv_close, make_arrays

ALGORITHMS = ("im2col", "im2win", "implicit")
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
SMALL = Problem("small", 3, 6, 12, 11, 8, 3, 3, 1, 1)


def named(name):
    return next(p for problems in PROBLEMS.values() for p in problems if p.name == name)


def call(problem, x, w, bias, layout, **keywords):
    return conv2d(x, w, bias, layout=layout, backend="blas", **problem.keywords, **keywords)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
def test_awkward_problems_exactly(algorithm, layout):
    for problem in PROBLEMS["awkward"][:: 1 if algorithm == "auto" else 3]:
        x, w, bias = make_arrays(problem, layout=layout)
        y = call(problem, x, w, bias, layout, algorithm=algorithm)
        assert_conv_close(y, x, w, bias, n=problem.n, layout=layout, **problem.keywords)


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
def test_im2win_phases(stride, dilation):
    """Stride and dilation with and without common factors, kernels narrower and wider than both."""
    for w_f in (1, 2, 3, 5):
        problem = Problem("phases", 1, 4, 6, 29, 6, 2, w_f, stride, 0, dilation, 2)
        for layout in ("NCHW", "NHWC"):
            x, w, bias = make_arrays(problem, np.float64, layout=layout)
            y = call(problem, x, w, bias, layout, algorithm="im2win")
            expected = conv2d(x, w, bias, layout=layout, backend="numpy", **problem.keywords)
            assert np.array_equal(y, expected)


@pytest.mark.parametrize("weight_layout", ["OIHW", "HWIO", "OHWI", "IHWO"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [(3, 2), (1, 1), (1, 3), (3, 1)])
@pytest.mark.parametrize("groups", [1, 2])
def test_filters_in_place_or_copied(weight_layout, layout, kernel, groups):
    problem = Problem("filters", 2, 4, 5, 6, 6, *kernel, groups=groups)
    x, w, bias = make_arrays(problem, layout=layout, weight_layout=weight_layout)
    expected = conv2d(x, w, bias, layout=layout, weight_layout=weight_layout, groups=groups,
                      backend="numpy")  # fmt: skip
    algorithms = ALGORITHMS if kernel != (1, 1) else (*ALGORITHMS, "direct")
    for weight in (w, np.asfortranarray(w), w.astype(">f4")):
        for algorithm in algorithms:
            y = call(problem, x, weight, bias, layout, weight_layout=weight_layout,
                     algorithm=algorithm)  # fmt: skip
            assert np.array_equal(y, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
def test_bits_do_not_depend_on_batch_or_threads(dtype, layout, algorithm):
    problem = Problem("bits", 9, 70, 17, 18, 33, 3, 3, 1, 1)
    x, w, bias = make_arrays(problem, dtype, layout=layout, whole=False)
    whole = to_layout(call(problem, x, w, bias, layout, algorithm=algorithm), layout, "NCHW", n=9)
    for threads in (1, 2, 5):
        again = call(problem, x, w, bias, layout, algorithm=algorithm, num_threads=threads)
        assert np.array_equal(to_layout(again, layout, "NCHW", n=9), whole)
    images = to_layout(x, layout, "NCHW", n=9)
    for index in (0, 4, 8):
        one = to_layout(images[index : index + 1], "NCHW", layout)
        alone = call(problem, one, w, bias, layout, algorithm=algorithm)
        assert np.array_equal(to_layout(alone, layout, "NCHW", n=1)[0], whole[index])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("weight_layout", ["OIHW", "HWIO", "OHWI"])
def test_bits_do_not_depend_on_memory_order(layout, weight_layout):
    for kernel in ((3, 3), (1, 1)):
        problem = Problem("bits", 2, 40, 9, 10, 21, *kernel)
        x, w, bias = make_arrays(
            problem, layout=layout, weight_layout=weight_layout, whole=False
        )  # fmt: skip
        for algorithm in ("auto", *ALGORITHMS):
            keywords = {"weight_layout": weight_layout, "algorithm": algorithm}
            expected = call(problem, x, w, bias, layout, **keywords)
            for image in (np.asfortranarray(x), x.astype(">f4")):
                assert np.array_equal(call(problem, image, w, bias, layout, **keywords), expected)
            for weight in (np.asfortranarray(w), w.astype(">f4")):
                assert np.array_equal(call(problem, x, weight, bias, layout, **keywords), expected)
            out = np.asfortranarray(np.full_like(expected, np.nan))
            call(problem, x, w, bias, layout, out=out, **keywords)
            assert np.array_equal(out, expected)


def test_bits_of_a_long_sum_do_not_depend_on_threads():
    x, w, _ = make_arrays(Problem("long", 1, 600, 14, 14, 96, 3, 3), whole=False)
    results = [conv2d(x, w, backend="blas", num_threads=count) for count in (1, 2, 3, None)]
    for y in results[1:]:
        assert np.array_equal(y, results[0])


@pytest.mark.parametrize("name", ["tiny-8", "odd-channels", "resnet-3x3-14"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.float16])
def test_rounding_stays_within_the_bound(name, dtype):
    problem = dataclasses.replace(named(name), c_out=12)
    x, w, bias = make_arrays(problem, dtype, whole=False)
    for algorithm in ALGORITHMS:
        y = call(problem, x, w, bias, "NCHW", algorithm=algorithm)
        assert_conv_close(y, x, w, bias, random=True, reference="blas", **problem.keywords)


@pytest.mark.parametrize(
    ("x_dtype", "w_dtype", "expected"),
    [("i1", "i1", "i4"), ("u1", "i1", "i4"), ("u1", "u1", "i4"), ("i2", "i1", "i8"),
     ("u2", "i2", "i8"), ("u4", "i1", "i8"), ("i4", "i4", "i8"), ("i8", "u4", "i8")],
)  # fmt: skip
def test_integers_are_exact_at_their_limits(x_dtype, w_dtype, expected):
    rng = np.random.default_rng(3)
    limits = [np.iinfo(x_dtype), np.iinfo(w_dtype)]
    x = rng.choice([limits[0].min, limits[0].max, 1], (1, 5, 6, 6)).astype(x_dtype)
    w = rng.choice([limits[1].min, limits[1].max, 3], (4, 5, 3, 3)).astype(w_dtype)
    for layout in ("NCHW", "CHWN"):
        for algorithm in ALGORITHMS:
            y = conv2d(to_layout(x, "NCHW", layout), w, layout=layout, algorithm=algorithm,
                       backend="blas")  # fmt: skip
            assert y.dtype == np.dtype(expected)
            windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), axis=(1, 2))
            exact = np.einsum("chwuv,ocuv->ohw", windows.astype(object), w.astype(object))
            wrapped = (exact + 2**63) % 2**64 - 2**63  # int64 times int64 may exceed int64
            assert np.array_equal(to_layout(y, layout, "NCHW")[0].astype(object), wrapped)


def test_sums_too_long_for_float64_or_int32_are_multiplied_as_integers():
    x = np.full((1, 40000, 1, 1), 255, np.uint8)
    w = np.full((1, 40000, 1, 1), 1, np.int8)
    assert conv2d(x, w, backend="blas").item() == 255 * 40000
    notes = simdconv.explain(x.astype(np.int32), w, backend="blas").notes
    assert any("without BLAS" in note for note in notes)


def measured(problem, layout, dtype=np.float32, limit=None, **keywords):
    """(planned, allocated) workspace of one call, the result not included."""
    x, w, bias = make_arrays(problem, dtype, layout=layout, bias=False)
    keywords = {**problem.keywords, **keywords, "layout": layout, "backend": "blas"}
    with simdconv.options(max_workspace=limit):
        plan = simdconv.explain(x, w, bias, **keywords)
        y = conv2d(x, w, bias, **keywords)
        tracemalloc.start()
        conv2d(x, w, bias, out=y, **keywords)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return plan.workspace_bytes, peak


SLOP = 100_000  # objects of the interpreter, and the buffers of older NumPys' ufuncs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.complex64])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_workspace_is_what_the_plan_says(layout, dtype, algorithm):
    problem = Problem("workspace", 2, 16, 40, 41, 24, 3, 3, 1, 1)
    planned, allocated = measured(problem, layout, dtype, algorithm=algorithm, num_threads=1)
    assert planned <= allocated + 8
    assert allocated <= planned + SLOP


@pytest.mark.parametrize("activation", ["relu6", ("clip", -1, 2), ("leaky_relu", 0.5)])
def test_workspace_of_activations(activation):
    problem = Problem("workspace", 1, 4, 200, 200, 24, 3, 3, 1, 1)
    planned, allocated = measured(problem, "NHWC", num_threads=1, activation=activation)
    assert planned <= allocated + 8
    assert allocated <= planned + SLOP


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_limit_is_honoured_by_tiling(layout, algorithm):
    problem = Problem("limit", 2, 16, 40, 41, 24, 3, 3, 1, 1)
    free, _ = measured(problem, layout, algorithm=algorithm, num_threads=1)
    for limit in (free - 1, free // 2, free // 4):
        try:
            planned, allocated = measured(problem, layout, algorithm=algorithm, limit=limit)
        except MemoryError as error:
            assert "blas needs at least" in str(error)
            continue
        assert planned <= limit
        assert allocated <= limit + SLOP


def test_pointwise_reads_in_place():
    problem = Problem("pointwise", 2, 16, 9, 9, 8, 1, 1)
    for layout in ("NCHW", "NHWC"):
        x, w, bias = make_arrays(problem, layout=layout)
        with simdconv.options(max_workspace=0):
            plan = simdconv.explain(x, w, bias, layout=layout, backend="blas")
            y = conv2d(x, w, bias, layout=layout, backend="blas")
        assert plan.algorithm == "direct"
        assert plan.workspace_bytes == 0
        assert any("in place" in note for note in plan.notes)
        assert_conv_close(y, x, w, bias, layout=layout)
    assert simdconv.explain(x, w, layout="NHWC", stride=2, backend="blas").workspace_bytes > 0
    with pytest.raises(simdconv.BackendNotImplementedError, match="1x1"):
        conv2d(np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)), algorithm="direct", backend="blas")


def limits():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]


def test_thread_limits_are_restored():
    x, w, bias = make_arrays(named("resnet-3x3-14"))
    with threadpoolctl.threadpool_limits(2):
        before = limits()
        for count in (None, 1, 2, 3):
            conv2d(x, w, bias, backend="blas", num_threads=count)
            assert limits() == before
        with pytest.raises(ValueError, match="x in layout"):
            conv2d(x[0, 0], w, backend="blas", num_threads=1)
        assert limits() == before


def test_thread_limits_are_restored_after_calls_from_many_threads():
    x, w, bias = make_arrays(named("odd-channels"))
    expected = conv2d(x, w, bias, backend="blas")
    before, wrong = limits(), []

    def work(count):
        for _ in range(5):
            if not np.array_equal(conv2d(x, w, bias, backend="blas", num_threads=count), expected):
                wrong.append(count)

    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert limits() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_child_finishes():
    x, w, bias = make_arrays(named("odd-channels"))
    expected = conv2d(x, w, bias, backend="blas", num_threads=2)
    child = os.fork()
    if child == 0:
        same = np.array_equal(conv2d(x, w, bias, backend="blas", num_threads=2), expected)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_plan_tells_tiles_threads_and_reasons():
    x, w, _ = make_arrays(named("resnet-3x3-56"))
    plan = simdconv.explain(x, w, padding=1, backend="blas", num_threads=2)
    assert plan.num_threads == 2
    assert {item.algorithm for item in plan.candidates} == {"direct", *ALGORITHMS}
    assert sum(item.chosen for item in plan.candidates) == 1
    assert plan.plan.details["tile rows"] >= 1


def test_long_double_is_declined():
    x, w, _ = make_arrays(SMALL, np.longdouble)
    with pytest.raises(simdconv.BackendNotImplementedError, match="BLAS"):
        conv2d(x, w, backend="blas")
    assert simdconv.explain(x, w).backend == "numpy"
