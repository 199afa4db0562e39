"""README says what is: its code runs, its table is that of kernels(), its links lead somewhere."""

import re
from pathlib import Path

import pytest

import simdconv

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]


def test_code_runs(capsys):
    lines = block("python").splitlines()
    assert len([line for line in lines[1:] if line]) <= 10
    names = {}
    exec(block("python"), names)
    assert names["y"].shape == (1, 64, 112, 112)
    assert "kernel" in capsys.readouterr().out


def test_exactly_two_commands():
    assert len(block("sh").splitlines()) == 2


def test_table_of_kernels():
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in README.splitlines() if "|" in line]
    header = next(row for row in rows if row[0] == "algorithm")
    table = {row[0]: dict(zip(header[1:5], row[1:5], strict=True)) for row in rows if len(row) == 6}
    found = {}
    for kernel in simdconv.kernels():
        partial = (kernel.backend, kernel.algorithm) == ("blas", "direct")  # 1x1 only: in the text
        if kernel.dtype == "f32" and not partial:
            found.setdefault((kernel.algorithm, kernel.layout), {})[kernel.backend] = None
    for (algorithm, layout), backends in found.items():
        assert table[algorithm][layout].split() == list(backends)
    assert len(found) == 4 * len([name for name in table if name in {key[0] for key in found}])


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/decisions/README.md"])
def test_links(name):
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text()):
        if "://" not in target:
            assert ((ROOT / name).parent / target).exists(), target
