"""The problem catalogue: convolutions that tests, benchmarks and documentation speak of by name."""

from __future__ import annotations

import dataclasses

__all__ = ["AWKWARD_SIZES", "PROBLEMS", "Problem"]


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Sizes of one convolution; stride, padding and dilation are the same on both axes."""

    name: str
    n: int
    c_in: int
    h_in: int
    w_in: int
    c_out: int
    h_f: int
    w_f: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    @property
    def keywords(self) -> dict[str, int]:
        """What conv2d is told besides the arrays."""
        return {
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
        }

    @property
    def h_out(self) -> int:
        """Height of the result."""
        return self._out(self.h_in, self.h_f)

    @property
    def w_out(self) -> int:
        """Width of the result."""
        return self._out(self.w_in, self.w_f)

    def _out(self, size: int, kernel: int) -> int:
        span = self.dilation * (kernel - 1) + 1
        return (size + 2 * self.padding - span) // self.stride + 1

    @property
    def flops(self) -> int:
        """Multiplications and additions, each counted as one."""
        k = self.c_in // self.groups * self.h_f * self.w_f
        return 2 * self.n * self.c_out * self.h_out * self.w_out * k


# 1, V-1, V, V+1, 2V and 3*2^k +- 1 for vectors of V = 4, 8 and 16 elements
AWKWARD_SIZES = (1, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 23, 25, 31, 32, 33, 47, 49)


def _awkward() -> tuple[Problem, ...]:
    """Every awkward size as every kind of size, and every argument away from its default."""
    sizes = AWKWARD_SIZES
    problems = []
    for i, size in enumerate(sizes):
        other, small = sizes[-1 - i], sizes[i % 5]
        problems += [
            Problem(f"c-out-{size}", 1, small, 5, 6, size, 3, 3),
            Problem(f"c-in-{size}", 1, size, 4, 5, small, 3, 2),
            Problem(f"w-out-{size}", 2, 2, 3, size + 2, 3, 2, 3, 1, 0),
            Problem(f"pixels-{size}x{other}", 1, 1, other, size, 2, 1, 1),
            Problem(f"n-{size}", size, 3, 4, 4, 2, 3, 3, 1, 1),
            Problem(f"depthwise-{size}", 1, size, 6, 7, size, 3, 3, 1, 1, 1, size),
        ]
    problems += [
        Problem("stride-2", 2, 3, 11, 13, 5, 3, 3, 2, 1),
        Problem("stride-beyond-kernel", 1, 3, 13, 14, 4, 2, 3, 5, 2),
        Problem("stride-1x1", 2, 5, 9, 8, 7, 1, 1, 3, 0),
        Problem("padding-1x1", 1, 5, 4, 3, 7, 1, 1, 1, 2),
        Problem("padding-beyond-kernel", 1, 2, 3, 4, 3, 3, 3, 1, 5),
        Problem("dilation-2", 1, 3, 12, 11, 4, 3, 3, 1, 2, 2),
        Problem("dilation-3-stride-2", 2, 2, 14, 13, 3, 3, 2, 2, 3, 3),
        Problem("dilation-beyond-image", 1, 2, 4, 4, 2, 2, 2, 1, 3, 7),
        Problem("groups-3", 2, 6, 7, 8, 9, 3, 3, 1, 1, 1, 3),
        Problem("groups-stride-dilation", 1, 4, 13, 12, 6, 2, 3, 2, 2, 2, 2),
        Problem("depthwise-multiplier", 1, 5, 7, 7, 10, 3, 3, 1, 1, 1, 5),
        Problem("fully-connected", 3, 4, 5, 6, 7, 5, 6),
        Problem("one-row", 1, 3, 1, 40, 4, 1, 5),
        Problem("one-column", 1, 3, 40, 1, 4, 5, 1),
        Problem("all-ones", 1, 1, 1, 1, 1, 1, 1),
        Problem("wide-kernel", 1, 1, 6, 40, 2, 2, 33),
    ]
    return tuple(problems)


def _named(rows: str) -> tuple[Problem, ...]:
    """Read problems from lines of `name n c_in h_in w_in c_out h_f w_f stride padding ...`."""
    problems = []
    for line in rows.strip().splitlines():
        name, *numbers = line.split()
        problems.append(Problem(name, *map(int, numbers)))
    return tuple(problems)


PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "paper": _named("""
        conv1 8 3 227 227 96 11 11 4 0 1 1
        conv2 8 3 231 231 96 11 11 4 0 1 1
        conv3 8 3 227 227 64 7 7 2 0 1 1
        conv4 2 64 224 224 64 7 7 2 0 1 1
        conv5 8 96 24 24 256 5 5 1 0 1 1
        conv6 8 256 12 12 512 3 3 1 0 1 1
        conv7 8 3 224 224 64 3 3 1 0 1 1
        conv8 4 64 112 112 128 3 3 1 0 1 1
        conv9 8 64 56 56 64 3 3 1 0 1 1
        conv10 8 128 28 28 128 3 3 1 0 1 1
        conv11 8 256 14 14 256 3 3 1 0 1 1
        conv12 8 512 7 7 512 3 3 1 0 1 1"""),
    "network": _named("""
        resnet-stem 1 3 224 224 64 7 7 2 3 1 1
        resnet-3x3-56 1 64 56 56 64 3 3 1 1 1 1
        resnet-3x3-28 1 128 28 28 128 3 3 1 1 1 1
        resnet-3x3-14 1 256 14 14 256 3 3 1 1 1 1
        resnet-3x3-7 1 512 7 7 512 3 3 1 1 1 1
        resnet-1x1-56 1 64 56 56 256 1 1 1 0 1 1
        resnet-1x1-s2 1 256 56 56 512 1 1 2 0 1 1
        vgg-3x3-224 1 64 224 224 64 3 3 1 1 1 1
        resnext-g32 1 128 56 56 128 3 3 1 1 1 32
        deeplab-d2 1 256 33 33 256 3 3 1 2 2 1
        odd-channels 1 19 61 53 37 3 3 1 1 1 1"""),
    "depthwise": _named("""
        dw-32-112 1 32 112 112 32 3 3 1 1 1 32
        dw-96-112-s2 1 96 112 112 96 3 3 2 1 1 96
        dw-144-56 1 144 56 56 144 3 3 1 1 1 144
        dw-384-14 1 384 14 14 384 3 3 1 1 1 384
        dw-960-7 1 960 7 7 960 3 3 1 1 1 960
        dw-96-56-7x7 1 96 56 56 96 7 7 1 3 1 96"""),
    "image": _named("""
        image-3x3 1 1 2048 2048 1 3 3 1 0 1 1
        image-5x5 1 1 2048 2048 1 5 5 1 0 1 1
        image-7x7 1 1 2048 2048 1 7 7 1 0 1 1
        image-11x11 1 1 2048 2048 1 11 11 1 0 1 1
        image-15x15 1 1 2048 2048 1 15 15 1 0 1 1
        image-31x31 1 1 2048 2048 1 31 31 1 0 1 1
        image-63x63 1 1 2048 2048 1 63 63 1 0 1 1"""),
    "tiny": _named("""
        tiny-1 1 1 8 8 1 3 3 1 0 1 1
        tiny-3 1 3 16 16 8 3 3 1 0 1 1
        tiny-8 1 8 8 8 8 3 3 1 0 1 1
        tiny-1x1 1 16 14 14 16 1 1 1 0 1 1"""),
    "awkward": _awkward(),
}
