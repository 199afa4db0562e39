"""The roofline model: its arithmetic exactly, its measurements for sanity only."""

import numpy as np
import pytest

import simdconv
from simdconv import roofline
from simdconv.testing import PROBLEMS, Problem

PEAKS = roofline.Peaks("avx2", "float32", 1, 100.0, 20.0)


def test_bytes_and_intensity_by_hand():
    p = Problem("p", 2, 4, 10, 12, 6, 3, 5, 1, 0, 1, 2)
    image, weights, result = 2 * 4 * 10 * 12, 6 * 2 * 3 * 5, 2 * 6 * 8 * 8
    assert roofline.compulsory_bytes(p) == 4 * (image + weights + result)
    assert roofline.compulsory_bytes(p, np.float64) == 8 * (image + weights + result)
    flops = 2 * result * 2 * 3 * 5
    assert roofline.arithmetic_intensity(p) == flops / (4 * (image + weights + result))


def test_a_spec_is_a_problem():
    problem = PROBLEMS["paper"][8]
    x = np.empty((problem.n, problem.c_in, problem.h_in, problem.w_in), np.float32)
    w = np.empty((problem.c_out, problem.c_in, problem.h_f, problem.w_f), np.float32)
    spec = simdconv.explain(x, w).spec
    assert roofline.arithmetic_intensity(spec) == roofline.arithmetic_intensity(problem)


def test_attainable_is_the_lower_roof():
    assert PEAKS.ridge == 5.0
    dense, thin = PROBLEMS["paper"][8], Problem("copy", 1, 1, 64, 64, 1, 1, 1)
    assert roofline.attainable(dense, PEAKS) == 100.0
    assert roofline.attainable(thin, PEAKS) == pytest.approx(20.0 * 2 / 8, rel=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_measured_peaks(dtype):
    peaks = roofline.measure_peaks(dtype)
    assert peaks.isa == simdconv.cpu_info()["isas_found"][-1]
    assert (peaks.dtype, peaks.threads) == (dtype, 1)
    assert peaks.gflops > 0
    assert peaks.bandwidth > 0


@pytest.mark.parametrize(
    "arguments", [{"dtype": "int32"}, {"threads": 0}, {"threads": True}, {"isa": "mmx"}]
)
def test_what_cannot_be_measured(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        roofline.measure_peaks(**arguments)


def test_measure_rate():
    rate = roofline.measure_rate(PROBLEMS["tiny"][2], seconds=0, layout="NHWC", algorithm="direct")
    assert rate > 0


def test_chart(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    points = [roofline.Point(p.name, p, 50.0) for p in PROBLEMS["paper"]]
    axes = roofline.chart(points, PEAKS)
    axes.figure.savefig(tmp_path / "roofline.png")
    assert (tmp_path / "roofline.png").stat().st_size > 10_000
    assert {text.get_text() for text in axes.texts} == {p.name for p in PROBLEMS["paper"]}
    roofline.chart([], PEAKS)
