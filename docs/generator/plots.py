"""Plots as SVG in the colours of the theme: transparent, with words and lines in the colour of the page's text."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure
from svg import INK, PALETTE

# A colour that no plot has; what is drawn in it gets the colour of the page's text.
STAND_IN = "#010203"
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.prop_cycle": cycler(color=PALETTE),
    "legend.framealpha": 0,
    "legend.edgecolor": STAND_IN,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), STAND_IN),
}
_NAMES = re.compile(r' id="[A-Za-z]+\d*_\d+"')  # of groups, which repeat from plot to plot
_FONT = re.compile(r"font: ([\d.]+)px [^;\"]*")
_CONTENT = re.compile(r"<svg [^>]*viewBox=\"([^\"]*)\"[^>]*>(.*)</svg>", re.DOTALL)
_LEAKS = re.compile(r"<style.*?</style>|<metadata>.*?</metadata>", re.DOTALL)  # for all of a page, where SVG is inline


def plot(draw: Callable[[Any], None], width: float, height: float, name: str, words: str) -> str:
    """What ``draw`` makes of the axes of a figure of so many inches, as one line for a page.

    ``name`` is one that no other plot of the page has; ``words`` are read by screen readers.
    """
    data = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        drawn = Figure(figsize=(width, height), layout="constrained")
        draw(drawn.subplots())
        drawn.savefig(data, format="svg", transparent=True, dpi=200, metadata={"Date": None})
    found = _CONTENT.search(data.getvalue())
    assert found is not None
    box, inside = found[1], _LEAKS.sub("", found[2])
    inside = _FONT.sub(r"font-size: \1px", _NAMES.sub("", inside)).replace(STAND_IN, INK)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}" '
        f'role="img" aria-label="{html.escape(words)}" stroke-linejoin="round" '
        f'style="width:100%;max-width:{width * 110:g}px;height:auto">{" ".join(inside.split())}</svg>'
    )
