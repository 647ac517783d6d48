"""Functions that write ops, made from the table: one for each op and version, as ``decoders`` read them.

Each is one expression of the parts that it appends, all of them bytes. What an op lacks, or a version does not know,
raises an error in there; ``BodyWriter`` then finds out what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tileir.bytecode.primitives import VARINTS, integers
from tilewright.tileir.module import Operation, Value
from tilewright.tileir.optable import BY_OPCODE, ENUM_SINCE, ENUMS, AttributeSpec, OpSpec

Encoder = Callable[[Any, Operation, list[bytes], dict[Value, bytes], dict[int, bytes]], None]


def encoder(opcode: int, minor: int) -> Encoder:
    """The function that writes the op in files of version 13.``minor``, which has it."""
    spec = BY_OPCODE[opcode]
    names: dict[str, Any] = {"varints": VARINTS, "integers": integers}
    lines, parts = _results(spec, minor)
    parts = [repr(VARINTS[opcode]), *parts]
    if spec.flag_bits:
        bits = f"({' | '.join(_bit(spec, name, bit) for name, bit in spec.flag_bits.items())})"
        # older files have no flags, and none may be set
        parts.append(f"varints[{bits}]" if minor >= spec.flags_since else f"{{0: b''}}[{bits}]")
    parts += [_attribute(a, minor, names) for a in spec.attributes]
    parts += _counted_operands(spec) if spec.layout == "C" else _operands(spec)
    if spec.regions:
        parts.append(f"varints[{spec.regions}]")
    text = ["def write(w, op, out, values, types):", *lines]
    if spec.operands:
        text.append("operands = op.operands")
    if spec.attributes or spec.units:
        text.append("attributes = op.attributes")
    text.append(f"out += ({', '.join(parts)},)")
    if spec.regions:
        text.append("for block in op.regions: w.region(block, out)")
    if spec.results != 0 and minor >= spec.results_since:
        number = "values[result] = varints[len(values)]"
        text.append(number if spec.results == 1 else f"for result in results: {number}")
    exec(compile("\n    ".join(text), f"<encoder of {spec.name} in 13.{minor}>", "exec"), names)
    write: Encoder = names["write"]
    return write


def _results(spec: OpSpec, minor: int) -> tuple[list[str], list[str]]:
    """Lines that check the results, and the parts for their types."""
    lines = ["result, = op.results" if spec.results == 1 else "results = op.results"]
    if spec.results not in (None, 1):
        lines.append(f"if len(results) != {spec.results}: raise ValueError")
    written = minor >= spec.results_since
    parts = []
    if spec.counted or any(o.variadic for o in spec.operands):
        count = 0 if not written else spec.results
        parts.append("varints[len(results)]" if count is None else repr(VARINTS[count]))
    if written and spec.results == 1:
        parts.append("types.get(id(result.type)) or w.type(result.type)")
    elif written and spec.results != 0:
        parts.append("*[types.get(id(r.type)) or w.type(r.type) for r in results]")
    return lines, parts


def _bit(spec: OpSpec, name: str, bit: int) -> str:
    if name in spec.units:
        return f"({1 << bit} if attributes[{name!r}] else 0)"
    kept = any(a.name == name for a in spec.attributes)
    return f"({1 << bit} if {'attributes' if kept else 'operands'}[{name!r}] is not None else 0)"


_WRITTEN = {
    "int": "varints[{}]",
    "bool": "varints[{} and 1]",
    "str": "varints[w.numbers.string({})]",
    "const": "varints[w.numbers.constant({})]",
    "i32s": "integers(tuple({}), 4)",
    "predicate": "w.predicates.get(id({0})) or w.predicate({0})",
    "hints": "w.payload({})",
    "array": "w.payload({})",
    "bools": "w.flags(op, {})",
}


def known_values(a: AttributeSpec, minor: int) -> dict[str, bytes]:
    """The values of an enumeration that the version has, as they are written."""
    return {v: VARINTS[i] for i, v in enumerate(ENUMS[a.kind]) if ENUM_SINCE.get((a.kind, v), 1) <= minor}


def _attribute(a: AttributeSpec, minor: int, names: dict[str, Any]) -> str:
    value = f"attributes[{a.name!r}]"
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
    parts = []
    for o in spec.operands:
        value = f"operands[{o.name!r}]"
        if o.variadic:
            parts += [f"varints[len({value})]", f"*map(values.__getitem__, {value})"]
        else:
            parts.append(_optional(value, "values[{}]") if o.optional else f"values[{value}]")
    return parts


def _counted_operands(spec: OpSpec) -> list[str]:
    """One count of all operands, and the operands."""
    counts, parts = [], []
    for o in spec.operands:
        value = f"operands[{o.name!r}]"
        if o.variadic:
            counts.append(f"len({value})")
            parts.append(f"*map(values.__getitem__, {value})")
        elif o.optional:
            counts.append(f"({value} is not None)")
            parts.append(_optional(value, "values[{}]"))
        else:
            counts.append("1")
            parts.append(f"values[{value}]")
    return [f"varints[{' + '.join(counts)}]", *parts]
