"""The simd backend: C kernels with SIMD intrinsics, chosen by what the processor has.

    conv2d -> plan (plan.py: algorithm, kernel, reasons) -> _core (Cython) -> csrc (C): pack the
    filter -> parallel loop -> present the windows -> micro-kernel

csrc/README.md is the map of the C library.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from functools import lru_cache

import numpy as np

from simdconv._errors import BackendLoadError
from simdconv._layout import weights_to
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends import _base
from simdconv.backends._base import Kernel, PackedFilter, Plan
from simdconv.backends.simd import _core as _core
from simdconv.backends.simd import plan

__all__ = ["SimdBackend", "load"]


class SimdFilter(PackedFilter):
    """A filter in the order and blocks of one kernel, and whether all of it is finite."""

    def __init__(self, key: Hashable, data: np.ndarray, finite: bool, packed: bool) -> None:
        self.key = key
        self.data = data
        self.finite = finite
        self.packed = packed


def _plain(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy that kernels can read."""
    return np.array(array, dtype, order="C", copy=True, subok=False)


def _filter(w: np.ndarray, spec: Conv2dSpec, made: plan.SimdPlan) -> np.ndarray:
    """`w` as an (o, i, h, w) view in the spec's dtype; in C order if it is read where it lies."""
    view = weights_to(w, spec.weight_layout, "OIHW")
    return _plain(view, spec.dtype) if made.filter_copied else view


class SimdBackend:
    """Convolutions by the kernels of one ISA."""

    name = "simd"
    api_version = _base.API_VERSION

    def __init__(self, isa: str) -> None:
        self.isa = isa
        self._plan = lru_cache(maxsize=1024)(self._make_plan)

    def declines(self, spec: Conv2dSpec | TransformSpec) -> str | None:
        """Dtypes without kernels, and algorithms that it does not have."""
        return plan.decline(spec)

    def _make_plan(self, spec: Conv2dSpec, max_threads: int) -> plan.SimdPlan:
        plan.check(spec)
        return plan.plan_conv2d(spec, self.isa)

    def _planned(self, spec: Conv2dSpec) -> plan.SimdPlan:
        return self._plan(spec, 0 if spec.num_threads else _core.max_threads())

    def plan(self, spec: Conv2dSpec) -> Plan:
        """What conv2d would do."""
        return self._planned(spec).public

    def conv2d(
        self,
        spec: Conv2dSpec,
        x: np.ndarray,
        w: np.ndarray | PackedFilter,
        bias: np.ndarray | None,
        out: np.ndarray,
    ) -> None:
        """Compute, and write the whole of `out`."""
        made = self._planned(spec)
        image, result = _base.batched_view(x, spec), _base.batched_view(out, spec)
        if plan.is_image_copied(spec):
            image = _plain(image, spec.dtype)
        if not spec.out_plain:
            result = np.empty(result.shape, spec.dtype)
        finite, weights, packed = False, None, None
        if isinstance(w, SimdFilter):
            finite = w.finite
            weights, packed = (None, w.data) if w.packed else (w.data, None)
        elif isinstance(w, np.ndarray):
            weights = _filter(w, spec, made)
        if bias is not None:
            bias = np.require(bias, spec.dtype, ["C", "A"])
        threads = made.public.num_threads
        _core.convolve(
            made.kernel, made.problem, image, weights, packed, finite, bias, result, threads,
            spec.flush_denormals,
        )  # fmt: skip
        if not spec.out_plain:
            _base.batched_view(out, spec)[...] = result

    def prepare_conv2d(
        self, spec: Conv2dSpec, w: np.ndarray | PackedFilter
    ) -> _core.Prepared | None:
        """A function of (x, w, bias) for calls of plain arrays; a packed w serves all of them."""
        made = self._planned(spec)
        if made.public.details["operand_copies"] or not (spec.x_plain and spec.w_plain):
            return None
        if isinstance(w, SimdFilter):
            keep, packed, finite, data = True, w.packed, w.finite, w.data
        else:
            assert isinstance(w, np.ndarray)
            keep, packed, finite = False, False, False
            data = weights_to(w, spec.weight_layout, "OIHW")
        shape, dtype = spec.out_shape, spec.dtype
        most = 0 if spec.num_threads else _core.max_threads()
        return _core.Prepared(
            made.kernel, made.problem, data, keep, packed, finite, shape, dtype.num,
            spec.out_size * dtype.itemsize, made.public.num_threads, most, spec.flush_denormals,
        )  # fmt: skip

    def pack_key(self, spec: Conv2dSpec) -> Hashable | None:
        """Filters depend on the kernel, on the order it chooses, and on their own shape."""
        made = self._planned(spec)
        return made.kernel, _core.variant(made.kernel, made.problem)

    def pack(self, spec: Conv2dSpec, w: np.ndarray) -> SimdFilter:
        """The filter in the kernel's blocks, or in C order where the kernel reads it as it lies."""
        made, key = self._planned(spec), self.pack_key(spec)
        view = _filter(w, spec, made)
        if made.in_place_filter:
            return SimdFilter(key, view.copy(), False, False)
        size = _core.filter_size(made.kernel, made.problem)
        data = _core.empty((size,), spec.dtype.num, size * spec.dtype.itemsize)
        finite = _core.pack(made.kernel, made.problem, view, data, made.public.num_threads)
        return SimdFilter(key, data, finite, True)

    def transform(self, spec: TransformSpec, x: np.ndarray, out: np.ndarray) -> None:
        """Store im2col or im2win.

        Raises
        ------
        MemoryError
            If copies of arrays that are not plain would exceed spec.max_workspace.
        """
        image = _base.batched_view(x, spec)
        copied = image.size if plan.is_image_copied(spec) else 0
        copied += 0 if out.flags.c_contiguous and out.flags.aligned else out.size
        _base.check_limit(spec, copied * spec.dtype.itemsize)
        if plan.is_image_copied(spec):
            image = _plain(image, spec.dtype)
        threads = spec.num_threads or _core.max_threads()
        with _base.contiguous_out(out) as result:
            _core.transform(plan.problem_of(spec), spec.kind == "im2win", image, result, threads)

    def kernels(self) -> list[Kernel]:
        """Every kernel of the table; those above the machine or the cap are not available."""
        names = _core.isas_built()
        usable = set(_core.isas_found()) & set(names[: names.index(self.isa) + 1])
        return [
            Kernel(name, "simd", algorithm, layout, isa, dtype, isa in usable)
            for _, name, algorithm, layout, isa, dtype in _core.kernels()
        ]


def load() -> SimdBackend:
    """Make the backend with the best ISA that the machine has, capped by SIMDCONV_ISA.

    Raises
    ------
    BackendLoadError
        If SIMDCONV_ISA names no ISA of this build. One above what the machine has is no limit.
    """
    built, found = _core.isas_built(), _core.isas_found()
    cap = os.environ.get("SIMDCONV_ISA") or built[-1]
    if cap not in built:
        raise BackendLoadError(
            f"SIMDCONV_ISA must be one of the ISAs of this build, {', '.join(built)}; got {cap!r}"
        )
    return SimdBackend([isa for isa in built[: built.index(cap) + 1] if isa in found][-1])
