"""Results of more than 2 GiB, elements beyond 2**31, and the peak memory of a large call.

What the machine lacks the memory for is skipped, and says so.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import simdconv
from simdconv import conv2d

LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
GIB = 1 << 30
pytestmark = pytest.mark.large


def available():
    """Bytes of memory that may be had without swapping."""
    try:
        with open("/proc/meminfo") as file:
            rows = dict(line.split(":") for line in file)
        return int(rows["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def need(size):
    if available() < size:
        pytest.skip(f"needs {size / GIB:.0f} GiB of memory; {available() / GIB:.1f} are available")


def check_windows(y, x, w, layout):
    """Compare corners of every image and channel, first and last rows, with the reference."""
    rows, columns = {"NCHW": (2, 3), "NHWC": (1, 2), "CHWN": (1, 2), "CHWN8": (2, 3)}[layout]
    k = w.shape[-1]
    for row in (slice(0, 2), slice(-2, None)):
        for column in (slice(0, 3), slice(-3, None)):
            part, window = [slice(None)] * x.ndim, [slice(None)] * x.ndim
            for axis, some in ((rows, row), (columns, column)):
                window[axis] = some
                last = x.shape[axis] if some.stop is None else some.stop + k - 1
                first = last - (2 if axis == rows else 3) - k + 1
                part[axis] = slice(first, last)
            expected = conv2d(x[tuple(part)].copy(), w, layout=layout, backend="numpy")
            assert np.array_equal(y[tuple(window)], expected), (row, column)


def image(layout, n, c, size):
    rng = np.random.default_rng(7)
    x = rng.integers(-4, 5, (n, c, size, size), np.int8).astype(np.float32)
    return simdconv.to_layout(x, "NCHW", layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_result_of_more_than_two_gib(layout):
    need(5 * GIB)
    x = image(layout, 8, 1, 1024)
    w = np.random.default_rng(8).integers(-4, 5, (66, 1, 3, 3)).astype(np.float32)
    y = conv2d(x, w, layout=layout)
    assert y.nbytes > 2 * GIB
    check_windows(y, x, w, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_result_of_more_than_two_to_the_31_elements(layout):
    """In the ci and long profiles, for its ten seconds a layout."""
    if os.environ.get("SIMDCONV_TEST_PROFILE", "quick") == "quick":
        pytest.skip("SIMDCONV_TEST_PROFILE=ci runs it")
    need(11 * GIB)
    x = image(layout, 8, 1, 1024)
    w = np.random.default_rng(9).integers(-4, 5, (258, 1, 1, 1)).astype(np.float32)
    y = conv2d(x, w, layout=layout)
    assert y.size > 2**31
    check_windows(y, x, w, layout)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_beyond_two_to_the_31_in_an_image(layout, axis):
    """An axis that steps 2**31 elements: memory that nobody touches costs nothing."""
    shape = {"NCHW": (2, 2, 2, 9), "NHWC": (2, 2, 9, 2), "CHWN": (2, 2, 9, 2),
             "CHWN8": (2, 2, 2, 9, 8)}[layout]  # fmt: skip
    if axis == len(shape) - 1 or shape[axis] != 2:
        pytest.skip("steps one element, or more than once")
    step = 2**31 + 64
    try:
        memory = np.zeros(step + (1 << 16), np.float32)
    except MemoryError:
        pytest.skip("the system does not promise 8 GiB of address space")
    strides = [4 * 40 * 8 * 2**i for i in range(len(shape))][::-1]
    strides[-1], strides[-2] = 4, 4 * shape[-1]
    if len(shape) == 5:
        strides[-3] = 4 * 72
    strides[axis] = 4 * step
    x = np.lib.stride_tricks.as_strided(memory, shape, strides)
    x[...] = np.random.default_rng(10).integers(-4, 5, shape)
    w = np.random.default_rng(11).integers(-4, 5, (5, 2, 2, 3)).astype(np.float32)
    expected = conv2d(x.copy(), w, layout=layout, padding=1, backend="numpy")
    for algorithm in ("direct", "im2win", "im2col", "implicit"):
        y = conv2d(x, w, layout=layout, padding=1, backend="simd", algorithm=algorithm)
        assert np.array_equal(y, expected), algorithm
    plan = simdconv.explain(x, w, layout=layout, padding=1, backend="simd")
    assert plan.plan.details["operand_copies"] == 0
    for name in ("im2col", "im2win"):
        transform = getattr(simdconv, name)
        assert np.array_equal(transform(x, 2, layout=layout), transform(x.copy(), 2, layout=layout))


PEAK = """
import sys
import numpy as np, simdconv
layout = sys.argv[1]

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))

shape = {"NCHW": (16, 64, 224, 224), "NHWC": (16, 224, 224, 64), "CHWN": (64, 224, 224, 16),
         "CHWN8": (2, 64, 224, 224, 8)}[layout]
w = np.ones((64, 64, 7, 7), np.float32)
small = np.ones([min(size, 16) for size in shape], np.float32)
channel = {"NCHW": 1, "NHWC": 3, "CHWN": 0, "CHWN8": 1}[layout]
simdconv.conv2d(np.repeat(small, 64 // small.shape[channel], channel), w, stride=2, layout=layout)
del small
before = status("VmRSS")
x = np.ones(shape, np.float32)
y = simdconv.conv2d(x, w, stride=2, layout=layout)
peak = status("VmHWM")
assert (y == 64 * 49).all()
print(peak - before, x.nbytes + y.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_peak_memory_is_operands_and_result(layout):
    """Layer 4 of the paper's twelve: im2col would store 600 MiB."""
    need(GIB)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PEAK, layout], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    peak, arrays = map(int, done.stdout.split())
    assert peak <= arrays + (16 << 20)
