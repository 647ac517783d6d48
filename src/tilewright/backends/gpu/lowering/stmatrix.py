"""Stores to shared memory by ``stmatrix``: a warp stores four matrices of 8 rows of 16 bytes at once."""

from __future__ import annotations

import functools
import operator

from tilewright.backends.gpu.lowering.context import Context, Rule
from tilewright.backends.gpu.lowering.memory import RULES as MEMORY_RULES
from tilewright.backends.gpu.lowering.tiles import layout_of
from tilewright.backends.gpu.lowering.words import packed_words
from tilewright.ir.core import Op
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout
from tilewright.ir.ops.gpu.memory import SharedStore

_ELEMENT_BYTES = 2
_ROW = 8  # elements


def stores_matrices(offsets: LinearLayout) -> bool:
    """Whether ``stmatrix`` stores 16-bit elements to the ``offsets`` where each register, lane and warp has its own.

    Two registers of four lanes are a row of 16 bytes, the other lanes are rows; two more bits of registers tell four
    matrices apart.
    """
    registers, lanes = offsets.bases(REGISTER), offsets.bases(LANE)
    rows = (*registers[1:], *lanes[2:], *offsets.bases(WARP))
    along = registers[:1] + lanes[:2] == (1, 2, 4)
    return along and len(registers) >= 3 and offsets.is_injective and all(b % _ROW == 0 for b in rows)


def _shared_store(cx: Context, op: SharedStore) -> None:
    buffer = cx.buffers[op.buffer]
    offsets = buffer.type.layout.invert_and_compose(layout_of(op.value))
    fits = cx.target.capability >= 90 and buffer.type.dtype.bytes == _ELEMENT_BYTES
    if not fits or op.value.tile.is_pointer or not stores_matrices(offsets):
        MEMORY_RULES[SharedStore](cx, op)
        return
    b, registers, lanes = cx.builder, offsets.bases(REGISTER), offsets.bases(LANE)
    # Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
    rows, warps = (*lanes[2:], *registers[1:3]), offsets.bases(WARP)
    mine, of_warp = cx.linear(cx.lane, rows), cx.linear(cx.warp, warps)
    assert mine is not None  # as no basis is 0
    mine = mine if of_warp is None else b.xor(mine, of_warp)
    moving = functools.reduce(operator.or_, (*rows, *warps))
    words = packed_words(cx, cx.of(op.value), buffer.type.dtype)
    bases = {}
    for first in range(0, 1 << len(registers), 8):
        place = offsets.index(register=first)
        mixed, alone = place & moving, place & ~moving
        if mixed not in bases:
            swizzled = b.xor(mine, cx.i32(mixed)) if mixed else mine
            bases[mixed] = b.add(buffer.address, b.mul(swizzled, cx.i32(_ELEMENT_BYTES)))
        at = f"[$0+{alone * _ELEMENT_BYTES}]" if alone else "[$0]"
        matrices = words[first // 2 : first // 2 + 4]
        cx.asm(f"stmatrix.sync.aligned.m8n8.x4.shared.b16 {at}, {{$1, $2, $3, $4}};", [], [bases[mixed], *matrices])


RULES: dict[type[Op], Rule] = {SharedStore: _shared_store}
