"""PyTorch's conv2d over a randomized grid: whole numbers exactly, others within the bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdconv
from simdconv import conv2d, to_layout

torch = pytest.importorskip("torch", reason="torch is not installed")
torch.set_num_threads(1)  # two OpenMP runtimes that wait for each other's processors are slow
F = torch.nn.functional

MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")
sizes = st.integers(1, 12)
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def calls(draw):
    """Sizes, and keywords as conv2d takes them, of a call that PyTorch can do."""
    groups = draw(st.integers(1, 4))
    c_in, c_out = groups * draw(st.integers(1, 5)), groups * draw(st.integers(1, 5))
    kernel, stride, dilation = draw(pairs), draw(pairs), draw(pairs)
    pads = draw(st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * 2))
    mode = draw(st.sampled_from(list(MODES)))
    image = []
    for axis in (0, 1):
        span = dilation[axis] * (kernel[axis] - 1) + 1
        least = max(1, span - sum(pads[axis]))
        if mode in ("reflect", "wrap"):  # PyTorch's do not repeat
            least = max(least, max(pads[axis]) + 1)
        image.append(least + draw(sizes) - 1)
    shapes = (draw(st.integers(1, 3)), c_in, *image), (c_out, c_in // groups, *kernel)
    keywords = {"stride": stride, "dilation": dilation, "groups": groups,
                "padding": pads, "padding_mode": mode}  # fmt: skip
    return shapes, keywords, draw(st.booleans()), draw(st.integers(0, 2**32 - 1))


def theirs(x, w, bias, keywords):
    """PyTorch's result in float64."""
    (top, bottom), (left, right) = keywords["padding"]
    x, w = (torch.from_numpy(np.asarray(a, np.float64)) for a in (x, w))
    if (top, bottom, left, right) != (0, 0, 0, 0):
        x = F.pad(x, (left, right, top, bottom), MODES[keywords["padding_mode"]])
    bias = None if bias is None else torch.from_numpy(np.asarray(bias, np.float64))
    return F.conv2d(
        x, w, bias, keywords["stride"], 0, keywords["dilation"], keywords["groups"]
    ).numpy()


@given(calls(), st.sampled_from(LAYOUTS), st.sampled_from(["simd", "blas"]))
def test_whole_numbers(call, layout, backend):
    (x_shape, w_shape), keywords, has_bias, seed = call
    rng = np.random.default_rng(seed)
    x, w = (rng.integers(-8, 9, shape).astype(np.float32) for shape in (x_shape, w_shape))
    bias = rng.integers(-8, 9, w_shape[0]).astype(np.float32) if has_bias else None
    y = conv2d(to_layout(x, "NCHW", layout), w, bias, layout=layout, backend=backend, **keywords)
    y = to_layout(y, layout, "NCHW", n=len(x))
    assert np.array_equal(y, theirs(x, w, bias, keywords))


@given(calls(), st.sampled_from(["direct", "im2col", "im2win", "implicit"]))
def test_random_numbers_within_the_bound(call, algorithm):
    (x_shape, w_shape), keywords, has_bias, seed = call
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (x_shape, w_shape))
    bias = rng.standard_normal(w_shape[0]).astype(np.float32) if has_bias else None
    y = conv2d(x, w, bias, algorithm=algorithm, **keywords)
    size = theirs(abs(x), abs(w), None if bias is None else abs(bias), keywords)
    k = math.prod(w_shape[1:])
    bound = (k + 2) * 2.0**-24 * size + k * 2.0**-149
    assert np.all(np.abs(y - theirs(x, w, bias, keywords)) <= bound)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_same(kernel, dilation):
    x = np.random.default_rng(0).integers(-4, 5, (2, 3, 9, 10)).astype(np.float32)
    w = np.random.default_rng(1).integers(-4, 5, (4, 3, kernel, kernel)).astype(np.float32)
    expected = F.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding="same", dilation=dilation)
    y = conv2d(x, w, padding="same", dilation=dilation)
    assert np.array_equal(y, expected.numpy())


@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_unfold_is_im2col(kernel):
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 10)).astype(np.float32)
    keywords = {"stride": 2, "padding": 1, "dilation": 2}
    expected = F.unfold(torch.from_numpy(x), kernel, **keywords)
    assert np.array_equal(simdconv.im2col(x, kernel, **keywords), expected.numpy())
