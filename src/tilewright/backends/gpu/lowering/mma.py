"""MMA ops: ``mma.sync`` instructions, or multiply-adds of what each thread holds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import F16, F32, F64, I32, assembly, operand_names, type_name
from tilewright.backends.gpu.lowering.context import Context, Registers, Rule, unsupported
from tilewright.backends.gpu.lowering.words import packed_words
from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, float32, tfloat32
from tilewright.ir.layouts import REGISTER, log2
from tilewright.ir.ops.gpu.mma import FMA, GpuMma, Instruction

_FP8 = ("f8e4m3fn", "f8e5m2")
_TF32_BITS = -1 << 13  # of what tensor cores take of a float32
_TALL_FROM, _MOST_STEPS = 90, 4  # 16 rows and up to 16 of K at once in float64: PTX ISA, "mma"


def _mma(cx: Context, op: GpuMma) -> None:
    layout, instruction = op.acc.layout, op.instruction
    own = 0 if instruction == FMA else 2 if instruction[0] == 16 else 1
    repeated = layout.images(REGISTER)[own:]
    # The bits of the number of an accumulator fragment that the fragments of each operand depend on.
    a_bits = [i for i, image in enumerate(repeated) if any(image[:-1])]
    b_bits = [i for i, image in enumerate(repeated) if any((*image[:-2], image[-1]))]
    steps = 1 << log2(op.x.tile.shape[-1]) - log2(instruction[2])
    acc = cx.of(op.acc)
    a_size, b_size = op.x.layout.num_registers >> len(a_bits), op.y.layout.num_registers >> len(b_bits)
    below = _fragment_below(cx, op, repeated)
    at_once = min(steps, _MOST_STEPS) if below else 1
    result = [acc[t << own : (t + 1) << own] for t in range(1 << len(repeated))]
    if op.is_split:
        parts = (op.x, a_size, a_bits), (op.y, b_size, b_bits)
        cx.values[op.result] = _exact(cx, op, result, parts, steps)
        return
    # Along k outermost: instructions that follow each other need no result of each other, and operands that are loaded
    # for this op alone are loaded a step at a time.
    for first in range(0, steps, at_once):
        each = range(first, first + at_once)
        left, right = (
            functools.cache(functools.partial(_words_of_steps, cx, v, size, each, steps, multiplies=own > 0))
            for v, size in ((op.x, a_size), (op.y, b_size))
        )
        for tile in range(len(result)):
            if tile & below:
                continue
            tiles = (tile, tile | below) if below else (tile,)
            x = left(*(_packed_bits(t, a_bits) for t in tiles))
            y = right(_packed_bits(tile, b_bits))
            fragment = [v for t in tiles for v in result[t]]
            if own == 0:
                fragment = [_multiply_add(cx, x[0], y[0], fragment[0])]
            else:
                shape = (instruction[0] * len(tiles), instruction[1], instruction[2] * at_once)
                fragment = _instruction(cx, op, shape, x, y, fragment)
            for i, t in enumerate(tiles):
                result[t] = fragment[i << own : (i + 1) << own]
    values = [v for fragment in result for v in fragment]
    if op.acc.tile.element.short == "f16":
        values = [cx.builder.fpext(cx.builder.fptrunc(x, F16), F32) for x in values]
    cx.values[op.result] = values


def _exact(
    cx: Context, op: GpuMma, acc: Sequence[Registers], parts: Sequence[tuple[Value, int, Sequence[int]]], steps: int
) -> Registers:
    """The sums of float32 that ``op`` gives: of each operand the instructions take a tfloat32, and then what is left.
    Products of what is left may be NaN where others are infinite, and then count for nothing: they are added up apart,
    or, ``in_turn``, before the others. What a step gives is added to ``acc`` by instructions that round to nearest, as
    tensor cores do not. ``parts`` are the operands, the registers of their fragments, and the bits of the number of an
    accumulator fragment that they depend on."""
    b, zero, at_once = cx.builder, ir.Constant(F32, 0), op.sums_beside // (2 * len(acc[0]))
    multiply = functools.partial(_instruction, cx, op, op.instruction)
    result: Registers = []
    for start in range(0, len(acc), at_once):
        tiles = range(start, start + at_once)
        large, small = ({t: [zero] * len(acc[t]) for t in tiles} for _ in range(2))
        later = []
        for step in range(steps):
            split = [functools.cache(functools.partial(_split, cx, v, size, step, steps)) for v, size, _ in parts]
            given = {t: [f(_packed_bits(t, bits)) for f, (_, _, bits) in zip(split, parts)] for t in tiles}
            for t, ((x, _), (_, rest)) in given.items():
                small[t] = multiply(x, rest, small[t])
            if op.in_turn:
                later.append(given)
            else:
                _add_large(multiply, given, large)
            for t, ((_, rest), (y, _)) in given.items():
                small[t] = multiply(rest, y, small[t])
        numbers = {t: [b.select(b.fcmp_ordered("ord", x, x), x, zero) for x in small[t]] for t in tiles}
        for given in later:
            _add_large(multiply, given, numbers)
        for t in tiles:
            both = numbers[t] if op.in_turn else [b.fadd(x, y) for x, y in zip(large[t], numbers[t])]
            result += [b.fadd(x, y) for x, y in zip(acc[t], both)]
    return result


def _add_large(
    multiply: Callable[..., Registers],
    given: Mapping[int, Sequence[tuple[Registers, Registers]]],
    sums: dict[int, Registers],
) -> None:
    """Add the products of what instructions take of operands to ``sums``."""
    for t, ((x, _), (y, _)) in given.items():
        sums[t] = multiply(x, y, sums[t])


def _split(cx: Context, operand: Value, size: int, step: int, steps: int, fragment: int) -> tuple[Registers, Registers]:
    """A step of a fragment, of which instructions take tfloat32, and what these leave of it."""
    b, length = cx.builder, size // steps
    start = fragment * size + step * length
    values = cx.part(operand, range(start, start + length))
    taken = (b.bitcast(b.and_(b.bitcast(x, I32), cx.i32(_TF32_BITS)), F32) for x in values)
    return values, [b.fsub(x, y) for x, y in zip(values, taken)]


def _words_of_steps(
    cx: Context, operand: Value, size: int, each: range, steps: int, *fragments: int, multiplies: bool
) -> Registers:
    """What one instruction takes of an operand, of which a fragment has ``size`` registers for all ``steps``: of each
    step of ``fragments``, in words where tensor cores multiply."""
    length = size // steps
    starts = [n * size + step * length for step in each for n in fragments]
    values = [v for start in starts for v in cx.part(operand, range(start, start + length))]
    return _fragment(cx, values, operand.tile.element) if multiplies else values


def _fragment_below(cx: Context, op: GpuMma, repeated: Sequence[Sequence[int]]) -> int:
    """The bit of the number of an accumulator fragment by which that of the next eight rows differs, if one instruction
    multiplies both: those of float64, from Hopper on twice as fast; else 0."""
    if op.x.tile.element.short != "f64" or op.instruction == FMA or cx.target.capability < _TALL_FROM:
        return 0
    rank = op.acc.tile.rank
    rows = tuple(op.instruction[0] if k == rank - 2 else 0 for k in range(rank))
    return next((1 << i for i, image in enumerate(repeated) if tuple(image) == rows), 0)


def _packed_bits(number: int, bits: Sequence[int]) -> int:
    return sum((number >> bit & 1) << i for i, bit in enumerate(bits))


def _multiply_add(cx: Context, x: ir.Value, y: ir.Value, acc: ir.Value) -> ir.Value:
    b = cx.builder
    if isinstance(acc.type, ir.IntType):
        return b.add(b.mul(x, y), acc)
    kind = "f64" if acc.type == F64 else "f32"
    return assembly(b, f"fma.rn.{kind} $0, $1, $2, $3;", [acc.type], [x, y, acc])[0]


def _instruction(cx: Context, op: GpuMma, shape: Instruction, x: Registers, y: Registers, acc: Registers) -> Registers:
    """One ``mma.sync`` of this ``shape`` on words of fragments."""
    (m, n, k), types = shape, [op.x.tile.element, op.y.tile.element, op.acc.tile.element]
    if any(t.short in _FP8 for t in types) and cx.target.capability < 89:
        raise unsupported(op, f"MMA ops of {types[0]} need sm_89, and this is for {cx.target.name}")
    half = types[2].short == "f16"  # these are summed in float32, and rounded at the end
    names = ["f32" if half and i == 2 else type_name(t) for i, t in enumerate(types)]
    names[:2] = ["tf32" if t is float32 else name for t, name in zip(types[:2], names[:2])]
    results = [v.type for v in acc]
    fragments, at = [], 0
    for count in map(len, (acc, x, y, acc)):
        fragments.append(operand_names(at, count))
        at += count
    kind = f"m{m}n{n}k{k}.row.col.{names[2]}.{names[0]}.{names[1]}.{names[2]}"
    return assembly(cx.builder, f"mma.sync.aligned.{kind} {', '.join(fragments)};", results, [*x, *y, *acc])


def _fragment(cx: Context, values: Registers, dtype: DType) -> Registers:
    """The words of a fragment of an operand; what has 32 or 64 bits as it is."""
    return values if dtype.bytes >= 4 and dtype is not tfloat32 else packed_words(cx, values, dtype)


RULES: dict[type[Op], Rule] = {GpuMma: _mma}
