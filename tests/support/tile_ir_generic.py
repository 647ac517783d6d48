"""The text of Tile IR in MLIR's generic form, as tools of MLIR print any dialect with ``-mlir-print-op-generic``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.tileir.module import Block, Module, Operation, Value
from tilewright.tileir.optable import BY_NAME, ENUMS, OpSpec
from tilewright.tileir.text.printer import attribute_text, constant_text, hints_text, predicate_text, quoted
from tilewright.tileir.types import Function, Tile

# what MLIR calls the enumerations; the others are numbers of i32
_ENUMS = {
    "FloatOrdering": "comparison_ordering",
    "Predicate": "comparison_predicate",
    "Overflow": "overflow",
    "Reduction": "multimem_reduction_kind",
    "Rounding": "rounding",
    "Signedness": "signedness",
}


def generic(module: Module) -> str:
    """``module`` in the generic form."""
    head = _attributes(BY_NAME["module"], {"sym_name": "kernels", "producer": module.producer})
    lines = ['"builtin.module"() ({', f'"cuda_tile.module"() <{{{head}}}> ({{']
    for g in module.globals:
        known = {"sym_name": g.name, "value": (g.type, g.value), "alignment": g.alignment}
        known |= {"symbol_visibility": g.visibility, "constant": g.constant}
        lines.append(f'"cuda_tile.global"() <{{{_attributes(BY_NAME["global"], known)}}}> : () -> ()')
    for entry in module.entries:
        names: dict[Value, str] = {}
        known = {"sym_name": entry.name, "function_type": Function(tuple(v.type for v in entry.body.args))}
        known |= {"optimization_hints": entry.hints}
        lines.append(f'"cuda_tile.entry"() <{{{_attributes(BY_NAME["entry"], known)}}}> (')
        lines += _region(entry.body, names)
        lines.append(") : () -> ()")
    return "\n".join([*lines, "}) : () -> ()", "}) : () -> ()"]) + "\n"


def _region(block: Block | None, names: dict[Value, str]) -> Iterator[str]:
    yield "{"
    if block is not None:
        for value in block.args:
            names[value] = f"%{len(names)}"
        yield f"^bb0({', '.join(f'{names[v]}: {v.type}' for v in block.args)}):" if block.args else "^bb0:"
        for op in block.ops:
            yield from _op(op, names)
    yield "}"


def _op(op: Operation, names: dict[Value, str]) -> Iterator[str]:
    operands = list(op.values())
    known = dict(op.attributes)
    if op.name == "constant":
        known["value"] = op.results[0].type, known["value"]
    given = _attributes(op.spec, known)
    sizes = [len(v) if isinstance(v, list) else int(v is not None) for v in op.operands.values()]
    if op.spec.layout == "S":
        given += f"{', ' * bool(given)}operandSegmentSizes = array<i32: {', '.join(map(str, sizes))}>"
    name = f"%{len(names)}"
    for i, value in enumerate(op.results):
        names[value] = name if len(op.results) == 1 else f"{name}#{i}"
    if len(op.results) > 1:
        names[Value(op.results[0].type)] = ""  # the next number
    head = f"{name}{f':{len(op.results)}' * (len(op.results) > 1)} = " if op.results else ""
    properties = f" <{{{given}}}>" if given else ""
    yield f'{head}"cuda_tile.{op.name}"({", ".join(names[v] for v in operands)}){properties}{" (" * bool(op.regions)}'
    for i, region in enumerate(op.regions):
        yield from _region(region, names)
        yield ")" if i + 1 == len(op.regions) else ","
    yield f": ({_types(operands)}) -> ({_types(op.results)})"


def _types(values: Sequence[Value]) -> str:
    return ", ".join(str(v.type) for v in values)


def _attributes(spec: OpSpec, known: dict[str, Any]) -> str:
    shown = [
        f"{a.name} = {_attribute(a.kind, known[a.name])}" for a in spec.attributes if known.get(a.name) is not None
    ]
    return ", ".join(shown + [name for name in spec.units if known.get(name)])


def _attribute(kind: str, value: Any) -> str:
    if kind in ENUMS:
        number = f"{ENUMS[kind].index(value)} : i32"
        return f"#cuda_tile.{_ENUMS[kind]}<{value}>" if kind in _ENUMS else number
    if kind == "const":
        type, data = value
        assert isinstance(type, Tile)
        return f"dense<{constant_text(type, data).split(': ', 1)[1]} : {type}"
    return {
        "array": attribute_text,
        "bool": lambda v: str(v).lower(),
        "bools": lambda v: f"array<i1{': ' * bool(v)}{', '.join(str(b).lower() for b in v)}>",
        "hints": lambda v: f"#cuda_tile.optimization_hints{hints_text(v)}",
        "i32s": lambda v: f"array<i32{': ' * bool(v)}{', '.join(map(str, v))}>",
        "int": lambda v: f"{v} : i64",
        "predicate": lambda v: f"#cuda_tile.{predicate_text(v)}",
        "str": quoted,
        "type": str,
    }[kind](value)
