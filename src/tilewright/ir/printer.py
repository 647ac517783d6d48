"""The text form of Tile IR; ``ir.parser`` reads it back to the same IR.

::

    func @scale(%x: ptr<f32> = "x".base, %n: i32 = "x".shape.0) {
      %0 = bid() {axis = 0} : i32
      %1 = constant() {value = 2.0, type = !f32[8]} : f32[8]
      ...
      return()
    }
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from typing import Any

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.hints import UNSPECIFIED, ByTarget
from tilewright.ir.location import Loc
from tilewright.ir.opdef import Arity
from tilewright.ir.types import PartitionViewType, PointerType, SharedType, TensorViewType, TileType
from tilewright.records import dataclass


def print_function(function: Function, *, locations: bool = False) -> str:
    """``function`` as text; with ``locations`` every op carries its source location."""
    return _Printer(locations).function(function)


_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Listing:
    """The lines of a function: the first line of each op, and the name of each value, as the text form has them."""

    ops: Mapping[Op, str]
    names: Mapping[Value, str]


Function.printer = staticmethod(print_function)


def listing(function: Function) -> Listing:
    """What ``print_function`` shows of ``function``, op by op."""
    printer = _Printer(False)
    printer.function(function)
    return Listing(printer.heads, {value: f"%{name}" for value, name in printer.names.items()})


def print_value(value: Any) -> str:
    """An attribute value in the notation of the text form."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, DType):
        return value.short
    if isinstance(value, PointerType):
        return repr(value)
    if isinstance(value, (TileType, TensorViewType, PartitionViewType, SharedType)):
        return f"!{value!r}"
    if isinstance(value, tuple):
        return f"({', '.join(map(print_value, value))})"
    if isinstance(value, ByTarget):
        entries = [] if value.default is UNSPECIFIED else [f"default = {print_value(value.default)}"]
        entries += [f"{key} = {print_value(v)}" for key, v in value.values.items()]
        return f"by_target({', '.join(entries)})"
    raise TypeError(f"{value!r} cannot be an attribute")


def print_loc(loc: Loc) -> str:
    text = f"{json.dumps(loc.file)}:{loc.line}:{loc.column}"
    if loc.end_line is not None and loc.end_column is not None:
        text += f"-{loc.end_line}:{loc.end_column}"
    text += f" {json.dumps(loc.function)}"
    return text if loc.caller is None else f"{text} at {print_loc(loc.caller)}"


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.unnamed = 0
        self.heads: dict[Op, str] = {}

    def name(self, value: Value) -> str:
        found = self.names.get(value)
        if found is None:
            if value.name.isidentifier():
                base = value.name
            else:
                base = str(self.unnamed)
                self.unnamed += 1
            found, n = base, 0
            while found in self.taken:
                n += 1
                found = f"{base}_{n}"
            self.names[value] = found
            self.taken.add(found)
        return f"%{found}"

    def function(self, function: Function) -> str:
        params = []
        for p, arg in zip(function.params, function.body.args):
            axis = "" if p.axis is None else f".{p.axis}"
            no_alias = " noalias" if p.no_alias else ""
            params.append(f"{self.name(arg)}: {arg.type} = {json.dumps(p.argument)}.{p.role}{axis}{no_alias}")
        hints = ""
        if function.hints:
            hints = " hints " + self.attributes(list(function.hints.items()))
        if function.may_alias:
            hints += " may_alias"
        loc = f" loc({print_loc(function.loc)})" if self.locations else ""
        name = function.name if all(map(_WORD.fullmatch, function.name.split("::"))) else json.dumps(function.name)
        lines = [f"func @{name}({', '.join(params)}){hints}{loc} {{"]
        self.body(function.body, "  ", lines)
        return "\n".join([*lines, "}", ""])

    def attributes(self, entries: list[tuple[str, Any]]) -> str:
        return "{" + ", ".join(f"{k} = {print_value(v)}" for k, v in entries) + "}"

    def body(self, block: Block, indent: str, lines: list[str]) -> None:
        for op in block.ops:
            self.op(op, indent, lines)

    def op(self, op: Op, indent: str, lines: list[str]) -> None:
        groups = []
        for f in op.spec.operands:
            group = getattr(op, f.name)
            if f.arity is Arity.MANY:
                groups.append(f"[{', '.join(self.name(v) for v in group)}]")
            else:
                groups.append("_" if group is None else self.name(group))
        attributes = [(a.name, op.attributes[a.name]) for a in op.spec.attributes]
        shown = [
            (name, value)
            for (name, value), a in zip(attributes, op.spec.attributes)
            if not (type(value) is type(a.default) and value == a.default)
        ]
        text = f"{op.name}({', '.join(groups)})"
        if shown:
            text += f" {self.attributes(shown)}"
        if op.results:
            names = ", ".join(self.name(r) for r in op.results)
            text = f"{names} = {text} : {', '.join(str(r.type) for r in op.results)}"
        if self.locations:
            text += f" loc({print_loc(op.loc)})"
        self.heads[op] = text
        if not op.regions:
            lines.append(indent + text)
            return
        for i, region in enumerate(op.regions):
            args = ", ".join(f"{self.name(a)}: {a.type}" for a in region.args)
            head = f"{text} {{" if i == 0 else "} {"
            lines.append(indent + head + (f" ^({args})" if args else ""))
            self.body(region, indent + "  ", lines)
        lines.append(indent + "}")
