"""Violations, and the report that collects them."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from tilewright.ir.diagnostics import render
from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.records import dataclass
from tilewright.sanitizer.categories import Category
from tilewright.sanitizer.suppressions import suppressed

Index = tuple[int, ...]


@dataclass(frozen=True)
class ElementReference:
    """An element of a kernel argument.

    ``index`` may lie outside ``shape``; ``outside`` says how far, in words ("3 elements past the end of axis 0"), and
    is empty for elements of the array.
    """

    argument: str
    index: Index
    shape: Index
    outside: str = ""

    def __str__(self) -> str:
        where = f"{self.argument}[{', '.join(map(str, self.index))}] of shape {self.shape}"
        return f"{where}: {self.outside}" if self.outside else where


@dataclass(frozen=True)
class Related:
    """Another location in the source that belongs to a violation, such as the other side of a race."""

    message: str
    loc: Loc
    block: Index | None = None


@dataclass
class Violation:
    """Something that a correct kernel does not do, with the first place where it was seen.

    ``element`` is the index in the tile, ``operands`` the values there by name, ``place`` the element of an argument
    that was accessed. ``count`` says how often it was seen, ``elements`` in how many elements altogether.
    """

    category: Category
    message: str
    kernel: str
    loc: Loc
    block: Index | None = None
    element: Index | None = None
    operands: dict[str, Any] = field(default_factory=dict)
    place: ElementReference | None = None
    related: tuple[Related, ...] = ()
    count: int = 1
    elements: int = 1

    @property
    def section(self) -> str:
        """The document and section that say so."""
        return self.category.source

    @property
    def line(self) -> int:
        """The line of the source."""
        return self.loc.line

    def render(self) -> str:
        """The message with the source line, the calls that led there, and everything known about it."""
        lines = [render(f"{self.category.name}: {self.message}", self.loc)]
        facts: list[tuple[str, object]] = []
        if self.block is not None:
            facts.append(("block", self.block))
        if self.element is not None:
            facts.append(("element", self.element))
        facts.extend(self.operands.items())
        if self.place is not None:
            facts.append(("accessed", self.place))
        facts += [("remedy", self.category.remedy), ("see", self.section)]
        if self.count > 1 or self.elements > 1:
            facts.append(("seen", f"{self.count} time{'s' * (self.count != 1)}, {self.elements} elements"))
        lines += [f"    {name}: {value}" for name, value in facts]
        for other in self.related:
            where = f" (block {other.block})" if other.block is not None else ""
            lines.append("    " + render(f"note: {other.message}{where}", other.loc).replace("\n", "\n    "))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class UndefinedBehaviorError(TileError):
    """Raised at the first violation of a sanitized launch that was asked to stop there."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.category.name}: {violation.message}", violation.loc)
        self.violation = violation

    def __str__(self) -> str:
        return self.violation.render()


class Report:
    """What a sanitizer found. Repetitions of a violation at one location of the source are one entry with a count."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.launches = 0
        self.suppressed = 0
        self._found: dict[object, Violation] = {}

    def add(self, violation: Violation) -> bool:
        """Record ``violation``; False when a comment in the source suppresses it."""
        if suppressed(violation.category.name, violation.loc):
            self.suppressed += 1
            return False
        key = violation.category.name, violation.kernel, violation.loc
        known = self._found.get(key)
        if known is not None:
            known.count += violation.count
            known.elements += violation.elements
        else:
            self._found[key] = violation
            self.violations.append(violation)
        return True

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.violations

    @property
    def findings(self) -> int:
        """How often something was found, suppressed or not."""
        return sum(v.count for v in self.violations) + self.suppressed

    def of(self, category: str) -> Sequence[Violation]:
        """The violations of one category."""
        return [v for v in self.violations if v.category.name == category]

    def render(self) -> str:
        """The report as text for a terminal."""
        parts = [v.render() for v in self.violations]
        return "\n\n".join([*parts, self.summary()])

    def __repr__(self) -> str:
        return f"<report of {self.summary()}>"

    def _repr_html_(self) -> str:
        """What notebooks show: the summary, then each violation, folded but for the first."""
        shown = [f"<p>{html.escape(self.summary())}</p>"]
        for number, found in enumerate(self.violations):
            title = f"<b>{html.escape(found.category.name)}</b> {html.escape(f'{found.loc}: {found.message}')}"
            text = f"<pre>{html.escape(found.render())}</pre>"
            shown.append(f"<details{'' if number else ' open'}><summary>{title}</summary>{text}</details>")
        return "".join(shown)

    def summary(self) -> str:
        """One line: how many launches and violations there were."""
        launches = f"{self.launches} launch{'es' * (self.launches != 1)} checked"
        hidden = f", {self.suppressed} suppressed" if self.suppressed else ""
        if self.clean:
            return f"{launches}: no violation{hidden}"
        count = len(self.violations)
        times = self.findings - self.suppressed
        kinds = len({v.category.name for v in self.violations})
        return (
            f"{launches}: {count} violation{'s' * (count != 1)} of {kinds} categor{'ies' if kinds > 1 else 'y'}, "
            f"seen {times} time{'s' * (times != 1)}{hidden}"
        )
