"""The stored transforms alone."""

from functools import cache

import numpy as np

import simdconv
from simdconv.testing import make_arrays

from .common import TRANSFORMS, layouts, problem_of


def _window(problem, layout):
    return {
        "stride": problem.stride, "padding": problem.padding, "dilation": problem.dilation,
        "layout": layout,
    }  # fmt: skip


@cache
def _check(transform, backend, layout, name):
    """Compare with the reference, once a process."""
    problem = problem_of(name)
    x, _, _ = make_arrays(problem, layout=layout)
    size, window = (problem.h_f, problem.w_f), _window(problem, layout)
    assert np.array_equal(
        transform(x, size, backend=backend, **window),
        transform(x, size, backend="numpy", **window),
    )


class Transforms:
    params = [["simd", "blas"], layouts(), TRANSFORMS]
    param_names = ["backend", "layout", "problem"]

    def setup(self, backend, layout, name):
        problem = problem_of(name)
        for transform in (simdconv.im2col, simdconv.im2win):
            _check(transform, backend, layout, name)
        self.x, _, _ = make_arrays(problem, layout=layout, whole=False)
        self.size = (problem.h_f, problem.w_f)
        self.window = {**_window(problem, layout), "backend": backend}

    def time_im2col(self, backend, layout, name):
        simdconv.im2col(self.x, self.size, **self.window)

    def time_im2win(self, backend, layout, name):
        simdconv.im2win(self.x, self.size, **self.window)
