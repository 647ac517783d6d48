"""Views, pointers and atomics, at and beyond the edges of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.irbuild import KernelBuilder, run

from tilewright.backends.reference import BACKEND
from tilewright.ir import dtypes
from tilewright.ir.core import Value
from tilewright.ir.dtypes import DType, float32, int32, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.errors import TileError
from tilewright.ir.location import Loc
from tilewright.ir.ops import arith, memory, shape

STRONG = {"memory_order": MemoryOrder.ACQ_REL, "memory_scope": MemoryScope.DEVICE}


def copy_kernel(
    tile_shape: tuple[int, ...], index: tuple[int, ...], dtype: DType = float32, **view: Any
) -> KernelBuilder:
    """Loads the tile at ``index`` of x and stores all of it to out."""
    k = KernelBuilder()
    x, out = k.array("x", dtype, len(tile_shape)), k.array("out", dtype, len(tile_shape))
    tile = k.load_tile(x, tile_shape, [k.constant(i) for i in index], **view)
    k.store_tile(out, tile, [k.constant(0)] * len(tile_shape))
    return k


@pytest.mark.parametrize("padding", PaddingMode)
@pytest.mark.parametrize("dtype", [float32, int32, dtypes.bfloat16], ids=str)
def test_partial_load_pads(dtype: DType, padding: PaddingMode) -> None:
    x = np.arange(15).reshape(3, 5).astype(dtype.storage)
    out = np.zeros((2, 4), dtype.storage)
    run(BACKEND, copy_kernel((2, 4), (1, 1), dtype, padding=padding).function(), x=x, out=out)
    pad = np.array(memory.padding_value(padding, dtype)).astype(dtype.storage)
    expected = np.full((2, 4), pad)
    expected[0, 0] = x[2, 4]
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("index", [(2, 0), (0, 2), (-1, 0), (0, -3), (1 << 20, 1 << 20)])
def test_tile_wholly_outside(index: tuple[int, int]) -> None:
    x, out = np.ones((3, 5), np.float32), np.zeros((2, 4), np.float32)
    run(BACKEND, copy_kernel((2, 4), index, padding=PaddingMode.NEG_INF).function(), x=x, out=out)
    assert (out == -np.inf).all()


def test_order_steps_and_strides() -> None:
    """Tile axis k walks array axis order[k]; steps may overlap; negative and zero strides are fine."""
    base = np.arange(60, dtype=np.float32).reshape(6, 10)
    for x in (base, base[::-1, ::2], np.broadcast_to(base[0], (6, 10)), base[5:0:-2, ::-1]):
        out = np.zeros((4, 2), np.float32)
        kernel = copy_kernel((4, 2), (1, 2), order=(1, 0), steps=(1, 1))
        run(BACKEND, kernel.function(), x=x, out=out)
        expected = np.zeros((4, 2), np.float32)
        part = x[2:4, 1:5].T
        expected[: part.shape[0], : part.shape[1]] = part
        np.testing.assert_array_equal(out, expected)


def test_partial_store_drops() -> None:
    k = KernelBuilder()
    out = k.array("out", int32, 1)
    k.store_tile(out, k.iota(4), [k.bid(0)])
    target = np.full(12, -1, np.int32)
    run(BACKEND, k.function(), (4,), out=target[:10])  # blocks 2 and 3 are partly and wholly outside
    np.testing.assert_array_equal(target, [0, 1, 2, 3] * 2 + [0, 1, -1, -1])


def test_scalar_view() -> None:
    k = copy_kernel((), ())
    out = np.zeros((), np.float32)
    run(BACKEND, k.function(), x=np.array(7, np.float32), out=out)
    assert out == 7


def test_empty_array() -> None:
    out = np.ones(4, np.float32)
    run(BACKEND, copy_kernel((4,), (0,)).function(), x=np.zeros(0, np.float32), out=out)
    assert not out.any()


def test_broken_promise_of_bounds() -> None:
    k = KernelBuilder()
    x = k.array("x", float32, 2)
    k.b.loc = Loc("kernel.py", 12)
    view = k.view(x, (2, 4))
    k.emit(memory.LoadView, view, [k.constant(1), k.bid(0)], in_bounds=(False, True))
    run(BACKEND, k.function(), x=np.zeros((3, 8), np.float32), grid=(2,))  # axis 0 may leave the array
    with pytest.raises(
        TileError, match=r"tile axis 1 covers elements 4 to 7 of array axis 1, which has 5.*\(1, 0, 0\)"
    ):
        run(BACKEND, k.function(), x=np.zeros((3, 5), np.float32), grid=(2,))


def gather(offsets: Value, k: KernelBuilder, mask: Value | None = None, padding: Value | None = None) -> None:
    x, out = k.array("x", float32, 1), k.array("out", float32, 1)
    k.b.loc = Loc("kernel.py", 7)
    tile = k.emit(memory.Load, k.pointers(x, offsets), mask, padding)
    k.b.emit_op(memory.Store, k.pointers(out, k.iota(4)), tile, None)


def test_gather_and_scatter() -> None:
    k = KernelBuilder()
    numbers = k.iota(4)
    offsets = k.emit(arith.Mul, numbers, k.constant(3, int32, (4,)))
    mask = k.emit(arith.Cmp, numbers, k.constant(3, int32, (4,)), predicate=CmpPredicate.LT)
    gather(offsets, k, mask, k.constant(-1.0, float32, (4,)))
    out = np.zeros(4, np.float32)
    run(BACKEND, k.function(), x=np.arange(8, dtype=np.float32), out=out)
    np.testing.assert_array_equal(out, [0, 3, 6, -1])


@pytest.mark.parametrize(
    ("first", "message"),
    [(6, "load of 4 bytes outside argument 'x' (32 bytes): it reaches 4 bytes past its end"), (-2, "8 bytes before")],
)
def test_load_outside(first: int, message: str) -> None:
    k = KernelBuilder()
    offsets = k.emit(arith.Add, k.iota(4), k.constant(first, int32, (4,)))
    gather(offsets, k)
    memory_block = np.zeros(24, np.float32)  # x and out lie side by side, and still a pointer belongs to one of them
    with pytest.raises(TileError, match=re.escape(message)) as caught:
        run(BACKEND, k.function(), x=memory_block[8:16], out=memory_block[16:])
    assert caught.value.loc == Loc("kernel.py", 7)


def test_store_outside_leaves_memory_alone() -> None:
    k = KernelBuilder()
    x = k.array("x", int32, 1)
    k.b.emit_op(memory.Store, k.pointers(x, k.iota(8)), k.constant(5, int32, (8,)), None)
    target = np.zeros(8, np.int32)
    with pytest.raises(TileError, match="store of 4 bytes outside argument 'x'"):
        run(BACKEND, k.function(), x=target[:6])
    assert not target.any()


def test_view_with_wrong_extent() -> None:
    """A view that claims more than the array has is caught when it is used."""
    k = KernelBuilder()
    x = k.array("x", float32, 1)
    wide = type(x)("x", float32, x.base, [k.constant(100)], x.strides)
    k.load_tile(wide, (16,), [k.constant(0)])
    with pytest.raises(TileError, match="load of 4 bytes outside argument 'x' .40 bytes.: it reaches 24 bytes past"):
        run(BACKEND, k.function(), x=np.zeros(10, np.float32))


def test_pointers_from_integers() -> None:
    k = KernelBuilder()
    x, where = k.array("x", float32, 1), k.scalar("where", dtypes.int64)
    from_address = k.emit(shape.IntToPtr, where, dtype=x.base.tile.dtype)
    k.b.emit_op(memory.Store, from_address, k.constant(4.0, float32), None)
    target = np.zeros(2, np.float32)
    run(BACKEND, k.function(), x=target, where=target.ctypes.data + 4)
    np.testing.assert_array_equal(target, [0, 4])
    with pytest.raises(TileError, match="access to address 0x0, which lies in no array argument"):
        run(BACKEND, k.function(), x=target, where=0)


@pytest.mark.parametrize("through_view", [True, False])
def test_read_only_array(through_view: bool) -> None:
    k = KernelBuilder()
    x = k.array("x", int32, 1)
    if through_view:
        k.store_tile(x, k.iota(4), [k.constant(0)])
    else:
        k.b.emit_op(memory.Store, k.pointers(x, k.iota(4)), k.iota(4), None)
    target = np.zeros(4, np.int32)
    target.flags.writeable = False
    with pytest.raises(TileError, match="store to argument 'x', which is read-only"):
        run(BACKEND, k.function(), x=target)
    assert not target.any()


@pytest.mark.parametrize("kind", AtomicKind)
def test_atomics_on_repeated_places(kind: AtomicKind) -> None:
    """Elements act in order, each on what the one before left; old values come back."""
    k = KernelBuilder()
    x, old, places, values = (k.array(name, int32, 1) for name in ("x", "old", "places", "values"))
    zero = k.constant(0)
    pointers = k.pointers(x, k.load_tile(places, (8,), [zero]))
    mask = k.emit(arith.Cmp, k.iota(8), k.constant(7, int32, (8,)), predicate=CmpPredicate.NE)
    update = k.load_tile(values, (8,), [zero])
    k.store_tile(old, k.emit(memory.AtomicRmw, pointers, update, mask, kind=kind, **STRONG), [zero])
    where = np.array([2, 0, 2, 2, 1, 0, 2, 2], np.int32)
    amount = np.array([5, -3, 6, 1, 9, 12, 3, 100], np.int32)
    start = np.array([1, 2, 4, 8], np.int32)
    model: dict[str, Callable[[int, int], int]] = {"xchg": lambda a, b: b, "add": int.__add__, "max": max, "min": min}
    model |= {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}
    expected, before = start.tolist(), []
    for place, value in zip(where.tolist()[:7], amount.tolist()):
        before.append(expected[place])
        expected[place] = model[kind.value](expected[place], value)
    target, result = start.copy(), np.zeros(8, np.int32)
    run(BACKEND, k.function(), x=target, old=result, places=where, values=amount)
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(result, [*before, 0])


def test_float16_atomic_add_rounds_every_sum() -> None:
    k = KernelBuilder()
    x = k.array("x", dtypes.float16, 1)
    pointers = k.fill(x.base, (64,))
    one = k.constant(1.0, dtypes.float16, (64,))
    k.emit(memory.AtomicRmw, pointers, one, None, kind=AtomicKind.ADD, **STRONG)
    target = np.array([2048.0], np.float16)
    run(BACKEND, k.function(), x=target)
    assert target[0] == 2048


def test_compare_and_swap_compares_bits() -> None:
    k = KernelBuilder()
    x, old = k.array("x", float32, 1), k.array("old", float32, 1)
    pointers = k.pointers(x, k.iota(4))
    expected, desired = k.constant(0.0, float32, (4,)), k.constant(5.0, float32, (4,))
    mask = k.emit(arith.Cmp, k.iota(4), k.constant(3, int32, (4,)), predicate=CmpPredicate.NE)
    found = k.emit(memory.AtomicCas, pointers, expected, desired, mask, **STRONG)
    k.store_tile(old, found, [k.constant(0)])
    target, result = np.array([0.0, -0.0, 1.0, 0.0], np.float32), np.ones(4, np.float32)
    run(BACKEND, k.function(), x=target, old=result)
    np.testing.assert_array_equal(target, [5, 0, 1, 0])
    np.testing.assert_array_equal(result, [0, 0, 1, 0])


def test_atomic_view_drops_what_is_outside() -> None:
    k = KernelBuilder()
    x = k.array("x", int32, 2)
    view = k.view(x, (2, 4))
    value = k.emit(shape.Reshape, k.iota(8), shape=(2, 4))
    k.b.emit_op(memory.AtomicView, view, value, [k.constant(0), k.bid(0)], kind=AtomicKind.ADD)
    target = np.full((2, 6), 10, np.int32)
    run(BACKEND, k.function(), (3,), x=target)
    np.testing.assert_array_equal(target, [[10, 11, 12, 13, 10, 11], [14, 15, 16, 17, 14, 15]])


@pytest.mark.parametrize("index", [-1, 4, 1 << 20])
def test_access_outside_a_local_array(index: int) -> None:
    k = KernelBuilder()
    place = k.emit(shape.PtrOffset, k.emit(memory.LocalArray, dtype=float32, count=4), k.constant(index))
    k.b.emit_op(memory.Store, place, k.constant(1.0, float32), None)
    with pytest.raises(TileError, match=r"outside the local array \(16 bytes\)"):
        run(BACKEND, k.function())


def test_a_local_array_ends_with_its_block() -> None:
    """The first block leaves the address of its array in memory; the second one follows it."""
    k = KernelBuilder()
    out = k.array("out", int64, 1)
    local = k.emit(memory.LocalArray, dtype=int64, count=1)
    k.b.emit_op(memory.Store, local, k.constant(5, int64), None)
    old = k.emit(memory.Load, out.base, None, None)
    first = k.emit(arith.Cmp, old, k.constant(0, int64), predicate=CmpPredicate.EQ)
    own = k.emit(shape.PtrToInt, local, dtype=int64)
    place = k.emit(shape.IntToPtr, k.emit(arith.Select, first, own, old), dtype=local.tile.dtype)
    k.b.emit_op(memory.Load, place, None, None)
    k.b.emit_op(memory.Store, out.base, own, None)
    array = np.zeros(1, np.int64)
    run(BACKEND, k.function(), (1,), out=array)
    with pytest.raises(TileError, match="lies in no array argument and no local array"):
        run(BACKEND, k.function(), (2,), out=array)
