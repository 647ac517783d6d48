"""The layout in which threads load tiles from where the TMA unit has put them."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir.core import Value
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.gpu.tma import swizzle_of
from tilewright.ir.ops.gpu.wgmma import (
    GROUP_WARPS,
    INTERLEAVED,
    ROWS,
    Interleave,
    LoadFetched,
    StageOperand,
    Wgmma,
    left_layout,
    wgmma_layout,
)
from tilewright.ir.ops.shape import Permute, Reshape
from tilewright.ir.reachable import reachable
from tilewright.ir.types import SharedType, TileType
from tilewright.transforms.gpu.blocked_layouts import VECTOR_BYTES, blocked
from tilewright.transforms.gpu.mma_loops import is_by_element, readers, turns_from
from tilewright.transforms.gpu.operand_layouts import layout_before


def fetched_layout(op: LoadFetched, warps: int) -> LinearLayout:
    """The layout in which threads load a tile from where it was fetched to: that of sums to which it is added, or of
    left operands that are computed of it in registers, which is the same, or that are seen transposed; or in which they
    convert it."""
    converted = readers(op.buffer)
    turns = {mma.x: turns_from(op.result, mma.x) for mma in converted}
    turned = next((x for x, ways in turns.items() if True in ways), None)
    if turned is not None:
        return left_layout(turned.tile.shape, warps, turned.tile.element.bytes).permute((1, 0))
    permuted = (u for v in made_of(op.result) for u in v.users if isinstance(u, Permute))
    sums = next((layout for u in permuted if (layout := layout_as_sums(u, warps)) is not None), None)
    if sums is not None:
        return sums.permute((1, 0)).reshape(op.type.shape)
    left = any(turns.values())
    if not converted or left or meets_accumulator(op.result):
        return wgmma_layout(op.type.shape, warps)
    lefts = [mma.x for mma in converted if isinstance(mma.x.type, TileType)]
    packed = (layout_before(x, left_layout(x.tile.shape, warps), op) for x in lefts)
    return next((layout for layout in packed if layout is not None), None) or _converted_layout(op, warps)


def made_of(x: Value) -> Iterator[Value]:
    """What ``x`` becomes, element by element."""
    return reachable([x], lambda v: [r for u in v.users if is_by_element(u) for r in u.results])


def meets_accumulator(x: Value) -> bool:
    """Whether what is made of ``x``, element by element, is combined with what is made of an accumulator."""
    users = {u for v in made_of(x) for u in v.users if u.spec.elementwise and len(u.operands) > 1}
    given = [v for u in users for v in u.operands]
    beside = reachable(given, lambda v: v.op.operands if v.op is not None and is_by_element(v.op) else ())
    return any(isinstance(v.op, Wgmma) for v in beside)


def layout_as_sums(op: Permute, warps: int) -> LinearLayout | None:
    """The layout of sums for what ``op`` transposes of 16 bits, if warp groups multiply it as more, or what is made of
    their sums meets it; else None."""
    t = op.result.tile
    wide = t.rank == 2 and warps % GROUP_WARPS == t.shape[0] % (ROWS * warps // GROUP_WARPS) == 0
    users = [u for v in made_of(op.result) for u in v.users if isinstance(u, StageOperand)]
    staged = any(u.type.dtype.bytes > t.element.bytes for u in users)  # not read across k
    if t.is_pointer or t.element.bytes != 2 or not wide or not (staged or meets_accumulator(op.result)):
        return None
    return wgmma_layout(t.shape, warps)


def _converted_layout(op: LoadFetched, warps: int) -> LinearLayout:
    """The layout of what threads convert, and put back: 16 bytes of a row at once; where rows are to lie side by side
    afterwards, as instructions transpose matrices of them."""
    assert isinstance(op.buffer.type, SharedType)
    found = swizzle_of(op.buffer.type)
    inner = 1 if found is None else found[0]
    (n, d), users = op.result.tile.shape, list(op.result.users)
    while len(users) == 1 and isinstance(users[0], Reshape):
        users = list(users[0].result.users)
    interleaved = any(isinstance(user, Interleave) for user in users)
    size = op.result.tile.element.bytes
    if inner == size == 1 and all(isinstance(user, Cast) and user.dtype.bytes == 2 for user in users):
        return blocked((n, d), (1, 0), VECTOR_BYTES // 2, warps)  # as they are stored again
    if inner == 1 and (interleaved or (size == 1 and min(n, d) >= INTERLEAVED)):
        # ``ldmatrix`` gives a lane two bytes of two rows, and transposes them in pairs: with those of the next rows, or
        # of those that ``Interleave`` puts beside them, they are words to store by ``stmatrix``.
        rows = [1 << i for i in range(log2(INTERLEAVED))]
        one, next_, *others = ((Interleave.source(row) if interleaved else row, 0) for row in rows)
        left = [
            *((0, INTERLEAVED << i) for i in range(log2(d // INTERLEAVED))),
            *((INTERLEAVED << i, 0) for i in range(log2(n // INTERLEAVED))),
        ]
        lanes = [*others, *((0, 2 << i) for i in range(log2(INTERLEAVED // 2)))]
        own = max(len(left) - log2(warps), 0)
        left += [(0, 0)] * (log2(warps) - len(left))  # more warps than matrices
        return LinearLayout.of((n, d), {REGISTER: [(0, 1), one, next_, *left[:own]], LANE: lanes, WARP: left[own:]})
    if inner == 1 and size == 4 and n >= LANES and d >= INTERLEAVED:
        # A thread transposes four rows of four. Those of a quarter of a warp are apart in both directions by as much as
        # the swizzles of rows and columns need to keep them out of the same banks.
        lanes = [(8, 4), (16, 8), (4, 0), (8, 0), (16, 0)]
        left = [(0, INTERLEAVED << i) for i in range(log2(d // INTERLEAVED))]
        left += [(LANES << i, 0) for i in range(log2(n // LANES))]
        own = max(len(left) - log2(warps), 0)
        left += [(0, 0)] * (log2(warps) - len(left))
        registers = [(0, 1), (0, 2), (1, 0), (2, 0), *left[:own]]
        return LinearLayout.of((n, d), {REGISTER: registers, LANE: lanes, WARP: left[own:]})
    return blocked(op.result.tile.shape, (inner, 1 - inner), VECTOR_BYTES // size, warps)
