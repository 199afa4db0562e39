"""Importing: the unbuilt tree, and installed packages that announce themselves."""

import pathlib
import shutil
import subprocess
import sys

import pytest

import simdconv


def python(code, *paths, cwd=None):
    """Run code in a fresh interpreter that sees these paths first."""
    lines = f"import sys; sys.path[:0] = {[str(path) for path in paths]!r}\n{code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", lines], capture_output=True, text=True, cwd=cwd
    )


def test_unbuilt_tree_says_what_to_do(tmp_path):
    source = pathlib.Path(simdconv.__file__).parent
    unbuilt = tmp_path / "simdconv"
    shutil.copytree(source, unbuilt, ignore=shutil.ignore_patterns("_core*", "__pycache__", "*.so"))
    done = python("import simdconv", tmp_path)
    assert done.returncode == 1
    assert done.stderr.rstrip().splitlines()[-1].startswith("ImportError: ")
    assert "pip install ." in done.stderr


def plugin(folder, entry_points, **modules):
    """An installed package, as pip would leave it."""
    info = folder / "plugin_example-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


GOOD = """
import simdconv.backends
print("loaded")
class Mine:
    name, api_version = "mine", 1
    declines = lambda self, spec: None
    plan = lambda self, spec: simdconv.backends.get("numpy").plan(spec)
    transform = lambda self, spec, x, out: None
    def conv2d(self, spec, x, w, bias, out):
        out[...] = 5
def load():
    return Mine()
"""


@pytest.mark.parametrize("value", ["mine_backend:load", "mine_backend:Mine"])
def test_backend_from_another_package(tmp_path, value):
    plugin(tmp_path, f"[simdconv.backends]\nmine = {value}\n", mine_backend=GOOD)
    done = python(
        "import numpy as np, simdconv\n"
        "x = w = np.ones((1, 1, 1, 1))\n"
        "print(simdconv.conv2d(x, w).item())\n"
        "print(simdconv.conv2d(x, w, backend='mine').item())\n"
        "with simdconv.use_backend('mine'): print(simdconv.conv2d(x, w).item())\n"
        "print([i.name for i in simdconv.list_backends() if i.available][-1])",
        tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["1.0", "loaded", "5.0", "5.0", "mine"]


def test_broken_plug_ins_harm_nobody(tmp_path):
    plugin(
        tmp_path,
        "[simdconv.backends]\nbroken = broken_backend:load\nnumpy = broken_backend:load\n"
        "[simdconv.array_types]\nodd = broken_backend:adapter\n",
        broken_backend="raise RuntimeError('out of order')",
    )
    done = python(
        "import numpy as np, simdconv\n"
        "x = np.ones((1, 1, 1, 1))\n"
        "print(simdconv.conv2d(x, x, backend='numpy').item())\n"
        "print([i.reason for i in simdconv.list_backends() if i.name == 'broken'][0])\n"
        "class Odd: __module__ = 'odd.arrays'\n"
        "try: simdconv.conv2d(Odd(), x)\n"
        "except ImportError as error: print(error)",
        tmp_path,
    )
    assert done.stderr == ""
    first, second, third = done.stdout.splitlines()
    assert first == "1.0"
    assert "broken" in second
    assert "out of order" in second
    assert "adapter for odd" in third


def test_environment_variable(tmp_path):
    code = "import simdconv; print(simdconv.get_backend())"
    for value, expected in (("numpy", "numpy"), ("blas,numpy", "blas")):
        done = python(f"import os; os.environ['SIMDCONV_BACKEND'] = {value!r}\n{code}")
        assert done.stdout.strip() == expected
