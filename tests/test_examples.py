"""The examples that are programs, run as a reader would run them, on little data."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def run(name, *arguments):
    command = [sys.executable, "-P", str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_dask_large_image(tmp_path):
    for needed in ("dask.array", "distributed", "zarr"):
        pytest.importorskip(needed)
    text = run("dask_large_image.py", "--size", 500, "--chunk", 150, "--compare", "--rounds", 1,
               "--folder", tmp_path)  # fmt: skip
    assert len(re.findall(r"28 windows of 100 x 100 are equal to one call's", text)) == 2
    assert re.search(r"2 workers are [\d.]+ times as fast as one", text)
    assert re.search(r"peak memory \d+, \d+ MiB of 1GiB, none restarted", text)
    assert not list(tmp_path.iterdir())


def test_torch_network():
    pytest.importorskip("torch")
    text = run("torch_network.py", "--network", "mobilenet", "--size", 32, "--seconds", 0)
    errors = [float(found) for found in re.findall(r"largest difference (\S+)", text)]
    assert len(errors) == 2
    assert max(errors) < 1e-4
