"""Shape arithmetic of a window that moves over a padded image, and the checks it needs."""

from __future__ import annotations

from typing import Any

from simdconv import _arguments as arguments
from simdconv._arguments import Pads, Pair
from simdconv._errors import ShapeError
from simdconv._layout import LANES, WEIGHT_LAYOUTS, check_layout

__all__ = [
    "check_bias",
    "check_channels",
    "check_extension",
    "image_sizes",
    "weight_sizes",
    "window_fields",
]


def image_sizes(shape: tuple[int, ...], layout: str) -> tuple[bool, int, int, int, int]:
    """Whether batched, then n, c, h, w, of an image's shape."""
    if layout == "CHWN8":
        if len(shape) != 5 or shape[4] != LANES:
            raise ShapeError(f"x in layout CHWN8 has shape (ceil(n/8), c, h, w, 8); got {shape}")
        return True, shape[0] * LANES, *shape[1:4]
    if len(shape) not in (3, 4):
        axes = ", ".join(layout.lower())
        raise ShapeError(f"x in layout {layout} has shape ({axes}), or that without n; got {shape}")
    batched = len(shape) == 4
    axes = layout if batched else layout.replace("N", "")
    sizes = dict(zip(axes, shape, strict=True))
    return batched, sizes.get("N", 1), sizes["C"], sizes["H"], sizes["W"]


def _outputs(
    sizes: Pair, kernel: Pair, stride: Pair, dilation: Pair, pads: Pads, same: bool
) -> Pair:
    """h_out and w_out."""
    result = []
    for axis in (0, 1):
        size, pad = sizes[axis], sum(pads[axis])
        span = dilation[axis] * (kernel[axis] - 1) + 1
        if same:
            result.append(-(-size // stride[axis]))
            continue
        if span > size + pad:
            name, axis_name = ("height", "h") if axis == 0 else ("width", "w")
            raise ShapeError(
                f"{name}: the window spans {span} ({axis_name}_f={kernel[axis]}, "
                f"dilation={dilation[axis]}), larger than the padded image's {size + pad} "
                f"({axis_name}_in={size}, padding={pads[axis]})"
            )
        result.append((size + pad - span) // stride[axis] + 1)
    return result[0], result[1]


def window_fields(
    shape: tuple[int, ...],
    layout: object,
    kernel: Pair,
    stride: object,
    padding: object,
    dilation: object,
    padding_mode: object,
) -> dict[str, Any]:
    """Return the fields that both specs share, from the shape and the window's arguments."""
    name = check_layout(layout)
    batched, n, c_in, h_in, w_in = image_sizes(shape, name)
    strides = arguments.check_pair("stride", stride, 1)
    dilations = arguments.check_pair("dilation", dilation, 1)
    sizes = (h_in, w_in)
    pads = arguments.check_padding(padding, sizes, kernel, strides, dilations)
    same = isinstance(padding, str) and padding != "valid"
    h_out, w_out = _outputs(sizes, kernel, strides, dilations, pads, same)
    mode = arguments.check_padding_mode(padding_mode)
    if h_out and w_out:
        check_extension(mode, sizes, pads)
    h_p, w_p = h_in + sum(pads[0]), w_in + sum(pads[1])
    arguments.check_product(f"the image with padding={pads}", max(n, 1), max(c_in, 1), h_p, w_p)
    return {
        "layout": name, "batched": batched, "n": n, "c_in": c_in, "h_in": h_in, "w_in": w_in,
        "h_f": kernel[0], "w_f": kernel[1], "h_out": h_out, "w_out": w_out, "stride": strides,
        "dilation": dilations, "padding": pads, "padding_mode": mode,
    }  # fmt: skip


def check_extension(mode: str, sizes: Pair, pads: Pads) -> None:
    """Raise if the mode would take padding from an axis without elements."""
    for name, size, pad in zip(("height", "width"), sizes, pads, strict=True):
        if mode != "constant" and size == 0 and pad != (0, 0):
            raise ShapeError(f"padding_mode={mode!r} cannot extend an image of {name} 0")


def weight_sizes(shape: tuple[int, ...], weight_layout: object) -> tuple[str, dict[str, int]]:
    name = check_layout(weight_layout, "weight_layout", WEIGHT_LAYOUTS)
    if len(shape) != 4:
        raise ShapeError(f"w in weight_layout {name} has 4 axes; got shape {shape}")
    sizes = dict(zip(name, shape, strict=True))
    if sizes["H"] == 0 or sizes["W"] == 0:
        raise ShapeError(f"w needs h_f >= 1 and w_f >= 1; got h_f={sizes['H']}, w_f={sizes['W']}")
    return name, sizes


def check_channels(c_in: int, weight: dict[str, int], groups: int, layout: str) -> None:
    c_out = weight["O"]
    for name, count in (("c_in", c_in), ("c_out", c_out)):
        if count % groups:
            raise ShapeError(f"groups={groups} does not divide {name}={count}")
    if c_in // groups != weight["I"]:
        raise ShapeError(
            f"x has c_in={c_in} in layout {layout}, so w needs c_in/groups={c_in // groups} "
            f"input channels with groups={groups}; it has {weight['I']}"
        )


def check_bias(shape: tuple[int, ...] | None, c_out: int) -> None:
    """Raise unless a bias of this shape, if there is one, has an element for each filter."""
    if shape is not None and shape != (c_out,):
        raise ShapeError(f"bias must have shape (c_out,) = ({c_out},); got {shape}")
