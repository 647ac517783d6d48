"""Functions that read ops, made from the table: one for each op and version.

Reading is a matter of microseconds an op, so each op gets straight-line code. What a line of it expects is kept
beside the line: an error says it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.tileir.bytecode.attributes import op_integers, read_array, read_hints, read_predicate
from tilewright.tileir.bytecode.primitives import long_varint
from tilewright.tileir.module import Operation, Value
from tilewright.tileir.optable import BY_OPCODE, ENUM_SINCE, ENUMS, AttributeSpec, OpSpec
from tilewright.tileir.types import TOKEN

# What the code of decoders calls.
_CALLED: tuple[Any, ...] = (Operation, Value, long_varint, op_integers, read_array, read_hints, read_predicate)
Decoder = Callable[[Any, bytes, int, list[Value], list[Any]], tuple[Operation, int]]


class _Source:
    """Lines of code, and what each expects."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.expected: list[str] = []

    def add(self, expected: str, *lines: str) -> None:
        for line in lines:
            self.lines.append(f"    {line}")
            self.expected.append(expected)

    def varint(self, name: str, expected: str, indent: str = "") -> None:
        self.add(
            expected,
            f"{indent}{name} = data[pos]",
            f"{indent}pos += 1",
            f"{indent}if {name} > 127: {name}, pos = long_varint(data, pos - 1)",
        )


@functools.cache
def decoder(opcode: int, minor: int) -> tuple[Decoder, tuple[str, ...]]:
    """The function that reads the op in files of version 13.``minor``, and what each of its lines expects."""
    spec = BY_OPCODE[opcode]
    source = _Source()
    source.add("an op", "start = pos - 1")
    _results(source, spec, minor)
    has_flags = bool(spec.flag_bits) and minor >= spec.flags_since
    if has_flags:
        source.varint("flags", f"the flags of {spec.name}")
        limit = 1 << len(spec.flag_bits)
        expected = f"flags of {spec.name} below {limit}"
        source.add(expected, f"if flags >= {limit}: raise IndexError")
    elif spec.flag_bits:
        source.add("", "flags = 0")
    names: dict[str, object] = {}
    attributes = [f"{a.name!r}: {_attribute(source, spec, a, minor, names)}" for a in spec.attributes]
    attributes += [f"{unit!r}: {_bit(spec, unit)}" for unit in spec.units]
    operands = _operands(source, spec)
    if spec.name == "constant":
        source.add("", "r.check_constant(results[0].type, a_value, pos)")
    _finish(source, spec, attributes, operands, minor)
    code = "\n".join(["def read(r, data, pos, values, types):", *source.lines])
    names |= {"spec": spec, "new": object.__new__, "TOKEN": TOKEN} | {called.__name__: called for called in _CALLED}
    exec(compile(code, f"<decoder of {spec.name} in 13.{minor}>", "exec"), names)
    read: Any = names["read"]
    return read, ("", *source.expected)


def _bit(spec: OpSpec, name: str) -> str:
    return f"flags & {1 << spec.flag_bits[name]} != 0"


def _results(source: _Source, spec: OpSpec, minor: int) -> None:
    number = spec.results if minor >= spec.results_since else 0
    counted = spec.counted or any(o.variadic for o in spec.operands)
    what = f"the type of a result of {spec.name}"
    if counted:
        source.varint("count", f"the number of results of {spec.name}")
        if number is not None:
            expected = f"{number} results of {spec.name}"
            source.add(expected, f"if count != {number}: raise IndexError")
    if minor < spec.results_since:  # tokens, which files of this version neither hold nor number
        source.add("", f"results = [Value(TOKEN) for _ in range({spec.results})]")
        return
    if number == 1:
        source.varint("t", what)
        source.add(what, "results = [Value(types[t])]")
        return
    source.add("", "results = []")
    if number != 0:
        source.add(what, f"for _ in range({'count' if number is None else number}):")
        source.varint("t", what, "    ")
        source.add(what, "    results.append(Value(types[t]))")


_DEFERRED = {
    "hints": "read_hints(r.cursor(pos), r)",
    "array": "read_array(r.cursor(pos), r)",
    "predicate": "read_predicate(r.cursor(pos), r)",
    "i32s": "op_integers(r.cursor(pos), 4, 'integers of an op')",
    "bools": "r.bools(pos)",
}


