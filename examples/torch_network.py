"""Time a whole PyTorch network before and after simdconv runs its convolutions.

python examples/torch_network.py
python examples/torch_network.py --network mobilenet --batch 8 --size 224 --threads 1

The networks are ResNet-18 and MobileNetV2, built here with random weights. Both versions run in
turns, in both of PyTorch's memory formats; medians are compared. Needs PyTorch.
"""

import argparse
import copy
import statistics
import time

import torch
from torch import nn

from simdconv.adapters.torch import replace_convs


def conv(c_in, c_out, size, stride=1, groups=1, activation=None):
    """Return a convolution and the normalisation after it."""
    layers = [
        nn.Conv2d(c_in, c_out, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(c_out),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation(inplace=True)]))


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.path = nn.Sequential(
            conv(c_in, c_out, 3, stride, activation=nn.ReLU), conv(c_out, c_out, 3)
        )
        same = stride == 1 and c_in == c_out
        self.shortcut = nn.Identity() if same else conv(c_in, c_out, 1, stride)

    def forward(self, x):
        """Run the block."""
        return torch.relu(self.path(x) + self.shortcut(x))


class InvertedResidual(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, c_in, c_out, stride, expansion):
        super().__init__()
        wide = c_in * expansion
        first = [] if expansion == 1 else [conv(c_in, wide, 1, activation=nn.ReLU6)]
        depthwise = conv(wide, wide, 3, stride, wide, nn.ReLU6)
        self.path = nn.Sequential(*first, depthwise, conv(wide, c_out, 1))
        self.same = stride == 1 and c_in == c_out

    def forward(self, x):
        """Run the block."""
        return x + self.path(x) if self.same else self.path(x)


def resnet():
    """ResNet-18."""
    blocks, channels = [], 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Residual(channels, width, stride), Residual(width, width, 1)]
        channels = width
    stem = [conv(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stem, *blocks, *head)


def mobilenet():
    """MobileNetV2."""
    blocks, channels = [conv(3, 32, 3, 2, activation=nn.ReLU6)], 32
    for expansion, width, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(repeats):
            blocks.append(InvertedResidual(channels, width, 1 if index else stride, expansion))
            channels = width
    head = [conv(320, 1280, 1, activation=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*blocks, *head, nn.Linear(1280, 1000))


def calibrated(model):
    """Give each normalisation the statistics that keep activations from vanishing."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        model.train()(torch.randn(8, 3, 64, 64))
    return model.eval()


def measure(models, x, seconds):
    """Run the models in turns for so long; return the median time of each, in milliseconds."""
    times = [[] for _ in models]
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times[0]) < 3:
        for model, own in zip(models, times, strict=True):
            start = time.perf_counter()
            model(x)
            own.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(own) for own in times]


def main():
    """Print a line for each network and memory format."""
    networks = {"resnet": resnet, "mobilenet": mobilenet}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=networks, action="append", help="default: both")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=10, help="to measure for, each")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    print(f"batch {chosen.batch}, {chosen.size} x {chosen.size}, {chosen.threads} thread(s)")
    for name in chosen.network or networks:
        torch.manual_seed(0)
        model = calibrated(networks[name]())
        for memory_format in (torch.contiguous_format, torch.channels_last):
            before = model.to(memory_format=memory_format)
            after = replace_convs(copy.deepcopy(before))
            x = torch.randn(chosen.batch, 3, chosen.size, chosen.size)
            x = x.to(memory_format=memory_format)
            with torch.inference_mode():
                expected = before(x)
                error = (after(x) - expected).abs().max() / expected.abs().max()
                old, new = measure((before, after), x, chosen.seconds)
            print(f"{name:9}  {str(memory_format)[6:]:17}  PyTorch {old:8.2f} ms  "
                  f"simdconv {new:8.2f} ms  {old / new:5.2f} times as fast  "
                  f"largest difference {error:.1e}")  # fmt: skip


if __name__ == "__main__":
    main()
