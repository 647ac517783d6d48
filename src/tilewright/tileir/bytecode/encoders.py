"""Functions that write ops, made from the table: one for each op and version, as ``decoders`` read them.

An encoder is a few steps, each for one part of the declaration. ``w`` is the writer of the body, ``out`` what was
written before; numbers below 128, almost all, are one byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tileir.bytecode.attributes import write_predicate
from tilewright.tileir.bytecode.primitives import integers, varint
from tilewright.tileir.module import Operation
from tilewright.tileir.optable import BY_OPCODE, ENUM_SINCE, ENUMS, AttributeSpec, OpSpec

Step = Callable[[Any, Operation, bytearray], None]


def encoder(opcode: int, minor: int) -> tuple[Step, ...]:
    """The steps that write the op in files of version 13.``minor``, which has it."""
    spec = BY_OPCODE[opcode]
    if _is_plain(spec, minor):
        return (_plain(spec, minor),)
    steps = [_results(spec, minor)]
    if spec.flag_bits:
        steps.append(_flags(spec, minor))
    steps += [_attribute(spec, a, minor) for a in spec.attributes]
    if spec.operands:
        steps.append(_counted_operands if spec.layout == "C" else _operands(spec))
    if spec.regions:
        steps.append(_regions)
    if spec.results != 0 and minor >= spec.results_since:
        steps.append(_define)
    return tuple(steps)


def _is_plain(spec: OpSpec, minor: int) -> bool:
    """Whether an op has one result, a few operands that are always there, flags and enumerations: most have nothing
    else."""
    plain = spec.results == 1 and not spec.counted and not spec.regions
    operands = all(not o.variadic and not o.optional for o in spec.operands) and spec.layout != "C"
    attributes = all(a.kind in ENUMS and not a.optional and a.since <= minor for a in spec.attributes)
    return plain and operands and attributes and minor >= spec.results_since


def _plain(spec: OpSpec, minor: int) -> Step:
    """All of such an op in one step."""
    head = varint(spec.opcode)
    names = tuple(o.name for o in spec.operands)
    flags = _flags(spec, minor) if spec.flag_bits else None
    enumerations = [(a.name, _known(a, minor), _enumeration(a, minor)) for a in spec.attributes]

    def step(w: Any, op: Operation, out: bytearray) -> None:
        if len(op.results) != 1:
            w.wrong_results(op)
        (result,) = op.results
        out += head
        values, operands = w.values, op.operands
        number = w.types.get(id(result.type))
        if number is None:
            number = w.type(result.type)
        if number < 128:
            out.append(number)
        else:
            out += varint(number)
        if flags is not None:
            flags(w, op, out)
        for name, known, checked in enumerations:
            number = known.get(op.attributes[name])
            if number is None:
                checked(w, op, out)  # which says what is wrong
            else:
                out.append(number)
        for name in names:
            number = values.get(operands[name])
            if number is None:
                w.undefined(op)
            elif number < 128:
                out.append(number)
            else:
                out += varint(number)
        values[result] = w.count
        w.count += 1

    return step


def _results(spec: OpSpec, minor: int) -> Step:
    counted = spec.counted or any(o.variadic for o in spec.operands)
    written = minor >= spec.results_since
    head, wanted = varint(spec.opcode), spec.results

    def step(w: Any, op: Operation, out: bytearray) -> None:
        results = op.results
        if wanted is not None and len(results) != wanted:
            w.wrong_results(op)
        out += head
        if counted:
            out += varint(len(results) if written else 0)
        if written:
            types = w.types
            for result in results:
                number = types.get(id(result.type))
                if number is None:
                    number = w.type(result.type)
                if number < 128:
                    out.append(number)
                else:
                    out += varint(number)

    return step


def _flags(spec: OpSpec, minor: int) -> Step:
    kept = {a.name for a in spec.attributes}
    units = [(name, 1 << bit) for name, bit in spec.flag_bits.items() if name in spec.units]
    attributes = [(name, 1 << bit) for name, bit in spec.flag_bits.items() if name in kept]
    others = [(n, 1 << bit) for n, bit in spec.flag_bits.items() if n not in kept and n not in spec.units]
    known = minor >= spec.flags_since

    def step(w: Any, op: Operation, out: bytearray) -> None:
        flags = 0
        for name, bit in units:
            if op.attributes[name]:
                flags |= bit
        for name, bit in attributes:
            if op.attributes[name] is not None:
                flags |= bit
        for name, bit in others:
            if op.operands[name] is not None:
                flags |= bit
        if known:
            out.append(flags)  # there are fewer than seven
        elif flags:
            w.wrong_flags(op, flags)

    return step


_WRITTEN: dict[str, Callable[[Any, Operation, Any], bytes]] = {
    "int": lambda w, op, value: varint(value),
    "bool": lambda w, op, value: b"\1" if value else b"\0",
    "str": lambda w, op, value: varint(w.numbers.string(value)),
    "const": lambda w, op, value: varint(w.numbers.constant(value)),
    "i32s": lambda w, op, value: integers(tuple(value), 4),
    "predicate": lambda w, op, value: write_predicate(value),
    "hints": lambda w, op, value: w.payload(value),
    "array": lambda w, op, value: w.payload(value),
}


def _attribute(spec: OpSpec, a: AttributeSpec, minor: int) -> Step:
    if minor < a.since:
        return _unwritten(a)
    if a.kind in ENUMS:
        return _enumeration(a, minor)
    name, optional = a.name, a.optional
    if a.kind == "bools":
        return lambda w, op, out: out.extend(w.flags(op, op.attributes[name]))
    written = _WRITTEN[a.kind]

    def step(w: Any, op: Operation, out: bytearray) -> None:
        value = op.attributes[name]
        if value is not None:
            out += written(w, op, value)
        elif not optional:
            w.lacks(op, name)

    return step


def _unwritten(a: AttributeSpec) -> Step:
    """Files of this version mean the default."""

    def step(w: Any, op: Operation, out: bytearray) -> None:
        value = op.attributes[a.name]
        if value != a.default and not (a.kind == "bools" and not any(value or ())):
            w.too_new(op, a.name, value, a.since)

    return step


def _known(a: AttributeSpec, minor: int) -> dict[str, int]:
    """The numbers of the values that the version has."""
    return {v: i for i, v in enumerate(ENUMS[a.kind]) if ENUM_SINCE.get((a.kind, v), 1) <= minor}


def _enumeration(a: AttributeSpec, minor: int) -> Step:
    name, optional, kind = a.name, a.optional, a.kind
    known = _known(a, minor)

    def step(w: Any, op: Operation, out: bytearray) -> None:
        value = op.attributes[name]
        number = known.get(value)
        if number is not None:
            out.append(number)
        elif value is not None or not optional:
            w.wrong_value(op, name, kind, value)

    return step


def _counted_operands(w: Any, op: Operation, out: bytearray) -> None:
    found = list(op.values())
    out += varint(len(found))
    for value in found:
        out += w.value(op, value)


def _operands(spec: OpSpec) -> Step:
    operands = [(o.name, o.variadic, o.optional) for o in spec.operands]

    def step(w: Any, op: Operation, out: bytearray) -> None:
        for name, variadic, optional in operands:
            operand = op.operands[name]
            if variadic:
                out += varint(len(operand))
                for value in operand:
                    out += w.value(op, value)
            elif operand is not None:
                out += w.value(op, operand)
            elif not optional:
                w.lacks(op, name)

    return step


def _regions(w: Any, op: Operation, out: bytearray) -> None:
    out += varint(op.spec.regions)
    for block in op.regions:
        w.region(block, out)


def _define(w: Any, op: Operation, out: bytearray) -> None:
    number, values = w.count, w.values
    for result in op.results:
        values[result] = number
        number += 1
    w.count = number
