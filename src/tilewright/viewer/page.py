"""One HTML page with everything in it: recordings, sources, and the program that shows them."""

from __future__ import annotations

import base64
import html
import json
import linecache
import zlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from tilewright.ir.location import Loc
from tilewright.viewer.layout import shape_of
from tilewright.viewer.recorder import EVENT_COLUMNS, GROUP_COLUMNS, Recording


def render(title: str, recordings: Sequence[Recording]) -> str:
    """The page. It loads nothing from anywhere."""
    sources: dict[str, list[str]] = {}
    for recording in recordings:
        for location in recording.locations:
            for loc in location.chain():
                sources.setdefault(loc.file, linecache.getlines(loc.file))
    data = {
        "title": title,
        "launches": [_launch(r) for r in recordings],
        "sources": {name: "".join(lines) for name, lines in sources.items()},
    }
    folder = files("tilewright.viewer") / "static"
    parts = {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text("utf-8"),
        "data": json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        "script": "\n".join((folder / name).read_text("utf-8") for name in ("recording.js", "picture.js", "page.js")),
    }
    page = (folder / "page.html").read_text("utf-8")
    for name, text in parts.items():
        page = page.replace(f"%%{name}%%", text)
    return page


def _launch(recording: Recording) -> dict[str, Any]:
    return {
        "kernel": recording.kernel,
        "grid": recording.grid,
        "arrays": [
            {"name": a.name, "dtype": a.dtype.name, "shape": shape_of(a), "values": _values(recording.values.get(i))}
            for i, a in enumerate(recording.arrays)
        ],
        "places": [[_location(loc) for loc in location.chain()] for location in recording.locations],
        "violations": [
            {
                "category": m.violation.category.name,
                "message": m.violation.message,
                "text": m.violation.render(),
                "place": recording.locations[m.violation.loc],
                "block": m.violation.block,
                "event": m.event,
                "array": m.array,
                "element": m.element,
                "outside": m.violation.place.outside if m.violation.place is not None else "",
            }
            for m in recording.marks
        ],
        "dropped": recording.dropped,
        "events": _columns(recording.events, len(EVENT_COLUMNS)),
        "groups": _columns(recording.groups, len(GROUP_COLUMNS)),
    }


def _location(loc: Loc) -> dict[str, Any]:
    return {
        "file": loc.file,
        "line": loc.line,
        "column": loc.column,
        "end": loc.end_column if loc.end_line in (None, loc.line) else None,
        "function": loc.function,
    }


def _values(values: np.ndarray[Any, Any] | None) -> str | None:
    """Float64 numbers, compressed, as text."""
    return None if values is None else base64.b64encode(zlib.compress(values.astype("<f8").tobytes())).decode()


def _columns(rows: Iterable[int], width: int) -> str:
    """Little-endian 32-bit integers, column after column, compressed, as text."""
    table = np.array(rows, "<i4").reshape(-1, width)
    return base64.b64encode(zlib.compress(table.T.tobytes())).decode()
