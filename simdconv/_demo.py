"""`simdconv demo`: a photograph through every backend, algorithm and layout.

    read the picture -> the bank of filters -> the reference, once, in float64
      -> each kernel: check against the bound, then time -> table, pictures, contact sheet

Imported by the command only: it needs the demo extra.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import simdconv
from simdconv import _demo_pictures as pictures
from simdconv._demo_filters import Filter, bank
from simdconv._spec import conv2d_spec

__all__ = ["run"]

_SECONDS = 0.05  # of timing for one kernel and filter, beyond the first three calls
_SLOW = 0.25  # a call that takes this long is not repeated
_MOST_WORKSPACE = 1 << 30  # bytes; a kernel that needs more is left out
_WIDTH = 104  # of the table where the output is no terminal


@dataclasses.dataclass
class _Row:
    """What one kernel did, summed over the filters that it ran."""

    backend: str
    algorithm: str
    layout: str
    kernel: str = ""
    seconds: float = 0.0
    flops: int = 0
    workspace: int = 0
    im2col: int = 0
    filters: int = 0
    left_out: str = ""

    @property
    def rate(self) -> float:
        """GFLOP/s, of the picture's own products: idle lanes of CHWN8 do not count."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0


class _Reference:
    """What a filter's result is, and how far from it a result may be.

    The bound is simdconv's own: (k+2) * u * S, with u the unit roundoff of float32 and
    S = |x| conv |w|. Bound and reference come from the reference backend, in float64.
    """

    def __init__(self, item: Filter) -> None:
        self.item = item
        self.spec = conv2d_spec(item.x, item.w, None, **item.keywords)
        x, w = item.x.astype(np.float64), item.w.astype(np.float64)
        self.expected = simdconv.conv2d(x, w, backend="numpy", **item.keywords)
        keywords = {**item.keywords, "activation": None}
        size = simdconv.conv2d(np.abs(x), np.abs(w), backend="numpy", **keywords)
        self.bound = (self.spec.k + 2) * float(np.finfo(np.float32).eps) / 2 * size

    @property
    def im2col_bytes(self) -> int:
        """Size of the im2col matrix of the picture."""
        spec = self.spec
        return 4 * spec.c_in * spec.h_f * spec.w_f * spec.h_out * spec.w_out

    def fault(self, result: np.ndarray) -> str | None:
        """What is wrong with an NCHW result, if anything."""
        if result.shape != self.expected.shape:
            return f"shape {result.shape}, expected {self.expected.shape}"
        error = np.abs(result - self.expected)
        if np.all(error <= self.bound):
            return None
        excess = np.nan_to_num(error - self.bound, nan=np.inf)
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        return (
            f"at {tuple(map(int, worst))} got {result[worst]:.9g}, expected "
            f"{self.expected[worst]:.9g}, allowed error {self.bound[worst]:.3g}"
        )


def _rows() -> list[_Row]:
    """A row for every (backend, algorithm, layout) that float32 has, in the order of the table."""
    available = [info.name for info in simdconv.list_backends() if info.available]
    found = {
        (kernel.backend, kernel.algorithm, kernel.layout): None
        for kernel in simdconv.kernels()
        if kernel.dtype == "f32" and kernel.available
    }
    known = {backend for backend, _, _ in found}
    found |= {  # a plug-in's kernels are not in the table
        (name, "auto", layout): None
        for name in available
        if name not in known
        for layout in ("NCHW", "NHWC", "CHWN", "CHWN8")
    }
    return [_Row(*key) for key in found]


def _median_seconds(call: Any, first: float) -> float:
    """Median time of a call whose first run, which warmed everything up, took `first` seconds."""
    if first > _SLOW:
        return first
    times: list[float] = []
    while len(times) < 3 or (sum(times) < _SECONDS and len(times) < 25):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _run_one(row: _Row, reference: _Reference) -> str | None:
    """Run a filter by one kernel, add to its row, and return what is wrong with the result."""
    item = reference.item
    x = simdconv.to_layout(item.x, "NCHW", row.layout)
    keywords = {
        **item.keywords, "layout": row.layout, "algorithm": row.algorithm, "backend": row.backend,
    }  # fmt: skip
    try:
        plan = simdconv.explain(x, item.w, **keywords)
    except (simdconv.BackendNotImplementedError, MemoryError) as error:
        row.left_out = f"{item.name}: {error}"
        return None
    row.kernel = plan.kernel
    if plan.workspace_bytes > _MOST_WORKSPACE:
        row.left_out = f"{item.name} would take {_bytes(plan.workspace_bytes)} of workspace"
        return None

    def call() -> np.ndarray:
        return simdconv.conv2d(x, item.w, **keywords)

    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    fault = reference.fault(simdconv.to_layout(result, row.layout, "NCHW", n=1))
    if fault:
        return f"{row.kernel} disagrees with the reference on {item.name}: {fault}"
    row.seconds += _median_seconds(call, first)
    row.flops += reference.spec.flops
    row.workspace = max(row.workspace, plan.workspace_bytes)
    row.im2col = max(row.im2col, reference.im2col_bytes)
    row.filters += 1
    return None


