"""MMA ops of warp groups (wgmma, sm_90a): operands in shared memory, the left one also in registers.

Warp w of a warp group, four warps, has rows 16 w to 16 w + 15 of each 64 of an accumulator; within them, lane 4 g + t
has rows g and g + 8, and of each eight columns 2 t and 2 t + 1. PTX ISA, "Register fragments for wgmma.mma_async".
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.opdef import GPU_OPS, Effect, attribute, define, operand, operands, optional_operand
from tilewright.ir.ops.control import For
from tilewright.ir.ops.gpu.memory import READ_WRITE, shared
from tilewright.ir.ops.gpu.tma import swizzle_of
from tilewright.ir.ops.linear import MmaOp, mma_accepts
from tilewright.ir.ops.rules import Unary, require, tile, types_of
from tilewright.ir.types import SharedType, TileType, Type

GROUP_WARPS = 4
ROWS = 64  # of an accumulator that a warp group has at once
STEP_BYTES = 32  # of a row that one instruction multiplies
MOST_COLUMNS = 256
_OPERANDS = ("f16", "bf16", "tf32", "f8e4m3fn", "f8e5m2", "i8", "u8")
_ACCUMULATORS = ("f16", "f32", "i32")


def wgmma_layout(shape: Sequence[int], warps: int, *, bytes: int = 2) -> LinearLayout:
    """The layout of an accumulator of ``shape``: warp groups have 64 rows each, in turn, or parts of the columns, if
    there are 64 rows. ValueError for fewer rows.

    With a left operand in registers rows may be in any order. Of elements of so many ``bytes``, four, rows 4 and 16
    change places: lanes that load them from memory along the rows, swizzled, find them in different banks then.
    """
    m, n = shape
    groups = warps // GROUP_WARPS
    across = groups_across(shape, warps)
    if warps % GROUP_WARPS or m % (ROWS * groups // across) or n % (8 * across):
        raise ValueError(f"{m} rows and {n} columns for {warps} warps")
    rows, columns = ROWS * groups // across, n // across
    registers = [(0, 1), (8, 0), *((0, 8 << i) for i in range(log2(columns // 8)))]
    registers += [(rows << i, 0) for i in range(log2(m // rows))]
    threads = _rows_of_threads([(0, 2), (0, 4)], warps // across, bytes)
    threads[WARP] += [(0, columns << i) for i in range(log2(across))]
    return LinearLayout.of((m, n), {REGISTER: registers, **threads})


def groups_across(shape: Sequence[int], warps: int) -> int:
    """How many warp groups have parts of the same rows of an accumulator of ``shape``."""
    return warps // GROUP_WARPS if shape[0] == ROWS else 1


def _rows_of_threads(columns: list[tuple[int, int]], warps: int, bytes: int) -> dict[str, list[tuple[int, int]]]:
    """The bases of lanes, of which the first ones choose ``columns``, and of warps."""
    slow, *groups = (16 << i for i in range(log2(warps)))
    fast = 4
    if bytes == 4:
        fast, slow = slow, fast
    return {LANE: [*columns, (1, 0), (2, 0), (fast, 0)], WARP: [(row, 0) for row in (slow, *groups)]}


def left_layout(shape: Sequence[int], warps: int, bytes: int = 2) -> LinearLayout:
    """The layout of a left operand of 16 bits in registers: that of an accumulator of its shape; of 8 bits, lanes
    have four elements side by side, of 32 bits one."""
    if bytes == 2:
        return wgmma_layout(shape, warps)
    (m, k), groups, each = shape, warps // GROUP_WARPS, 4 // bytes
    registers = [*((0, 1 << i) for i in range(log2(each))), (8, 0)]
    registers += [(0, 4 * each << i) for i in range(log2(k // (4 * each)))]
    registers += [(ROWS * groups << i, 0) for i in range(log2(m // (ROWS * groups)))]
    return LinearLayout.of((m, k), {REGISTER: registers, **_rows_of_threads([(0, each), (0, 2 * each)], warps, bytes)})


INTERLEAVED = 16  # elements along k that ``gpu.interleave`` exchanges


@define("gpu.interleave", table=GPU_OPS)
class Interleave(Unary):
    """``x`` in another order along ``axis``: of each 16, element 8 b + 2 t + a comes to 4 t + 2 b + a.

    Both operands of an MMA op in this order give the same. A thread that has elements of 8 bits as those of an
    accumulator has them as a left operand then. ``assign-layouts`` leaves a reshape, a permutation and a reshape.
    """

    axis: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(0 <= self.axis < t.rank and t.shape[self.axis] % INTERLEAVED == 0, self, "{} along {}", t, self.axis)
        return (t,)

    @property
    def split(self) -> tuple[int, ...]:
        """The shape in which axes are exchanged: those at ``axis`` + 1 and the next."""
        shape = self.x.tile.shape
        return (*shape[: self.axis], shape[self.axis] // INTERLEAVED, 2, 4, 2, *shape[self.axis + 1 :])

    @property
    def order(self) -> tuple[int, ...]:
        a = self.axis
        return (*range(a + 1), a + 2, a + 1, *range(a + 3, self.x.tile.rank + 3))

    @staticmethod
    def source(index: int) -> int:
        """Which of 16 elements comes to ``index``."""
        return index & 1 | (index & 2) << 2 | (index & 12) >> 1


def wgmma_multiplies(x: DType, y: DType, acc: DType) -> bool:
    """Whether there are instructions for operands and accumulators of these types, in the PTX of the first drivers that
    know wgmma: integers of two types came later."""
    return (x is y or x.is_floating) and x.short in _OPERANDS and acc.short in _ACCUMULATORS and mma_accepts(x, y, acc)


def readable(t: SharedType, k_axis: int) -> bool:
    """Whether wgmma reads an operand that lies in shared memory like this, with k along ``k_axis``.

    Operands of 16 bits may lie along k or across it, others only along k.
    """
    found = swizzle_of(t)
    if found is None or t.shape[k_axis] * t.dtype.bytes < STEP_BYTES or t.shape[1 - k_axis] % 8:
        return False
    return found[0] == k_axis or (t.dtype.bytes == 2 and t.shape[k_axis] % 16 == 0)


@define("gpu.stage_operand", table=GPU_OPS)
class StageOperand(Op):
    """``value`` in shared memory, as an operand of ``gpu.wgmma``: in the place of what was fetched to ``buffer``, or in
    a buffer that ``stage-stores`` gives it.

    With several ``copies``, an iteration of the loop around it loads it, and ``pipeline-loads`` gives it a ring of
    them: of at least three, as what was put there in the iteration before stays there until the MMA op of this one has
    begun; of two where the MMA op is ``waited`` for in its own.
    """

    value: Value = operand()
    buffer: Value | None = optional_operand()
    type: SharedType = attribute(SharedType)
    copies: int = attribute(int, default=1)
    waited: bool = attribute(bool, default=False)

    @property
    def is_in_ring(self) -> bool:
        """Whether a loop puts it into a ring of copies: what is the same in all iterations has left it, and has one."""
        return self.copies > 1 and isinstance(self.parent, For)

    def infer(self) -> tuple[Type, ...]:
        v, t = tile(self, self.value), self.type
        several = self.buffer is None and self.copies > (1 if self.waited else 2)
        require(self.copies == 1 or several, self, "{} copies", self.copies)
        require((t.dtype, t.shape, t.copies) == (v.dtype, v.shape, 1), self, "{} as {}", v, t)
        if self.buffer is not None:
            of = shared(self, self.buffer)
            require((of.bytes, of.copies) == (t.bytes, 1), self, "{} in the place of {}", t, of)
        return (t,)


@define("gpu.load_fetched", effect=Effect.READ, table=GPU_OPS)
class LoadFetched(Op):
    """The tile in ``buffer``, which was fetched, in registers, where it is converted for ``gpu.stage_operand``;
    ``assign-layouts`` makes ``gpu.shared_load`` of it."""

    buffer: Value = operand()
    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        t = shared(self, self.buffer)
        require((t.dtype, t.shape, t.copies) == (self.type.dtype, self.type.shape, 1), self, "{} as {}", t, self.type)
        return (self.type,)


@define("gpu.wgmma", effect=Effect.READ, table=GPU_OPS)
class Wgmma(MmaOp):
    """x @ y + acc, by the warp groups of the CTA, of tiles in shared memory: begun as one group of MMA ops.

    ``x`` may also be in registers, in the ``left_layout``, and then have fewer columns than ``y`` has rows: it is
    multiplied with those from row ``first`` on.
    Afterwards at most ``pending`` groups stay in flight; with none given, as many as there are. An accumulator in
    flight may only be carried on and added to; ``gpu.wgmma_wait`` gives the finished one. The tiles stay as they are
    until then; one in registers is ``held`` by that wait, or waited for at once.
    """

    x: Value = operand()
    y: Value = operand()
    acc: Value = operand()
    pending: int | None = attribute(int, NoneType, default=0)
    first: int = attribute(int, default=0)

    def infer(self) -> tuple[Type, ...]:
        in_registers = isinstance(self.x.type, TileType)
        x = tile(self, self.x) if in_registers else shared(self, self.x)
        y, acc = shared(self, self.y), tile(self, self.acc)
        dtype = x.element if isinstance(x, TileType) else x.dtype
        require(wgmma_multiplies(dtype, y.dtype, acc.element), self, "dtypes of {}, {} and {}", x, y, acc)
        require(acc.rank == 2 and y.copies == 1, self, "{}, {} and {}", x, y, acc)
        m, n = acc.shape
        k, depth = x.shape[-1], y.shape[0]
        part = 0 <= self.first <= depth - k if in_registers else k == depth
        divided = m == ROWS and not in_registers and (acc.layout is None or acc.layout.size(WARP) > GROUP_WARPS)
        fit = x.shape == (m, k) and part and y.shape[1] == n <= MOST_COLUMNS * (1 + divided)  # by two warp groups
        require(fit, self, "shapes of {}, {} and {}", x, y, acc)
        if isinstance(x, TileType):
            wanted = None if acc.layout is None else left_layout(x.shape, acc.layout.size(WARP), dtype.bytes)
            require(x.layout == wanted, self, "{} in registers", x)
        else:
            require(x.copies == 1 and readable(x, 1), self, "the layout of {}", x)
        require(readable(y, 0), self, "the layout of {}", y)
        if acc.layout is not None:
            warps = acc.layout.size(WARP)
            across = groups_across(acc.shape, warps)
            fits = warps % GROUP_WARPS == 0 and m % (warps // GROUP_WARPS // across * ROWS) == 0
            fits = fits and (across == 1 or not in_registers)
            require(fits and acc.layout == self.sum_layout(warps), self, "the layout of {}", acc)
        require(self.pending is None or self.pending >= 0, self, "{} groups", self.pending)
        return (acc,)

    def sum_layout(self, warps: int) -> LinearLayout:
        """The layout of the accumulator, of so many ``warps``."""
        bytes = self.x.tile.element.bytes if isinstance(self.x.type, TileType) else 2
        return wgmma_layout(self.acc.tile.shape, warps, bytes=bytes)


@define("gpu.wgmma_wait", effect=READ_WRITE, table=GPU_OPS)
class WgmmaWait(Op):
    """The accumulators ``accs``, finished, when at most ``pending`` groups of MMA ops are in flight, none of theirs.

    Until then registers keep the left operands ``held``, which are those of all MMA ops that end here. The values
    ``after`` are computed before, that is beside the MMA ops.
    """

    accs: list[Value] = operands()
    held: list[Value] = operands()
    after: list[Value] = operands()
    pending: int = attribute(int, default=0)

    def infer(self) -> tuple[Type, ...]:
        require(self.pending >= 0, self, "{} groups", self.pending)
        for v in (*self.accs, *self.held, *self.after):
            require(isinstance(v.type, TileType), self, "{} is in no registers", v.type)
        return types_of(self.accs)
