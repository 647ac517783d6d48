"""Half of the weights of a step are computed behind the wait for the MMA op beside them."""

from __future__ import annotations

from typing import ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.ops.arith import Add, Cast
from tilewright.ir.ops.floats import Exp, Exp2, Tanh
from tilewright.ir.ops.gpu.tiles import ThreadReduce
from tilewright.ir.ops.gpu.tma import Join, Part, can_part
from tilewright.ir.ops.gpu.wgmma import WgmmaWait
from tilewright.ir.rewrite import clone_block
from tilewright.transforms.base import InPlacePass

_FEWEST = 64  # registers of weights, and of what is scaled meanwhile: benchmarks/results/gpu_attention.md


class DelayExponentials(InPlacePass):
    """Waits for an MMA op when half of the exponentials beside it are there, and are added up: what the MMA op has
    left to scale, and the conversion of weights, run beside the other half.

    The sums have the order that they had. Runs after ``specialize-warps``, which puts waits behind what is computed.
    """

    name: ClassVar[str] = "delay-exponentials"

    def change(self, function: Function) -> bool:
        waits = [op for op in function.ops_of(WgmmaWait) if any(v.layout.num_registers >= _FEWEST for v in op.accs)]
        found = [(wait, how) for wait in waits if (how := _weights(wait)) is not None]
        for wait, (exponential, total, cast) in found:
            _divide(wait, exponential, total, cast)
        return bool(found)


def _weights(wait: WgmmaWait) -> tuple[Exp | Exp2, ThreadReduce, Cast] | None:
    """The exponentials of which sums are computed before ``wait``, these, and the conversion to 16 bits behind it."""
    total = wait.after[0].op if len(wait.after) == 1 else None
    if not isinstance(total, ThreadReduce) or [type(op) for op in total.body.ops[:-1]] != [Add]:
        return None
    weights = total.values[0]
    exponential, casts = weights.op, [op for op in weights.users if isinstance(op, Cast)]
    if not isinstance(exponential, (Exp, Exp2)) or len(casts) != 1 or set(weights.users) != {total, *casts}:
        return None
    block, (cast,), layout = wait.block, casts, weights.layout
    if block is None or not exponential.block is total.block is cast.block is block or cast.dtype.bytes != 2:
        return None
    if any(isinstance(op, Tanh) for op in block.ops):  # 482 TFLOP/s with half behind, 519 without
        return None
    behind = block.ops.index(cast) > block.ops.index(wait)
    halves = can_part(layout, total.axis, layout.shape[total.axis] // 2) and layout.num_registers >= _FEWEST
    return (exponential, total, cast) if behind and halves else None


def _divide(wait: WgmmaWait, exponential: Exp | Exp2, total: ThreadReduce, cast: Cast) -> None:
    block, axis, x = wait.block, total.axis, exponential.x
    assert block is not None
    size = x.tile.shape[axis] // 2

    def half(index: int, b: Builder) -> tuple[Value, Value]:
        """Half of the weights, and their sums."""
        part = b.emit(Part, x, axis=axis, size=size, index=index)
        weights = b.emit(type(exponential), part, **exponential.attributes)
        body = clone_block(total.body, {})
        return weights, b.emit_op(ThreadReduce, [weights], axis=axis, body=body).results[0]

    low, first = half(0, _at(total))
    sums = total.results[0]
    uses = [op for op in block.ops[block.ops.index(wait) + 1 :] if _uses(op, {sums, exponential.result})]
    b = _at(uses[0])
    high, second = half(1, b)
    added = total.body.ops[0]
    whole = b.emit(Add, first, second, **added.attributes)
    b = _at(cast)
    parts = [b.emit(Cast, v, **cast.attributes) for v in (low, high)]
    joined = b.emit(Join, *parts, axis=axis, type=cast.result.tile)
    wait.set_operand(list(wait.operands).index(sums), first)
    cast.replace_by([joined])
    total.replace_by([whole])
    exponential.erase()


def _at(op: Op) -> Builder:
    b = Builder.before(op)
    b.loc = op.loc
    return b


def _uses(op: Op, values: set[Value]) -> bool:
    return any(not values.isdisjoint(o.operands) for o in op.walk())
