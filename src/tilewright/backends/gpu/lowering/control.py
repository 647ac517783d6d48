"""Structured control flow as basic blocks; what loops carry and branches yield are phis. Conditions are uniform."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.context import Context, Exits, Registers, Rule
from tilewright.ir.core import Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield


def _phis(cx: Context, like: Sequence[ir.Value]) -> list[ir.Instruction]:
    return [cx.builder.phi(x.type) for x in like]


def _flat(cx: Context, values: Sequence[Value]) -> Registers:
    return [register for v in values for register in cx.of(v)]


def _bind(cx: Context, values: Sequence[Value], counts: Sequence[int], registers: Sequence[ir.Value]) -> None:
    """Give ``values`` their ``counts`` registers each."""
    at = 0
    for value, count in zip(values, counts):
        cx.values[value] = list(registers[at : at + count])
        at += count


def _counts(values: Sequence[Value]) -> list[int]:
    return [1 if v.tile.layout is None else v.tile.layout.num_registers for v in values]


def _join(phis: Sequence[ir.Instruction], incoming: Sequence[tuple[Registers, ir.Block]]) -> None:
    for values, block in incoming:
        for phi, value in zip(phis, values):
            phi.add_incoming(value, block)


def _loop(cx: Context, op: For | Loop) -> None:
    b = cx.builder
    header, after = b.append_basic_block("loop"), b.append_basic_block("after")
    inits = _flat(cx, op.inits)
    before = b.block
    b.branch(header)
    b.position_at_end(header)
    phis = _phis(cx, inits)
    _join(phis, [(inits, before)])
    _bind(cx, op.carried, _counts(op.carried), phis)
    exits = Exits(header, after, [], [])
    index = None
    if isinstance(op, For):
        lower, upper, step = (cx.scalar(v) for v in op.bounds)
        index = b.phi(lower.type)
        index.add_incoming(lower, before)
        cx.values[op.body.args[0]] = [index]
        compare = b.icmp_signed if op.lower.tile.element.is_signed else b.icmp_unsigned
        body = b.append_basic_block("body")
        b.cbranch(compare("<", index, upper), body, after)
        exits.results.append((list(phis), header))
        b.position_at_end(body)
    cx.loops.append(exits)
    cx.run(op.body)
    cx.loops.pop()
    _join(phis, exits.next_values)
    if index is not None:
        for _, block in exits.next_values:
            at_end = ir.IRBuilder(block)
            at_end.position_before(block.terminator)
            index.add_incoming(at_end.add(index, step), block)
    b.position_at_end(after)
    if not exits.results:
        b.unreachable()
        b.position_at_end(b.append_basic_block("never"))
        return
    results = _phis(cx, exits.results[0][0])
    _join(results, exits.results)
    _bind(cx, op.results, _counts(op.results), results)


def _if(cx: Context, op: If) -> None:
    b = cx.builder
    then, orelse, after = (b.append_basic_block(name) for name in ("then", "else", "joined"))
    b.cbranch(cx.scalar(op.condition), then, orelse)
    incoming: list[tuple[Registers, ir.Block]] = []
    for block, region in ((then, op.then), (orelse, op.orelse)):
        b.position_at_end(block)
        cx.run(region)
        if isinstance(region.terminator, Yield):
            incoming.append((_flat(cx, region.terminator.values), b.block))
            b.branch(after)
    b.position_at_end(after)
    if not incoming:  # both leave
        b.unreachable()
        b.position_at_end(b.append_basic_block("never"))
        for v, count in zip(op.results, _counts(op.results)):
            cx.values[v] = [cx.scalars.vector.constant(v.tile.dtype, 0)] * count
        return
    results = _phis(cx, incoming[0][0])
    _join(results, incoming)
    _bind(cx, op.results, _counts(op.results), results)


def _continue(cx: Context, op: Continue) -> None:
    exits = cx.loops[-1]
    exits.next_values.append((_flat(cx, op.values), cx.builder.block))
    cx.builder.branch(exits.header)


def _break(cx: Context, op: Break) -> None:
    exits = cx.loops[-1]
    exits.results.append((_flat(cx, op.values), cx.builder.block))
    cx.builder.branch(exits.after)


def _nothing(cx: Context, op: Op) -> None:
    """A yield, whose values the op around it takes."""


def _return(cx: Context, op: Return) -> None:
    cx.builder.ret_void()


RULES: dict[type[Op], Rule] = {
    For: _loop,
    Loop: _loop,
    If: _if,
    Continue: _continue,
    Break: _break,
    Yield: _nothing,
    Return: _return,
}
