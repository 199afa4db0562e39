"""The command line: demo, info, explain.

    simdconv demo [IMAGE] [--out DIR]             the tour: a photograph through every kernel
    simdconv info                                 what this build is, what this machine has
    simdconv explain --x 1,64,56,56 --w 64,64,3,3 what conv2d would run, and why

Exit status: 0 done; 1 kernels disagree (demo); 2 anything wrong with what was asked, told in one
line on stderr, never in a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from simdconv._arguments import ALGORITHMS, PADDING_MODES, PADDING_NAMES
from simdconv._config import version
from simdconv._layout import LAYOUTS, WEIGHT_LAYOUTS

__all__ = ["main"]

_EPILOG = """\
examples:
  simdconv demo                              the photograph that comes with scikit-image
  simdconv demo holiday.jpg --out filtered   a picture of your own
  simdconv info
  simdconv explain --x 1,64,56,56 --w 64,64,3,3 --padding same
"""

_DEMO = """\
Filter a photograph with a blur, a sharpening, a Sobel pair, a Gabor bank and the first layer of a
network (3 to 64 channels, 7x7, stride 2), by every backend, algorithm and layout that can. Every
result is held against the reference within simdconv's rounding bound. Then one table, the filtered
pictures and a contact sheet. Needs the demo extra: pip install 'simdconv[demo]'.
"""

_EXPLAIN = """\
Print what conv2d would run for these sizes, and why: backend, algorithm, kernel, workspace,
threads, and the candidates that lost. Nothing is computed. Options mean what conv2d's arguments
mean.
"""

_EXPLAIN_EPILOG = """\
examples:
  simdconv explain --x 1,64,56,56 --w 64,64,3,3 --padding 1
  simdconv explain --x 8,56,56,64 --w 128,64,3,3 --layout NHWC --stride 2 --padding same
  simdconv explain --x 1,32,112,112 --w 32,1,3,3 --groups 32 --padding 1,1 --dtype float64
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise SystemExit(_complain(f"{message} (see {self.prog} --help)"))


def _complain(message: object) -> int:
    print("simdconv:", " ".join(str(message).split()) or "failed", file=sys.stderr)
    return 2


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected integers with commas between them; got {text!r}"
        ) from None


def _one_or_pair(text: str) -> int | tuple[int, ...]:
    values = _integers(text)
    return values[0] if len(values) == 1 else values


def _padding(text: str) -> Any:
    if text in PADDING_NAMES:
        return text
    try:
        values = _integers(text)
    except argparse.ArgumentTypeError:
        values = ()
    if len(values) not in (1, 2, 4):
        raise argparse.ArgumentTypeError(
            f"expected P, or V,H, or TOP,BOTTOM,LEFT,RIGHT, or one of {', '.join(PADDING_NAMES)}; "
            f"got {text!r}"
        )
    if len(values) == 4:
        return (values[0], values[1]), (values[2], values[3])
    return values[0] if len(values) == 1 else values


def _activation(text: str) -> Any:
    name, *numbers = text.split(",")
    try:
        return (name, *map(float, numbers)) if numbers else name
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected relu, relu6, clip,LO,HI or leaky_relu,SLOPE; got {text!r}"
        ) from None


def _dtype(text: str) -> np.dtype:
    try:
        if text == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(text)
    except ImportError:
        raise argparse.ArgumentTypeError("bfloat16 needs the package ml_dtypes") from None
    except Exception:
        raise argparse.ArgumentTypeError(f"NumPy has no dtype {text!r}") from None


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a positive integer; got {text!r}")
    return int(text)


def _demo(arguments: argparse.Namespace) -> int:
    try:
        from simdconv import _demo
    except ImportError as error:
        if (error.name or "").startswith("simdconv"):
            raise
        return _complain(f"the demo needs {error.name}: pip install simdconv[demo]")
    return _demo.run(arguments.image, arguments.out, arguments.size)


def _info(arguments: argparse.Namespace) -> int:
    from simdconv import show_config

    show_config()
    return 0


