"""Reads attributes of ops in MLIR's generic form: ``"cuda_tile.addi"(%a, %b) <{overflow = ...}> : (types) -> types``.

They have the names of the declaration. An enumeration is a value, such as ``#cuda_tile.rounding<zero>``, or its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tilewright.tileir.optable import ENUMS, OpSpec
from tilewright.tileir.text import parse_attributes as attributes
from tilewright.tileir.text.parse_types import enum_value, parse_type
from tilewright.tileir.text.scanner import PREFIX, Scanner

SEGMENTS = "operandSegmentSizes"  # how many values each operand has
_ENUM = re.compile(r"#cuda_tile(?:\.\w+\s*<|<\s*\w+\s*<?)\s*(?=\w)")
_ARRAY = re.compile(r"array\s*<\s*i\d+(?:\s*:|\s*(?=>))\s*")


def op_name(s: Scanner) -> str:
    """The name of an op, without the prefix of the dialect."""
    start = s.pos
    found = s.string()
    if not found.startswith(PREFIX):
        s.fail(f"an op of CUDA Tile IR, such as {PREFIX}addi", start)
    return found.removeprefix(PREFIX)


def attributes_of(s: Scanner, spec: OpSpec, *, discardable: bool) -> dict[str, Any]:
    """The attributes of an op, up to the brace that closes them; where others are ``discardable``, without these."""
    kinds = {a.name: a.kind for a in spec.attributes} | dict.fromkeys(spec.units, "unit") | {SEGMENTS: "i32s"}

    def entry(s: Scanner) -> tuple[str, Any]:
        start = s.pos
        key = s.string() if s.peek('"') else s.name()
        kind = kinds.get(key)
        if kind is None and discardable:
            s.pos = start
            s.unknown()
            return "", None
        if kind is None:
            s.fail(f"an attribute of {spec.name}, which are {', '.join(kinds)}", start)
        if kind == "unit":
            return key, not s.accept("=") or s.accept("unit") or s.boolean()
        s.expect("=")
        return key, s.aliased((lambda s: _enumerated(s, kind)) if kind in ENUMS else _READERS[kind])

    found = dict(s.sequence("}", entry))
    found.pop("", None)
    return found


def _enumerated(s: Scanner, kind: str) -> str:
    start = s.pos
    if s.match(_ENUM) is not None:
        found = enum_value(s, kind, f"a value of {kind}")
        s.expect(">")
        s.accept(">")
        return found
    number = _integer(s)
    if number not in range(len(ENUMS[kind])):
        s.fail(f"one of {', '.join(ENUMS[kind])}, or its number", start)
    return ENUMS[kind][number]


def _integer(s: Scanner) -> int:
    """``4 : i64``."""
    found = s.integer()
    if s.accept(":"):
        parse_type(s)
    return found


def _array(s: Scanner, entry: Callable[[Scanner], Any]) -> tuple[Any, ...]:
    """``array<i32: 1, 0>``."""
    start = s.pos
    if s.match(_ARRAY) is None:
        s.fail("an array, such as array<i32: 1, 0>", start)
    return s.sequence(">", entry)


_READERS: dict[str, Callable[[Scanner], Any]] = {
    "array": attributes.identities,
    "bool": Scanner.boolean,
    "bools": lambda s: _array(s, Scanner.boolean),
    "const": attributes.constant,
    "hints": attributes.hints,
    "i32s": lambda s: _array(s, Scanner.integer),
    "int": _integer,
    "predicate": attributes.predicate,
    "str": lambda s: s.symbol() if s.peek("@") else s.string(),
    "type": parse_type,
}
