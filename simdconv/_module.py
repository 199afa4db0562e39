"""Conv2d: a filter that is prepared once and applied many times."""

from __future__ import annotations

from typing import Any

import numpy as np

from simdconv import _arguments as arguments
from simdconv import _geometry as geometry
from simdconv._api import conv2d
from simdconv._dispatch import check_out, run_conv2d, select
from simdconv._exchange import common_exporter, from_foreign, refuse
from simdconv._families import hand_over
from simdconv._layout import check_layout
from simdconv._memory import empty
from simdconv._prepared import remember, state
from simdconv._spec import PLAIN, conv2d_spec
from simdconv.backends import check_name
from simdconv.backends._base import PackedFilter

__all__ = ["Conv2d"]

_MOST_PREPARED = 64  # calls kept
_MOST_PACKED = 16  # packed filters kept, one for each kind of plan the calls led to


def _taken(name: str, value: Any) -> np.ndarray:
    refuse(name, value)
    array = from_foreign(name, value)
    arguments.check_dtype(name, array.dtype)
    return array


def _snapshot(value: np.ndarray) -> np.ndarray:
    array = np.array(value, order="C")
    array.flags.writeable = False
    return array


def _shortest(value: Any) -> Any:
    """Write a pair of equal numbers as one number, which a spec is found by faster."""
    if not isinstance(value, tuple):
        return value
    if isinstance(value[0], tuple):  # ((1, 2), (1, 2)) is not (1, 2)
        before, after = zip(*value, strict=True)
        return _shortest(before) if before == after else value
    return value[0] if value[0] == value[1] else value


class Conv2d:
    """conv2d with everything but the image fixed.

    The filter and the bias are copied: later changes to the arrays do not reach the object. The
    filter is prepared once for each kind of plan that the images lead to.

    Parameters
    ----------
    w, bias, stride, padding, dilation, groups, padding_mode, layout, weight_layout, activation,
    algorithm, num_threads, backend
        As in conv2d.

    Attributes
    ----------
    weight : ndarray
        Read-only copy of the filter.
    bias : ndarray or None
        Read-only copy of the bias.

    Raises
    ------
    ValueError, TypeError
        With the argument's name, what came and what is allowed.

    Examples
    --------
    >>> import numpy as np, simdconv
    >>> conv = simdconv.Conv2d(np.ones((8, 3, 3, 3), np.float32), padding="same")
    >>> conv(np.ones((2, 3, 16, 16), np.float32)).shape
    (2, 8, 16, 16)
    """

    def __init__(
        self,
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
        num_threads: int | None = None,
        backend: str | None = None,
    ) -> None:
        w = _taken("w", w)
        bias = None if bias is None else _taken("bias", bias)
        _, sizes = geometry.weight_sizes(w.shape, weight_layout)
        kernel = (sizes["H"], sizes["W"])
        strides = arguments.check_pair("stride", stride, 1)
        dilations = arguments.check_pair("dilation", dilation, 1)
        if not isinstance(padding, str):
            padding = arguments.check_padding(padding, (1, 1), kernel, strides, dilations)
        arguments.check_padding(padding, (1, 1), kernel, strides, dilations)
        groups = arguments.check_integer("groups", groups, 1, arguments.LARGEST)
        geometry.check_channels(sizes["I"] * groups, sizes, groups, check_layout(layout))
        geometry.check_bias(None if bias is None else bias.shape, sizes["O"])
        num_threads = arguments.check_threads(num_threads)
        self._keywords: dict[str, Any] = {
            "stride": _shortest(strides), "padding": _shortest(padding),
            "dilation": _shortest(dilations), "groups": groups,
            "padding_mode": arguments.check_padding_mode(padding_mode), "layout": layout,
            "weight_layout": weight_layout,
            "activation": arguments.check_activation_form(activation),
            "algorithm": arguments.check_choice("algorithm", algorithm, arguments.ALGORITHMS),
            "num_threads": num_threads,
        }  # fmt: skip
        self._backend = None if backend is None else check_name(backend)
        self._packed: dict[Any, PackedFilter] = {}
        self._prepared: dict[Any, Any] = {}
        self._weight = _snapshot(w)  # last: nothing is copied for arguments that are wrong
        self._bias = None if bias is None else _snapshot(bias)

    @property
    def weight(self) -> np.ndarray:
        """Read-only copy of the filter."""
        return self._weight

    @property
    def bias(self) -> np.ndarray | None:
        """Read-only copy of the bias."""
        return self._bias

    def __call__(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Convolve images.

        Parameters
        ----------
        x, out
            As in conv2d, with its errors.

        Returns
        -------
        array
            As conv2d's, with the same bits.
        """
        if type(x) is not np.ndarray or (out is not None and type(out) is not np.ndarray):
            return self._call_foreign(x, out)
        return self._run(x, out)

    def _call_foreign(self, x: Any, out: Any) -> Any:
        """Convolve another library's images, with conv2d's rules of who takes what."""
        found = {"x": x} if out is None else {"x": x, "out": out}
        keywords = {**self._keywords, "out": out, "backend": self._backend}
        result = hand_over(conv2d, found, (x, self.weight, self.bias), keywords)
        if result is not NotImplemented:
            return result
        export = common_exporter(found)
        arrays = {name: from_foreign(name, value) for name, value in found.items()}
        result = self._run(**arrays)
        return export(result) if out is None else out

    def _run(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        key, run = None, None
        if out is None and x.flags.num & PLAIN == PLAIN and (now := state()) is not None:
            key = now, x.shape, x.dtype
            run = self._prepared.get(key)
            if run is not None and (result := run(x, self.weight, self.bias)) is not None:
                return result
        spec = conv2d_spec(x, self.weight, self.bias, out=out, **self._keywords)
        if out is not None:
            check_out(out, spec.out_shape, spec.dtype, {"x": x})
        backend = select(spec, self._backend).backend
        if out is None:
            out = empty(spec.out_shape, spec.dtype)
        weight = self._filter_for(backend, spec) if out.size and spec.k else self.weight
        run_conv2d(spec, backend, x, weight, self.bias, out)
        if key is not None and (run is not None or key not in self._prepared):
            remember(key, spec, backend, weight, self._prepared, _MOST_PREPARED)
        return out

    def _filter_for(self, backend: Any, spec: Any) -> np.ndarray | PackedFilter:
        """Return the filter as the backend wants it, prepared at the first call of its kind."""
        pack_key = getattr(backend, "pack_key", None)
        key = None if pack_key is None else pack_key(spec)
        if key is None:
            return self.weight
        key = (backend.name, key)
        packed = self._packed.get(key)
        if packed is None:
            packed = backend.pack(spec, self.weight)
            if packed is None:
                return self.weight
            if len(self._packed) >= _MOST_PACKED:
                self._packed = {}
            self._packed[key] = packed
        return packed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": {}, "_prepared": {}}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._keywords.items())
        bias = "" if self.bias is None else f", bias {self.bias.dtype}"
        return f"Conv2d(w {self.weight.shape} {self.weight.dtype}{bias}, {shown})"
