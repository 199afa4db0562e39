"""The functions that compute: conv2d, im2col, im2win, and what explains them."""

from __future__ import annotations

from typing import Any

import numpy as np

from simdconv import backends
from simdconv._dispatch import check_out, run_conv2d, run_transform, select
from simdconv._families import overridable
from simdconv._memory import empty
from simdconv._prepared import recall, remember
from simdconv._spec import conv2d_spec, transform_spec
from simdconv.backends._base import Kernel

__all__ = ["conv2d", "im2col", "im2win", "kernels"]


@overridable("x", "w", "bias", "out")
def conv2d(
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
) -> np.ndarray:
    """Convolve images with a bank of filters (cross-correlation: the filter is not flipped).

    Parameters
    ----------
    x : array
        Images in `layout`: (n, c_in, h_in, w_in) in NCHW. One image may come without its batch
        axis, and its result does too; not in CHWN8.
    w : array
        Filters in `weight_layout`: (c_out, c_in/groups, h_f, w_f) in OIHW.
    bias : array, optional
        Shape (c_out,).
    stride, dilation : int or (int, int)
        Vertical, horizontal; at least 1.
    padding : int, (int, int), ((int, int), (int, int)) or str
        Both sides of both axes; vertical, horizontal; (top, bottom), (left, right); "valid" for
        none; "same" for a result of ceil(size / stride), the odd row at the bottom and the odd
        column at the right, or at the other side with "same_lower".
    groups : int
        Divides c_in and c_out; each group of filters sees its own channels only.
    padding_mode : str
        As in numpy.pad: "constant" (zeros), "edge", "reflect", "symmetric" or "wrap"; "zeros",
        "replicate" and "circular" are other names of the first, second and last.
    layout : {"NCHW", "NHWC", "CHWN", "CHWN8"}
        Axis order of x and of the result. CHWN8 is (ceil(n/8), c, h, w, 8).
    weight_layout : {"OIHW", "HWIO", "OHWI", "IHWO"}
        Axis order of w.
    activation : None, "relu", "relu6", ("clip", lo, hi) or ("leaky_relu", slope)
        Applied after the bias. NaN passes through.
    algorithm : str
        "auto" takes the fastest of standard precision, "fastest" may take one of less precision;
        or "direct", "im2col", "im2win", "implicit", "winograd", "fft".
    out : array, optional
        Receives the result. Any strides, but the shape and dtype of the result, in native byte
        order, and no memory in common with an input.
    num_threads : int, optional
        The result's bits do not depend on it.
    backend : str, optional
        The only backend that may run this call.

    Returns
    -------
    array
        (n, c_out, h_out, w_out) in NCHW, with
        h_out = floor((h_in + top + bottom - dilation*(h_f-1) - 1) / stride) + 1. `out` if given.
        int8 and uint8 give int32, wider integers int64; other dtypes promote as NumPy's do, and
        float16 and bfloat16 are summed in float32.

    Raises
    ------
    ValueError, TypeError
        With the argument's name, what came and what is allowed, before any work.
    BackendNotImplementedError
        If a named algorithm or backend cannot do this call.
    MemoryError
        If the option max_workspace is too small for every way to do it.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> x = np.array([[1, 2, 0, 1], [3, 1, 2, 0], [0, 1, 3, 2], [2, 0, 1, 3]], np.float32)
    >>> w = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], np.float32)
    >>> simdconv.conv2d(x[None], w[None, None])[0]
    array([[5., 8.],
           [9., 7.]], dtype=float32)
    """
    key = None
    if out is None:
        key, run = recall(x, w, bias, stride, padding, dilation, groups, padding_mode, layout,
                          weight_layout, activation, algorithm, num_threads, backend)  # fmt: skip
        if run is not None and (result := run(x, w, bias)) is not None:
            return result
    spec = conv2d_spec(
        x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
        padding_mode=padding_mode, layout=layout, weight_layout=weight_layout,
        activation=activation, algorithm=algorithm, out=out, num_threads=num_threads,
    )  # fmt: skip
    if out is not None:
        check_out(out, spec.out_shape, spec.dtype, {"x": x, "w": w, "bias": bias})
    chosen = select(spec, backend).backend
    if key is not None:
        remember(key, spec, chosen, w)
    if out is None:
        out = empty(spec.out_shape, spec.dtype)
    run_conv2d(spec, chosen, x, w, bias, out)
    return out


