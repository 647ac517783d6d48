"""Names of the source, from symbols of LLVM."""

from __future__ import annotations

import re


def source_name(symbol: str) -> str:
    """What the source calls a function or variable: the qualified name without template arguments."""
    if not symbol.startswith("_Z"):
        return symbol
    if symbol.startswith("_ZZ"):  # a variable in a function: what follows the function is its name
        found = re.search(r"E(?:\d+_)?(\d+)(\w+?)(?:_\d+)?\Z", symbol)
        return found.group(2)[: int(found.group(1))] if found else symbol
    position = 2
    names: list[str] = []
    nested = symbol[position] == "N"
    position += nested
    while position < len(symbol):
        match = re.compile(r"L?(\d+)").match(symbol, position)
        if match is None:
            break
        length = int(match.group(1))
        names.append(symbol[match.end() : match.end() + length])
        position = match.end() + length
        if not nested:
            break
    return "::".join(n for n in names if not n.startswith("_GLOBAL__N")) or symbol