def _unread(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array in C order of this shape with no memory behind it, for what reads shapes only."""
    if any(size < 0 for size in shape):
        raise ValueError(f"{name}: sizes are not negative; got {','.join(map(str, shape))}")
    strides, step = [], dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    if step >= 2**62:
        raise ValueError(f"{name}: an array of {step} bytes is too large")
    one = np.zeros(1, dtype)
    return np.lib.stride_tricks.as_strided(one, shape, strides[::-1], writeable=False)


def _explain(arguments: argparse.Namespace) -> int:
    from simdconv import explain, options

    given = vars(arguments)
    dtype, max_workspace = given["dtype"], given["max_workspace"]
    names = ("stride", "padding", "dilation", "groups", "padding_mode", "layout", "weight_layout",
             "activation", "algorithm", "num_threads", "backend")  # fmt: skip
    x, w = _unread("--x", given["x"], dtype), _unread("--w", given["w"], dtype)
    bias = None
    if given["bias"]:
        weight_layout = given["weight_layout"]
        named = w.ndim == 4 and weight_layout in WEIGHT_LAYOUTS
        bias = np.empty(w.shape[weight_layout.index("O")] if named else 0, dtype)
    limit = {} if max_workspace is None else {"max_workspace": max_workspace}
    with options(**limit):
        print(explain(x, w, bias, **{name: given[name] for name in names}))
    return 0


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="simdconv",
        description="2-D convolution for NumPy.",
        epilog=_EPILOG,
        formatter_class=raw,
    )
    parser.add_argument("--version", action="version", version=f"simdconv {version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo", help="filter a photograph with every kernel, check, time, show",
        description=_DEMO, formatter_class=raw,
    )  # fmt: skip
    demo.add_argument(
        "image", nargs="?", metavar="IMAGE",
        help="any file that Pillow reads (default: scikit-image's photograph of an astronaut)",
    )  # fmt: skip
    demo.add_argument(
        "--out", default="simdconv-demo", metavar="DIR",
        help="where the PNG files go; made if missing (default: %(default)s)",
    )  # fmt: skip
    demo.add_argument(
        "--size", type=_positive, default=400, metavar="PIXELS",
        help="shrink a larger picture to this longest side (default: %(default)s)",
    )  # fmt: skip
    demo.set_defaults(run=_demo)

    info = commands.add_parser(
        "info", help="print version, compiler, ISAs, threads, BLAS, backends, options",
        description="Print what simdconv.show_config() knows of this build and this machine.",
    )  # fmt: skip
    info.set_defaults(run=_info)

    explain = commands.add_parser(
        "explain", help="print what conv2d would run for these sizes, and why",
        description=_EXPLAIN, epilog=_EXPLAIN_EPILOG, formatter_class=raw,
    )  # fmt: skip
    _explain_options(explain)
    explain.set_defaults(run=_explain)
    return parser


def _explain_options(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--x", type=_integers, required=True, metavar="N,C,H,W",
           help="shape of the image, in the order of --layout")  # fmt: skip
    option("--w", type=_integers, required=True, metavar="O,I,H,W",
           help="shape of the filter, in the order of --weight-layout")  # fmt: skip
    option("--bias", action="store_true", help="with a bias")
    option("--stride", type=_one_or_pair, default=1, metavar="S", help="S or V,H (default: 1)")
    option("--padding", type=_padding, default=0, metavar="P",
           help="P, or V,H, or TOP,BOTTOM,LEFT,RIGHT, or " + ", ".join(PADDING_NAMES)
           + " (default: 0)")  # fmt: skip
    option("--dilation", type=_one_or_pair, default=1, metavar="D", help="D or V,H (default: 1)")
    option("--groups", type=int, default=1, metavar="G", help="(default: 1)")
    option("--padding-mode", default="constant", metavar="MODE", help=", ".join(PADDING_MODES))
    option("--layout", default="NCHW", metavar="LAYOUT", help=", ".join(LAYOUTS))
    option("--weight-layout", default="OIHW", metavar="LAYOUT", help=", ".join(WEIGHT_LAYOUTS))
    option("--activation", type=_activation, metavar="A",
           help="relu, relu6, clip,LO,HI or leaky_relu,SLOPE")  # fmt: skip
    option("--dtype", type=_dtype, default=np.dtype("float32"), metavar="DTYPE",
           help="of image and filter: NumPy's names, or bfloat16 (default: float32)")  # fmt: skip
    option("--algorithm", default="auto", metavar="A", help=", ".join(ALGORITHMS))
    option(
        "--backend", metavar="NAME", help="simd, blas, numpy or a plug-in; only this one may run"
    )
    option("--num-threads", type=int, metavar="T", help="threads of the call, at most")
    option("--max-workspace", type=int, metavar="BYTES", help="scratch memory of the call, at most")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.

    Returns
    -------
    int
        The exit status.
    """
    try:
        arguments = _parser().parse_args(argv)
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except (
        BrokenPipeError
    ):  # the reader of a pipe went away: nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _complain(str(error) or type(error).__name__)
