"""Backends from other packages: the example, built and installed, and plug-ins that are broken."""

import dataclasses
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import simdconv
from simdconv import backends, testing
from simdconv._backend_check import check_contract
from simdconv.backends.numpy import NumpyBackend

TESTS = pathlib.Path(__file__).parent
EXAMPLE = TESTS.parent / "examples" / "plugin"
SUITE = ("semantics", "reference", "operands", "im2win_formula", "options")


def run(*arguments, path=None, **environment):
    """Run a command in a fresh interpreter, with a folder of installed packages before the rest."""
    variables = {**os.environ, **environment}
    if path is not None:
        variables["PYTHONPATH"] = str(path)
    return subprocess.run([sys.executable, "-P", *arguments], env=variables, cwd=TESTS.parent,
                          capture_output=True, text=True)  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example as pip installs it, in a folder of its own."""
    for needed in ("pip", "flit_core"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"building the example needs {needed}")
    folder = tmp_path_factory.mktemp("plugin")
    source, target = folder / "source", folder / "installed"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    pip = ("-m", "pip", "--disable-pip-version-check", "-q")
    offline = ("--no-deps", "--no-index")
    done = run(*pip, "wheel", *offline, "--no-build-isolation", "-w", str(folder), str(source))
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("simdconv_einsum-*.whl")
    done = run(*pip, "install", *offline, "--target", str(target), str(wheel))
    assert done.returncode == 0, done.stderr
    return target


def test_example_is_found_and_not_used_before_it_is_asked_for(installed):
    code = (
        "import sys, numpy as np, simdconv\n"
        "x = np.ones((1, 1, 3, 3), np.float32)\n"
        "print(simdconv.explain(x, x).backend, 'simdconv_einsum' in sys.modules)\n"
        "print(dict(simdconv.explain(x, x).others)['einsum'])\n"
        "print(simdconv.explain(x, x, backend='einsum').kernel)\n"
        "with simdconv.use_backend('einsum'): print(simdconv.explain(x, x).backend)\n"
        "simdconv.set_backend('einsum'); print(simdconv.explain(x, x).backend)\n"
        "print([info for info in simdconv.list_backends() if info.name == 'einsum'][0].available)"
    )
    done = run("-c", code, path=installed)
    assert done.stderr == ""
    first, other, kernel, *rest = done.stdout.splitlines()
    assert first == f"{simdconv.get_backend()} False"
    assert other.startswith("not asked for")
    assert kernel == "direct-nchw-einsum-f32"
    assert rest == ["einsum", "einsum", "True"]
    done = run("-c", "import simdconv; print(simdconv.get_backend())", path=installed,
               SIMDCONV_BACKEND="einsum")  # fmt: skip
    assert done.stdout.strip() == "einsum"


def test_example_passes_the_backend_check(installed):
    code = "import simdconv.testing as t; print(*t.check_backend('einsum', dtypes=('f4',)))"
    done = run("-c", code, path=installed)
    assert done.returncode == 0, done.stderr
    ran, declined = map(int, done.stdout.split())
    assert ran > 1500
    assert declined > 0


def test_example_passes_the_conv2d_suite(installed):
    files = [str(TESTS / f"test_{name}.py") for name in SUITE]
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "einsum", *files,
               path=installed)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    passed = [word for word in done.stdout.splitlines()[-1].split(", ") if "passed" in word]
    assert int(passed[0].split()[0]) > 200


def test_example_is_as_short_as_the_documentation_says():
    lines = (EXAMPLE / "simdconv_einsum.py").read_text().splitlines()
    assert len(lines) <= 65
    page = (TESTS.parent / "docs" / "backends.md").read_text()
    assert "\n".join(lines[11:]) in page, "docs/backends.md shows another version of the example"


BROKEN = {
    "raises": "raise RuntimeError('out of order')",
    "missing": "import no_such_library_at_all",
    "exits": "import sys; sys.exit(3)",
    "nothing": "",
    "old": "class load:\n    api_version = 99\n    declines = plan = conv2d = transform = print",
    "half": "class load:\n    api_version = 1\n    declines = print",
    "silent": "def load(): return None",
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A folder with a package of broken plug-ins, as pip would leave it."""
    folder = tmp_path_factory.mktemp("broken")
    info = folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    for name, text in BROKEN.items():
        (folder / f"broken_{name}.py").write_text(text)
    points = "".join(f"{name} = broken_{name}:load\n" for name in BROKEN)
    arrays = "broken_raises = broken_raises:adapter\n"
    (info / "entry_points.txt").write_text(
        f"[simdconv.backends]\n{points}[simdconv.array_types]\n{arrays}"
    )
    return folder


