"""Convolve an image that is larger than memory: zarr store in, zarr store out, by dask workers.

python examples/dask_large_image.py                            # 30,000 x 30,000, two workers
python examples/dask_large_image.py --size 8000 --compare      # and the same again with one worker

A bank of four 15x15 filters runs over a float32 image, block by block, each worker a process with
one thread and a memory limit. The image and the filters are whole numbers, so windows of the result
can be compared with == to what one call computes. Needs simdconv[dask], distributed and zarr.
"""

import argparse
import os
import pathlib
import shutil
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
    """Create an array on disk, not compressed: the numbers are random."""
    return zarr.create_array(
        str(path), shape=shape, chunks=chunks, dtype="float32", compressors=None, overwrite=True
    )


def make_image(store):
    """Fill a store with whole numbers of 0 to 255."""
    noise = da.random.default_rng(0).integers(0, 256, store.shape, chunks=store.chunks)
    with ProgressBar():
        da.to_zarr(noise.astype("float32"), store)


def peak_memory():
    """Return the most memory that this process has had, in MiB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def convolve(workers, memory, image, result):
    """Convolve one store into another; return the seconds it took."""
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=memory,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        x = da.from_zarr(image)  # (1, height, width): one image of one channel
        y = simdconv.conv2d(x, filter_bank(), padding="same")
        before = client.run(os.getpid)
        print(f"{y.numblocks[1] * y.numblocks[2]} blocks of {y.chunksize}")
        start = time.perf_counter()
        future = client.compute(da.to_zarr(y, result, compute=False))
        distributed.progress(future, notebook=False)
        future.result()
        seconds = time.perf_counter() - start
        peaks = ", ".join(f"{peak:.0f}" for peak in client.run(peak_memory).values())
        fate = "none" if client.run(os.getpid) == before else "some"
    pixels = image.shape[1] * image.shape[2]
    print(f"\n{workers} worker(s): {seconds:.1f} s, {pixels / seconds / 1e6:.1f} Mpixel/s, "
          f"{2 * 4 * SIDE**2 * pixels / seconds / 1e9:.1f} GFLOP/s; "
          f"peak memory {peaks} MiB of {memory}, {fate} restarted")  # fmt: skip
    return seconds


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
    chosen = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(dir=chosen.folder))
    size, chunk = chosen.size, min(chosen.chunk, chosen.size)
    try:
        image = make_store(folder / "image.zarr", (1, size, size), (1, chunk, chunk))
        result = make_store(folder / "result.zarr", (4, size, size), (4, chunk, chunk))
        print(f"an image of {size} x {size}, {image.nbytes / 2**30:.2f} GiB")
        make_image(image)
        seconds = convolve(chosen.workers, chosen.memory, image, result)
        check(image, result)
        if chosen.compare:
            alone = convolve(1, chosen.memory, image, result)
            check(image, result)
            print(f"{chosen.workers} workers are {alone / seconds:.2f} times as fast as one")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