def _attribute(source: _Source, spec: OpSpec, a: AttributeSpec, minor: int, names: dict[str, object]) -> str:
    """Add what reads ``a``; returns the expression of its value."""
    if minor < a.since:
        return repr(a.default)
    variable = f"a_{a.name}"
    what = f"{a.name} of {spec.name}"
    indent = ""
    if a.optional:
        source.add(what, f"{variable} = None", f"if {_bit(spec, a.name)}:")
        indent = "    "
    if a.kind in _DEFERRED:
        source.add(what, f"{indent}{variable} = {_DEFERRED[a.kind]}", f"{indent}pos = r.position")
        return variable
    source.varint(variable, what, indent)
    if a.kind == "bool":
        source.add(f"0 or 1 as {what}", f"{indent}{variable} = (False, True)[{variable}]")
    elif a.kind in ("str", "const"):
        table = {"str": "strings", "const": "constants"}[a.kind]
        source.add(
            f"the number of an entry of the table of {table} as {what}", f"{indent}{variable} = r.{table}[{variable}]"
        )
    elif a.kind in ENUMS:
        known = tuple(v for v in ENUMS[a.kind] if ENUM_SINCE.get((a.kind, v), 1) <= minor)
        names[a.kind] = known
        source.add(f"a number below {len(known)} as {what}", f"{indent}{variable} = {a.kind}[{variable}]")
    return variable


def _operands(source: _Source, spec: OpSpec) -> list[str]:
    if spec.layout == "C":
        return _counted_operands(source, spec)
    found = []
    for i, o in enumerate(spec.operands):
        variable = f"v{i}"
        what = f"an earlier value as {o.name} of {spec.name}"
        if o.variadic:
            source.varint("count", f"the number of {o.name} of {spec.name}")
            source.add("", f"{variable} = []")
            source.add(what, "for _ in range(count):")
            source.varint("v", what, "    ")
            source.add(what, f"    {variable}.append(values[v])")
        else:
            indent = ""
            if o.optional:
                source.add(what, f"{variable} = None", f"if {_bit(spec, o.name)}:")
                indent = "    "
            source.varint(variable, what, indent)
            source.add(what, f"{indent}{variable} = values[{variable}]")
        found.append(f"{o.name!r}: {variable}")
    return found


def _counted_operands(source: _Source, spec: OpSpec) -> list[str]:
    what = f"an earlier value as an operand of {spec.name}"
    source.varint("count", f"the number of operands of {spec.name}")
    source.add("", "found = []")
    source.add(what, "for _ in range(count):")
    source.varint("v", what, "    ")
    source.add(what, "    found.append(values[v])")
    parts = []
    for i, o in enumerate(spec.operands):
        given = f"found[{i}:]" if o.variadic else f"found[{i}]{f' if len(found) > {i} else None' if o.optional else ''}"
        parts.append(f"{o.name!r}: {given}")
    fixed = sum(not o.variadic and not o.optional for o in spec.operands)
    most = None if any(o.variadic for o in spec.operands) else len(spec.operands)
    expected = f"{fixed} operands of {spec.name}" if most == fixed else f"{fixed} or more operands of {spec.name}"
    source.add(expected, f"if len(found) < {fixed}: raise IndexError")
    if most is not None:
        source.add(f"at most {most} operands of {spec.name}", f"if len(found) > {most}: raise IndexError")
    return parts


def _finish(source: _Source, spec: OpSpec, attributes: list[str], operands: list[str], minor: int) -> None:
    regions = "[]"
    if spec.regions:
        source.varint("count", f"the number of regions of {spec.name}")
        source.add(f"{spec.regions} regions of {spec.name}", f"if count != {spec.regions}: raise IndexError")
        source.add("", "regions, pos = r.regions(pos, count, values)")
        regions = "regions"
    if spec.results != 0 and minor >= spec.results_since:
        source.add("", "values += results")
    # field by field, in two thirds of the time of a call
    source.add("", "op = new(Operation)", "op.spec, op.results, op.loc, op.offset = spec, results, None, start")
    source.add("", f"op.operands, op.attributes = {{{', '.join(operands)}}}, {{{', '.join(attributes)}}}")
    source.add("", f"op.regions = {regions}", "return op, pos")
