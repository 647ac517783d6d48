"""Structured control flow as basic blocks; what loops carry and branches yield are phis. Conditions are uniform.

Left operands of MMA ops that loops carry are words there, as the MMA ops take them.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.context import Context, Exits, Registers, Rule, nothing
from tilewright.backends.gpu.lowering.words import packed_words, unpacked_words
from tilewright.ir.core import Op, Value
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.gpu.wgmma import Wgmma

_WORD_BYTES = 4


def _flat(cx: Context, values: Sequence[Value], words: Sequence[bool]) -> Registers:
    """The registers of ``values``; words of them, where ``words`` says so."""
    found = (packed_words(cx, cx.of(v), v.tile.element) if packs else cx.of(v) for v, packs in zip(values, words))
    return [register for registers in found for register in registers]


def _bind(cx: Context, values: Sequence[Value], registers: Sequence[ir.Value], words: Sequence[bool]) -> None:
    """Give ``values`` their registers, which are ``_flat``."""
    at = 0
    for value, packs in zip(values, words):
        count = _count(value)
        if packs:
            count = count * value.tile.element.bytes // _WORD_BYTES
            cx.values[value] = unpacked_words(cx, list(registers[at : at + count]), value.tile.element)
        else:
            cx.values[value] = list(registers[at : at + count])
        at += count


def _count(value: Value) -> int:
    return 1 if value.tile.layout is None else value.tile.layout.num_registers


def _are_words(*values: Value) -> bool:
    """Whether one of ``values``, which one variable holds in turn, is the left operand of an MMA op of warp groups."""
    return any(isinstance(op, Wgmma) and op.x is v for v in values for op in v.users)


def _join(phis: Sequence[ir.Instruction], incoming: Sequence[tuple[Registers, ir.Block]]) -> None:
    for values, block in incoming:
        for phi, value in zip(phis, values):
            phi.add_incoming(value, block)


def _after(
    cx: Context, results: Sequence[Value], incoming: Sequence[tuple[Registers, ir.Block]], words: Sequence[bool]
) -> None:
    """Go on where control comes from these blocks, each with registers for ``results``."""
    if not incoming:
        cx.builder.unreachable()
        cx.builder.position_at_end(cx.builder.append_basic_block("never"))
        cx.values.update((v, [cx.scalars.constant(v.tile.dtype, 0)] * _count(v)) for v in results)
        return
    registers = incoming[0][0]
    if len(incoming) > 1:
        registers = [cx.builder.phi(x.type) for x in registers]
        _join(registers, incoming)
    _bind(cx, results, registers, words)


def _loop(cx: Context, op: For | Loop) -> None:
    b = cx.builder
    header, after = b.append_basic_block("loop"), b.append_basic_block("after")
    carried_words, result_words = [_are_words(v) for v in op.carried], [_are_words(v) for v in op.results]
    if isinstance(op, For):  # its results are what it carries
        carried_words = result_words = [a or b for a, b in zip(carried_words, result_words)]
    inits = _flat(cx, op.inits, carried_words)
    before = b.block
    b.branch(header)
    b.position_at_end(header)
    phis = [b.phi(x.type) for x in inits]
    _join(phis, [(inits, before)])
    exits = Exits(header, after, [], [], carried_words, result_words)
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
    _bind(cx, op.carried, phis, carried_words)
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
    _after(cx, op.results, exits.results, result_words)


def _if(cx: Context, op: If) -> None:
    b = cx.builder
    then, orelse, after = (b.append_basic_block(name) for name in ("then", "else", "joined"))
    b.cbranch(cx.scalar(op.condition), then, orelse)
    words = [_are_words(v) for v in op.results]
    incoming: list[tuple[Registers, ir.Block]] = []
    for block, region in ((then, op.then), (orelse, op.orelse)):
        b.position_at_end(block)
        cx.run(region)
        if isinstance(region.terminator, Yield):
            incoming.append((_flat(cx, region.terminator.values, words), b.block))
            b.branch(after)
    b.position_at_end(after)
    _after(cx, op.results, incoming, words)


def _jump(cx: Context, op: Continue | Break) -> None:
    exits, on = cx.loops[-1], isinstance(op, Continue)
    values = _flat(cx, op.values, exits.carried_words if on else exits.result_words)
    (exits.next_values if on else exits.results).append((values, cx.builder.block))
    cx.builder.branch(exits.header if on else exits.after)


def _return(cx: Context, op: Return) -> None:
    cx.builder.ret_void()


RULES: dict[type[Op], Rule] = {
    For: _loop,
    Loop: _loop,
    If: _if,
    Continue: _jump,
    Break: _jump,
    Yield: nothing,
    Return: _return,
}
