"""MMA ops of warp groups: all instructions of a step along K are one statement of inline assembly.

The assembler follows accumulators in flight from one statement to the next only where nothing else touches their
registers: so they are operands that are tied to the results. One statement for each instruction takes several times as
long to compile.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.analysis.gpu.joined_mma import distance, pending_statements
from tilewright.backends.gpu.lowering.assembly import I32, I64, constraint, operand_names, results_type, type_name
from tilewright.backends.gpu.lowering.context import Buffer, Context, Registers, Rule
from tilewright.backends.gpu.lowering.words import packed_words, rounded
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.layouts import LinearLayout
from tilewright.ir.ops.control import incoming
from tilewright.ir.ops.gpu.tma import swizzle_of
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS, STEP_BYTES, Wgmma, WgmmaWait, groups_across
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.reachable import reachable
from tilewright.ir.types import SharedType, TileType

_MODES = {128: 1, 64: 2, 32: 3}  # swizzles in bits 62 and 63 of a descriptor: PTX ISA, "Matrix descriptor"


def packed_accumulators(function: Function) -> set[Value]:
    """The accumulators of 16 bits, two elements in a register, and what control makes them of: MMA ops that add to them
    may be in flight, so nothing divides their words."""
    found = [op.acc for op in function.ops_of(Wgmma)]
    found += [v for op in function.ops_of(WgmmaWait) for v in op.accs]
    return set(reachable((v for v in found if v.tile.element.bytes == 2), lambda v: incoming(v) or ()))


@functools.lru_cache(maxsize=256)
def offset_in(layout: LinearLayout, row: int, column: int) -> int:
    """Where in shared memory an element lies, in elements."""
    return layout.pseudo_inverse().index(dim0=row, dim1=column)


def _strides(t: SharedType, k_axis: int, apart: int | None) -> tuple[int, int]:
    """The leading and the stride byte offset of a descriptor; of tiles that lie so many bytes ``apart``."""
    found = swizzle_of(t)
    assert found is not None
    inner, swizzle = found
    if inner == k_axis:
        return 16, 8 * swizzle  # the leading one has no meaning
    return apart or t.shape[k_axis] * swizzle, 8 * swizzle


def descriptor(
    cx: Context, low: ir.Value, t: SharedType, k_axis: int, apart: int | None = None, fixed: int = 0
) -> ir.Value:
    """The descriptor of an operand of type ``t``, of which ``low`` is the address, or of several that lie so many bytes
    ``apart``, with ``fixed`` bits."""
    found = swizzle_of(t)
    assert found is not None
    leading, stride = _strides(t, k_axis, apart)
    fixed |= (leading >> 4) << 16 | (stride >> 4) << 32 | _MODES[found[1]] << 62
    return cx.builder.or_(cx.builder.zext(low, I64), ir.Constant(I64, fixed))


def _wgmma(cx: Context, op: Wgmma) -> None:
    """An MMA op, or those that are joined to it: the registers of accumulators follow each other as their columns
    do."""
    if any(op in group[1:] for group in cx.joined.values()):
        return
    mmas = cx.joined.get(op, [op])
    apart = distance(op.y, mmas[1].y) if len(mmas) > 1 else None
    y = cx.buffers[op.y]
    k = y.type.shape[0] if isinstance(op.x.type, SharedType) else op.x.tile.shape[1]
    m, n = op.acc.tile.shape[0], op.acc.tile.shape[1] * len(mmas)
    groups = cx.tile_threads // (32 * GROUP_WARPS)
    across = groups_across(op.acc.tile.shape, groups * GROUP_WARPS)
    groups, n = groups // across, n // across
    left = (
        _RegisterOperand.of(cx, op)
        if isinstance(op.x.type, TileType)
        else SharedOperand.of(cx, cx.buffers[op.x], groups)
    )
    types = op.acc.tile.element, left.dtype, y.type.dtype
    size = y.type.dtype.bytes
    acc = [register for mma in mmas for register in _accumulator(cx, mma.acc)]
    count, each, step = len(acc), n * types[0].bytes // 8, STEP_BYTES // size
    given = [] if constant_of(op.acc) == 0 else acc  # else the first instruction leaves the sum out
    right = count + len(given)
    modifiers = _modifiers(types[1], left.transposed, int(inner_axis(y.type) != 0))
    lines = ["wgmma.fence.sync.aligned;"]
    for repeat in range(m // (ROWS * groups)):
        accumulators = operand_names(repeat * each, each)
        for at in range(0, k, step):
            before, x = left.operand(repeat * ROWS * groups, at, right + 1)
            second = offset_in(y.type.layout, op.first + at, 0) * size >> 4
            adds = "adds" if at or given else "sets"
            lines.append(f"{before}add.s64 c, ${right}, {second};")
            lines.append(f"{_instruction(types, n, step)} {accumulators}, {x}, c, {', '.join([adds, *modifiers])};")
    lines.append("wgmma.commit_group.sync.aligned;")
    pending = pending_statements(mmas[-1], cx.joined)
    if pending is not None:
        lines.append(f"wgmma.wait_group.sync.aligned {pending};")
    head = "{ .reg .pred adds, sets; .reg .b64 a, c; setp.eq.u32 adds, 0, 0; setp.ne.u32 sets, 0, 0; "
    text = head + " ".join(lines) + " }"
    low = y.encoded if across == 1 else _of_group(cx, y, (0, n))
    more = [descriptor(cx, low, y.type, 0, apart), *left.values]
    found = _accumulators(cx, text, [register.type for register in acc], given, more)
    for i, mma in enumerate(mmas):
        part = len(found) // len(mmas)
        cx.values[mma.result] = _elements(cx, found[i * part : (i + 1) * part], types[0])


def _accumulator(cx: Context, value: Value) -> Registers:
    """The registers in which instructions have an accumulator: of 16 bits, words of two elements."""
    element = value.tile.element
    return packed_words(cx, cx.of(value), element) if element.bytes == 2 else cx.of(value)


def _elements(cx: Context, registers: Registers, element: DType) -> Registers:
    """The elements in these registers of an accumulator."""
    return rounded(cx, registers, element) if element.bytes == 2 else registers


def _of_group(cx: Context, buffer: Buffer, first: tuple[int, int]) -> ir.Value:
    """The address, as descriptors have it, of the part of ``buffer`` that each warp group reads: that of the second one
    begins with the element ``first``."""
    apart = offset_in(buffer.type.layout, *first) * buffer.type.dtype.bytes
    return cx.builder.add(buffer.encoded, cx.builder.mul(cx.builder.lshr(cx.warp, cx.i32(2)), cx.i32(apart >> 4)))


@dataclass(frozen=True)
class SharedOperand:
    """A left operand in shared memory: a descriptor."""

    type: SharedType
    values: Registers

    @classmethod
    def of(cls, cx: Context, buffer: Buffer, groups: int, fixed: int = 0) -> SharedOperand:
        low = buffer.encoded if groups == 1 else _of_group(cx, buffer, (ROWS, 0))
        return cls(buffer.type, [descriptor(cx, low, buffer.type, 1, fixed=fixed)])

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def transposed(self) -> int | None:
        """Whether it is contiguous across k; None where there is no such question."""
        return int(inner_axis(self.type) != 1)

    def operand(self, row: int, k: int, number: int) -> tuple[str, str]:
        """What comes before the instruction for the part at ``row`` and ``k``, and how that has it."""
        first = offset_in(self.type.layout, row, k) * self.dtype.bytes >> 4
        return f"add.s64 a, ${number}, {first}; ", "a"


@dataclass(frozen=True)
class _RegisterOperand:
    """A left operand in registers: words of two elements, four of them for an instruction."""

    dtype: DType
    values: Registers
    steps: int
    rows: int  # of all warp groups at once
    transposed: int | None = None

    @classmethod
    def of(cls, cx: Context, op: Wgmma) -> _RegisterOperand:
        dtype, (_, k) = op.x.tile.element, op.x.tile.shape
        rows = cx.tile_threads // (32 * GROUP_WARPS) * ROWS
        return cls(dtype, packed_words(cx, cx.of(op.x), dtype), k * dtype.bytes // STEP_BYTES, rows)

    def operand(self, row: int, k: int, number: int) -> tuple[str, str]:
        """The text of the part at ``row`` and ``k``; nothing comes before the instruction."""
        first = number + 4 * (row // self.rows * self.steps + k * self.dtype.bytes // STEP_BYTES)
        return "", operand_names(first, 4)


def inner_axis(operand: SharedType) -> int:
    """The axis along which an operand in shared memory is contiguous."""
    swizzle = swizzle_of(operand)
    assert swizzle is not None, operand
    return swizzle[0]


def _instruction(types: Sequence[DType], n: int, k: int) -> str:
    """For accumulators of so many columns; ``types`` are those of the sum and of the operands."""
    return f"wgmma.mma_async.sync.aligned.m{ROWS}n{n}k{k}.{'.'.join(map(type_name, types))}"


def _modifiers(dtype: DType, x_transposed: int | None, y_transposed: int) -> list[str]:
    """Floats with these signs; of 16 bits, which operands in shared memory are contiguous across k."""
    if dtype.is_integer:
        return []
    if dtype.bytes != 2:
        return ["1", "1"]
    return ["1", "1", *(str(t) for t in (x_transposed, y_transposed) if t is not None)]


def _accumulators(
    cx: Context, text: str, types: Sequence[ir.Type], given: Registers, more: Sequence[ir.Value] = ()
) -> Registers:
    """The accumulators of ``types`` after ``text``: in the same registers as those that are ``given``, or new ones."""
    b = cx.builder
    constraints = [f"={constraint(t)}" for t in types] + [str(i) for i in range(len(given))]
    constraints += [constraint(v.type) for v in more] + ["~{memory}"]
    found = b.assembly(results_type(b, types), text, constraints, [*given, *more], effects=True)
    return [b.extract_value(found, i) for i in range(len(types))]


def _computed(cx: Context, values: Registers) -> None:
    """Have the float32 ``values`` computed before what follows.

    The assembler moves arithmetic behind waits as it likes, but nothing that may wait itself. None of the values ever
    is the one that they are compared with: NaNs that are computed have other bits.
    """
    if values:
        compare = "setp.eq.b32 is, ${}, 0x7FEDCBA9; or.pred never, never, is;"
        compared = " ".join(compare.format(i) for i in range(len(values)))
        text = f"{{ .reg .pred never, is; setp.ne.b32 never, 0, 0; {compared} @never nanosleep.u32 0; }}"
        cx.asm(text, (), [cx.builder.bitcast(x, I32) for x in values])


def _wgmma_wait(cx: Context, op: WgmmaWait) -> None:
    """One statement: registers of operands are free after it, and accumulators are there."""
    text = f"wgmma.wait_group.sync.aligned {op.pending};"
    each = [_accumulator(cx, v) for v in op.accs]
    accumulators = [x for registers in each for x in registers]
    held = [word for v in op.held for word in packed_words(cx, cx.of(v), v.tile.element)]
    _computed(cx, list(dict.fromkeys(x for v in op.after for x in cx.of(v))))
    found = _accumulators(cx, text, [x.type for x in accumulators], accumulators, held) if accumulators else []
    if not accumulators:
        cx.asm(text, (), held)
    for result, registers in zip(op.results, each):
        count = len(registers)
        cx.values[result], found = _elements(cx, found[:count], result.tile.element), found[count:]


RULES: dict[type[Op], Rule] = {Wgmma: _wgmma, WgmmaWait: _wgmma_wait}
