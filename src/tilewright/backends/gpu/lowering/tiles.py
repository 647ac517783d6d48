"""Ops that make tiles, rearrange their registers, exchange them within a warp, or combine those of a thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tilewright.analysis.gpu.layout_conversion import within_warp
from tilewright.backends.gpu.lowering.addresses import BaseOffset
from tilewright.backends.gpu.lowering.assembly import F32, F64, I32, I64
from tilewright.backends.gpu.lowering.context import Context, Registers, Rule, instruction, nothing, unsupported
from tilewright.backends.gpu.lowering.integers import extended, is_narrow
from tilewright.backends.gpu.lowering.maxima import has_integer_maxima, integer_maxima
from tilewright.backends.vector.types import resized
from tilewright.ir.core import Block, Op
from tilewright.ir.layouts import LANE, REGISTER, WARP
from tilewright.ir.ops.gpu import tiles
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.memory import Assume, AssumeBlocked, AssumeBounded, AssumeDivisible, Bid, NumBlocks
from tilewright.ir.ops.shape import Constant, Iota, Permute, Reshape, Undefined
from tilewright.ir.span import sums


def _constant(cx: Context, op: Constant | Undefined) -> None:
    value = op.value if isinstance(op, Constant) else 0
    count = 1 if op.type.layout is None else op.type.layout.num_registers
    cx.values[op.result] = [cx.scalars.constant(op.type.dtype, value)] * count


def _iota(cx: Context, op: Iota) -> None:
    b, dtype = cx.builder, op.type.element
    type_ = I32 if is_narrow(dtype) else ir.IntType(dtype.bitwidth)
    if op.type.layout is None:
        cx.values[op.result] = [ir.Constant(type_, 0)]
        return
    layout = op.type.layout
    mine = cx.thread_part(layout)
    moving = layout.mask(LANE, WARP)
    found: list[Any] = [None] * layout.num_registers
    last = math.prod(layout.shape) - 1
    start = resized(b, mine, type_)
    for r in range(0, layout.num_registers, cx.strides.get(op.result, 1)):
        index = layout.index(register=r)
        if is_narrow(dtype):
            number = b.xor(mine, cx.i32(index))
            found[r] = number if last <= dtype.max else extended(b, number, dtype)
        elif not index & moving:
            found[r] = cx.base_offsets.at(BaseOffset(start, index, last))
        else:
            found[r] = resized(b, b.xor(mine, cx.i32(index)), type_)
    cx.values[op.result] = found


def _same(cx: Context, op: Permute | AssumeBlocked | AssumeBounded | AssumeDivisible) -> None:
    cx.values[op.result] = cx.of(op.x)


def _reshape(cx: Context, op: Reshape) -> None:
    """To a scalar, every thread has the only element."""
    registers = cx.of(op.x)
    cx.values[op.result] = registers if op.shape else registers[:1]


def _splat(cx: Context, op: tiles.Splat) -> None:
    cx.values[op.result] = cx.of(op.x) * op.result.layout.num_registers


def _broadcast(cx: Context, op: tiles.BroadcastDistributed) -> None:
    sources = tiles.broadcast_sources(op.x.layout, op.result.layout)
    assert sources is not None
    registers = cx.of(op.x)
    cx.values[op.result] = [registers[r] for r in sources]


def _drop_bits(cx: Context, op: tiles.DropBits) -> None:
    before = op.x.layout
    kept = [i for i in range(len(before.bases(REGISTER))) if not before.free_mask(REGISTER) >> i & 1]
    registers = cx.of(op.x)
    cx.values[op.result] = [registers[r] for r in sums(1 << bit for bit in kept)]


# -- exchange


def exchanged(cx: Context, x: ir.Value, mode: str, lane: ir.Value, own: int = 0) -> ir.Value:
    """What another lane of the warp has in ``x``: that which differs in ``lane`` (bfly), or that one (idx), with bits
    of this lane where ``own`` has ones."""
    b, type_ = cx.builder, x.type

    def word(value: ir.Value) -> ir.Value:
        return cx.asm(f"shfl.sync.{mode}.b32 $0, $1, $2, {own << 8 | 31}, -1;", [I32], [value, lane])[0]

    if type_ == F32:
        return b.bitcast(word(b.bitcast(x, I32)), F32)
    if type_ in (F64, I64):
        bits = b.bitcast(x, I64) if type_ == F64 else x
        low, high = word(b.trunc(bits, I32)), word(b.trunc(b.lshr(bits, ir.Constant(I64, 32)), I32))
        both = b.or_(b.zext(low, I64), b.shl(b.zext(high, I64), ir.Constant(I64, 32)))
        return b.bitcast(both, F64) if type_ == F64 else both
    return resized(b, word(resized(b, x, I32)), type_)


def _shuffle(cx: Context, op: tiles.Shuffle) -> None:
    cx.values[op.result] = [exchanged(cx, x, "bfly", cx.i32(op.lane_xor)) for x in cx.of(op.x)]


def _convert(cx: Context, op: tiles.ConvertLayout) -> None:
    """Each register of the result is one of the own registers, or of those of a lane of the same warp."""
    conversion = within_warp(op.x.layout, op.result.layout)
    if conversion is None:
        raise unsupported(op, "a conversion of layouts between warps was not lowered to shared memory")
    b, registers = cx.builder, cx.of(op.x)
    images = {dim: conversion.images(dim) for dim in (REGISTER, LANE, WARP)}
    lanes_move = any(i[1] for i in images[REGISTER]) or any(i[1] for i in images[WARP])
    lanes_move |= any(image[1] != 1 << bit for bit, image in enumerate(images[LANE]))
    # Bits of its number that a lane shares with the one that it reads cost no instruction.
    own = sum(image[1] for bit, image in enumerate(images[LANE]) if image[1] == 1 << bit)
    elsewhere = [i[1] for dim in (REGISTER, WARP) for i in images[dim]] + [i[1] for i in images[LANE] if i[1] & ~own]
    own = 0 if any(lane & own for lane in elsewhere) else own
    others = [i[1] & ~own for i in images[LANE]], [i[1] for i in images[WARP]]
    other = cx.of_thread(*others) if lanes_move else None
    # Which register is wanted may depend on the lane and the warp: all that are possible are exchanged.
    wanted = cx.of_thread(*([i[0] for i in images[dim]] for dim in (LANE, WARP)))
    varying = [i[0] for dim in (LANE, WARP) for i in images[dim] if i[0]]
    choices = sorted({*sums(varying)})
    found = []
    for r in range(conversion.size(REGISTER)):
        held, lane, _ = conversion.apply(register=r)
        candidates = []
        for choice in choices:
            x = registers[held ^ choice]
            if lanes_move:
                base = cx.i32(0) if other is None else other
                x = exchanged(cx, x, "idx", b.xor(base, cx.i32(lane)), own)
            candidates.append(x)
        result = candidates[0]
        for choice, x in zip(choices[1:], candidates[1:]):
            assert wanted is not None
            result = b.select(b.icmp_unsigned("==", wanted, cx.i32(choice)), x, result)
        found.append(result)
    cx.values[op.result] = found


# -- combining


def combiner(cx: Context, body: Block) -> Callable[[Registers, Registers], Registers]:
    """What emits the combiner of two elements of each of its tiles."""
    *ops, end = body.ops
    emits = [cx.element(op) if op.spec.elementwise and type(op) not in cx.rules else None for op in ops]
    if len(ops) == 1 and emits[0] is not None and (*ops[0].operands, *end.operands) == (*body.args, ops[0].result):
        emit = emits[0]
        cx.locate(ops[0])
        return lambda left, right: [emit((*left, *right))]

    def combine(left: Registers, right: Registers) -> Registers:
        for arg, register in zip(body.args, (*left, *right)):
            cx.values[arg] = [register]
        for op, emit in zip(ops, emits):
            if emit is None:
                cx.emit(op)
                continue
            cx.locate(op)
            cx.values[op.result] = [emit([cx.scalar(v) for v in op.operands])]
        return [cx.scalar(v) for v in end.operands]

    return combine


def _combined(
    cx: Context, op: tiles.ThreadReduce, values: list[Registers], groups: Sequence[Sequence[int]]
) -> list[Registers]:
    """What the combiner of ``op`` gives for each of the ``groups`` of registers."""
    rows, combine = [], combiner(cx, op.body)
    for group in groups:
        found = [[x[r] for x in values] for r in group]
        while len(found) > 1:
            found = [combine(found[k], found[k + 1]) for k in range(0, len(found), 2)]
        rows.append(found[0])
    return rows


def _thread_reduce(cx: Context, op: tiles.ThreadReduce) -> None:
    layout = op.values[0].layout
    values, groups = [cx.of(v) for v in op.values], op.groups()
    if has_integer_maxima(cx, op):
        rows = [
            [x]
            for x in integer_maxima(
                cx,
                [[values[0][r] for r in group] for group in groups],
                lambda: [x for (x,) in _combined(cx, op, values, groups)],
            )
        ]
    else:
        rows = _combined(cx, op, values, groups)
    # Groups that repeat others, in registers that hold the same elements, are left out.
    outer = [i for i, image in enumerate(layout.images(REGISTER)) if not image[op.axis]]
    chosen = sums(1 << n for n, bit in enumerate(outer) if not layout.free_mask(REGISTER) >> bit & 1)
    for k, v in enumerate(op.results):
        cx.values[v] = [rows[c][k] for c in chosen]


def _thread_scan(cx: Context, op: tiles.ThreadScan) -> None:
    results, combine = [list(cx.of(v)) for v in op.values], combiner(cx, op.body)
    for group in op.groups():
        order = group[::-1] if op.reverse else group
        running = [x[order[0]] for x in results]
        for r in order[1:]:
            running = combine(running, [x[r] for x in results])
            for x, value in zip(results, running):
                x[r] = value
    for v, x in zip(op.results, results):
        cx.values[v] = x


# -- the grid


def _grid(cx: Context, op: Bid | NumBlocks) -> None:
    cx.values[op.result] = [cx.special(f"{'ctaid' if isinstance(op, Bid) else 'nctaid'}.{'xyz'[op.axis]}")]


RULES: dict[type[Op], Rule] = {
    **dict.fromkeys((Constant, Undefined), _constant),
    Iota: _iota,
    **dict.fromkeys((Permute, AssumeBlocked, AssumeBounded, AssumeDivisible), _same),
    Reshape: _reshape,
    tiles.Splat: _splat,
    tiles.BroadcastDistributed: _broadcast,
    tiles.DropBits: _drop_bits,
    tiles.Shuffle: _shuffle,
    tiles.ConvertLayout: _convert,
    tiles.ThreadReduce: _thread_reduce,
    tiles.ThreadScan: _thread_scan,
    **dict.fromkeys((Bid, NumBlocks), _grid),
    Assume: nothing,
    Exit: instruction("exit;"),
}
