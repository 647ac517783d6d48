"""MMA ops on distributed tiles, with the layouts of their fragments.

In an ``mma.sync`` of shape (m, n, k), lane 4 g + t holds rows g and g + 8 of A and of the accumulator, and column g of
B: along k words t and t + 4, and of the accumulator columns 2 t and 2 t + 1. PTX ISA, "Matrix Fragments for mma".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, float32, tfloat32
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.opdef import GPU_OPS, attribute, define, operand
from tilewright.ir.ops.gpu.tiles import distributed
from tilewright.ir.ops.linear import MmaOp, mma_accepts
from tilewright.ir.ops.rules import require
from tilewright.ir.types import Type

Instruction = tuple[int, int, int]
_MOST_SUMS = 160  # registers of a thread for an accumulator of float32, and for sums of products that are added to it
_APART = 64 * 64  # elements of an accumulator, with more of which two kinds of products are added up in turn
FMA: Instruction = (1, 1, 1)  # no tensor cores: each thread multiplies and adds what it holds

# The shape of the mma.sync for operands of so many bits.
_BY_WIDTH: dict[int, Instruction] = {8: (16, 8, 32), 16: (16, 8, 16), 32: (16, 8, 8), 64: (8, 8, 4)}
_TENSOR_CORE = ("f16", "bf16", "tf32", "f64", "i8", "u8", "f8e4m3fn", "f8e5m2")
_FMA = ("f32", "f64", "i32")


def instruction_for(dtype: DType, k: int) -> Instruction:
    """The ``mma.sync`` that multiplies ``dtype`` over an extent of ``k``; ``FMA`` where none does."""
    if dtype.short not in _TENSOR_CORE:
        return FMA
    found = _BY_WIDTH[dtype.bitwidth]
    return found if k >= found[2] else FMA


def accumulator_layout(
    instruction: Instruction, shape: Sequence[int], warps: int, *, by_rows: bool = False
) -> LinearLayout:
    """The layout of an accumulator of ``shape`` (batches, M, N): each warp has a part that is as square as can be, or
    ``by_rows`` whole rows, where there are enough for all warps. Instructions for 8 bits have every other column, as
    ``ldmatrix`` gives bytes of two that lie side by side.

    Rows or columns that a small tile does not have are computed several times.
    """
    *batch, m, n = shape
    rank = len(shape)
    rows, columns, depth = instruction
    apart = 2 if depth == _BY_WIDTH[8][2] and n >= 2 * columns else 1
    registers = [_at(rank, -1, apart)]
    lanes = [_at(rank, -1, 2 * apart), _at(rank, -1, 4 * apart), *(_at(rank, -2, 1 << i) for i in range(3))]
    if rows == 16:
        registers.append(_at(rank, -2, 8))
    if apart > 1:
        registers.append(_at(rank, -1, 1))
    columns *= apart
    counts = [log2(e) for e in batch] + [max(log2(m) - log2(rows), 0), max(log2(n) - log2(columns), 0)]
    sizes = [1] * len(batch) + [rows, columns]
    return _tiled(shape, registers, lanes, counts, sizes, warps, by_rows=by_rows and m >= rows * warps)


def _tiled(
    shape: Sequence[int],
    registers: list[tuple[int, ...]],
    lanes: list[tuple[int, ...]],
    counts: list[int],
    sizes: Sequence[int],
    warps: int,
    *,
    by_rows: bool = False,
) -> LinearLayout:
    """Tiles of ``sizes``, ``2**counts[axis]`` along each axis: the outermost bits over warps, others over registers."""
    rank = len(shape)
    left = list(counts)
    warp: list[tuple[int, ...]] = []
    for _ in range(log2(warps)):
        axis = max(range(rank), key=lambda a: (left[a] > 0, by_rows and a == rank - 2, sizes[a] << left[a], -a))
        if left[axis]:
            left[axis] -= 1
            warp.append(_at(rank, axis, sizes[axis] << left[axis]))
        else:
            warp.append((0,) * rank)
    for axis in reversed(range(rank)):
        registers = [*registers, *(_at(rank, axis, sizes[axis] << bit) for bit in range(left[axis]))]
    return _clipped(shape, registers, lanes, warp)


def fma_accumulator_layout(shape: Sequence[int], warps: int) -> LinearLayout:
    """The layout of an accumulator without tensor cores: threads have squares of up to 4 by 4."""
    *batch, m, n = shape
    rank = len(shape)
    rows, columns = min(m, 4), min(n, 4)
    registers = [_at(rank, -1, 1 << i) for i in range(log2(columns))]
    registers += [_at(rank, -2, 1 << i) for i in range(log2(rows))]
    lanes: list[tuple[int, ...]] = []
    while len(lanes) < 5:
        if columns < n and (columns <= rows or rows >= m):
            lanes.append(_at(rank, -1, columns))
            columns *= 2
        elif rows < m:
            lanes.append(_at(rank, -2, rows))
            rows *= 2
        else:
            lanes.append((0,) * rank)
    counts = [log2(e) for e in batch] + [log2(m // rows), log2(n // columns)]
    return _tiled(shape, registers, lanes, counts, [1] * len(batch) + [rows, columns], warps)


def operand_layouts(
    instruction: Instruction, accumulator: LinearLayout, k: int, bits: int
) -> tuple[LinearLayout, LinearLayout]:
    """The layouts of A (batches, M, K) and B (batches, K, N) for an accumulator, with operands of ``bits`` bits.

    A thread has the fragments of its rows (or columns) for all of K: first one fragment, then those along K, then those
    of the other rows.
    """
    *batch, m, n = accumulator.shape
    rank = accumulator.rank
    first_shape, second_shape = (*batch, m, k), (*batch, k, n)
    size = log2(instruction[2])
    further = range(size, log2(k))
    if instruction == FMA:
        a_registers: list[tuple[int, ...]] = []
        b_registers: list[tuple[int, ...]] = []
        a_lanes = [_dropped(image, -1) for image in accumulator.images(LANE)]
        b_lanes = [_dropped(image, -2) for image in accumulator.images(LANE)]
        own = 0
    else:
        per_word = max(32 // bits, 1)
        word = [1 << i for i in range(log2(per_word))]
        a_registers = [_at(rank, -1, e) for e in word]
        b_registers = [_at(rank, -2, e) for e in word]
        a_lanes = [_at(rank, -1, per_word), _at(rank, -1, 2 * per_word), *(_at(rank, -2, 1 << i) for i in range(3))]
        columns = accumulator.images(REGISTER)[0], *accumulator.images(LANE)[:2]
        b_lanes = [_at(rank, -2, per_word), _at(rank, -2, 2 * per_word), *columns]
        if instruction[0] == 16:
            a_registers += [_at(rank, -2, 8), _at(rank, -1, 4 * per_word)]
            b_registers.append(_at(rank, -2, 4 * per_word))
        own = 2 if instruction[0] == 16 else 1
    repeated = accumulator.images(REGISTER)[own:]
    a_registers += [*(_at(rank, -1, 1 << i) for i in further), *_along(repeated, -1)]
    b_registers += [*(_at(rank, -2, 1 << i) for i in further), *_along(repeated, -2)]
    warps = accumulator.images(WARP)
    a = _clipped(first_shape, a_registers, a_lanes, [_dropped(image, -1) for image in warps])
    b = _clipped(second_shape, b_registers, b_lanes, [_dropped(image, -2) for image in warps])
    return a, b


def _at(rank: int, axis: int, coordinate: int) -> tuple[int, ...]:
    return tuple(coordinate if a == axis % rank else 0 for a in range(rank))


def _dropped(image: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(0 if a == axis % len(image) else c for a, c in enumerate(image))


def _along(images: Sequence[tuple[int, ...]], axis: int) -> Iterator[tuple[int, ...]]:
    """The images that are not zero without ``axis``, without it."""
    return (kept for image in images if any(kept := _dropped(image, axis)))


def _clipped(
    shape: Sequence[int],
    registers: Sequence[tuple[int, ...]],
    lanes: Sequence[tuple[int, ...]],
    warps: Sequence[tuple[int, ...]],
) -> LinearLayout:
    """A layout in which what lies outside of ``shape`` is a free bit."""

    def inside(image: tuple[int, ...]) -> tuple[int, ...]:
        return image if all(c < n for c, n in zip(image, shape)) else (0,) * len(shape)

    parts = {REGISTER: registers, LANE: lanes, WARP: warps}
    return LinearLayout.of(shape, {dim: [inside(image) for image in images] for dim, images in parts.items()})


@define("gpu.mma", table=GPU_OPS)
class GpuMma(MmaOp):
    """x @ y + acc, with the ``mma.sync`` of shape ``instruction``, repeated over the tiles; (1, 1, 1): with FMAs.

    The operands have the layouts that ``operand_layouts`` gives for that of the accumulator. Each thread takes part
    with what it holds: the warps exchange nothing. Products are added in the order of k, instruction by instruction.
    """

    x: Value = operand()
    y: Value = operand()
    acc: Value = operand()
    instruction: Instruction = attribute(tuple)

    @property
    def is_split(self) -> bool:
        """Whether tensor cores multiply float32, as sums of two of tfloat32."""
        return self.x.tile.element is float32 and self.instruction != FMA

    @property
    def in_turn(self) -> bool:
        """Where it ``is_split``, whether products of what is left are added up first, and not beside the others."""
        return self.acc.tile.size > _APART

    @property
    def sums_beside(self) -> int:
        """Where it ``is_split``, the registers of a thread for sums of two kinds of products, of some elements after
        others, beside the accumulator, or for those of one after the other."""
        count = 2 * self.acc.layout.num_registers
        if self.in_turn:
            return count
        while self.acc.layout.num_registers + count > _MOST_SUMS and count > 2 * 4:
            count //= 2
        return count

    @property
    def words_beside(self) -> int:
        """The registers of a thread that it takes where it ``is_split``, beside those of the accumulator."""
        fragments = self.x.layout.num_registers + self.y.layout.num_registers
        step = fragments * self.instruction[2] // self.x.tile.shape[-1]
        return self.sums_beside + 2 * step if self.is_split else 0

    def infer(self) -> tuple[Type, ...]:
        (x, have_x), (y, have_y), (acc, layout) = (distributed(self, v) for v in (self.x, self.y, self.acc))
        require(x.rank == y.rank == acc.rank >= 2, self, "ranks of {}, {} and {}", x, y, acc)
        k = x.shape[-1]
        wanted = ((*acc.shape[:-1], k), (*acc.shape[:-2], k, acc.shape[-1]))
        require((x.shape, y.shape) == wanted, self, "shapes of {}, {} and {}", x, y, acc)
        if self.instruction == FMA:
            same = x.dtype == y.dtype == acc.dtype and acc.element.short in _FMA
        else:
            same = mma_accepts(x.element, y.element, acc.element)
            multiplied = tfloat32 if x.element is float32 else x.element
            require(self.instruction == instruction_for(multiplied, k), self, "{} for {}", self.instruction, x)
        require(same, self, "dtypes of {}, {} and {}", x, y, acc)
        operands = operand_layouts(self.instruction, layout, k, x.element.bitwidth)
        require((have_x, have_y) == operands, self, "layouts of {} and {}, expected those of {}", x, y, operands)
        return (acc,)
