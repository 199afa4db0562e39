"""A complete backend for simdconv: numpy.einsum over a view of every window.

pip install ./examples/plugin
python -c "import simdconv.testing; print(simdconv.testing.check_backend('einsum'))"
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import simdconv
from simdconv.backends import kit


class EinsumBackend:
    """Sums window by window, in the order that einsum likes."""

    name = "einsum"
    api_version = 1

    def declines(self, spec):
        """Tell why it cannot run this spec; None if it can."""
        if isinstance(spec, kit.Conv2dSpec) and spec.algorithm not in ("auto", "fastest", "direct"):
            return f"has no {spec.algorithm}: it computes directly"
        return None

    def plan(self, spec):
        """Tell what conv2d would do, and how much memory it needs for it."""
        if reason := self.declines(spec):
            raise kit.BackendNotImplementedError(f"{self.name} {reason}", {self.name: reason})
        pixels = spec.h_in * spec.w_in + spec.h_p * spec.w_p
        elements = spec.c_in * pixels + spec.c_out * (spec.k + spec.h_out * spec.w_out)
        workspace = elements * spec.acc_dtype.itemsize + spec.c_out * spec.h_out * spec.w_out
        if spec.max_workspace is not None and workspace > spec.max_workspace:
            raise MemoryError(f"{self.name} needs {workspace} bytes of workspace")
        kernel = f"direct-{spec.layout.lower()}-{self.name}-{kit.dtype_code(spec.dtype)}"
        chosen = kit.Candidate("direct", kernel, True, "the only algorithm")
        return kit.Plan(self.name, "direct", spec.layout, kernel, workspace, 1, (chosen,))

    def conv2d(self, spec, x, w, bias, out):
        """Compute image by image, so that no image's bits depend on the batch it came in."""
        (stride_h, stride_w), (dilation_h, dilation_w) = spec.stride, spec.dilation
        spans = (dilation_h * (spec.h_f - 1) + 1, dilation_w * (spec.w_f - 1) + 1)
        filters = kit.weights_to(w, spec.weight_layout, "OIHW").astype(spec.acc_dtype, order="C")
        filters = filters.reshape(spec.groups, spec.c_out_g, spec.c_in_g, spec.h_f, spec.w_f)
        with np.errstate(all="ignore"):
            for index in range(spec.n):
                image = kit.chw_image(x, spec.layout, spec.batched, index).astype(spec.acc_dtype)
                padded = np.pad(image, ((0, 0), *spec.padding), mode=spec.padding_mode)
                padded = padded.reshape(spec.groups, spec.c_in_g, spec.h_p, spec.w_p)
                windows = sliding_window_view(padded, spans, axis=(2, 3))
                windows = windows[:, :, ::stride_h, ::stride_w, ::dilation_h, ::dilation_w]
                sums = np.einsum("gchwuv,gocuv->gohw", windows, filters)
                if bias is not None:
                    sums += bias.astype(spec.acc_dtype).reshape(spec.groups, -1, 1, 1)
                kit.activate(sums, spec.activation)
                result = sums.reshape(spec.c_out, *sums.shape[2:])
                kit.chw_image(out, spec.layout, spec.batched, index)[...] = result

    def transform(self, spec, x, out):
        """Store im2col or im2win; the reference's way is good enough here."""
        simdconv.backends.get("numpy").transform(spec, x, out)
