"""Structured control flow as basic blocks; what loops carry and branches yield are phis. Conditions are uniform.

Left operands of MMA ops that loops carry are words there, as the MMA ops take them, and so is what a loop loads for a
later iteration: what divides words would wait for the load.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.context import Context, Exits, Registers, Rule, nothing
from tilewright.backends.gpu.lowering.words import bytes_of, packed, unpacked, words_of
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import bfloat16, bool_, float16
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.wgmma import Wgmma

_WORD_BYTES = 4


def _flat(cx: Context, values: Sequence[Value], words: Sequence[int]) -> Registers:
    """The registers of ``values``; words of so many elements of them, where ``words`` says so."""
    found: Registers = []
    for value, each in zip(values, words):
        element = value.tile.dtype
        found += packed(cx, words_of(bytes_of(element), each), cx.of(value), element) if each else cx.of(value)
    return found


def _bind(cx: Context, values: Sequence[Value], registers: Sequence[ir.Value], words: Sequence[int]) -> None:
    """Give ``values`` their registers, which are ``_flat``."""
    at = 0
    for value, each in zip(values, words):
        element, count = value.tile.dtype, _count(value) // (each or 1)
        own = list(registers[at : at + count])
        cx.values[value] = unpacked(cx, words_of(bytes_of(element), each), own, element) if each else own
        at += count


def _count(value: Value) -> int:
    return 1 if value.tile.layout is None else value.tile.layout.num_registers


def _elements_of_words(cx: Context, *values: Value) -> int:
    """How many elements of ``values``, which one variable holds in turn, are in a word there, where one of them is the
    left operand of an MMA op of warp groups, or goes to a sum of 16 bits, which may be in flight; 0 for others."""
    is_operand = any(isinstance(op, Wgmma) and op.x is v for v in values for op in v.users)
    in_words = is_operand or not cx.packed_accumulators.isdisjoint(values)
    return _WORD_BYTES // values[0].tile.element.bytes if in_words else 0


def _loaded_together(op: For | Loop, value: Value) -> int:
    """How many elements of ``value``, which ``op`` carries, are in a word that an iteration loads; 0 for others."""
    carried, end = list(op.carried), op.body.terminator
    for _ in carried:
        if value in carried and isinstance(end, Continue):
            value = end.values[carried.index(value)]
    element = value.tile.dtype
    if not isinstance(value.op, GlobalLoad) or element is bool_ or bytes_of(element) >= _WORD_BYTES:
        return 0
    each = min(value.op.vector, _WORD_BYTES // bytes_of(element))
    return each if element in (float16, bfloat16) or each * bytes_of(element) == _WORD_BYTES else 0


def _join(phis: Sequence[ir.Instruction], incoming: Sequence[tuple[Registers, ir.Block]]) -> None:
    for values, block in incoming:
        for phi, value in zip(phis, values):
            phi.add_incoming(value, block)


def _after(
    cx: Context, results: Sequence[Value], incoming: Sequence[tuple[Registers, ir.Block]], words: Sequence[int]
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
    carried_words = [_elements_of_words(cx, v) or _loaded_together(op, v) for v in op.carried]
    result_words = [_elements_of_words(cx, v) for v in op.results]
    if isinstance(op, For):  # its results are what it carries
        carried_words = result_words = [b or a for a, b in zip(carried_words, result_words)]
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
    words = [_elements_of_words(cx, v) for v in op.results]
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
