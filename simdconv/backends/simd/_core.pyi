from typing import Any

import numpy as np

class Problem:
    def __init__(
        self,
        layout: str,
        sizes: tuple[int, ...],
        padding: str,
        activation: tuple[str, float, float],
    ) -> None: ...
    def lay(self, strides: tuple[int, ...]) -> None: ...

class Prepared:
    def __init__(
        self,
        kernel: int,
        problem: Problem,
        w: np.ndarray[Any, Any],
        keep: bool,
        packed: bool,
        finite: bool,
        shape: tuple[int, ...],
        type_number: int,
        size: int,
        threads: int,
        most: int,
        flush_denormals: bool,
    ) -> None: ...
    def __call__(
        self,
        x: np.ndarray[Any, Any],
        w: np.ndarray[Any, Any],
        bias: np.ndarray[Any, Any] | None,
    ) -> np.ndarray[Any, Any] | None: ...

def isas_built() -> list[str]: ...
def isas_found() -> list[str]: ...
def compiler() -> str: ...
def openmp() -> int: ...
def max_threads() -> int: ...
def cpu_info() -> dict[str, int]: ...
def kernels() -> list[tuple[int, str, str, str, str, str]]: ...
def last_allocation() -> int: ...
def peak_gflops(isa: str, dtype: str, threads: int = 1) -> float: ...
def bandwidth(threads: int = 1) -> float: ...
def empty(shape: tuple[int, ...], type_number: int, size: int) -> np.ndarray[Any, Any]: ...
def threads_for(problem: Problem, threads: int) -> int: ...
def workspace(kernel: int, problem: Problem, threads: int, packed: bool) -> int: ...
def filter_size(kernel: int, problem: Problem) -> int: ...
def variant(kernel: int, problem: Problem) -> int: ...
def pack(
    kernel: int,
    problem: Problem,
    w: np.ndarray[Any, Any],
    packed: np.ndarray[Any, Any],
    threads: int,
) -> bool: ...
def convolve(
    kernel: int,
    problem: Problem,
    x: np.ndarray[Any, Any],
    w: np.ndarray[Any, Any] | None,
    packed: np.ndarray[Any, Any] | None,
    finite: bool,
    bias: np.ndarray[Any, Any] | None,
    y: np.ndarray[Any, Any],
    threads: int,
    flush_denormals: bool,
) -> None: ...
def transform(
    problem: Problem,
    strips: bool,
    x: np.ndarray[Any, Any],
    out: np.ndarray[Any, Any],
    threads: int,
) -> None: ...
