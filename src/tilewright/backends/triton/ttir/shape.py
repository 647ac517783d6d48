"""Ops that create tiles and move their elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import Shape, Val, Writer, axes_kept, squeezed
from tilewright.ir.ops import shape as ops
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import PointerType


def constant(s: LoweringState, op: ops.Constant) -> Val:
    name, shape = s.tensor_type(op.result)
    dtype, value = op.result.tile.dtype, op.value
    if isinstance(dtype, PointerType):
        return s.w.constant(int(value), name, shape)
    if not dtype.is_floating or dtype.is_float or dtype.short == "tf32":
        return s.w.constant(value, name, shape)
    code = int(constant_array(value, dtype, ()).view("uint8"))
    return s.w.bitcast(s.w.constant(code, "i8", shape), name)


def iota(s: LoweringState, op: ops.Iota) -> Val:
    name, shape = s.tensor_type(op.result)
    w, total, step = s.w, None, 1
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            continue
        part = w.arange(shape[axis])
        if step != 1:
            part = w.op("arith.muli", part, w.like(step, part))
        part = w.broadcast_along(part, (axis,), shape)
        total = part if total is None else w.op("arith.addi", total, part)
        step *= shape[axis]
    if total is None:
        return w.constant(0, name, shape)
    if name in ("i8", "i16"):
        return w.convert("arith.trunci", total, name)
    return w.convert("arith.extui", total, name)


def undefined(s: LoweringState, op: ops.Undefined) -> Val:
    name, shape = s.tensor_type(op.result)
    return zero(s.w, name, shape)


def zero(w: Writer, name: str, shape: Shape) -> Val:
    """All bits zero."""
    if name.startswith("f8"):
        return w.bitcast(w.constant(0, "i8", shape), name)
    return w.constant(0, name, shape)


def reshape(s: LoweringState, op: ops.Reshape) -> Val:
    return s.w.reshape(s[op.x], squeezed(op.shape))


def broadcast(s: LoweringState, op: ops.Broadcast) -> Val:
    x, old, new = s[op.x], op.x.tile.shape, op.shape
    kept = axes_kept(new)
    axes = [i for i, axis in enumerate(kept) if old[axis] != 1]
    return s.w.broadcast_along(x, axes, squeezed(new))


def permute(s: LoweringState, op: ops.Permute) -> Val:
    kept = axes_kept(op.x.tile.shape)
    order = [kept.index(a) for a in op.axes if a in kept]
    return s.w.trans(s[op.x], order)


def cat(s: LoweringState, op: ops.Cat) -> Val:
    """lhs and rhs have equal shapes, since every extent is a power of two."""
    x, y = s.all(op.operands)
    shape, axis = op.lhs.tile.shape, op.axis
    joined = join(s.w, x, y)
    position = len(squeezed(shape[:axis]))
    last = len(x.shape)
    moved = s.w.trans(joined, [*range(position), last, *range(position, last)])
    return s.w.reshape(moved, squeezed(op.result.tile.shape))


def join(w: Writer, x: Val, y: Val) -> Val:
    """x and y along a new last axis."""
    if x.element == "i1" or x.element.startswith("!"):
        return _through_integers(w, [x, y], lambda xs: join(w, *xs))
    shape = (*x.shape, 2)
    if not x.shape:
        x, y = w.splat(x, (1,)), w.splat(y, (1,))
        text = f"tt.join {x.name}, {y.name} : {x.type} -> {Val('', x.element, (1, 2)).type}"
        return w.reshape(w.emit(text, x.element, (1, 2)), (2,))
    return w.emit(f"tt.join {x.name}, {y.name} : {x.type} -> {Val('', x.element, shape).type}", x.element, shape)


def _through_integers(w: Writer, operands: Sequence[Val], f: Callable[[Sequence[Val]], Val]) -> Val:
    """``f`` on values that ops on plain numbers can move: bools as bytes, pointers as addresses."""
    kind = operands[0].element
    if kind == "i1":
        found = f([w.convert("arith.extui", v, "i8") for v in operands])
        return w.convert("arith.trunci", found, "i1")
    return w.int_to_ptr(f([w.ptr_to_int(v) for v in operands]), kind)


def extract(s: LoweringState, op: ops.Extract) -> Val:
    """Keeps what lies at the index along each split axis, by splitting in halves or, for run-time indices, by masks."""
    w, x, shape, part = s.w, s[op.x], list(op.x.tile.shape), op.shape
    for axis, count in enumerate(_grid(op.x.tile.shape, part)):
        if count == 1:
            continue
        index = op.indices[axis]
        known = ops.constant_of(index)
        before, rest = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        if known is not None:
            found = _pick_constant(w, x, before, count, part[axis] * rest, int(known) % count)
        else:
            found = _pick_dynamic(s, x, before, count, part[axis] * rest, s[index])
        shape[axis] = part[axis]
        x = w.reshape(found, squeezed(tuple(shape)))
    return x


def _grid(whole: Shape, part: Shape) -> tuple[int, ...]:
    return tuple(n // m for n, m in zip(whole, part))


def _pick_constant(w: Writer, x: Val, before: int, count: int, after: int, index: int) -> Val:
    """Entry ``index`` of the middle axis of x, seen as (before, count, after)."""
    if x.element == "i1":
        return _through_integers(w, [x], lambda xs: _pick_constant(w, xs[0], before, count, after, index))
    while count > 1:
        count //= 2
        view = w.reshape(x, tuple(n for n in (before, 2, count * after) if n != 1))
        axis = 0 if before == 1 else 1
        others = [a for a in range(len(view.shape)) if a != axis]
        pairs = w.trans(view, [*others, axis])
        if pairs.shape == (2,):
            pairs = w.reshape(pairs, (1, 2))
        x = split(w, pairs)[1 if index & count else 0]
    return x


def split(w: Writer, x: Val) -> tuple[Val, Val]:
    """The two parts of x along its last axis, which has two elements."""
    half = Val("", x.element, x.shape[:-1])
    first, second = w.name(), w.name()
    w.located(f"{first}, {second} = tt.split {x.name} : {x.type} -> {half.type}")
    return Val(first, x.element, half.shape), Val(second, x.element, half.shape)


def _pick_dynamic(s: LoweringState, x: Val, before: int, count: int, after: int, index: Val) -> Val:
    w = s.w
    if x.element == "i1" or x.element.startswith("!"):
        return _through_integers(w, [x], lambda xs: _pick_dynamic(s, xs[0], before, count, after, index))
    kind = x.element
    bits = w.bitcast(x, f"i{x.bits}")
    shape = tuple(n for n in (before, count, after) if n != 1)
    axis = 0 if before == 1 else 1
    view = w.reshape(bits, shape)
    here = w.broadcast_along(_is_at(w, index, count), (axis,), shape)
    kept = w.select(here, view, w.like(0, view))
    return w.bitcast(w.reduce("arith.ori", kept, axis), kind)


def _is_at(w: Writer, index: Val, count: int) -> Val:
    """For each of ``count`` positions whether it is ``index`` modulo count."""
    index = w.resize(index, 32, signed=False)
    index = w.op("arith.andi", index, w.like(count - 1, index))
    return w.compare("eq", w.arange(count), w.splat(index, (count,)))


def insert(s: LoweringState, op: ops.Insert) -> Val:
    w, x, value = s.w, s[op.x], s[op.value]
    whole, part = op.x.tile.shape, op.value.tile.shape
    grid = _grid(whole, part)
    # Both as (grid, part) per axis, without what is 1.
    split = tuple(n for pair in zip(grid, part) for n in pair)
    kept = axes_kept(split)
    shape = squeezed(split)
    spread = w.broadcast_along(value, [kept.index(2 * k + 1) for k, n in enumerate(part) if n != 1], shape)
    here: Val | None = None
    for k, count in enumerate(grid):
        if count == 1:
            continue
        at = w.broadcast_along(_is_at(w, s[op.indices[k]], count), (kept.index(2 * k),), shape)
        here = at if here is None else w.op("arith.andi", here, at)
    if here is None:
        return value
    return w.select(w.reshape(here, x.shape), w.reshape(spread, x.shape), x)
