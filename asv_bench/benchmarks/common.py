"""What the benchmarks share: which kernels, which problems, and the check before the clock."""

import dataclasses
from functools import cache

import simdconv
from simdconv.testing import PROBLEMS, assert_conv_close, make_arrays

_BY_NAME = {problem.name: problem for problems in PROBLEMS.values() for problem in problems}

# one of each kind: few channels, many, small maps, 1x1, strided, depthwise
CONVOLUTIONS = [
    "conv3", "conv9", "conv11", "conv12", "resnet-3x3-28", "resnet-1x1-56", "resnet-1x1-s2",
    "dw-144-56",
]  # fmt: skip
TRANSFORMS = ["conv3", "conv9", "conv12"]
TINY = [problem.name for problem in PROBLEMS["tiny"]]


def problem_of(name):
    return _BY_NAME[name]


def kernels():
    """Kernels that a float32 call can reach here, by id: of simd, those of the ISA in use."""
    available = [k for k in simdconv.kernels() if k.dtype == "f32" and k.available]
    best = [k.isa for k in available if k.backend == "simd"][-1:]
    return {
        k.id: k
        for k in available
        if (k.backend == "simd" and k.isa in best)
        or (k.backend == "blas" and k.algorithm != "direct")  # 1x1 filters only
    }


def layouts():
    return list(dict.fromkeys(kernel.layout for kernel in simdconv.kernels()))


def call_of(kernel, problem):
    """Positional and keyword arguments for conv2d, on random numbers."""
    x, w, _ = make_arrays(problem, layout=kernel.layout, whole=False, bias=False)
    return (x, w), keywords_of(kernel, problem)


def keywords_of(kernel, problem):
    return {
        **problem.keywords, "layout": kernel.layout, "algorithm": kernel.algorithm,
        "backend": kernel.backend,
    }  # fmt: skip


@cache
def check(kernel_id, problem_name):
    """Compare one image with the reference, once a process."""
    kernel, problem = kernels()[kernel_id], dataclasses.replace(problem_of(problem_name), n=1)
    x, w, bias = make_arrays(problem, layout=kernel.layout)
    keywords = keywords_of(kernel, problem)
    assert simdconv.explain(x, w, bias, **keywords).kernel == kernel_id
    assert_conv_close(simdconv.conv2d(x, w, bias, **keywords), x, w, bias, n=1, **keywords)
