"""Writes what the sanitizer finds into docs/sanitizer.md: PYTHONPATH=src:tests python -m support.sanitizer_table"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from support import sanitizer_runs as runs
from support.sanitizer_cases import CPP, PYTHON

from tilewright.sanitizer import CATEGORIES, Category, Report

PAGE = Path(__file__).parents[2] / "docs" / "sanitizer.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Outcome = tuple[int, int, int]  # kernels that violate, those found, and false reports in their defined neighbours


def measured() -> dict[tuple[str, str], Outcome]:
    """What becomes of the kernels of every category, by category and language."""
    found: dict[tuple[str, str], Outcome] = {}

    def count(category: str, language: str, bad: Report, good: Report) -> None:
        n, hits, false = found.get((category, language), (0, 0, 0))
        hit = [v.category.name for v in bad.violations] == [category]
        found[category, language] = n + 1, hits + hit, false + len(good.violations)

    with tempfile.TemporaryDirectory() as folder:
        module = runs.python_kernels(Path(folder))
        for i, case in enumerate(PYTHON):
            count(case.category, "Python", *(runs.run_python(k, case) for k in _pair(vars(module), i)))
    kernels = runs.cpp_kernels()
    for i, case in enumerate(CPP):
        count(case.category, "C++", *(runs.run_cpp(k, case) for k in _pair(kernels, i)))
    count("shape-size-overflow", "C++", *map(runs.run_shape, runs.SIZES))
    return found


def _pair(kernels: dict[str, Any], i: int) -> tuple[Any, Any]:
    return kernels[f"bad_{i}"], kernels[f"good_{i}"]


def table(found: dict[tuple[str, str], Outcome]) -> str:
    """The Markdown table, and the sums below it."""
    lines = ["| item | category | what | section | Python | Tile C++ |", "|---|---|---|---|---|---|"]
    lines += [_row(c, found) for c in CATEGORIES.values()]
    annex = [c for c in CATEGORIES.values() if c.item is not None]
    whole = sum(any(_complete(found.get((c.name, language))) for language in ("Python", "C++")) for c in annex)
    total = [sum(column) for column in zip(*found.values())]
    lines += [
        "",
        f"Found: {whole} of {len(annex)} categories of the annex; {total[1]} of {total[0]} violating kernels, with "
        f"{total[2]} false reports in {total[0]} defined ones.",
    ]
    return "\n".join(lines)


def _row(c: Category, found: dict[tuple[str, str], Outcome]) -> str:
    cells = [_cell(found.get((c.name, language))) for language in ("Python", "C++")]
    opt = "" if c.default else " (`--enable`)"
    item = str(c.item) if c.item is not None else ""
    return f"| {item} | `{c.name}`{opt} | {c.title} | {c.document} {c.section} | {' | '.join(cells)} |"


def _complete(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome[0] == outcome[1] and outcome[2] == 0


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    n, hits, false = outcome
    return f"{hits} of {n}" + (f", {false} false" if false else "")


def committed() -> str:
    """The table in the page."""
    page = PAGE.read_text(encoding="utf-8")
    return page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip()


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, after = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
    PAGE.write_text(f"{before}\n\n{table(measured())}\n\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
