"""Maxima of what a thread has of scores, by instructions on integers that take three operands."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.branches import choose
from tilewright.backends.gpu.lowering.assembly import I32
from tilewright.backends.gpu.lowering.context import Context, Registers
from tilewright.ir.core import Block
from tilewright.ir.dtypes import float32
from tilewright.ir.ops.arith import Max
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.ir.ops.gpu.wgmma import Wgmma

_FEWEST = 32  # numbers of a thread for which the branch pays: benchmarks/results/gpu_attention.md
_INFINITY = 0x7F800000
# VIMNMX3 of sm_90 takes three integers where FMNMX takes two floats; from sm_100 on there is FMNMX3.
_CAPABILITIES = range(90, 100)


def has_integer_maxima(cx: Context, op: ThreadReduce) -> bool:
    """Whether ``op`` takes the largest of many numbers beside MMA ops, without regard to NaN, on a GPU for which this
    pays."""
    *ops, _ = op.body.ops
    if len(ops) != 1 or not isinstance(ops[0], Max) or ops[0].propagate_nan or ops[0].flush_to_zero:
        return False
    many = len(op.groups()[0]) >= _FEWEST and op.values[0].tile.element is float32
    return many and cx.target.capability in _CAPABILITIES and _multiplies(op.block)


def _multiplies(block: Block | None) -> bool:
    return block is not None and any(isinstance(op, Wgmma) for op in block.ops)


def integer_maxima(cx: Context, rows: list[Registers], exact: Callable[[], Registers]) -> Registers:
    """The largest number of each of the ``rows``. Floats are ordered as integers are where one of a row is positive,
    and none that is NaN: else, for all rows of a warp, what ``exact`` emits."""
    b = cx.builder
    found = [_largest(cx, [b.bitcast(x, I32) for x in row]) for row in rows]
    others = [b.icmp_unsigned(">", x, cx.i32(_INFINITY)) for x in dict.fromkeys(found)]
    fast = [b.bitcast(x, ir.FloatType()) for x in found]
    return choose(b, cx.any_lane(others), exact, lambda: fast, likely=False)


def _largest(cx: Context, numbers: Registers) -> ir.Value:
    """The largest of ``numbers``, as integers with a sign: of three at a time, which the assembler joins."""

    def larger(x: ir.Value, y: ir.Value) -> ir.Value:
        return cx.builder.intrinsic("llvm.smax.i32", I32, [x, y])

    while len(numbers) > 1:
        triples = [numbers[i : i + 3] for i in range(0, len(numbers), 3)]
        numbers = [
            larger(larger(*each[:2]), each[2]) if len(each) == 3 else larger(*each) if len(each) == 2 else each[0]
            for each in triples
        ]
    return numbers[0]
