"""Tiles of partition views that the TMA unit moves, by tensor descriptors; others are lowered to pointers before."""

from __future__ import annotations

from typing import Any

from tilewright.backends.triton.ttir.shape import split
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import Shape, Val, Writer, axes_kept, names
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.ops.memory import LoadView, StoreView

_FAR = (1 << 31) - 1


def load_view(s: LoweringState, op: LoadView) -> Val:
    w, d = s.w, s.plan.descriptors[op]
    shape = tuple(n for n in d.block if n != 1)
    result = Val("", d.element, shape)
    starts = _coordinates(s, op, d)
    text = f"tt.descriptor_load {s.descriptors[d].name}[{names(starts)}]"
    loaded = w.emit(f"{text} : {descriptor_type(s, d)} -> {result.type}", d.element, shape)
    return w.trans(loaded, _tile_order(op, d))


def store_view(s: LoweringState, op: StoreView) -> None:
    w, d, value = s.w, s.plan.descriptors[op], s[op.value]
    order = _tile_order(op, d)
    inverse = [order.index(i) for i in range(len(order))]
    if value.element == "f32" and w.target.is_cuda:
        # Triton would take shared memory for the accumulators before the loads have freed theirs.
        value = w.optimization_barrier(value)
    value = w.trans(value, inverse)
    kept = [k for k, n in enumerate(d.block) if n != 1]
    starts = _coordinates(s, op, d)
    for corner, piece in _pieces(w, value, tuple(d.block[k] for k in kept)):
        at = list(starts)
        for k, step in zip(kept, corner):
            at[k] = w.op("arith.addi", at[k], w.like(step, at[k])) if step else at[k]
        types = f"{descriptor_type(s, d)}, {piece.type}"
        w.located(f"tt.descriptor_store {s.descriptors[d].name}[{names(at)}], {piece.name} : {types}")


def descriptor_type(s: LoweringState, d: Descriptor) -> str:
    """Triton 3.8 dropped the word tensor."""
    return f"!tt.tensordesc<tensor<{d.tile}>>" if s.dialect < (3, 8) else f"!tt.tensordesc<{d.tile}>"


def _coordinates(s: LoweringState, op: Any, d: Descriptor) -> list[Val]:
    """The array coordinates of the tile, one per axis of the descriptor. Far outside where they would overflow."""
    w, type_ = s.w, op.view.partition
    coordinates = []
    for axis in d.axes:
        k = type_.order.index(axis)
        exact, step, n = s[op.indices[k]], type_.steps[k], type_.tile_shape[k]
        value = w.resize(exact, 32, signed=op.indices[k].tile.element.is_signed)
        start = value if step == 1 else w.op("arith.muli", value, w.like(step, value))
        limit = (1 << 31) - n  # what follows it fits as well
        low, high = s.facts.range(op.indices[k])
        if low * step < -limit or high * step > limit:
            bound, most = limit // step, (1 << (exact.bits - 1)) - 1
            above = w.compare("sle", exact, w.like(min(bound, most), exact))
            below = w.compare("sge", exact, w.like(max(-bound, -most - 1), exact))
            start = w.select(w.op("arith.andi", above, below), start, w.constant(_FAR - n, "i32"))
        coordinates.append(start)
    return coordinates


def _tile_order(op: Any, d: Descriptor) -> list[int]:
    """For each tile axis that TTIR keeps, its position among the kept axes of the descriptor."""
    type_ = op.view.partition
    kept = [axis for axis, n in zip(d.axes, d.block) if n != 1]
    return [kept.index(type_.order[k]) for k in axes_kept(type_.tile_shape)]


def _pieces(w: Writer, x: Val, shape: Shape) -> list[tuple[tuple[int, ...], Val]]:
    """``x`` cut into tensors of ``shape``, with the coordinates where each starts."""
    if x.shape == shape:
        return [((0,) * len(shape), x)]
    axis = next(k for k, (n, part) in enumerate(zip(x.shape, shape)) if n != part)
    half = x.shape[axis] // 2
    rank = len(shape)
    parted = w.reshape(x, (*x.shape[:axis], 2, half, *x.shape[axis + 1 :]))
    parted = w.trans(parted, [k for k in range(rank + 1) if k != axis] + [axis])
    found = []
    for k, part in enumerate(split(w, parted)):
        for corner, piece in _pieces(w, part, shape):
            found.append(((*corner[:axis], corner[axis] + k * half, *corner[axis + 1 :]), piece))
    return found
