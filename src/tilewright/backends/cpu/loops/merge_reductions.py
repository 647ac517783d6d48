"""The pass that makes one reduction of several over the same data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from tilewright.backends.cpu.loops.combiner_identity import identity_element
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.target import Processor
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.effects import effect_of, has_effect, is_pure
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.linear import Reduce, reduction_partials
from tilewright.ir.ops.shape import Constant, Iota
from tilewright.ir.reachable import reachable
from tilewright.ir.rewrite import clone_op
from tilewright.records import dataclass
from tilewright.transforms.base import InPlacePass


@dataclass(frozen=True)
class MergeReductions(InPlacePass):
    """Merges reductions of a block along one axis that have data in common, and none of which needs another's result.

    Their loops read that data once then. Every partial result stays as it is, so the results are the same to the last
    bit. All partial results have to fit into half of the vector registers; the other half is for what is reduced.

    Before fusion, which makes one nest of each reduction.
    """

    name: ClassVar[str] = "merge-reductions"
    processor: Processor

    def change(self, function: Function) -> bool:
        """Never fails."""
        changed = [self._block(block) for block in list(function.blocks())]
        return any(changed)

    def _block(self, block: Block) -> bool:
        changed, first = False, 0
        reductions = [op for op in block.ops if isinstance(op, Reduce)]
        shared = Counter(chain.from_iterable(_data(op.values) for op in reductions))
        while first < len(block.ops):
            op = block.ops[first]
            if isinstance(op, Reduce) and _is_simple(op) and any(shared[v] > 1 for v in _data(op.values)):
                dependent = set(op.results)
                for other in block.ops[first + 1 :]:
                    if not dependent.isdisjoint(other.operands) or not dependent.isdisjoint(other.captured()):
                        dependent.update(other.results)
                    elif isinstance(other, Reduce) and self._fits(op, other) and _hoist(block, op, other):
                        op, changed = _merge(op, other), True
                        dependent.update(op.results)
                first = block.ops.index(op)
            first += 1
        return changed

    def _fits(self, a: Reduce, b: Reduce) -> bool:
        shape = a.values[0].tile.shape
        alike = (a.axis, a.commutative, shape) == (b.axis, b.commutative, b.values[0].tile.shape)
        if not alike or not _is_simple(b):
            return False
        partials = reduction_partials(shape, a.axis) if a.commutative else 1
        lanes = math.prod(shape[a.axis + 1 :])
        vector = self.processor.vector_bytes
        needed = sum(max(vector if lanes > 1 else 0, element_bytes(v.tile.dtype)) for v in (*a.values, *b.values))
        if partials * needed > self.processor.vector_registers * vector // 2:
            return False
        return not _data(a.values).isdisjoint(_data(b.values))


def _is_simple(op: Reduce) -> bool:
    """Whether each value is combined by one operation that has an identity."""
    count = len(op.values)
    if count > 1:
        return len(op.body.ops) == count + 1 and all(
            combined.operands == [op.body.args[k], op.body.args[count + k]]
            for k, combined in enumerate(op.body.ops[:-1])
        )
    identity = identity_element(op.body)
    return identity is not None and not math.isnan(identity)


def _data(values: Sequence[Value]) -> set[Value]:
    """The tiles of the shape of ``values`` that these are computed from, and they themselves."""

    def sources(value: Value) -> list[Value]:
        operands = value.op.operands if value.op is not None and is_pure(value.op) else ()
        alike = (v for v in operands if getattr(v.type, "shape", None) == values[0].tile.shape)
        return [v for v in alike if not isinstance(v.op, (Constant, Iota))]

    return set(reachable(values, sources))


def _hoist(block: Block, first: Reduce, second: Reduce) -> bool:
    """Move what ``second`` needs, none of which depends on ``first``, in front of that; False where that cannot be."""
    ops = block.ops
    between = ops[ops.index(first) + 1 : ops.index(second)]
    needed = {v.op for v in second.operands}
    moved: list[Op] = []
    for op in reversed(between):
        if op in needed:
            moved.append(op)
            needed.update(v.op for v in (*op.operands, *op.captured()))
    written = any(has_effect(op, Effect.WRITE) for op in between)
    if not all(is_pure(op) or (effect_of(op) == Effect.READ and not written) for op in moved):
        return False
    block.splice(reversed(moved), before=first)
    return True


def _merge(a: Reduce, b: Reduce) -> Reduce:
    """One reduction in the place of ``a``."""
    builder, count = Builder.before(a), len(a.values) + len(b.values)
    body = Block(tuple(v.tile.with_shape(()) for _ in range(2) for v in (*a.values, *b.values)))
    combined: list[Value] = []
    for op, start in ((a, 0), (b, len(a.values))):
        own = len(op.values)
        left, right = body.args[start : start + own], body.args[count + start : count + start + own]
        values = dict(zip(op.body.args, (*left, *right)))
        for inner in op.body.ops[:-1]:
            body.append(clone_op(inner, values))
        combined += [values[v] for v in op.body.terminator.operands]
    Builder(body, a.loc).emit_op(Yield, combined)
    made = builder.emit_op(
        Reduce,
        [*a.values, *b.values],
        axis=a.axis,
        identities=(*a.identities, *b.identities),
        commutative=a.commutative,
        body=body,
    )
    for old, new in zip((*a.results, *b.results), made.results):
        new.name = old.name
        old.replace_all_uses_with(new)
    a.erase()
    b.erase()
    assert isinstance(made, Reduce)
    return made
