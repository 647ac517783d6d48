"""The page on performance: the results of the benchmarks, with a chart before each table that compares."""

from __future__ import annotations

import math
import re
from pathlib import Path

from svg import FAINT, PALETTE, Drawing, figure

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
_TABLE = re.compile(r"^\|.*\n\|[-:| ]+\n(?:\|.*\n?)+", re.MULTILINE)
_RATIOS = ("ratio", "ratio to best")  # of a row: how many times as fast as the fastest peer we are
_SECTIONS = (("On a CPU", "cpu.md"), ("Tile C++", "cpp.md"), ("On a GPU", "gpu.md"))


def page() -> str:
    """The page, made of the documents that the benchmarks wrote."""
    parts = [
        "# Performance",
        "Each chart shows, row by row, how many times as fast tilewright is as the fastest of the others that were "
        "measured; the line is at 1. The tables below have the times. They are those in `benchmarks/results`, with the "
        "machine and the command that made them; `./run demo` and the [gallery](gallery/index.md) measure yours.",
    ]
    for title, name in _SECTIONS:
        text = re.sub(r"^# .*\n", "", (RESULTS / name).read_text(encoding="utf-8"))
        deeper = re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)
        parts += [f"## {title}", _TABLE.sub(_with_chart, deeper).strip()]
    return "\n\n".join(parts) + "\n"


def ratios(table: str) -> dict[str, float]:
    """The ratio of each row of a table in Markdown; empty where it has no such column."""
    head, _, *rows = ([c.strip() for c in line.strip().strip("|").split("|")] for line in table.splitlines())
    column = next((i for i, name in enumerate(head) if name in _RATIOS), None)
    if column is None:
        return {}
    return {row[0]: float(row[column]) for row in rows if len(row) > column and row[column]}


def _with_chart(match: re.Match[str]) -> str:
    found = ratios(match[0])
    return f"{chart(found)}\n\n{match[0]}" if len(found) > 1 else match[0]


def chart(found: dict[str, float]) -> str:
    """Bars from the line at 1 on a scale of logarithms, with base 2: to the right where we are faster."""
    left = 10 + 5.8 * max(map(len, found))  # where the names end, with their size below
    right, height, top = 150.0, 17.0, 26.0  # a phone shows it in about its own size
    low = min(-1, math.floor(math.log2(min(found.values()))))
    high = max(1, math.ceil(math.log2(max(found.values()))))

    def x(ratio: float) -> float:
        return left + (math.log2(ratio) - low) / (high - low) * right

    bottom = top + height * len(found)
    faster = sum(r >= 1 for r in found.values())
    words = f"Ratios of {len(found)} rows, of which {faster} are 1 or more"
    d = Drawing(left + right + 34, bottom + 8, words, stretch=1.4)
    for k in range(low, high + 1):
        d.text(x(2.0**k), 10, f"{2.0**k:g}", size=11)
        d.box(x(2.0**k), top - 6, 0.01, bottom - top + 6, stroke=FAINT, thickness=1.6 if k == 0 else 0.5)
    for k, (name, ratio) in enumerate(found.items()):
        y = top + height * k
        start, end = sorted((x(1), x(ratio)))
        d.text(left - 6, y + height / 2, name, size=10.5, anchor="end")
        d.box(start, y + 2, max(end - start, 1), height - 4, fill=PALETTE[0 if ratio >= 1 else 1], stroke="none")
        d.text(end + 4, y + height / 2, f"{ratio:.2f}", size=10, anchor="start")
    return figure(d, "How many times as fast as the fastest peer: blue where it is at least as fast, orange where not.")
