"""Measure the chart of README, and draw it.

    python docs/make_chart.py [--threads 1] [--seconds 1.0]     measure, write docs/chart.json, draw
    python docs/make_chart.py --draw                            draw docs/chart.json again

Every way to compute one layer is timed in turn, round after round, so that a drift of the machine's
speed meets them all; a figure is the median call. A call includes all that a user pays: transform,
packing and allocation of the result. Shares are of the peak of independent multiply-adds, measured
in the same rounds. PyTorch takes part where it is installed. Needs the bench extra.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA, PICTURE = HERE / "chart.json", HERE / "chart.svg"
ROUNDS = 7
COLOURS = {
    "simdconv NHWC": "#1b6ca8", "simdconv NCHW": "#7fb6d8", "PyTorch channels_last": "#c4541a",
    "PyTorch": "#edb48c", "NumPy matmul + im2col": "#9a9a9a",
}  # fmt: skip


def contestants(problem, threads):
    """Map names to calls: all that can compute this problem here, in the layout that they name."""
    import simdconv
    from simdconv.testing import make_arrays

    calls = {}
    for layout in ("NHWC", "NCHW"):
        x, w, _ = make_arrays(problem, layout=layout, whole=False, bias=False)
        keywords = {**problem.keywords, "layout": layout, "num_threads": threads}
        calls[f"simdconv {layout}"] = lambda x=x, w=w, k=keywords: simdconv.conv2d(x, w, **k)
    calls["NumPy matmul + im2col"] = lambda x=x, w=w, k=keywords: simdconv.conv2d(
        x, w, backend="blas", algorithm="im2col", **k
    )
    try:
        import torch
    except ImportError:
        return calls
    torch.set_num_threads(threads)
    image, weight = torch.from_numpy(x), torch.from_numpy(w)
    for name, form in (
        ("PyTorch channels_last", torch.channels_last),
        ("PyTorch", torch.contiguous_format),
    ):
        a, b = image.contiguous(memory_format=form), weight.contiguous(memory_format=form)
        calls[name] = lambda a=a, b=b: torch.nn.functional.conv2d(a, b, **problem.keywords)
    return calls


def measure(threads, seconds):
    """Return what goes into the data file."""
    import numpy as np
    import threadpoolctl

    import simdconv
    from simdconv import roofline
    from simdconv.testing import PROBLEMS

    versions = {"simdconv": simdconv.__version__, "numpy": np.__version__}
    peaks, rates = [], {}
    with threadpoolctl.threadpool_limits(threads):
        for problem in PROBLEMS["paper"]:
            calls = contestants(problem, threads)
            times = {name: [] for name in calls}
            for call in calls.values():
                call()
            for _ in range(ROUNDS):
                peaks.append(roofline.measure_peaks(threads=threads).gflops)
                for name, call in calls.items():
                    end = time.perf_counter() + seconds / ROUNDS
                    while True:
                        start = time.perf_counter()
                        call()
                        now = time.perf_counter()
                        times[name].append(now - start)
                        if now > end:
                            break
            rates[problem.name] = {
                name: round(problem.flops / statistics.median(took) / 1e9, 2)
                for name, took in times.items()
            }
            print(problem.name, rates[problem.name], flush=True)
    if "PyTorch" in rates[problem.name]:
        import torch

        versions["torch"] = torch.__version__
    return {
        "command": f"python docs/make_chart.py --threads {threads} --seconds {seconds:g}",
        "machine": f"{platform.machine()}, {simdconv.cpu_info()['isas_found'][-1]}",
        "threads": threads,
        "peak_gflops": round(statistics.median(peaks), 1),
        "versions": versions,
        "gflops": rates,
    }


def draw(data):
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "simdconv", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    layers, peak = list(data["gflops"]), data["peak_gflops"]
    names = [name for name in COLOURS if name in data["gflops"][layers[0]]]
    figure = pyplot.figure(figsize=(9.5, 3.9), layout="constrained")
    axes = figure.add_subplot()
    width = 0.84 / len(names)
    for i, name in enumerate(names):
        shares = [100 * data["gflops"][layer][name] / peak for layer in layers]
        mean = statistics.geometric_mean(shares)
        places = [k + (i - (len(names) - 1) / 2) * width for k in range(len(layers))]
        axes.bar(places, shares, width, color=COLOURS[name], label=f"{name}: {mean:.0f} %")
    axes.axhline(100, color="0.3", lw=1, ls="--")
    axes.set_xticks(range(len(layers)), layers)
    axes.set(ylabel="% of the measured multiply-add peak", ylim=(0, 108))
    axes.margins(x=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    threads = "1 thread" if data["threads"] == 1 else f"{data['threads']} threads"
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    axes.set_title(
        f"float32 on {data['machine']}, {threads}, peak {peak:.0f} GFLOP/s ({versions})",
        fontsize=9, loc="left",
    )  # fmt: skip
    figure.legend(loc="outside lower center", ncols=len(names), frameon=False, fontsize=8,
                  title="geometric mean of the twelve layers", title_fontsize=8)  # fmt: skip
    figure.savefig(PICTURE, metadata={"Date": None})


def main():
    """Read the command line, measure unless told otherwise, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each layer and contestant")
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    arguments = parser.parse_args()
    if not arguments.draw:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(arguments.threads)
        data = measure(arguments.threads, arguments.seconds)
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    draw(json.loads(DATA.read_text()))


if __name__ == "__main__":
    main()
