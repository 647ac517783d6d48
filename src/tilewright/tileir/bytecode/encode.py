"""Writes the bodies of entries, checked against the version of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tilewright.tileir.bytecode.attributes import Numbers, write_payload
from tilewright.tileir.bytecode.encoders import Step, encoder
from tilewright.tileir.bytecode.primitives import varint
from tilewright.tileir.debug import Location
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.module import Attribute, Block, Operation, Value
from tilewright.tileir.optable import ENUM_SINCE, NEWEST
from tilewright.tileir.types import Type

# By version and opcode, those that were needed so far.
_ENCODERS: dict[int, dict[int, tuple[Step, ...]]] = {minor: {} for minor in range(1, NEWEST + 1)}


class BodyWriter:
    """Writes the body of an entry; ``locations`` collects the location of each op in the order of the bytes.

    ``values`` and ``count`` number what is defined, ``types`` are the numbers of types by the identity of the object,
    which the module keeps alive.
    """

    def __init__(self, minor: int, numbers: Numbers) -> None:
        self.minor = minor
        self.numbers = numbers
        self.locations: list[Location | None] = []
        self.values: dict[Value, int] = {}
        self.count = 0
        self.types: dict[int, int] = {}
        self.encoders = _ENCODERS[minor]

    def body(self, block: Block) -> bytes:
        """The ops of an entry, whose parameters are the arguments of ``block``."""
        out = bytearray()
        self.define(block.args)
        self.ops(block, out)
        return bytes(out)

    def ops(self, block: Block, out: bytearray) -> None:
        encoders, located = self.encoders, self.locations.append
        for op in block.ops:
            steps = encoders.get(op.spec.opcode)
            if steps is None:
                steps = encoders[op.spec.opcode] = self.encoder(op)
            located(op.loc)
            try:
                for step in steps:
                    step(self, op, out)
            except KeyError as lacking:
                raise TileIRError(f"{op.name} lacks {lacking}") from None

    def encoder(self, op: Operation) -> tuple[Step, ...]:
        spec = op.spec
        if spec.since > self.minor:
            raise VersionError(
                f"the op {spec.name} needs bytecode 13.{spec.since}; it cannot be written as 13.{self.minor}"
            )
        return encoder(spec.opcode, self.minor)

    def define(self, values: Sequence[Value]) -> None:
        for value in values:
            self.values[value] = self.count
            self.count += 1

    def release(self, block: Block) -> None:
        """Forget the values of a block, whose numbers are given again."""
        for values in (block.args, *(op.results for op in block.ops)):
            for value in values:
                self.values.pop(value, None)

    # What encoders call.

    def value(self, op: Operation, value: Value) -> bytes:
        number = self.values.get(value)
        return self.undefined(op) if number is None else varint(number)

    def type(self, type: Type) -> int:
        number = self.types[id(type)] = self.numbers.type(type)
        return number

    def region(self, block: Block | None, out: bytearray) -> None:
        if block is None:
            out.append(0)
            return
        outside = self.count
        self.define(block.args)
        out += b"\1" + varint(len(block.args)) + b"".join(varint(self.type(a.type)) for a in block.args)
        out += varint(len(block.ops))
        self.ops(block, out)
        self.count = outside
        self.release(block)

    def payload(self, attribute: Attribute) -> bytes:
        return write_payload(attribute, self.numbers)

    def flags(self, op: Operation, given: Sequence[bool] | None) -> bytes:
        """One flag for each index; without any, none is set."""
        flags = given or (False,) * len(op.operands["index"])
        return varint(len(flags)) + bytes(flags)

    # What they raise.

    def undefined(self, op: Operation) -> NoReturn:
        raise TileIRError(f"{op.name} uses a value that is not defined before it")

    def lacks(self, op: Operation, name: str) -> NoReturn:
        raise TileIRError(f"{op.name} lacks {name!r}")

    def wrong_results(self, op: Operation) -> NoReturn:
        raise TileIRError(f"{op.name} has {len(op.results)} results, not {op.spec.results}")

    def wrong_flags(self, op: Operation, flags: int) -> NoReturn:
        names = ", ".join(n for n, bit in op.spec.flag_bits.items() if flags >> bit & 1)
        raise VersionError(
            f"{names} of {op.name} needs bytecode 13.{op.spec.flags_since}; it cannot be written as 13.{self.minor}"
        )

    def too_new(self, op: Operation, name: str, value: Any, since: int) -> NoReturn:
        raise VersionError(
            f"{name} = {value} of {op.name} needs bytecode 13.{since}; it cannot be written as 13.{self.minor}"
        )

    def wrong_value(self, op: Operation, name: str, enumeration: str, value: Any) -> NoReturn:
        since = ENUM_SINCE.get((enumeration, value))
        if since is None:
            raise TileIRError(f"{name} of {op.name} is {value!r}, which is no {enumeration}")
        self.too_new(op, name, value, since)
