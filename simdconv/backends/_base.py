"""What a backend is.

A backend computes what a spec describes. The front end has validated everything: a backend is never
handed an argument that a user could have got wrong, nor an empty result, nor a sum without terms.
It receives arrays as the user passed them (any strides, byte order and dtype; x without its batch
axis when spec.batched is False) and never modifies them; `out` has the result's shape and dtype, is
writeable, in native byte order, overlaps no input, and may have any strides and any old contents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from simdconv._arguments import is_bfloat16
from simdconv._spec import Conv2dSpec, TransformSpec

__all__ = [
    "API_VERSION",
    "Backend",
    "Candidate",
    "Kernel",
    "PackedFilter",
    "Plan",
    "batched_strides",
    "batched_view",
    "check_limit",
    "contiguous_out",
    "dtype_code",
    "native_contiguous",
]

API_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """One way to compute, named by its coordinates."""

    id: str
    backend: str
    algorithm: str
    layout: str
    isa: str
    dtype: str
    available: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that a plan considered, and why it was taken or not."""

    algorithm: str
    kernel: str
    chosen: bool
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What a backend would do with a spec.

    Attributes
    ----------
    backend, algorithm, layout, kernel : str
    workspace_bytes : int
        Scratch memory that the call allocates, the result not included.
    num_threads : int
    candidates : tuple of Candidate
    notes : tuple of str
        What a reader of explain() should know.
    details : mapping
        The backend's own figures, such as tile sizes.
    """

    backend: str
    algorithm: str
    layout: str
    kernel: str
    workspace_bytes: int
    num_threads: int = 1
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class PackedFilter:
    """A filter that a backend has prepared; only that backend looks inside.

    Attributes
    ----------
    key : hashable
        What `pack_key` returned for the specs that this filter serves.
    """

    key: Hashable


class Backend(Protocol):
    """The methods of a backend. The first four are required, the others may be missing.

    Attributes
    ----------
    name : str
    api_version : int
        The version of this protocol that the backend was written for.
    """

    name: str
    api_version: int

    def declines(self, spec: Conv2dSpec | TransformSpec) -> str | None:
        """Tell why it cannot run this spec; None if it can."""

    def plan(self, spec: Conv2dSpec) -> Plan:
        """Tell what `conv2d` would do.

        Raises
        ------
        BackendNotImplementedError
            If it declines the spec.
        MemoryError
            If it cannot stay within spec.max_workspace.
        """

    def conv2d(
        self,
        spec: Conv2dSpec,
        x: np.ndarray,
        w: np.ndarray | PackedFilter,
        bias: np.ndarray | None,
        out: np.ndarray,
    ) -> None:
        """Compute, and write the whole of `out`."""

    def transform(self, spec: TransformSpec, x: np.ndarray, out: np.ndarray) -> None:
        """Store im2col or im2win, as spec.kind says, into the whole of `out`."""

    def prepare_conv2d(
        self, spec: Conv2dSpec, w: np.ndarray | PackedFilter
    ) -> Callable[[np.ndarray, np.ndarray, np.ndarray | None], np.ndarray | None] | None:
        """Return a function of (x, w, bias) for repeated calls of a spec; None if there is none.

        It is handed arrays with the flags, shapes and dtypes that the spec was made for, all in C
        order and aligned, and returns a new result, or None where the spec has to be planned again.
        A packed `w` serves all of these calls.
        """
        return None

    def pack_key(self, spec: Conv2dSpec) -> Hashable | None:
        """Tell what a packed filter depends on; None if filters are taken as they are."""
        return None

    def pack(self, spec: Conv2dSpec, w: np.ndarray) -> PackedFilter | None:
        """Prepare a filter for all specs of the same pack_key."""
        return None

    def kernels(self) -> list[Kernel]:
        """List every kernel it has, those that this machine cannot run included."""
        return []


def check_limit(spec: TransformSpec, needed: int) -> None:
    """Raise MemoryError if a transform needs more scratch memory than spec.max_workspace."""
    if spec.max_workspace is not None and needed > spec.max_workspace:
        raise MemoryError(
            f"max_workspace={spec.max_workspace}: {spec.kind} needs {needed} bytes of workspace"
        )


def batched_view(x: np.ndarray, spec: Conv2dSpec | TransformSpec) -> np.ndarray:
    """`x` with its batch axis, as a view; the axis is the last in CHWN, else the first."""
    if spec.batched:
        return x
    return x[..., None] if spec.layout == "CHWN" else x[None]


def batched_strides(strides: tuple[int, ...], spec: Conv2dSpec | TransformSpec) -> tuple[int, ...]:
    """The strides of batched_view, from those of x; the axis of size one has no step."""
    if spec.batched:
        return strides
    return (*strides, 0) if spec.layout == "CHWN" else (0, *strides)


def native_contiguous(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x` as an aligned array in C order of this dtype; `x` itself if it is one."""
    return np.require(x, dtype, ["C", "A"])


@contextmanager
def contiguous_out(out: np.ndarray) -> Iterator[np.ndarray]:
    """Yield `out` if it is aligned and in C order, else an array, copied to it at the end."""
    if out.flags.c_contiguous and out.flags.aligned:
        yield out
        return
    result = np.empty(out.shape, out.dtype)
    yield result
    out[...] = result


def dtype_code(dtype: np.dtype) -> str:
    """Return the dtype as it stands in a kernel's id: f32, c128, i64, bf16."""
    if is_bfloat16(dtype):
        return "bf16"
    if dtype.char in "gG":
        return "fld" if dtype.char == "g" else "cld"
    return f"{dtype.kind}{8 * dtype.itemsize}"
