"""The demo, on small pictures of every kind that an image file can hold."""

import warnings

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("rich")

from simdconv import _demo, cli  # noqa: E402
from simdconv import _demo_pictures as pictures  # noqa: E402
from simdconv._demo_filters import bank, gabor, gaussian, stem  # noqa: E402

NAMES = ["blur", "sharpen", "sobel", "gabor", "stem", "contact-sheet"]


def noise(*shape, high=256, dtype=np.uint8):
    return np.random.default_rng(0).integers(0, high, shape).astype(dtype)


def demo(path, out, size=20):
    return cli.main(["demo", str(path), "--out", str(out), "--size", str(size)])


def test_demo_runs_every_kernel_and_writes_every_picture(tmp_path, capsys):
    Image.fromarray(noise(30, 40, 3)).save(tmp_path / "in.png")
    assert demo(tmp_path / "in.png", tmp_path / "a" / "b") == 0
    shown = capsys.readouterr().out
    for row in _demo._rows():
        runs = row.algorithm != "direct" or row.backend != "blas"  # blas: 1x1 filters only
        assert (f"{row.algorithm}-{row.layout.lower()}-" in shown) or not runs
    assert "20 x 15 pixels, shrunk from 40 x 30" in shown
    for name in NAMES:
        with Image.open(tmp_path / "a" / "b" / f"{name}.png") as image:
            assert image.size[0] >= 1
            assert image.format == "PNG"


def test_demo_photograph_ships_with_scikit_image():
    pytest.importorskip("skimage")
    pixels, name = pictures.photograph()
    assert (pixels.shape, pixels.dtype, name) == ((512, 512, 3), np.uint8, "astronaut")


def test_a_wrong_kernel_is_named(tmp_path, capsys, monkeypatch):
    right = _demo.simdconv.conv2d

    def wrong(*args, **keywords):
        result = right(*args, **keywords)
        if keywords.get("backend") == "blas" and keywords.get("layout") == "NHWC":
            result[0, 0, 0, 0] += 1e-3
        return result

    monkeypatch.setattr(_demo.simdconv, "conv2d", wrong)
    Image.fromarray(noise(8, 9, 3)).save(tmp_path / "in.png")
    assert demo(tmp_path / "in.png", tmp_path / "out") == 1
    assert "im2col-nhwc-blas-f32 disagrees with the reference on blur" in capsys.readouterr().out


def test_nan_is_a_fault():
    reference = _demo._Reference(bank(noise(6, 7, 3))[0])
    result = reference.expected.astype(np.float32)
    assert reference.fault(result) is None
    result[0, 1, 2, 3] = np.nan
    assert "(0, 1, 2, 3)" in reference.fault(result)


MODES = {
    "grey": lambda: Image.fromarray(noise(9, 7)),
    "one-bit": lambda: Image.fromarray(noise(9, 7)).convert("1"),
    "grey-alpha": lambda: Image.fromarray(noise(9, 7, 4)).convert("LA"),
    "rgba": lambda: Image.fromarray(noise(9, 7, 4)),
    "palette": lambda: Image.fromarray(noise(9, 7, 3)).convert("P"),
    "sixteen-bits": lambda: Image.fromarray(noise(9, 7, high=65536, dtype=np.uint16)),
    "one-pixel": lambda: Image.fromarray(noise(1, 1, 3)),
    "one-row": lambda: Image.fromarray(noise(1, 300, 3)),
    "one-column": lambda: Image.fromarray(noise(300, 1, 3)),
    "black": lambda: Image.new("RGB", (8, 8)),
}


@pytest.mark.parametrize("kind", MODES)
def test_demo_takes_every_png(tmp_path, kind):
    MODES[kind]().save(tmp_path / "in.png")
    assert demo(tmp_path / "in.png", tmp_path / "out", 12) == 0


@pytest.mark.parametrize(
    ("name", "image", "options"),
    [
        ("cmyk.jpg", lambda: Image.fromarray(noise(9, 7, 3)).convert("CMYK"), {}),
        ("ycbcr.jpg", lambda: Image.fromarray(noise(9, 7, 3)), {}),
        ("float.tif", lambda: Image.fromarray(noise(9, 7).astype(np.float32) / 3 - 20), {}),
        ("int32.tif", lambda: Image.fromarray(noise(9, 7, high=10**6, dtype=np.int32)), {}),
        ("moving.gif", lambda: Image.fromarray(noise(9, 7)), {"save_all": True}),
        ("lossless.webp", lambda: Image.fromarray(noise(9, 7, 4)), {"lossless": True}),
    ],
)  # fmt: skip
def test_read_takes_every_mode(tmp_path, name, image, options):
    image().save(tmp_path / name, **options)
    pixels = pictures.read(tmp_path / name)
    assert (pixels.shape, pixels.dtype) == ((9, 7, 3), np.uint8)
    assert pixels.min() < 60
    assert pixels.max() > 190


def test_read_turns_blends_and_scales(tmp_path):
    pixels = noise(4, 6, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it a quarter turn clockwise
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(pictures.read(tmp_path / "turned.png"), np.rot90(pixels, -1))

    clear = np.dstack([pixels, np.zeros((4, 6), np.uint8)])
    Image.fromarray(clear).save(tmp_path / "clear.png")
    assert np.all(pictures.read(tmp_path / "clear.png") == 255)

    deep = np.array([[0, 257, 32896, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert pictures.read(tmp_path / "deep.png")[0, :, 0].tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_no_picture_is_one_line(tmp_path, capsys, content):
    (tmp_path / "in.png").write_bytes(content)
    assert demo(tmp_path / "in.png", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "in.png" in error
    assert not (tmp_path / "out").exists()


def test_broken_picture_and_bad_places_are_one_line(tmp_path, capsys):
    Image.fromarray(noise(64, 64, 3)).save(tmp_path / "whole.png")
    whole = (tmp_path / "whole.png").read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    for path, out in [
        (tmp_path / "half.png", tmp_path / "out"),
        (tmp_path / "missing.png", tmp_path / "out"),
        (tmp_path, tmp_path / "out"),
        (tmp_path / "whole.png", tmp_path / "half.png"),
        (tmp_path / "whole.png", tmp_path / "half.png" / "out"),
    ]:
        assert demo(path, out) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["demo", "--size", "0"]) == 2


def test_read_warns_of_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    Image.fromarray(noise(9, 7)).save(tmp_path / "in.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pictures.read(tmp_path / "in.png").shape == (9, 7, 3)


def test_filters():
    assert gaussian(5, 1.0).sum() == pytest.approx(1)
    for i in range(8):
        wave = gabor(9, np.pi * i / 8, 5.0, 0.3)
        assert wave.sum() == pytest.approx(0, abs=1e-12)
        assert (wave**2).sum() == pytest.approx(1)
    assert stem().shape == (64, 3, 7, 7)
