"""Comments that silence the sanitizer: ``# tile-check: ignore[data-race]``, or ``//`` in C++.

A comment holds for the line that it stands on, or for the next one when it stands alone; ``ignore`` without brackets
means every category. It also silences what happens in functions called from that line.
"""

from __future__ import annotations

import linecache
import re

from tilewright.ir.location import Loc
from tilewright.sanitizer.categories import current_name

_COMMENT = re.compile(r"(?:#|//|/\*)\s*tile-check:\s*ignore\b(?:\[(?P<names>[^\]]*)\])?")


def suppressed(category: str, loc: Loc) -> bool:
    """Whether a comment silences ``category`` at ``loc`` or at one of the calls that led there."""
    return any(_says(category, frame) for frame in loc.chain())


def _says(category: str, loc: Loc) -> bool:
    lines = [linecache.getline(loc.file, n) for n in range(loc.line, (loc.end_line or loc.line) + 1)]
    above = linecache.getline(loc.file, loc.line - 1) if loc.line > 1 else ""
    if above.lstrip().startswith(("#", "//", "/*")):
        lines.append(above)
    for line in lines:
        match = _COMMENT.search(line)
        if match is not None:
            names = match["names"]
            if names is None or category in (current_name(n.strip()) for n in names.split(",")):
                return True
    return False
