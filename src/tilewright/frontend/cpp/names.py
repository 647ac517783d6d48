"""Names of the source, from symbols of LLVM."""

from __future__ import annotations

import re


def source_name(symbol: str) -> str:
    """What the source calls a function or variable: the qualified name without template arguments."""
    if not symbol.startswith("_Z"):
        return decoded(symbol)
    if symbol.startswith("_ZZ"):  # a variable in a function: what follows the function is its name
        found = re.search(r"E(?:\d+_)?(\d+)(\w+?)(?:_\d+)?\Z", _bytes(symbol))
        if found is None:  # a lambda has no name
            return "operator()" if re.search(r"[_\d]cl[EI]", symbol) else symbol
        return _text(found.group(2)[: int(found.group(1))])
    names, _ = _qualified(symbol)
    return "::".join(n for n in names if not n.startswith("_GLOBAL__N")) or symbol


def is_instance(symbol: str) -> bool:
    """Whether a symbol is of an instance of a template."""
    return symbol.startswith("_Z") and _qualified(symbol)[1].startswith("I")


def _qualified(symbol: str) -> tuple[list[str], str]:
    """The names that a symbol begins with, and what follows them."""
    symbol = _bytes(symbol)
    start = re.compile(r"_Z(NK?)?(St(?:3__1)?)?").match(symbol)
    assert start is not None
    nested, names, position = start[1] is not None, ["std"] if start[2] else [], start.end()
    while (match := re.compile(r"L?(\d+)").match(symbol, position)) is not None and (nested or names in ([], ["std"])):
        length = int(match.group(1))
        names.append(_text(symbol[match.end() : match.end() + length]))
        position = match.end() + length
    return names, symbol[position:]


def decoded(name: str) -> str:
    """What the source has for a name that a module has in quotes, where LLVM writes numbers for bytes beyond ASCII."""
    return _text(_bytes(name)) if "\\" in name else name


def _bytes(symbol: str) -> str:
    """A symbol with a character for each byte: mangled names count these."""
    return re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), symbol)


def _text(name: str) -> str:
    return name.encode("latin-1").decode(errors="replace")
