"""The maintainer's commands that spin does not have as this package needs them."""

import os
import subprocess
import sys
from pathlib import Path

import click
from spin.cmds import meson

ROOT = Path(__file__).resolve().parents[1]


def _run(*command, directory=ROOT, env=None):
    command = [str(part) for part in command]
    click.secho("$ " + " ".join(command), bold=True)
    status = subprocess.run(command, cwd=directory, env=env, check=False).returncode
    if status:
        raise SystemExit(status)


def _built(ctx):
    """Build and install into build-install/; returns the environment in which that is imported."""
    ctx.invoke(meson.build)
    site = next((ROOT / "build-install").rglob("site-packages"))
    return {**os.environ, "PYTHONPATH": str(site), "ASV_PYTHONPATH": str(site)}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1)
@click.pass_context
def test(ctx, arguments):
    """Build, and run pytest on what was built; ARGUMENTS go to pytest."""
    _run(sys.executable, "-P", "-m", "pytest", *arguments, env=_built(ctx))


@click.command()
@click.option("--bench", "-b", metavar="PATTERN", multiple=True, help="Run what matches only.")
@click.option("--compare", metavar="COMMIT", help="Compare HEAD with this commit, both built anew.")
@click.option("--quick/--full", default=False, help="Time each once, to see that it runs.")
@click.pass_context
def bench(ctx, bench, compare, quick):
    """Run the benchmarks of asv_bench/ on the working tree, or compare two commits."""
    options = [part for pattern in bench for part in ("--bench", pattern)]
    options += ["--quick"] if quick else []
    asv = [sys.executable, "-m", "asv"]
    _run(*asv, "machine", "--yes", directory=ROOT / "asv_bench")
    if compare:
        _run(*asv, "continuous", *options, compare, "HEAD", directory=ROOT / "asv_bench")
        return
    _run(*asv, "run", "--environment", f"existing:{sys.executable}", "--dry-run", "--show-stderr",
         *options, directory=ROOT / "asv_bench", env=_built(ctx))  # fmt: skip


@click.command()
@click.option(
    "--sanitize", is_flag=True, help="With the address and undefined-behaviour sanitizers."
)
@click.option("--neon", is_flag=True, help="For AArch64, in an emulator.")
@click.argument("arguments", nargs=-1)
def ctest(sanitize, neon, arguments):
    """Build the C library alone and run its tests; ARGUMENTS go to `meson test`."""
    directory, options = ROOT / "build" / "c", ["-Dpython=disabled", "-Dtests=enabled"]
    if sanitize:
        directory = directory.with_name("c-sanitized")
        options += ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1"]
    if neon:
        directory = directory.with_name("c-neon")
        options += ["--cross-file", "tests/c/aarch64.ini"]
    if not (directory / "build.ninja").exists():
        _run("meson", "setup", directory, *options)
    _run("meson", "compile", "-C", directory)
    _run("meson", "test", "-C", directory, "--print-errorlogs", *arguments)


@click.command()
def lint():
    """Check style and types, as continuous integration does."""
    _run("ruff", "check", ".")
    _run("ruff", "format", "--check", ".")
    _run("mypy")
    sources = [path for top in ("simdconv", "tests") for path in (ROOT / top).rglob("*.[ch]")]
    _run("clang-format", "--dry-run", "--Werror", *sources)
