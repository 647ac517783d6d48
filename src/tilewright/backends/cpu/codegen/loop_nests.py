"""What each generated loop nest does: for people who want to know why a kernel is as fast as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.backends.cpu.loops.fused import fused_ops
from tilewright.backends.cpu.loops.kinds import ELEMENTWISE
from tilewright.backends.cpu.loops.vectorize import widest_bytes
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.ops.arith import Bitcast, Cast, Cmp, Select
from tilewright.ir.ops.control import LoopOp
from tilewright.ir.ops.linear import Reduce, Scan
from tilewright.ir.ops.loops import LoopNest
from tilewright.ir.ops.memory import AtomicCas, AtomicRmw, AtomicView, Load, LoadView, Store, StoreView
from tilewright.ir.types import TileType
from tilewright.records import NamedTuple

_ACCESSES = (Load, LoadView, Store, StoreView, AtomicRmw, AtomicCas, AtomicView)


class NestWork(NamedTuple):
    """Loops over ``elements``, by vectors of ``lanes`` with ``vector_bits`` in all, that do the ops ``fused``.

    Counts are for one execution: ``flops`` counts additions, multiplications and functions of floats as one each, and
    ``moved`` the bytes of arrays. ``block`` is the IR block that it belongs to. Generated code knows it by ``label``.
    """

    label: str
    op: Op
    block: Block
    fused: tuple[Op, ...]
    elements: int
    lanes: int
    vector_bits: int
    flops: int
    moved: int


def nest_work(label: str, nest: LoopNest, block: Block, cause: Op, values: Sequence[Value], lanes: int) -> NestWork:
    """The work of ``nest``, which computes ``values`` and then does ``cause``, the nest itself where it only copies."""
    fused = fused_ops(nest, values).ops
    elements = max(v.tile.size for v in values)
    done = [*fused, *([] if cause in fused or isinstance(cause, LoopNest) else [cause])]
    flops, moved = sum(map(_flops, done)), sum(map(_moved, done))
    lanes = min(lanes, elements)
    bits = 8 * lanes * widest_bytes(values)
    return NestWork(label, cause, block, tuple(done), elements, lanes, bits, flops, moved)


def _tiles(op: Op) -> list[TileType]:
    return [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TileType)]


def _flops(op: Op) -> int:
    if isinstance(op, (Reduce, Scan)):
        combined = [nested for nested in op.body.ops if _is_arithmetic(nested)]
        return len(combined) * op.values[0].tile.size
    return op.result.tile.size if op.results and _is_arithmetic(op) else 0


def _is_arithmetic(op: Op) -> bool:
    if type(op) not in ELEMENTWISE or isinstance(op, (Cast, Bitcast, Select, Cmp)) or not op.results:
        return False
    t = op.result.tile
    return not t.is_pointer and t.element.is_floating


def _moved(op: Op) -> int:
    """Bytes between arrays and registers."""
    if not isinstance(op, _ACCESSES):
        return 0
    types = [t for t in _tiles(op) if not t.is_pointer]
    numbers = [t for t in types if not t.element.is_bool] or types  # masks do not count, unless all is bool
    return max(numbers, key=lambda t: t.size).bytes


def enclosing_loops(function: Function) -> Mapping[Block, tuple[Op, ...]]:
    """For each block, the loops around it, outermost first."""
    found: dict[Block, tuple[Op, ...]] = {}

    def visit(block: Block, loops: tuple[Op, ...]) -> None:
        found[block] = loops
        for op in block.ops:
            for region in op.regions:
                visit(region, (*loops, op) if isinstance(op, LoopOp) else loops)

    visit(function.body, ())
    return found
