"""Reports for programs to read: JSON, and SARIF 2.1.0 for code scanning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.ir.location import Loc
from tilewright.sanitizer.categories import CATEGORIES, Category
from tilewright.sanitizer.report import Related, Report, Violation
from tilewright.version import __version__

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_json(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "version": 1,
        "launches": report.launches,
        "suppressed": report.suppressed,
        "violations": [_violation(v) for v in report.violations],
    }


def _violation(v: Violation) -> dict[str, Any]:
    place = v.place
    return {
        "category": v.category.name,
        "title": v.category.title,
        "section": v.section,
        "annex_item": v.category.item,
        "message": v.message,
        "remedy": v.category.remedy,
        "kernel": v.kernel,
        "frames": [_frame(frame) for frame in v.loc.chain()],
        "block": v.block,
        "element": v.element,
        "operands": {name: _number(value) for name, value in v.operands.items()},
        "array": None
        if place is None
        else {"argument": place.argument, "index": place.index, "shape": place.shape, "outside": place.outside},
        "related": [
            {"message": r.message, "block": r.block, "frames": [_frame(f) for f in r.loc.chain()]} for r in v.related
        ],
        "count": v.count,
        "elements": v.elements,
    }


def _number(value: Any) -> Any:
    """JSON has no NaN and no infinities: they become text."""
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _frame(loc: Loc) -> dict[str, Any]:
    return {
        "file": loc.file,
        "line": loc.line,
        "column": loc.column + 1,
        "end_line": loc.end_line,
        "end_column": None if loc.end_column is None else loc.end_column + 1,
        "function": loc.function,
    }


def to_sarif(report: Report) -> dict[str, Any]:
    """The report as a SARIF 2.1.0 log with one run, one rule per category and one result per violation."""
    rules = list(CATEGORIES.values())
    numbers = {c.name: i for i, c in enumerate(rules)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "tilewright", "version": __version__, "rules": [_rule(c) for c in rules]}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(v, numbers[v.category.name]) for v in report.violations],
            }
        ],
    }


def _rule(category: Category) -> dict[str, Any]:
    return {
        "id": category.name,
        "shortDescription": {"text": category.title},
        "fullDescription": {"text": f"{category.title} ({category.source})"},
        "help": {"text": category.remedy},
        "defaultConfiguration": {"enabled": category.default, "level": "error"},
    }


def _result(v: Violation, rule: int) -> dict[str, Any]:
    properties: dict[str, Any] = {"kernel": v.kernel, "elements": v.elements}
    if v.block is not None:
        properties["block"] = list(v.block)
    if v.element is not None:
        properties["element"] = list(v.element)
    if v.operands:
        properties["operands"] = {name: _number(value) for name, value in v.operands.items()}
    result: dict[str, Any] = {
        "ruleId": v.category.name,
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": v.message if v.place is None else f"{v.message} ({v.place})"},
        "locations": [_location(v.loc)],
        "occurrenceCount": v.count,
        "properties": properties,
    }
    frames = list(v.loc.chain())
    if len(frames) > 1:
        result["stacks"] = [{"frames": [{"location": _location(f)} for f in frames]}]
    if v.related:
        result["relatedLocations"] = [_related(r) for r in v.related]
    return result


def _related(other: Related) -> dict[str, Any]:
    block = f" (block {other.block})" if other.block is not None else ""
    return {**_location(other.loc), "message": {"text": other.message + block}}


def _location(loc: Loc) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(loc.line, 1), "startColumn": loc.column + 1}
    if loc.end_line is not None:
        region["endLine"] = loc.end_line
    if loc.end_column is not None:
        region["endColumn"] = loc.end_column + 1
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(loc.file)}, "region": region}}


def _uri(file: str) -> str:
    """Files below the working directory by their relative path, as code scanning wants them."""
    path = Path(file)
    if not path.is_absolute():
        return path.as_posix()
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_uri()
