"""Convolve an image that is larger than memory: zarr store in, zarr store out, by dask workers.

python examples/dask_large_image.py                            # 30,000 x 30,000, two workers
python examples/dask_large_image.py --size 16000 --compare     # and one worker, by turns

A bank of four 15x15 filters runs over a float32 image, block by block, each worker a process with
one thread and a memory limit. The image and the filters are whole numbers, so windows of the result
can be compared with == to what one call computes. Needs simdconv[dask], distributed and zarr.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

import dask.array as da
import distributed
import numpy as np
import zarr
from dask.diagnostics import ProgressBar

import simdconv

SIDE = 15  # of a filter


def filter_bank():
    """Return four filters of whole numbers so small that no sum over a window rounds."""
    return np.random.default_rng(7).integers(-3, 4, (4, 1, SIDE, SIDE)).astype(np.float32)


def make_store(path, shape, chunks):
    """Create an array on disk; random numbers are not worth compressing, or comparing with zero."""
    return zarr.create_array(
        str(path), shape=shape, chunks=chunks, dtype="float32", compressors=None, overwrite=True,
        config={"write_empty_chunks": True},
    )  # fmt: skip


def make_image(store):
    """Fill a store with whole numbers of 0 to 255."""
    noise = da.random.default_rng(0).integers(0, 256, store.shape, chunks=store.chunks)
    with ProgressBar():
        da.to_zarr(noise.astype("float32"), store)


def prepare():
    """Import what a task needs and allocate what it keeps: a worker's start is not throughput."""
    ones = np.ones((1, 256, 256), np.float32)
    array = zarr.create_array({}, data=simdconv.conv2d(ones, filter_bank(), num_threads=1))
    return os.getpid(), array[:].shape


def peak_memory():
    """Return the most memory that this process has had, in MiB; getrusage's is its parent's too."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def convolve(client, workers, image, result):
    """Convolve one store into another by these workers, None for all; return pixels a second."""
    x = da.from_zarr(image)  # (1, height, width): one image of one channel
    y = simdconv.conv2d(x, filter_bank(), padding="same")
    busy = sum(client.run(time.process_time, workers=workers).values())
    start = time.perf_counter()
    future = client.compute(da.to_zarr(y, result, compute=False), workers=workers)
    if sys.stdout.isatty():
        distributed.progress(future, notebook=False, interval="1s")
    future.result()
    seconds = time.perf_counter() - start
    busy = sum(client.run(time.process_time, workers=workers).values()) - busy
    pixels = image.shape[1] * image.shape[2]
    print(f"{len(workers or client.nthreads())} worker(s): {seconds:.2f} s, "
          f"{pixels / seconds / 1e6:.1f} Mpixel/s, "
          f"{2 * 4 * SIDE**2 * pixels / seconds / 1e9:.1f} GFLOP/s, "
          f"{busy:.1f} s of CPU time")  # fmt: skip
    return pixels / seconds


def compare(client, image, result, rounds):
    """Run all workers and one by turns, since other work on a machine comes and goes.

    A run before these has made the result's files: whoever comes first has the operating system
    find memory for them, which may take longer than the convolution.
    """
    one = list(client.nthreads())[:1]
    ratios = []
    for _ in range(rounds):
        fast, slow = (convolve(client, workers, image, result) for workers in (None, one))
        ratios.append(fast / slow)
        check(image, result)
    print(f"{len(client.nthreads())} workers are {statistics.median(ratios):.2f} times as fast as "
          f"one, the median of {', '.join(f'{ratio:.2f}' for ratio in ratios)}")  # fmt: skip


def check(image, result, windows=24, side=100):
    """Compare windows of the result, the corners among them, with one call on the padded image."""
    size, half = image.shape[1], SIDE // 2
    rng = np.random.default_rng(1)
    corners = [(0, 0), (0, size - side), (size - side, 0), (size - side, size - side)]
    for top, left in [*corners, *rng.integers(0, size - side + 1, (windows, 2)).tolist()]:
        rows = slice(max(top - half, 0), min(top + side + half, size))
        columns = slice(max(left - half, 0), min(left + side + half, size))
        pads = ((half - (top - rows.start), half - (rows.stop - top - side)),
                (half - (left - columns.start), half - (columns.stop - left - side)))  # fmt: skip
        expected = simdconv.conv2d(image[:, rows, columns], filter_bank(), padding=pads)
        actual = result[:, top : top + side, left : left + side]
        if not np.array_equal(actual, expected):
            raise SystemExit(f"the window at {top}, {left} is wrong")
    print(f"{windows + len(corners)} windows of {side} x {side} are equal to one call's")


def main():
    """Make an image, convolve it, and check the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=30_000, help="rows and columns (30000)")
    parser.add_argument("--chunk", type=int, default=2_000, help="rows and columns of one (2000)")
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each (2)")
    parser.add_argument("--memory", default="1GiB", help="limit of one worker (1GiB)")
    parser.add_argument("--folder", help="where to put the stores (a temporary folder)")
    parser.add_argument("--compare", action="store_true", help="run with one worker too")
    parser.add_argument("--rounds", type=int, default=3, help="of a comparison (3)")
    chosen = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(dir=chosen.folder))
    size, chunk = chosen.size, min(chosen.chunk, chosen.size)

    try:
        image = make_store(folder / "image.zarr", (1, size, size), (1, chunk, chunk))
        result = make_store(folder / "result.zarr", (4, size, size), (4, chunk, chunk))
        print(f"an image of {size} x {size}, {image.nbytes / 2**30:.2f} GiB")
        make_image(image)
        with (
            distributed.LocalCluster(
                n_workers=chosen.workers, threads_per_worker=1, processes=True,
                memory_limit=chosen.memory, dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            before = client.run(prepare)
            convolve(client, None, image, result)
            check(image, result)
            if chosen.compare:
                compare(client, image, result, chosen.rounds)
            peaks = ", ".join(f"{peak:.0f}" for peak in client.run(peak_memory).values())
            fate = "none" if client.run(prepare) == before else "some"
        print(f"peak memory {peaks} MiB of {chosen.memory}, {fate} restarted")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
