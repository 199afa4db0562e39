"""The command line: what it prints, what it writes, and how it fails."""

import os
import subprocess
import sys

import numpy as np
import pytest

import simdconv
from simdconv import cli


def fails(capsys, *argv):
    """Run a command that must fail with one line and exit status 2; returns the line."""
    assert cli.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("simdconv: ")
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("\n")
    return captured.err


def explained(capsys, *options):
    assert cli.main(["explain", *options]) == 0
    return capsys.readouterr().out


def test_version_and_help(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"simdconv {simdconv.__version__}\n"
    for command in ([], ["demo"], ["info"], ["explain"]):
        assert cli.main([*command, "--help"]) == 0
        assert "usage: simdconv" in capsys.readouterr().out


def test_info(capsys):
    assert cli.main(["info"]) == 0
    shown = capsys.readouterr().out
    for word in ("simdconv", "compiler", "isas_built", "isas_found", "backends", "threads"):
        assert word in shown


@pytest.mark.parametrize("backend", ["simd", "blas", "numpy"])
def test_explain_is_explain(capsys, backend):
    shown = explained(
        capsys, "--x", "2,16,20,30", "--w", "8,16,3,3", "--stride", "2,1", "--padding", "0,1,2,3",
        "--backend", backend, "--dtype", "float64", "--bias", "--activation", "clip,0,6",
    )  # fmt: skip
    x, w = np.empty((2, 16, 20, 30)), np.empty((8, 16, 3, 3))
    plan = simdconv.explain(
        x, w, np.empty(8), stride=(2, 1), padding=((0, 1), (2, 3)), backend=backend,
        activation=("clip", 0.0, 6.0),
    )  # fmt: skip
    assert shown == f"{plan}\n"


def test_explain_takes_conv2d_arguments(capsys):
    shown = explained(
        capsys, "--x", "9,9,8,2", "--w", "3,3,4,8", "--layout", "NHWC", "--weight-layout", "HWIO",
        "--groups", "1", "--x", "1,9,9,4", "--padding", "same", "--padding-mode", "edge",
        "--dilation", "2", "--algorithm", "direct", "--num-threads", "1",
    )  # fmt: skip
    assert "direct-nhwc-" in shown
    assert "(1, 9, 9, 8)" in shown


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("", "--x"),
        ("--x 1,2 --w 1,1,1,1", "x"),
        ("--x a,b --w 1,1,1,1", "--x"),
        ("--x 1,2,8,8 --w 4,3,3,3", "3"),
        ("--x 1,1,2,2 --w 1,1,3,3", "3"),
        ("--x 1,1,8,8 --w 1,1,3,3 --stride 0", "stride"),
        ("--x 1,1,8,8 --w 1,1,3,3 --stride 1,2,3", "stride"),
        ("--x 1,1,8,8 --w 1,1,3,3 --stride 1.5", "--stride"),
        ("--x 1,1,8,8 --w 1,1,3,3 --padding sam", "--padding"),
        ("--x 1,1,8,8 --w 1,1,3,3 --padding 1,2,3", "--padding"),
        ("--x 1,1,8,8 --w 1,1,3,3 --groups 2", "groups"),
        ("--x 1,1,8,8 --w 1,1,3,3 --dtype float33", "float33"),
        ("--x 1,1,8,8 --w 1,1,3,3 --dtype O", "object"),
        ("--x 1,1,8,8 --w 1,1,3,3 --layout NWHC", "NWHC"),
        ("--x 1,1,8,8 --w 1,1,3,3 --weight-layout IOHW --bias", ""),
        ("--x 1,1,8,8 --w 1,1,3,3 --algorithm dirct", "dirct"),
        ("--x 1,1,8,8 --w 1,1,3,3 --algorithm im2win --backend numpy", "im2win"),
        ("--x 1,1,8,8 --w 1,1,3,3 --backend cuda", "cuda"),
        ("--x 1,1,8,8 --w 1,1,3,3 --activation tanh", "tanh"),
        ("--x 1,1,8,8 --w 1,1,3,3 --activation clip,a", "--activation"),
        ("--x 1,1,8,8 --w 1,1,3,3 --num-threads 0", "num_threads"),
        ("--x 1,1,8,8 --w 1,1,3,3 --max-workspace -1", "max_workspace"),
        ("--x 1,-1,8,8 --w 1,1,3,3", ""),
        ("--x 99999999,99999999,99999999,99999999 --w 1,1,3,3", ""),
        ("--x 1,1,8,8 --w 1,1,3,3 --colour", "--colour"),
    ],
)
def test_explain_errors_are_one_line(capsys, options, named):
    assert named in fails(capsys, "explain", *options.split())


def test_no_command_is_one_line(capsys):
    assert "--help" in fails(capsys)
    assert "demmo" in fails(capsys, "demmo")


def test_unknown_isa_is_one_line():
    result = subprocess.run(
        [sys.executable, "-P", "-m", "simdconv", "explain", "--x", "1,1,8,8", "--w", "1,1,3,3"],
        env={**os.environ, "SIMDCONV_ISA": "mmx"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "SIMDCONV_ISA" in result.stderr
    assert result.stderr.count("\n") == 1


def test_demo_without_its_extra_is_one_line(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "simdconv._demo", raising=False)
    monkeypatch.delattr(simdconv, "_demo", raising=False)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert "pip install simdconv[demo]" in fails(capsys, "demo")