def _bytes(count: float) -> str:
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} GiB"


def _share(row: _Row) -> str:
    percent = 100 * row.workspace / row.im2col
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %" if percent else "0 %"


def _table(rows: list[_Row], filters: int) -> Table:
    table = Table(title=f"{filters} filters, fastest first", box=None, header_style="bold")
    for name in ("backend", "algorithm", "layout", "kernel"):
        table.add_column(name, no_wrap=True)
    for name in ("time", "GFLOP/s", "workspace", "of im2col"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: -row.rate):
        kernel = row.kernel if row.filters == filters else f"{row.kernel} ({row.filters} filters)"
        table.add_row(
            row.backend, row.algorithm, row.layout, kernel, f"{1e3 * row.seconds:.2f} ms",
            f"{row.rate:.1f}", _bytes(row.workspace), _share(row),
        )  # fmt: skip
    return table


def _draw(
    out: Path, name: str, pixels: np.ndarray, references: list[_Reference], agree: str
) -> list[str]:
    """Write the pictures that conv2d itself makes, and the contact sheet; returns their names."""
    height, width = pixels.shape[:2]
    original = pictures.Picture(
        "original", f"{width} x {height} pixels", pictures.shown(pixels.transpose(2, 0, 1) / 255.0)
    )
    drawn = [original]
    for reference in references:
        item = reference.item
        result = simdconv.conv2d(item.x, item.w, **item.keywords)[0]
        item.draw(result).save(out / f"{item.name}.png")
        few = result if item.few is None else result[item.few]
        drawn.append(pictures.Picture(item.name, item.caption, item.draw(few)))
    sheet = pictures.contact_sheet(f"simdconv demo: {name}", agree, drawn)
    sheet.save(out / "contact-sheet.png")
    return [f"{picture.name}.png" for picture in drawn[1:]] + ["contact-sheet.png"]


def _work(console: Console, rows: list[_Row], filters: list[Filter]) -> list[_Reference] | str:
    """Run everything under a progress bar; returns the references, or what went wrong."""
    columns = (
        TextColumn("{task.description:34}", table_column=None), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("reference", total=len(filters) * (len(rows) + 1))
        references = []
        for item in filters:
            progress.update(task, description=f"reference: {item.name}")
            references.append(_Reference(item))
            progress.advance(task)
        for row in rows:
            for reference in references:
                where = f"{row.backend} {row.algorithm} {row.layout}: {reference.item.name}"
                progress.update(task, description=where)
                fault = _run_one(row, reference)
                if fault:
                    return fault
                progress.advance(task)
        progress.update(task, description="done")
    return references


def _writable(out: str) -> Path:
    """The directory, made if missing, and seen to be writable before the work begins."""
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as error:
        raise ValueError(f"--out {out}: cannot write there: {error.strerror}") from None


def run(image: str | None, out: str, size: int) -> int:
    """Run the demo.

    Parameters
    ----------
    image : str or None
        Path of an image file; None takes scikit-image's photograph.
    out : str
        Directory for the PNG files, made if missing.
    size : int
        A larger picture is shrunk to this longest side, in pixels.

    Returns
    -------
    int
        0, or 1 if a kernel disagrees with the reference.

    Raises
    ------
    ValueError, OSError
        If the image cannot be read or the directory cannot be written.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    pixels, name = (
        pictures.photograph() if image is None else (pictures.read(image), Path(image).name)
    )
    full = pixels.shape[:2]
    pixels = pictures.shrink(pixels, size)
    directory = _writable(out)
    note = "" if pixels.shape[:2] == full else f", shrunk from {full[1]} x {full[0]}"
    console.print(Text(f"{name}: {pixels.shape[1]} x {pixels.shape[0]} pixels{note}"))

    rows, filters = _rows(), bank(pixels)
    references = _work(console, rows, filters)
    if isinstance(references, str):
        console.print(Text(references, "bold red"), soft_wrap=True)
        return 1
    ran = [row for row in rows if row.filters]
    agree = f"{len(ran)} kernels agree with the reference, within the rounding bound (k+2) u S"
    written = _draw(directory, name, pixels, references, agree)
    console.print(_table(ran, len(filters)))
    console.print()
    for row in rows:
        if row.filters and row.left_out:
            console.print(Text(f"{row.kernel}: {row.left_out}"), soft_wrap=True)
    console.print(Text(
        f"{agree}.\n"
        "time: sum of the filters' medians, result allocated, one picture. workspace: the most\n"
        "that a filter took, and its share of the largest im2col matrix, "
        f"{_bytes(max(reference.im2col_bytes for reference in references))}.\n"
        "CHWN and CHWN8 are made for batches: of CHWN8's eight images, seven are empty here.\n"
        f"{directory}: {', '.join(written)}"
    ), soft_wrap=True)  # fmt: skip
    return 0
