"""PyTorch networks whose convolutions simdconv runs, for inference on the CPU.

    model = simdconv.adapters.torch.replace_convs(model.eval())
    with torch.inference_mode():
        y = model(x)

Each nn.Conv2d is replaced by a module that has the same parameters, names and hooks, and prepares
its filters once. Where gradients are wanted, under autocast, or where a tensor is not float32 or
float64 on the CPU, it runs PyTorch's own convolution: a replaced network can still be trained,
traced, saved and moved.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

import torch
from torch import nn
from torch.autograd import forward_ad

import simdconv
from simdconv._arguments import ALGORITHMS, check_choice
from simdconv.backends import check_name

__all__ = ["Conv2d", "replace_convs"]

_DTYPES = (torch.float32, torch.float64)
Model = TypeVar("Model", bound=nn.Module)


class _Counted(Protocol):
    _version: int  # PyTorch's count of writes, which its stubs do not know


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is numbers in the CPU's memory, and nothing that PyTorch keeps track of."""
    return (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.dtype in _DTYPES
        and tensor.layout == torch.strided
        and torch.func.debug_unwrap(tensor) is tensor  # not within vmap, jvp and the like
        and forward_ad.unpack_dual(tensor).tangent is None
    )


def _state(tensor: torch.Tensor | None) -> Any:
    """Return what changes when a parameter is assigned or written to."""
    if tensor is None:
        return None
    if tensor.is_inference():  # PyTorch does not count writes to it: it may have changed
        return object()
    return tensor.data_ptr(), cast(_Counted, tensor)._version, tensor.dtype


class Conv2d(nn.Conv2d):
    """An nn.Conv2d that simdconv runs, where it can.

    Parameters
    ----------
    *args, **kwargs
        As nn.Conv2d's. `from_torch` makes one from an nn.Conv2d.

    Attributes
    ----------
    backend : str or None
        The only backend that may run it; None for the usual choice.
    algorithm : str
        As in simdconv.conv2d.

    Notes
    -----
    It uses as many threads as torch.get_num_threads() says. An input in PyTorch's channels_last
    memory format is convolved in layout NHWC, and its result is in that format too.

    A filter is prepared again after load_state_dict, an optimizer's step or another write that
    PyTorch counts; call `repack` after writing to `weight.data`, which it does not count. It counts
    none for parameters that are made in torch.inference_mode: those are prepared at every call.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_up(None, "auto")

    def _set_up(self, backend: str | None, algorithm: str) -> None:
        self.backend = None if backend is None else check_name(backend)
        self.algorithm = check_choice("algorithm", algorithm, ALGORITHMS)
        self._prepared: dict[str, tuple[Any, simdconv.Conv2d, Any]] = {}

    @classmethod
    def from_torch(
        cls, conv: nn.Conv2d, *, backend: str | None = None, algorithm: str = "auto"
    ) -> Conv2d:
        """Make one that shares an nn.Conv2d's parameters and hooks.

        Parameters
        ----------
        conv : nn.Conv2d
        backend, algorithm : str
            As in simdconv.conv2d.

        Returns
        -------
        Conv2d
        """
        new = cls.__new__(cls)
        new.__dict__.update(
            (name, value.copy() if isinstance(value, dict) else value)
            for name, value in conv.__dict__.items()
        )
        new._set_up(backend, algorithm)
        return new

    def repack(self) -> None:
        """Prepare the filter again at the next call."""
        self._prepared = {}

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Convolve images of shape (n, c_in, h_in, w_in) or (c_in, h_in, w_in)."""
        if not self._can_run(input):
            return super().forward(input)
        return self._run(input)

    def _can_run(self, x: torch.Tensor) -> bool:
        if not isinstance(x, torch.Tensor) or torch.is_autocast_enabled("cpu"):
            return False  # torch.fx's stand-in for a tensor, say; or the result has another dtype
        tensors = [x, self.weight] if self.bias is None else [x, self.weight, self.bias]
        if any(tensor.dtype != x.dtype for tensor in tensors):
            return False  # an error, in PyTorch's words
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return False
        return not torch.jit.is_tracing() and all(_is_plain(tensor) for tensor in tensors)

    @torch.compiler.disable
    def _run(self, x: torch.Tensor) -> torch.Tensor:
        nhwc = x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(
            memory_format=torch.channels_last
        )  # fmt: skip
        conv = self._conv("NHWC" if nhwc else "NCHW")
        image = x.detach().permute(0, 2, 3, 1) if nhwc else x.detach()
        result = torch.from_numpy(conv(image.numpy(force=True)))
        return result.permute(0, 3, 1, 2) if nhwc else result

    def _conv(self, layout: str) -> simdconv.Conv2d:
        """Return the convolution in this layout, prepared anew if anything it holds has changed."""
        threads = torch.get_num_threads()
        state = (_state(self.weight), _state(self.bias), threads, self.backend, self.algorithm)
        known = self._prepared.get(layout)
        if known is not None and known[0] == state:
            return known[1]
        bias = None if self.bias is None else self.bias.detach()
        conv = simdconv.Conv2d(
            self.weight.detach().numpy(),
            None if bias is None else bias.numpy(),
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            padding_mode=self.padding_mode,
            layout=layout,
            algorithm=self.algorithm,
            num_threads=threads,
            backend=self.backend,
        )
        # with the tensors, lest another one come to lie at the address of one that is gone
        self._prepared[layout] = (state, conv, (self.weight.detach(), bias))
        return conv

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is prepared: it is prepared again where it arrives."""
        return {**self.__dict__, "_prepared": {}}


def replace_convs(model: Model, *, backend: str | None = None, algorithm: str = "auto") -> Model:
    """Replace every nn.Conv2d of a model, in place.

    Parameters
    ----------
    model : nn.Module
    backend, algorithm : str
        As in simdconv.conv2d.

    Returns
    -------
    nn.Module
        `model`; or its replacement, if it is an nn.Conv2d itself. Subclasses of nn.Conv2d, such as
        quantized, lazy or parametrized ones, are left alone: what they compute is their own.

    Raises
    ------
    TypeError, ValueError, LookupError
        If `model` is no nn.Module, or there is no such algorithm or backend.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}")
    if backend is not None:
        check_name(backend)
    check_choice("algorithm", algorithm, ALGORITHMS)
    replaced: dict[nn.Module, nn.Module] = {}

    def replacement(module: nn.Conv2d) -> nn.Module:
        if module not in replaced:  # a module may be used in several places
            replaced[module] = Conv2d.from_torch(module, backend=backend, algorithm=algorithm)
        return replaced[module]

    if type(model) is nn.Conv2d:
        return cast(Model, replacement(cast(nn.Conv2d, model)))
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if type(child) is nn.Conv2d:
                parent._modules[name] = replacement(child)
    return model
