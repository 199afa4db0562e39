"""Time correlate2d and convolve2d beside SciPy's on one image.

    python docs/measure_signal.py [--threads 1] [--rounds 3]

Prints a table in Markdown. The two take turns, medians are compared, and each result is checked
against SciPy's before it counts. Figures hold for the machine and the moment: quote the ratio.
"""

import argparse
import statistics
import time

import numpy as np
import scipy
import scipy.signal

import simdconv


def seconds(function, *args):
    """How long one call takes."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def measure(name, dtype, image_size, kernel_size, mode, boundary, rounds):
    """Medians of ours and of SciPy's, after checking that the results agree."""
    rng = np.random.default_rng(0)
    image = rng.standard_normal((image_size, image_size)).astype(dtype)
    kernel = rng.standard_normal((kernel_size, kernel_size)).astype(dtype)
    ours, theirs = getattr(simdconv, name), getattr(scipy.signal, name)
    call = (image, kernel, mode, boundary)
    scale = kernel_size * np.finfo(dtype).eps * np.abs(kernel).sum() * np.abs(image).max()
    assert np.max(np.abs(ours(*call) - theirs(*call))) <= scale
    times = [(seconds(ours, *call), seconds(theirs, *call)) for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def main():
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--kernels", type=int, nargs="+", default=[3, 5, 7, 9, 11, 15])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--functions", nargs="+", default=["correlate2d", "convolve2d"])
    parser.add_argument("--mode", default="same")
    parser.add_argument("--boundaries", nargs="+", default=["fill", "symm"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="at most; all of the machine's if not given")
    given = parser.parse_args()
    simdconv.set_options(num_threads=given.threads)
    print(f"{given.size}x{given.size}, mode={given.mode!r}, SciPy {scipy.__version__}\n")
    print("| function | dtype | boundary | kernel | SciPy, ms | simdconv, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in given.functions:
        for dtype in given.dtypes:
            for boundary in given.boundaries:
                for k in given.kernels:
                    ours, theirs = measure(
                        name, dtype, given.size, k, given.mode, boundary, given.rounds
                    )
                    print(
                        f"| {name} | {dtype} | {boundary} | {k}x{k} | {theirs * 1e3:.1f} "
                        f"| {ours * 1e3:.2f} | {theirs / ours:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
