"""What a call costs when there is next to nothing to compute."""

import simdconv
from simdconv.testing import assert_conv_close, make_arrays

from .common import TINY, problem_of


class Overhead:
    params = [["simd", "blas", "numpy"], TINY]
    param_names = ["backend", "problem"]

    def setup(self, backend, name):
        problem = problem_of(name)
        self.x, self.w, _ = make_arrays(problem, bias=False)
        self.keywords = {**problem.keywords, "backend": backend}
        self.layer = simdconv.Conv2d(self.w, **self.keywords)
        for result in (self.layer(self.x), simdconv.conv2d(self.x, self.w, **self.keywords)):
            assert_conv_close(result, self.x, self.w, **problem.keywords)

    def time_conv2d(self, backend, name):
        simdconv.conv2d(self.x, self.w, **self.keywords)

    def time_layer(self, backend, name):
        self.layer(self.x)

    def time_explain(self, backend, name):
        simdconv.explain(self.x, self.w, **self.keywords)


class Import:
    """Python, NumPy and simdconv from nothing, and Python with NumPy for comparison."""

    def timeraw_simdconv(self):
        return "import simdconv"

    def timeraw_numpy(self):
        return "import numpy"
