"""The recipes of docs/arrays.md for xarray: apply_ufunc, eagerly and with dask."""

import pathlib
import re

import numpy as np
import pytest

import simdconv

xr = pytest.importorskip("xarray")

RNG = np.random.default_rng(3)
IMAGE = RNG.integers(0, 9, (2, 3, 20, 24)).astype(np.float32)
BANK = RNG.integers(-3, 4, (5, 3, 3, 3)).astype(np.float32)
KERNEL = BANK[0, 0]


def data(chunks=None):
    """Images with names, coordinates and attributes."""
    array = xr.DataArray(
        IMAGE,
        dims=("time", "band", "y", "x"),
        coords={"time": [10, 20], "y": np.arange(20) / 2, "x": np.arange(24) / 2},
        attrs={"units": "counts"},
    )
    return array if chunks is None else array.chunk(chunks)


@pytest.fixture
def recipes():
    """The functions that the page defines, as it prints them."""
    page = (pathlib.Path(__file__).parents[1] / "docs" / "arrays.md").read_text()
    (text,) = re.findall(r"```python\n(import xarray.*?)```", page, re.DOTALL)
    names = {}
    exec(text, names)
    return names


@pytest.mark.parametrize("chunks", [None, {"time": 1, "y": 7, "x": 10}])
def test_smooth_keeps_names_coordinates_and_attributes(recipes, chunks):
    if chunks:
        pytest.importorskip("dask.array")
    image = data(chunks)
    y = recipes["smooth"](image, KERNEL)
    assert y.dims == image.dims
    assert y.attrs == image.attrs
    assert y.coords.equals(image.coords)
    expected = simdconv.correlate2d(IMAGE, KERNEL, "same", "symm")
    if chunks:
        assert y.chunks == image.chunks
    assert np.array_equal(y.compute(), expected)
    turned = recipes["smooth"](image.transpose("y", "time", "x", "band"), KERNEL)
    assert np.array_equal(turned.transpose(*image.dims).compute(), expected)


@pytest.mark.parametrize("chunks", [None, {"time": 1, "band": 2, "y": 7, "x": 10}])
def test_bank_of_filters(recipes, chunks):
    if chunks:
        pytest.importorskip("dask.array")
    y = recipes["filter_bank"](data(chunks), BANK, stride=2, padding=1)
    assert y.dims == ("time", "filter", "y", "x")
    assert (y.chunks is None) == (chunks is None)
    assert np.array_equal(y.compute(), simdconv.conv2d(IMAGE, BANK, stride=2, padding=1))


def test_data_arrays_given_directly_give_ndarrays():
    y = simdconv.conv2d(data(), BANK)
    assert type(y) is np.ndarray
    assert np.array_equal(y, simdconv.conv2d(IMAGE, BANK))
