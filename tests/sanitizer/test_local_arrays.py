"""Memory of one block: its bounds, its contents, and its end; memory that cannot be written."""

from __future__ import annotations

import numpy as np
from support.irbuild import KernelBuilder

import tilewright as ct
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.backends.registry import get_backend
from tilewright.ir.dtypes import int32, int64
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.ops import arith, memory, shape
from tilewright.sanitizer import Violation


def run(k: KernelBuilder, out: np.ndarray, blocks: int = 1, *, writable: bool = True) -> list[Violation]:
    function = k.function()
    address, n = out.ctypes.data, out.size
    dtype = {4: int32, 8: int64}[out.itemsize]
    values = [{"base": address, "shape": n, "stride": 1}[p.role] for p in function.params]
    buffer = Buffer("out", address, address, address + out.nbytes, dtype, writable, (n,), (1,))
    with ct.sanitize() as report:
        get_backend("sanitizer").compile(function, {}).launch((blocks, 1, 1), LaunchArguments(values, [buffer]))
    return report.violations


def test_bounds_and_contents() -> None:
    for index, written, want in ((1, True, []), (1, False, ["undefined-value"]), (4, True, ["out-of-bounds"])):
        k = KernelBuilder()
        out = k.array("out", int32, 1)
        local = k.emit(memory.LocalArray, dtype=int32, count=4)
        place = k.emit(shape.PtrOffset, local, k.constant(index))
        if written:
            k.b.emit_op(memory.Store, place, k.constant(7), None)
        if index < 4:
            k.b.emit_op(memory.Store, out.base, k.emit(memory.Load, place, None, None), None)
        found = run(k, np.zeros(4, np.int32), blocks=3 if index == 4 else 1)
        assert [v.category.name for v in found] == want
        if index == 4:
            assert (
                found[0].place is not None and found[0].place.outside == "1 element past the end of axis 0, which has 4"
            )
            assert found[0].count == 3


def test_the_memory_of_a_block_that_has_ended() -> None:
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
    assert run(k, array) == []
    assert [v.category.name for v in run(k, array)] in ([], ["dangling-pointer"])  # unless the memory is used again


def test_memory_that_cannot_be_written() -> None:
    for writable, want in ((True, []), (False, [("read-only", 2)])):
        k = KernelBuilder()
        out = k.array("out", int32, 1)
        k.b.emit_op(memory.Store, out.base, k.constant(7), None)
        view = k.view(out, (4,))
        k.b.emit_op(memory.StoreView, view, k.iota(4), [k.constant(0)], in_bounds=(False,))
        array = np.full(4, 9, np.int32)
        assert [(v.category.name, v.count) for v in run(k, array, writable=writable)] == want
        assert array.tolist() == ([0, 1, 2, 3] if writable else [9] * 4)