def _transform(kind: str, x: np.ndarray, kernel_size: Any, out: np.ndarray | None,
               backend: str | None, **keywords: Any) -> np.ndarray:  # fmt: skip
    spec = transform_spec(kind, x, kernel_size, out=out, **keywords)
    if out is not None:
        check_out(out, spec.out_shape, spec.dtype, {"x": x})
    chosen = select(spec, backend).backend
    if out is None:
        out = empty(spec.out_shape, spec.dtype)
    run_transform(spec, chosen, x, out)
    return out


@overridable("x", "out")
def im2col(
    x: np.ndarray,
    kernel_size: int | tuple[int, int],
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    padding_mode: str = "constant",
    layout: str = "NCHW",
    out: np.ndarray | None = None,
    num_threads: int | None = None,
    backend: str | None = None,
) -> np.ndarray:
    """Lay out the window of every output pixel, so that a convolution is a matrix product.

    Parameters
    ----------
    x : array
        Images in `layout`, as in conv2d.
    kernel_size : int or (int, int)
        h_f, w_f.
    stride, padding, dilation, padding_mode, layout, out, num_threads, backend
        As in conv2d.

    Returns
    -------
    array, of the dtype of x
        | NCHW: (n, c_in*h_f*w_f, h_out*w_out)
        | NHWC: (n, h_out*w_out, h_f*w_f*c_in)
        | CHWN: (c_in*h_f*w_f, h_out*w_out, n)
        | CHWN8: (n/8, c_in*h_f*w_f, h_out*w_out, 8)

    Raises
    ------
    ValueError, TypeError
        With the argument's name, what came and what is allowed, before any work.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> simdconv.im2col(np.arange(9.0).reshape(1, 3, 3), 2)
    array([[0., 1., 3., 4.],
           [1., 2., 4., 5.],
           [3., 4., 6., 7.],
           [4., 5., 7., 8.]])
    """
    return _transform("im2col", x, kernel_size, out, backend, stride=stride, padding=padding,
                      dilation=dilation, padding_mode=padding_mode, layout=layout,
                      num_threads=num_threads)  # fmt: skip


@overridable("x", "out")
def im2win(
    x: np.ndarray,
    kernel_size: int | tuple[int, int],
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    padding_mode: str = "constant",
    layout: str = "NCHW",
    out: np.ndarray | None = None,
    num_threads: int | None = None,
    backend: str | None = None,
) -> np.ndarray:
    """Lay out the strip of every output row once: far smaller than im2col, and windows stay runs.

    Element [.., m, k*h_f + u, ..] is the padded image at row m*stride_h + u*dilation_h, column k.
    Without horizontal dilation, the window of output column j is the run of w_f*h_f elements that
    starts at j*stride_w*h_f.

    Parameters
    ----------
    x : array
        Images in `layout`, as in conv2d.
    kernel_size : int or (int, int)
        h_f, w_f.
    stride, padding, dilation, padding_mode, layout, out, num_threads, backend
        As in conv2d.

    Returns
    -------
    array, of the dtype of x
        With w_p the padded width,

        | NCHW: (n, c_in, h_out, w_p*h_f)
        | NHWC: (n, h_out, w_p*h_f, c_in)
        | CHWN: (c_in, h_out, w_p*h_f, n)
        | CHWN8: (n/8, c_in, h_out, w_p*h_f, 8)

    Raises
    ------
    ValueError, TypeError
        With the argument's name, what came and what is allowed, before any work.

    References
    ----------
    S. Lu, J. Chu, X. T. Liu, "Im2win: memory efficient convolution on SIMD architectures",
    arXiv 2306.14320. Layouts: arXiv 2408.00278.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> simdconv.im2win(np.arange(9.0).reshape(1, 3, 3), 2)
    array([[[0., 3., 1., 4., 2., 5.],
            [3., 6., 4., 7., 5., 8.]]])
    """
    return _transform("im2win", x, kernel_size, out, backend, stride=stride, padding=padding,
                      dilation=dilation, padding_mode=padding_mode, layout=layout,
                      num_threads=num_threads)  # fmt: skip


def kernels() -> list[Kernel]:
    """Every kernel of the built-in backends, those that this machine cannot run included.

    Returns
    -------
    list of Kernel
        With id, backend, algorithm, layout, isa, dtype and available.
    """
    found: list[Kernel] = []
    for name in backends.BUILT_IN:
        try:
            found.extend(backends.get(name).kernels())
        except backends.BrokenBackendError:
            continue
    return found
