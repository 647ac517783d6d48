"""Writes the bodies of entries, checked against the version of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Union

from tilewright.tileir.bytecode.attributes import Numbers, write_payload, write_predicate
from tilewright.tileir.bytecode.primitives import VARINTS, integers
from tilewright.tileir.debug import Location
from tilewright.tileir.errors import TileIRError, VersionError
from tilewright.tileir.module import Attribute, Block, Operation, Value
from tilewright.tileir.optable import BY_OPCODE, ENUM_SINCE, ENUMS, NEWEST, AttributeSpec, OpSpec
from tilewright.tileir.types import Type

# A location, or the fields of one in a file: those that are equal become one.
WrittenLocation = Union[Location, tuple[Location | None, str, int, int]]
Encoder = Callable[[Any, Operation, list[bytes], dict[Value, bytes], dict[int, bytes]], None]


def encoder(opcode: int, minor: int) -> Encoder:
    """The function that writes the op in files of version 13.``minor``, which has it; made from the table, as those of
    ``decoders`` are. What an op lacks, or a version does not know, raises an error in there; ``BodyWriter`` then finds
    out what it is."""
    spec = BY_OPCODE[opcode]
    lines = ["result, = op.results" if spec.results == 1 else "results = op.results"]
    if spec.results not in (None, 1):
        lines.append(f"if len(results) != {spec.results}: raise ValueError")
    parts, names = written_parts(spec, minor, "attributes[{!r}]".format)
    text = ["def write(w, op, out, values, types):", *lines]
    if spec.operands:
        text.append("operands = op.operands")
    if spec.attributes or spec.units:
        text.append("attributes = op.attributes")
    text.append(f"out += {parts}")
    if spec.regions:
        text.append("for block in op.regions: w.region(block)")
    if spec.results != 0 and minor >= spec.results_since:
        text.append(NUMBERED if spec.results == 1 else "w.define(results)")
    exec(compile("\n    ".join(text), f"<encoder of {spec.name} in 13.{minor}>", "exec"), names)
    write: Encoder = names["write"]
    return write


NUMBERED = "values[result] = varints[len(values)]"


def written_parts(spec: OpSpec, minor: int, attribute: Callable[[str], str]) -> tuple[str, dict[str, Any]]:
    """An expression of all that is written for an op, but its regions, all of them bytes, and the global names in it.
    ``attribute`` gives that for the value of an attribute."""
    names: dict[str, Any] = {"varints": VARINTS, "integers": integers}
    parts = [repr(VARINTS[spec.opcode]), *_results(spec, minor)]
    if spec.flag_bits:
        bits = f"({' | '.join(_bit(spec, name, bit, attribute) for name, bit in spec.flag_bits.items())})"
        # older files have no flags, and none may be set
        parts.append(f"varints[{bits}]" if minor >= spec.flags_since else f"{{0: b''}}[{bits}]")
    parts += [_attribute(a, minor, names, attribute(a.name)) for a in spec.attributes]
    parts += _operands(spec)
    if spec.regions:
        parts.append(repr(VARINTS[spec.regions]))
    return f"({', '.join(parts)},)", names


def _results(spec: OpSpec, minor: int) -> list[str]:
    """The parts for the types of the results."""
    written = minor >= spec.results_since
    parts = []
    if spec.counted or any(o.variadic for o in spec.operands):
        count = 0 if not written else spec.results
        parts.append("varints[len(results)]" if count is None else repr(VARINTS[count]))
    if written and spec.results == 1:
        parts.append("types.get(id(result.type)) or w.type(result.type)")
    elif written and spec.results != 0:
        parts.append("*[types.get(id(r.type)) or w.type(r.type) for r in results]")
    return parts


def _bit(spec: OpSpec, name: str, bit: int, attribute: Callable[[str], str]) -> str:
    if name in spec.units:
        return f"({1 << bit} if {attribute(name)} else 0)"
    kept = any(a.name == name for a in spec.attributes)
    return f"({1 << bit} if {attribute(name) if kept else f'operands[{name!r}]'} is not None else 0)"


_WRITTEN = {
    "int": "varints[{}]",
    "bool": "varints[{} and 1]",
    "str": "varints[w.numbers.string({})]",
    "const": "varints[w.numbers.constant({})]",
    "i32s": "integers(tuple({}), 4)",
    "predicate": "w.known.get(id({0})) or w.predicate({0})",
    "hints": "w.known.get(id({0})) or w.payload({0})",
    "array": "w.known.get(id({0})) or w.payload({0})",
    "bools": "w.flags(operands['index'], {})",
}


def known_values(a: AttributeSpec, minor: int) -> dict[str, bytes]:
    """The values of an enumeration that the version has, as they are written."""
    return {v: VARINTS[i] for i, v in enumerate(ENUMS[a.kind]) if ENUM_SINCE.get((a.kind, v), 1) <= minor}


def _attribute(a: AttributeSpec, minor: int, names: dict[str, Any], value: str) -> str:
    if minor < a.since:  # files of this version mean the default
        return f"{{False: b''}}[any({value} or ())]" if a.kind == "bools" else f"{{{a.default!r}: b''}}[{value}]"
    if a.kind in ENUMS:
        names[a.kind] = known_values(a, minor)
        written = f"{a.kind}[{{}}]"
    else:
        written = _WRITTEN[a.kind]
    return _optional(value, written) if a.optional else written.format(value)


def _optional(value: str, written: str) -> str:
    return f"b'' if (x := {value}) is None else {written.format('x')}"


def _operands(spec: OpSpec) -> list[str]:
    """The operands, each variadic one behind its count; with the layout C all of them behind one."""
    parts, counts = [], []
    for o in spec.operands:
        value = f"operands[{o.name!r}]"
        counts.append(f"len({value})" if o.variadic else f"({value} is not None)" if o.optional else "1")
        if o.variadic:
            parts += [] if spec.layout == "C" else [f"varints[len({value})]"]
            parts.append(f"*map(values.__getitem__, {value})")
        else:
            parts.append(_optional(value, "values[{}]") if o.optional else f"values[{value}]")
    return [f"varints[{' + '.join(counts)}]", *parts] if spec.layout == "C" else parts


class _Encoders(dict[int, Encoder]):
    """By opcode, those of a version that were needed so far."""

    def __init__(self, minor: int) -> None:
        self.minor = minor

    def __missing__(self, opcode: int) -> Encoder:
        spec = BY_OPCODE[opcode]
        if spec.since > self.minor:
            raise VersionError(
                f"the op {spec.name} needs bytecode 13.{spec.since}; it cannot be written as 13.{self.minor}"
            )
        found = self[opcode] = encoder(opcode, self.minor)
        return found


_ENCODERS = {minor: _Encoders(minor) for minor in range(1, NEWEST + 1)}


class BodyWriter:
    """Writes the body of an entry to ``out``; ``locations`` collects the location of each op in the order of the bytes.

    ``values`` has the number of each value that is visible, as it is written; ``types`` those of types, by the identity
    of the object, which somebody keeps alive.
    """

    def __init__(self, minor: int, numbers: Numbers, params: Sequence[Value]) -> None:
        self.minor = minor
        self.numbers = numbers
        self.out: list[bytes] = []
        self.locations: list[WrittenLocation | None] = []
        self.values: dict[Value, bytes] = {}
        self.types: dict[int, bytes] = {}
        self.known: dict[int, bytes] = {}  # predicates, hints and arrays, by identity, too,
        self.kept: list[Attribute] = []  # which are kept alive here
        self.encoders = _ENCODERS[minor]
        self.inside = 0  # ops in regions of the block that is being written
        self.define(params)

    def ops(self, block: Block) -> None:
        encoders, out, values, types = self.encoders, self.out, self.values, self.types
        located = self.locations.append
        try:
            for op in block.ops:
                located(op.loc)
                encoders[op.spec.opcode](self, op, out, values, types)
        except (AttributeError, KeyError, TypeError, ValueError):
            self.explain(op)
            raise

    def define(self, values: Sequence[Value]) -> None:
        numbers = self.values
        for value in values:
            numbers[value] = VARINTS[len(numbers)]

    def begin(self, args: Sequence[Value]) -> tuple[dict[Value, bytes], int, int, int]:
        """Begin a region with these arguments. ``end`` takes what this returns."""
        outside = self.values, len(self.locations), self.inside
        self.values = self.values.copy()  # the numbers of the block are given again behind it
        self.define(args)
        types = [self.types.get(id(a.type)) or self.type(a.type) for a in args]
        self.out += (b"\1", VARINTS[len(types)], *types, b"")
        self.inside = 0
        return *outside, len(self.out) - 1

    def end(self, begun: tuple[dict[Value, bytes], int, int, int]) -> None:
        """End a region: the number of its ops is known."""
        self.values, first, inside, at = begun
        count = len(self.locations) - first
        self.out[at] = VARINTS[count - self.inside]
        self.inside = inside + count

    # What encoders call.

    def type(self, type: Type) -> bytes:
        number = self.types[id(type)] = VARINTS[self.numbers.type(type)]
        return number

    def region(self, block: Block | None) -> None:
        if block is None:
            self.out.append(b"\0")
            return
        begun = self.begin(block.args)
        self.ops(block)
        self.end(begun)

    def payload(self, attribute: Attribute) -> bytes:
        made = self.known[id(attribute)] = write_payload(attribute, self.numbers)
        self.kept.append(attribute)
        return made

    def predicate(self, predicate: Attribute) -> bytes:
        made = self.known[id(predicate)] = write_predicate(predicate)
        self.kept.append(predicate)
        return made

    def flags(self, indices: Sequence[Value], given: Sequence[bool] | None) -> bytes:
        """One flag for each index; without any, none is set."""
        flags = given or (False,) * len(indices)
        return VARINTS[len(flags)] + bytes(flags)

    # What is wrong with an op.

    def explain(self, op: Operation) -> None:
        """Raise an error for the first rule that ``op`` breaks, if there is one."""
        spec = op.spec
        if spec.results is not None and len(op.results) != spec.results:
            raise TileIRError(f"{op.name} has {len(op.results)} results, not {spec.results}")
        for name in [*(a.name for a in spec.attributes), *spec.units]:
            if name not in op.attributes:
                raise TileIRError(f"{op.name} lacks {name!r}")
        if self.minor < spec.flags_since:
            given = {**op.operands, **op.attributes}
            found = [n for n in spec.flag_bits if given[n] is not (False if n in spec.units else None)]
            if found:
                self.too_new(f"{', '.join(found)} of {op.name}", spec.flags_since)
        for a in spec.attributes:
            self.explain_attribute(op, a)
        for o in spec.operands:
            operand = op.operands.get(o.name)
            if operand is None and not o.optional:
                raise TileIRError(f"{op.name} lacks {o.name!r}")
            for value in operand if isinstance(operand, list) else [operand]:
                if value is not None and value not in self.values:
                    raise TileIRError(f"{op.name} uses a value that is not defined before it")

    def explain_attribute(self, op: Operation, a: AttributeSpec) -> None:
        value = op.attributes[a.name]
        if self.minor < a.since:
            if value != a.default and not (a.kind == "bools" and not any(value or ())):
                self.too_new(f"{a.name} = {value} of {op.name}", a.since)
        elif value is None:
            if not a.optional and a.kind != "bools":
                raise TileIRError(f"{op.name} lacks {a.name!r}")
        elif a.kind in ENUMS and value not in known_values(a, self.minor):
            since = ENUM_SINCE.get((a.kind, value))
            if since is None:
                raise TileIRError(f"{a.name} of {op.name} is {value!r}, which is no {a.kind}")
            self.too_new(f"{a.name} = {value} of {op.name}", since)

    def too_new(self, what: str, since: int) -> NoReturn:
        raise VersionError(f"{what} needs bytecode 13.{since}; it cannot be written as 13.{self.minor}")
