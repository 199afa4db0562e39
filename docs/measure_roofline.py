"""Measure the roofline of the paper's twelve layers on this machine.

    python docs/measure_roofline.py [--layout NHWC] [--threads 1] [--dtype float32] [--draw FILE]

Prints a table in Markdown: operations a byte that has to move, what the peaks allow, what `auto`
attains (median call, with transform, packing and allocation). Peaks are measured first and last: if
they differ, the machine was not quiet. `--draw` needs matplotlib.
"""

import argparse

from simdconv import roofline
from simdconv.testing import PROBLEMS


def main():
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="paper", choices=sorted(PROBLEMS))
    parser.add_argument("--layout", default="NHWC")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--seconds", type=float, default=0.5, help="time per layer")
    parser.add_argument("--draw", help="write the chart to this file")
    given = parser.parse_args()
    peaks = roofline.measure_peaks(given.dtype, threads=given.threads)
    print(f"{peaks.isa}, {peaks.dtype}, {peaks.threads} thread(s): {peaks.gflops:.1f} GFLOP/s, "
          f"{peaks.bandwidth:.1f} GB/s, ridge {peaks.ridge:.1f} operations a byte\n")  # fmt: skip
    print("| layer | operations a byte | attainable, GFLOP/s | attained | of attainable, % |")
    print("|---|---|---|---|---|")
    points = []
    for problem in PROBLEMS[given.set]:
        rate = roofline.measure_rate(
            problem, given.dtype, threads=given.threads, seconds=given.seconds, layout=given.layout
        )
        limit = roofline.attainable(problem, peaks)
        intensity = roofline.arithmetic_intensity(problem, given.dtype)
        print(f"| {problem.name} | {intensity:.1f} | {limit:.1f} | {rate:.1f} | "
              f"{100 * rate / limit:.1f} |", flush=True)  # fmt: skip
        points.append(roofline.Point(problem.name, problem, rate))
    last = roofline.measure_peaks(given.dtype, threads=given.threads)
    print(f"\nPeaks afterwards: {last.gflops:.1f} GFLOP/s, {last.bandwidth:.1f} GB/s")
    if given.draw:
        roofline.chart(points, peaks).get_figure().savefig(given.draw)


if __name__ == "__main__":
    main()
