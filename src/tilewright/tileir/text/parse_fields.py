"""Reads operands, attributes and types of ops in the text form, by the templates of ``syntax``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tilewright.tileir.module import Value
from tilewright.tileir.optable import ENUMS, NO_DEFAULT, AttributeSpec, OpSpec
from tilewright.tileir.text import parse_attributes as attributes
from tilewright.tileir.text.parse_types import enum_value, parse_enum, parse_type
from tilewright.tileir.text.scanner import Scanner
from tilewright.tileir.text.syntax import KINDS, PARTS
from tilewright.tileir.types import TOKEN, Type, is_gathering


class Fields:
    """Operands, attributes and result types of one op, as its template names them."""

    def __init__(
        self, s: Scanner, spec: OpSpec, count: int, value: Callable[[], Value], values: Callable[[], list[Value]]
    ) -> None:
        """``value`` and ``values`` read names of those that are known; ``count`` is that of the results."""
        self.s, self.spec, self.value, self.values = s, spec, value, values
        self.count = count if spec.results is None else spec.results
        self.operands: dict[str, Any] = {o.name: [] if o.variadic else None for o in spec.operands}
        self.attributes = absent(spec)
        self.results: list[Type] = [] if spec.results is None else [TOKEN] * spec.results
        self.variadic = {o.name for o in spec.operands if o.variadic}
        self.kinds: dict[str, AttributeSpec] = {a.name: a for a in spec.attributes}

    def read(self, part: tuple[str, ...]) -> None:
        """One part of the template."""
        kind, *rest = part
        if kind == "":
            for text in re.findall(r"\w+|->|[^\w\s]", rest[0]):  # its words and marks
                if text == ":":
                    self.s.discardable()
                self.s.expect(text)
        elif kind in KINDS:
            getattr(self, kind)(*rest)
        elif kind in self.operands:
            self.operand(kind)
        else:
            self.attribute(kind)

    def operand(self, name: str) -> None:
        if name not in self.variadic:
            self.operands[name] = self.value()
        elif self.s.peek("%"):
            self.operands[name] = self.values()

    def attribute(self, name: str) -> None:
        s, a = self.s, self.kinds[name]
        if a.kind in ENUMS:
            self.attributes[name] = enum_value(s, a.kind, f"{name} of {self.spec.name}")
        elif a.kind == "int":
            self.attributes[name] = s.integer()
        elif a.kind == "str":
            self.attributes[name] = s.symbol() if s.peek("@") else s.string()
        elif a.kind == "predicate":
            self.attributes[name] = attributes.predicate(s)
        else:
            assert a.kind == "i32s", a.kind
            s.expect("[")
            self.attributes[name] = s.sequence("]", Scanner.integer)

    # parts of templates

    def type(self, name: str) -> None:
        self.checked(self.operands[name])

    def checked(self, operand: Value) -> None:
        """The type of an operand, which it has already."""
        start = self.s.pos
        if parse_type(self.s) != operand.type:
            self.s.fail(f"{operand.type}, the type of the operand", start)

    def made(self) -> None:
        self.results = [parse_type(self.s)]
        while len(self.results) < self.count:
            self.s.expect(",")
            self.results.append(parse_type(self.s))

    def same(self) -> None:
        self.results = [parse_type(self.s)] * self.count

    def flag(self, name: str) -> None:
        self.attributes[name] = self.s.accept(name)

    def custom(self, name: str, default: str, word: str) -> None:
        self.attributes[name] = parse_enum(self.s, self.kinds[name].kind) if self.s.accept(word) else default

    option = custom

    def word(self, name: str) -> None:
        for value in ENUMS[self.kinds[name].kind]:
            if self.s.accept(value):
                self.attributes[name] = value
                return

    def comma(self, name: str) -> None:
        if self.s.accept(","):
            self.operand(name)

    def comma_type(self, name: str) -> None:
        if self.operands[name] is not None:
            self.s.expect(",")
            self.checked(self.operands[name])

    def types(self, name: str) -> None:
        self.s.discardable()
        if self.operands[name]:
            self.s.expect(":")
            self.s.listed(parse_type)

    def after(self, *words: str) -> None:
        if self.s.accept("token", "="):
            self.operands["token"] = self.value()

    close_after = after

    def index(self) -> None:
        if self.s.peek("%"):
            self.operands["index"] = self.values()

    def indices(self) -> None:
        if "index" not in self.operands:  # of extract and insert
            self.operands["indices"] = self.values()
            return
        for operand in self.operands["index"][: None if is_gathering(self.operands["view"].type) else 1]:
            if operand is not self.operands["index"][0]:
                self.s.expect(",")
            self.checked(operand)

    def hints(self) -> None:
        if self.s.accept("optimization_hints", "="):
            self.attributes["optimization_hints"] = attributes.hints(self.s)

    def inbounds(self) -> None:
        self.attributes["inbounds"] = (False,) * len(self.operands["index"])
        if self.s.accept("inbounds", "=", "["):
            self.attributes["inbounds"] = self.s.sequence("]", Scanner.boolean)

    close_inbounds = inbounds

    def reduction(self) -> None:
        self.attributes["reduction"] = "add"
        if self.s.accept("attributes", "{", "reduction", "=", "#cuda_tile.multimem_reduction_kind"):
            self.attributes["reduction"] = parse_enum(self.s, "Reduction")
            self.s.expect("}")


def absent(spec: OpSpec) -> dict[str, Any]:
    """The attributes of an op that names none."""
    found: dict[str, Any] = {a.name: None if a.default is NO_DEFAULT else a.default for a in spec.attributes}
    found |= {part[1]: part[2] for part in PARTS.get(spec.name, ()) if part[0] in ("option", "custom")}
    return found | dict.fromkeys(spec.units, False)
