"""The reference backend. It is the specification: read it to know what simdconv computes.

    out[o, i, j] = bias[o] + sum over c, u, v of w[o, c, u, v] * padded[c, i*sh + u*dh, j*sw + v*dw]

for one image at a time, in the dtype of the sums, then the activation, then one rounding to the
result's dtype. Nothing here is fast.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from simdconv._arguments import is_bfloat16
from simdconv._errors import BackendNotImplementedError
from simdconv._layout import LAYOUTS, chw_image, one_of_batch, weights_to
from simdconv._spec import Conv2dSpec, TransformSpec
from simdconv.backends import _base
from simdconv.backends._base import Candidate, Kernel, PackedFilter, Plan

__all__ = ["NumpyBackend", "activate", "load"]

_DTYPES = ("f16", "bf16", "f32", "f64", "fld", "c64", "c128", "cld", "i32", "i64")


def pad(image: np.ndarray, spec: Conv2dSpec | TransformSpec) -> np.ndarray:
    """Pad a (c, h, w) image."""
    return np.pad(image, ((0, 0), *spec.padding), mode=spec.padding_mode)  # type: ignore[call-overload]


def activate(sums: np.ndarray, activation: tuple | None) -> None:
    """Apply the activation in place. NaN passes through each of them."""
    match activation:
        case None:
            pass
        case ("relu",):
            np.maximum(sums, 0, out=sums)
        case ("relu6",):
            np.clip(sums, 0, 6, out=sums)
        case ("clip", lo, hi):
            np.clip(sums, sums.dtype.type(lo), sums.dtype.type(hi), out=sums)
        case ("leaky_relu", slope):
            np.multiply(sums, sums.dtype.type(slope), out=sums, where=sums < 0)


def conv2d_image(
    spec: Conv2dSpec, image: np.ndarray, weight: np.ndarray, bias: np.ndarray | None
) -> np.ndarray:
    """Convolve a (c_in, h_in, w_in) image with (groups, c_out_g, c_in_g, h_f, w_f) filters."""
    (stride_h, stride_w), (dilation_h, dilation_w) = spec.stride, spec.dilation
    image = image.astype(spec.acc_dtype)
    padded = pad(image, spec).reshape(spec.groups, 1, spec.c_in_g, spec.h_p, spec.w_p)
    sums = np.zeros((spec.groups, spec.c_out_g, spec.h_out, spec.w_out), spec.acc_dtype)
    product = np.empty_like(sums)
    for c, u, v in np.ndindex(spec.c_in_g, spec.h_f, spec.w_f):
        row, column = u * dilation_h, v * dilation_w
        rows = slice(row, row + (spec.h_out - 1) * stride_h + 1, stride_h)
        columns = slice(column, column + (spec.w_out - 1) * stride_w + 1, stride_w)
        np.multiply(padded[:, :, c, rows, columns], weight[:, :, c, u, v, None, None], out=product)
        sums += product
    if bias is not None:
        sums += bias.reshape(spec.groups, spec.c_out_g, 1, 1)
    activate(sums, spec.activation)
    return sums.reshape(spec.c_out, spec.h_out, spec.w_out)


class NumpyBackend:
    """Direct convolution and stored transforms in plain NumPy, for every dtype and layout."""

    name = "numpy"
    api_version = _base.API_VERSION

    def declines(self, spec: Conv2dSpec | TransformSpec) -> str | None:
        """Only algorithms other than direct are declined."""
        if isinstance(spec, Conv2dSpec) and spec.algorithm not in ("auto", "fastest", "direct"):
            return f"has no {spec.algorithm}: it computes directly"
        return None

    def plan(self, spec: Conv2dSpec) -> Plan:
        """Direct, with the image, the padded image, the filter, the sums and one product."""
        if reason := self.declines(spec):
            raise BackendNotImplementedError(f"numpy {reason}", {self.name: reason})
        pixels = spec.h_in * spec.w_in + spec.h_p * spec.w_p
        elements = spec.c_in * pixels + spec.c_out * (spec.k + 2 * spec.h_out * spec.w_out)
        if spec.bias_dtype not in (None, spec.acc_dtype):
            elements += spec.c_out
        workspace = elements * spec.acc_dtype.itemsize
        if spec.activation and spec.activation[0] == "leaky_relu":
            workspace += spec.c_out * spec.h_out * spec.w_out  # the mask of what is negative
        if spec.max_workspace is not None and workspace > spec.max_workspace:
            raise MemoryError(
                f"numpy needs {workspace} bytes of workspace; max_workspace={spec.max_workspace}"
            )
        kernel = f"direct-{spec.layout.lower()}-numpy-{_base.dtype_code(spec.dtype)}"
        chosen = Candidate("direct", kernel, True, "the only algorithm of the reference")
        return Plan(self.name, "direct", spec.layout, kernel, workspace, 1, (chosen,))

    def conv2d(
        self,
        spec: Conv2dSpec,
        x: np.ndarray,
        w: np.ndarray | PackedFilter,
        bias: np.ndarray | None,
        out: np.ndarray,
    ) -> None:
        """Image by image, so that the bits of an image cannot depend on its batch."""
        assert isinstance(w, np.ndarray)
        with np.errstate(all="ignore"):
            weight = weights_to(w, spec.weight_layout, "OIHW").astype(spec.acc_dtype, order="C")
            weight = weight.reshape(spec.groups, spec.c_out_g, spec.c_in_g, spec.h_f, spec.w_f)
            sum_bias = None if bias is None else bias.astype(spec.acc_dtype, copy=False)
            for index in range(spec.n):
                image = chw_image(x, spec.layout, spec.batched, index)
                result = chw_image(out, spec.layout, spec.batched, index)
                result[...] = conv2d_image(spec, image, weight, sum_bias)

    def transform(self, spec: TransformSpec, x: np.ndarray, out: np.ndarray) -> None:
        """Image by image: every window of the padded image, or every strip of rows."""
        elements = spec.c_in * spec.h_p * spec.w_p + spec.out_size // spec.n
        _base.check_limit(spec, elements * spec.dtype.itemsize)
        (stride_h, stride_w), (dilation_h, dilation_w) = spec.stride, spec.dilation
        span_h, span_w = dilation_h * (spec.h_f - 1) + 1, dilation_w * (spec.w_f - 1) + 1
        for index in range(spec.n):
            padded = pad(chw_image(x, spec.layout, spec.batched, index), spec)
            result = one_of_batch(out, spec.layout, spec.batched, index)
            order: tuple[int, ...]
            if spec.kind == "im2col":
                windows = sliding_window_view(padded, (span_h, span_w), axis=(1, 2))
                windows = windows[:, ::stride_h, ::stride_w, ::dilation_h, ::dilation_w]
                # (c, i, j, u, v) becomes ((i, j), (u, v, c)) in NHWC, else ((c, u, v), (i, j))
                order = (1, 2, 3, 4, 0) if spec.layout == "NHWC" else (0, 3, 4, 1, 2)
            else:
                windows = sliding_window_view(padded, span_h, axis=1)
                windows = windows[:, ::stride_h, :, ::dilation_h]
                # (c, i, column, u) becomes (i, (column, u), c) in NHWC, else (c, i, (column, u))
                order = (1, 2, 3, 0) if spec.layout == "NHWC" else (0, 1, 2, 3)
            result[...] = windows.transpose(order).reshape(result.shape)

    def kernels(self) -> list[Kernel]:
        """One a layout and dtype."""
        available = {"bf16": _has_bfloat16()}
        return [
            Kernel(f"direct-{layout.lower()}-numpy-{code}", "numpy", "direct", layout, "numpy",
                   code, available.get(code, True))
            for layout in LAYOUTS
            for code in _DTYPES
        ]  # fmt: skip


def _has_bfloat16() -> bool:
    try:
        import ml_dtypes
    except ImportError:
        return False
    return is_bfloat16(np.dtype(ml_dtypes.bfloat16))


def load() -> NumpyBackend:
    """Make the backend; the registry calls this."""
    return NumpyBackend()
