"""Writes ops: every field as its declaration says, checked against the version of the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tileir.bytecode.attributes import Numbers, write_payload, write_tagged
from tilewright.tileir.bytecode.primitives import integers, varint
from tilewright.tileir.debug import Location
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.module import Attribute, Block, Operation, Value
from tilewright.tileir.optable import ENUM_SINCE, ENUMS, AttributeSpec, OpSpec


class BodyWriter:
    """Writes the body of an entry; ``locations`` collects the location of each op in the order of the bytes."""

    def __init__(self, minor: int, numbers: Numbers) -> None:
        self.minor = minor
        self.numbers = numbers
        self.locations: list[Location | None] = []
        self.values: dict[Value, int] = {}
        self.count = 0

    def body(self, block: Block) -> bytes:
        """The ops of an entry, whose parameters are the arguments of ``block``."""
        self.define(block.args)
        return b"".join(map(self.op, block.ops))

    def define(self, values: list[Value]) -> None:
        for value in values:
            self.values[value] = self.count
            self.count += 1

    def release(self, block: Block) -> None:
        """Forget the values of a block, whose numbers are given again."""
        for values in (block.args, *(op.results for op in block.ops)):
            for value in values:
                self.values.pop(value, None)

    def value(self, op: Operation, value: Value) -> bytes:
        number = self.values.get(value)
        if number is None:
            raise TileIRError(f"{op.name} uses a value that is not defined before it")
        return varint(number)

    def op(self, op: Operation) -> bytes:
        spec = op.spec
        if spec.since > self.minor:
            raise VersionError(
                f"the op {spec.name} needs bytecode 13.{spec.since}; it cannot be written as 13.{self.minor}"
            )
        self.locations.append(op.loc)
        out = [varint(spec.opcode), self.results(op)]
        flags = self.flags(op)
        if flags is not None:
            out.append(varint(flags))
        out += [self.attribute(op, a) for a in spec.attributes]
        out += self.operands(op)
        if spec.regions:
            out.append(varint(spec.regions))
            out += map(self.region, op.regions)
        self.define(self.written_results(op))
        return b"".join(out)

    def written_results(self, op: Operation) -> list[Value]:
        """The results that files of this version have."""
        return op.results if self.minor >= op.spec.results_since else []

    def results(self, op: Operation) -> bytes:
        spec = op.spec
        if spec.results is not None and len(op.results) != spec.results:
            raise TileIRError(f"{op.name} has {len(op.results)} results, not {spec.results}")
        results = self.written_results(op)
        types = b"".join(varint(self.numbers.type(r.type)) for r in results)
        counted = spec.counted or any(o.variadic for o in spec.operands)
        return (varint(len(results)) if counted else b"") + types

    def flags(self, op: Operation) -> int | None:
        """The flags word, or None where files of this version have none."""
        bits = 0
        for name, bit in op.spec.flag_bits.items():
            if name in op.spec.units:
                present = bool(op.attributes.get(name))
            else:
                present = (op.attributes.get(name) if name in op.attributes else op.operands.get(name)) is not None
            bits |= present << bit
        if not op.spec.flag_bits:
            return None
        if self.minor < op.spec.flags_since:
            if bits:
                present_names = [n for n, bit in op.spec.flag_bits.items() if bits >> bit & 1]
                raise VersionError(
                    f"{', '.join(present_names)} of {op.name} needs bytecode 13.{op.spec.flags_since}; it cannot be "
                    f"written as 13.{self.minor}"
                )
            return None
        return bits

    def attribute(self, op: Operation, a: AttributeSpec) -> bytes:
        value = op.attributes.get(a.name)
        if a.optional and value is None:
            return b""
        if self.minor < a.since:
            if value != a.default and not (a.kind == "bools" and not any(value or ())):
                raise VersionError(
                    f"{a.name} = {value} of {op.name} needs bytecode 13.{a.since}; it cannot be written as "
                    f"13.{self.minor}"
                )
            return b""
        if a.kind == "bools" and not value:  # none is set
            value = (False,) * len(op.operands["index"])
        return self.field(op.spec, a, value)

    def field(self, spec: OpSpec, a: AttributeSpec, value: Any) -> bytes:
        if value is None:
            raise TileIRError(f"{spec.name} lacks the attribute {a.name}")
        if a.kind in ENUMS:
            since = ENUM_SINCE.get((a.kind, value), 1)
            if since > self.minor:
                raise VersionError(
                    f"{a.name} = {value} of {spec.name} needs bytecode 13.{since}; it cannot be written as "
                    f"13.{self.minor}"
                )
            return varint(ENUMS[a.kind].index(value))
        simple: dict[str, Callable[[Any], bytes]] = {
            "int": varint,
            "bool": varint,
            "str": self.string,
            "const": self.constant,
        }
        if a.kind in simple:
            return simple[a.kind](value)
        if a.kind == "i32s":
            return integers(value, 4)
        if a.kind == "bools":
            return varint(len(value)) + bytes(value)
        attribute: Attribute = value
        return (
            write_tagged(attribute, self.numbers) if a.kind == "predicate" else write_payload(attribute, self.numbers)
        )

    def string(self, text: str) -> bytes:
        return varint(self.numbers.string(text))

    def constant(self, data: bytes) -> bytes:
        return varint(self.numbers.constant(data))

    def operands(self, op: Operation) -> list[bytes]:
        if op.spec.layout == "C":
            found = list(op.values())
            return [varint(len(found)), *(self.value(op, v) for v in found)]
        out = []
        for o in op.spec.operands:
            operand = op.operands.get(o.name)
            if isinstance(operand, list):
                out.append(varint(len(operand)))
                out += [self.value(op, v) for v in operand]
            elif operand is not None:
                out.append(self.value(op, operand))
            elif not o.optional:
                raise TileIRError(f"{op.name} lacks the operand {o.name}")
        return out

    def region(self, block: Block | None) -> bytes:
        if block is None:
            return varint(0)
        outside = self.count
        self.define(block.args)
        types = b"".join(varint(self.numbers.type(a.type)) for a in block.args)
        ops = b"".join(map(self.op, block.ops))
        self.count = outside
        self.release(block)
        return varint(1) + varint(len(block.args)) + types + varint(len(block.ops)) + ops
