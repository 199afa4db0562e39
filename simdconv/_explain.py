"""explain(): what a call would do, and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from simdconv import backends
from simdconv._dispatch import check_out, preference, select
from simdconv._families import as_ndarrays, call_adapter, describe_family
from simdconv._spec import Conv2dSpec, conv2d_spec
from simdconv.backends._base import Candidate, Plan

__all__ = ["Explanation", "explain"]


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """What a call would do. `print` it, or read its attributes.

    Attributes
    ----------
    array_family : str
        What the arrays are, and how they come in.
    spec : Conv2dSpec
        The call, normalised.
    plan : Plan
        What the backend would do.
    declined : tuple of (str, str)
        Backends that were asked first, and why they declined.
    others : tuple of (str, str)
        Every other backend, and why it does not run the call.
    """

    array_family: str
    spec: Conv2dSpec
    plan: Plan
    declined: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...] = ()

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self.plan.backend

    @property
    def algorithm(self) -> str:
        """The algorithm that "auto" stands for here, or the one that was named."""
        return self.plan.algorithm

    @property
    def layout(self) -> str:
        """Layout of the image and of the result."""
        return self.plan.layout

    @property
    def kernel(self) -> str:
        """Id of the kernel."""
        return self.plan.kernel

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory that the call allocates, the result not included."""
        return self.plan.workspace_bytes

    @property
    def num_threads(self) -> int:
        """Threads that the call uses."""
        return self.plan.num_threads

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Kernels that the backend considered, each with the reason for its fate."""
        return self.plan.candidates

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is worth knowing."""
        return self.plan.notes

    def __str__(self) -> str:
        spec, plan = self.spec, self.plan
        dtypes = f"{spec.x_dtype} * {spec.w_dtype} -> {spec.dtype}, summed in {spec.acc_dtype}"
        rows = [
            ("call", f"x {spec.x_shape}, w {spec.w_shape} -> {spec.out_shape}, {spec.layout}"),
            ("dtypes", dtypes),
            ("arrays", self.array_family),
            ("backend", plan.backend),
            ("algorithm", plan.algorithm),
            ("kernel", plan.kernel),
            ("workspace", f"{plan.workspace_bytes} bytes"),
            ("threads", str(plan.num_threads)),
        ]
        rows += [(name, str(value)) for name, value in plan.details.items()]
        rows += [("note", note) for note in plan.notes]
        rows += [
            ("candidate", f"{'*' if item.chosen else '-'} {item.kernel}: {item.reason}")
            for item in plan.candidates
        ]
        rows += [("declined", f"{name}: {reason}") for name, reason in self.declined]
        rows += [("not used", f"{name}: {reason}") for name, reason in self.others]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def explain(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    padding_mode: str = "constant",
    layout: str = "NCHW",
    weight_layout: str = "OIHW",
    activation: Any = None,
    algorithm: str = "auto",
    out: np.ndarray | None = None,
    num_threads: int | None = None,
    backend: str | None = None,
) -> Explanation:
    """Tell what conv2d would do with these arguments; nothing is computed.

    Parameters
    ----------
    x, w, bias, stride, padding, dilation, groups, padding_mode, layout, weight_layout, activation,
    algorithm, out, num_threads, backend
        As in conv2d, with conv2d's errors. Values are not read.

    Returns
    -------
    Explanation
        Array family, backend, algorithm, kernel, workspace_bytes, num_threads, candidates, and
        what declined and why.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> plan = simdconv.explain(np.zeros((1, 3, 8, 8)), np.zeros((4, 3, 3, 3)), backend="numpy")
    >>> plan.kernel
    'direct-nchw-numpy-f64'
    """
    given = {"x": x, "w": w, "bias": bias, "out": out}
    keywords: dict[str, Any] = {
        "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        "padding_mode": padding_mode, "layout": layout, "weight_layout": weight_layout,
        "activation": activation, "algorithm": algorithm, "num_threads": num_threads,
    }  # fmt: skip
    found = {name: a for name, a in given.items() if a is not None or name in ("x", "w")}
    adapted = call_adapter(
        explain, found, (x, w, bias), {**keywords, "out": out, "backend": backend}
    )
    if adapted is not NotImplemented:
        explanation: Explanation = adapted
        return explanation
    family = describe_family(found)
    try:
        arrays = {**given, **as_ndarrays(found)}
    except TypeError as error:
        if not family.endswith("by __array_function__"):
            raise
        raise TypeError(f"{family}, which alone knows what would run: {error}") from error
    spec = conv2d_spec(arrays["x"], arrays["w"], arrays["bias"], out=arrays["out"], **keywords)
    if arrays["out"] is not None:
        inputs = {name: arrays[name] for name in ("x", "w", "bias")}
        check_out(arrays["out"], spec.out_shape, spec.dtype, inputs)
    selection = select(spec, backend)
    if spec.trivial:
        plan = Plan(selection.backend.name, "direct", spec.layout, "none", 0,
                    notes=("there is nothing to multiply",))  # fmt: skip
    else:
        plan = selection.backend.plan(spec)
    others = _others(spec, backend, selection.backend.name, dict(selection.declined))
    return Explanation(family, spec, plan, selection.declined, others)


def _others(
    spec: Conv2dSpec, strict: str | None, chosen: str, declined: dict[str, str]
) -> tuple[tuple[str, str], ...]:
    """Why each backend that came after the chosen one, or was not asked at all, is not used."""
    asked = preference()[0]
    reasons = []
    for name in dict.fromkeys((*asked, *backends.names())):
        if name == chosen or name in declined:
            continue
        if strict is not None:
            reason = f"backend={strict!r} allows no other"
        elif name not in asked:  # a plug-in is not even loaded before somebody names it
            reason = "not asked for, by backend=, use_backend, set_backend or SIMDCONV_BACKEND"
        else:
            reason = f"comes after {chosen}" + _fitness(name, spec)
        reasons.append((name, reason))
    return tuple(reasons)


def _fitness(name: str, spec: Conv2dSpec) -> str:
    """Whether a backend that was not needed could have run the spec."""
    try:
        reason = backends.get(name).declines(spec)
    except backends.BackendLoadError as error:
        reason = str(error)
    return "" if reason is None else f", and declines: {reason}"
