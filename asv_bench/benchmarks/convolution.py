"""conv2d by algorithm and layout: time, and memory."""

import simdconv

from .common import CONVOLUTIONS, call_of, check, kernels, problem_of


class Convolution:
    """Result allocated, filter packed and image transformed within the call."""

    params = [list(kernels()), CONVOLUTIONS]
    param_names = ["kernel", "problem"]
    timeout = 120

    def setup(self, kernel, problem):
        check(kernel, problem)
        self.arrays, self.keywords = call_of(kernels()[kernel], problem_of(problem))

    def time_conv2d(self, kernel, problem):
        simdconv.conv2d(*self.arrays, **self.keywords)

    def track_workspace(self, kernel, problem):
        return simdconv.explain(*self.arrays, **self.keywords).workspace_bytes

    track_workspace.unit = "bytes"


class Prepared(Convolution):
    """The filter packed before, the result's memory given."""

    params = [[name for name in kernels() if "-blas-" not in name], CONVOLUTIONS]

    def setup(self, kernel, problem):
        super().setup(kernel, problem)
        (x, w), keywords = self.arrays, self.keywords
        self.layer, self.x = simdconv.Conv2d(w, **keywords), x
        self.out = self.layer(x)

    def time_conv2d(self, kernel, problem):
        self.layer(self.x, out=self.out)


class PeakMemory:
    """Of the whole process, Python and NumPy included: the differences tell."""

    params = [list(kernels()), ["conv9"]]
    param_names = ["kernel", "problem"]

    def setup(self, kernel, problem):
        self.arrays, self.keywords = call_of(kernels()[kernel], problem_of(problem))

    def peakmem_conv2d(self, kernel, problem):
        simdconv.conv2d(*self.arrays, **self.keywords)