def test_broken_plug_ins_harm_nobody(broken):
    code = (
        "import sys, numpy as np, simdconv\n"
        "x = np.ones((1, 1, 3, 3), np.float32)\n"
        "print(simdconv.conv2d(x, x).item(), simdconv.conv2d(x, x, backend='numpy').item())\n"
        "print(any(name.startswith('broken') for name in sys.modules))\n"
        "simdconv.explain(x, x)\n"
        "for info in simdconv.list_backends(): print(info.name, info.available, info.reason)"
    )
    done = run("-c", code, path=broken)
    assert done.stderr == ""
    results, imported, *listed = done.stdout.splitlines()
    assert results == "9.0 9.0"
    assert imported == "False"
    reasons = dict(line.split(" ", 1) for line in listed)
    assert reasons["numpy"] == "True None"
    for name, words in (
        ("raises", "RuntimeError: out of order"), ("exits", "SystemExit: 3"),
        ("missing", "no_such_library_at_all"),
        ("nothing", "load"), ("old", "api_version 99"), ("half", "lacks plan"),
        ("silent", "api_version None"),
    ):  # fmt: skip
        assert reasons[name].startswith("False")
        assert name in reasons[name]
        assert words in reasons[name]


@pytest.mark.parametrize("name", [*BROKEN, "unknown"])
@pytest.mark.parametrize("how", ["keyword", "use", "set", "environment"])
def test_asking_for_a_broken_backend_is_one_clear_error(broken, name, how):
    call = "simdconv.conv2d(x, x)"
    code = {
        "keyword": f"simdconv.conv2d(x, x, backend={name!r})",
        "use": f"with simdconv.use_backend({name!r}): {call}",
        "set": f"simdconv.set_backend({name!r}); {call}",
        "environment": call,
    }[how]
    setting = {"SIMDCONV_BACKEND": name} if how == "environment" else {}
    head = "import numpy as np, simdconv\nx = np.ones((1, 1, 3, 3), np.float32)\n"
    done = run("-c", head + code, path=broken, **setting)
    last = done.stderr.rstrip().splitlines()[-1]
    expected = "BackendNotFoundError" if name == "unknown" else "BackendLoadError"
    if name in ("raises", "missing", "exits", "nothing"):
        expected = "BrokenBackendError"
    assert last.split(":")[0].endswith(expected), done.stderr
    assert repr(name) in last
    if name == "unknown":
        assert "expected one of simd, blas, numpy" in last


def test_a_broken_array_adapter_is_one_clear_error(broken):
    code = (
        "import numpy as np, simdconv\n"
        "class Odd: __module__ = 'broken_raises.arrays'\n"
        "simdconv.conv2d(Odd(), np.ones((1, 1, 3, 3)))"
    )
    done = run("-c", code, path=broken)
    last = done.stderr.rstrip().splitlines()[-1]
    assert last == ("ImportError: the adapter for broken_raises arrays, broken_raises:adapter, "
                    "cannot be loaded: out of order")  # fmt: skip


@pytest.fixture
def register():
    before = dict(backends._entries)

    def add(kind):
        simdconv.register_backend("mine", kind)
        return "mine"

    yield add
    backends._entries.clear()
    backends._entries.update(before)
    backends.generation += 1


class Good(NumpyBackend):
    """The reference under another name."""

    name = "mine"

    def plan(self, spec):
        plan = super().plan(spec)
        return type(plan)("mine", plan.algorithm, plan.layout, plan.kernel, plan.workspace_bytes)


class Misnamed(Good):
    name = "yours"


class Wordless(Good):
    def declines(self, spec):
        return ""


class Unlimited(Good):
    def plan(self, spec):
        return super().plan(dataclasses.replace(spec, max_workspace=None))


class Scribbling(Good):
    def conv2d(self, spec, x, w, bias, out):
        super().conv2d(spec, x, w, bias, out)
        base = out.base
        if base is not None and base.shape != out.shape:
            base[...] = np.where(np.isnan(base), 0, base)


class Batched(Good):
    """Rounds in a way that depends on the batch."""

    def conv2d(self, spec, x, w, bias, out):
        super().conv2d(spec, x, w, bias, out)
        if spec.n > 1:
            out[...] = np.where(2 * out == np.trunc(2 * out), out, out * np.float32(1 + 2.0**-22))


class Forgetful(Good):
    def conv2d(self, spec, x, w, bias, out):
        super().conv2d(spec, x, w, None, out)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Misnamed, "calls itself 'yours'"),
        (Wordless, "returned ''"),
        (Unlimited, "max_workspace"),
        (Scribbling, "beside a strided out"),
        (Batched, "bits"),
        (Forgetful, "mine is wrong with"),
    ],
)
def test_the_check_finds_what_is_wrong(register, kind, words):
    check_contract(register(Good))
    name = register(kind)
    with pytest.raises(AssertionError, match=words):
        check_contract(name)


def test_the_check_runs_the_catalogue_too(register):
    ran, declined = testing.check_backend(register(Good), sets=("tiny",))
    assert ran > 0
    assert declined > 0
    with pytest.raises(AssertionError, match=r"\d+ of \d+ differ"):
        testing.check_backend(register(Forgetful), sets=("tiny",))
    with pytest.raises(AssertionError, match="bits in a batch"):
        testing.check_backend(register(Batched), sets=("tiny",))
    with pytest.raises(simdconv.BackendNotFoundError, match="nonesuch"):
        testing.check_backend("nonesuch")
