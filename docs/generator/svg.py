"""SVG drawings in the colours of the theme."""

from __future__ import annotations

import html
from collections.abc import Sequence

# Colours that people with any kind of colour vision tell apart (M. Okabe, K. Ito, 2008).
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f")
_LEAST = 0.75  # how small it may be shown: on phones, those that are wider scroll
INK, FAINT = "var(--md-default-fg-color)", "var(--md-default-fg-color--lighter)"


class Drawing:
    """Shapes, in the order in which they are painted, and what the picture shows in words."""

    def __init__(self, width: float, height: float, description: str, stretch: float = 1.0) -> None:
        self.width, self.height, self.description = width, height, description
        self._stretch = stretch  # how many times as large it may be shown
        self._parts: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        stroke: str = INK,
        thickness: float = 1.0,
        opacity: float = 1.0,
        dashed: bool = False,
        rounded: float = 0.0,
    ) -> None:
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{rounded:g}" fill="{fill}" '
            f'fill-opacity="{opacity:g}" stroke="{stroke}" stroke-width="{thickness:g}"{dashes}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 12,
        anchor: str = "middle",
        fill: str = INK,
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        family = ' font-family="var(--md-code-font-family, monospace)"' if mono else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" dominant-baseline="central" '
            f'fill="{fill}"{weight}{family}>{html.escape(words)}</text>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, stroke: str = INK) -> None:
        self._parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{stroke}" stroke-width="1.4" '
            'marker-end="url(#arrowhead)"/>'
        )

    def grid(self, x: float, y: float, rows: int, columns: int, size: float, fills: Sequence[Sequence[str]]) -> None:
        """Cells of ``size``; an empty fill is a cell without colour."""
        for i in range(rows):
            for j in range(columns):
                fill = fills[i][j] or "none"
                self.box(x + j * size, y + i * size, size, size, fill=fill, stroke=FAINT, thickness=0.5, opacity=0.75)

    def __str__(self) -> str:
        """An element for a page, which screen readers read as its description."""
        words = html.escape(self.description)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{words}" style="min-width:{self.width * _LEAST:g}px;'
            f'max-width:{self.width * self._stretch:g}px;width:100%;height:auto">'
        )
        marker = (
            '<defs><marker id="arrowhead" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
        )
        return "".join([head, f"<title>{words}</title>", marker, *self._parts, "</svg>"])


def figure(drawing: Drawing, caption: str) -> str:
    """The drawing with a caption. No line of it is empty, so that Markdown leaves it alone."""
    return f'<figure class="tw-figure">{drawing}<figcaption>{html.escape(caption)}</figcaption></figure>'
