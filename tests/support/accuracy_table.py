"""Writes the measured errors into docs/numerics.md: PYTHONPATH=src:tests python -m support.accuracy_table [backend ...]

Those of the GPU need a GPU, PyTorch and gmpy2; elsewhere, and for backends that are not named, the page keeps its cells.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.accuracy import BOUNDS, FUNCTIONS, error

from tilewright.backends.registry import get_backend
from tilewright.ir.dtypes import FLOATS

PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Cell = tuple[float, float]  # measured, stated


def table(backend: str, measured: dict[tuple[str, str], float]) -> list[str]:
    """The Markdown table of one backend; ``measured`` by function and dtype."""
    lines = ["| function | " + " | ".join(d.name for d in FLOATS) + " |", "|---|" + "---|" * len(FLOATS)]
    for name in FUNCTIONS:
        cells = []
        for dtype in FLOATS:
            bound = BOUNDS[backend][name].get(dtype.short)
            cells.append("" if bound is None else f"{measured[name, dtype.short]:.3f} ≤ {bound:g}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def committed(backend: str) -> dict[tuple[str, str], Cell]:
    """The cells of the table of ``backend`` in the page, by function and dtype."""
    cells = {}
    for line in _section(backend):
        name, *columns = (c.strip() for c in line.strip("|").split("|"))
        for dtype, column in zip(FLOATS, columns):
            if "≤" in column:
                measured, bound = map(float, column.split("≤"))
                cells[name, dtype.short] = measured, bound
    return cells


def _section(backend: str) -> Iterator[str]:
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line == f"### `{backend}`":
            break
    for line in lines:
        if line.startswith(("#", "<!--")):
            return
        if line.startswith("|"):
            yield line


def measured(backend: str) -> dict[tuple[str, str], float]:
    """The largest errors of ``backend``; what the page holds of one that cannot run here."""
    if backend in ("gpu", "triton"):
        if get_backend(backend).unavailable() is not None:
            return {key: cell[0] for key, cell in committed(backend).items()}
        on_gpu = importlib.import_module("support.accuracy_gpu").measured_on_gpu(backend)
        return {(name, short): found for name, short, found in on_gpu}
    return {(n, d.short): error(backend, n, d)[0] for n, f in FUNCTIONS.items() for d in f.dtypes()}


def main(backends: Sequence[str]) -> None:
    lines = []
    for backend in BOUNDS:
        again = not backends or backend in backends
        found = measured(backend) if again else {key: cell[0] for key, cell in committed(backend).items()}
        lines += [f"### `{backend}`", "", *table(backend, found), ""]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    PAGE.write_text("\n".join([before, *lines, after]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
