"""The fastest loops that are known for patterns of access which copies do not have: what rows of ``cpu.py`` can reach.

Each is measured on the arrays of its row, so that it finds pages and cache lines as the kernel does.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from tilewright.backends.cpu.codegen import lanes
from tilewright.backends.cpu.codegen.nest import Nest
from tilewright.backends.cpu.codegen.transpose import transpose
from tilewright.backends.cpu.limits import fastest_seconds
from tilewright.backends.cpu.target import host, new_machine
from tilewright.backends.native.jit import MachineCode
from tilewright.backends.native.text_builder import TextBuilder, text_of
from tilewright.backends.vector.types import I64

Pattern = Callable[[int], float]  # the seconds that so many threads take
_SIDE, _TILE, _LINE = 16, 64, 64  # elements of a square, and of a tile; bytes of a cache line
_FAR = 2048  # bytes ahead that are fetched
_APART = 2048  # elements between what threads change
_REPETITIONS = 9
_VECTOR = ir.VectorType(ir.FloatType(), _SIDE)


def transposition(x: np.ndarray, out: np.ndarray) -> Pattern:
    """``out`` becomes the transpose of ``x``, float32, whose sides are multiples of 64 for each thread: by squares in
    registers, which are stored past the caches where lines begin with them."""
    aligned = out.ctypes.data % _LINE == 0 and out.strides[0] % _LINE == 0
    orders = [("rows", "columns"), ("columns", "rows")]  # the outer loop first
    loops = [_compiled(_transposing(past, o)) for past in range(1 + aligned) for o in orders]

    def seconds(threads: int) -> float:
        part, (rows, columns) = x.shape[0] // threads, x.shape
        places = x.ctypes.data, x.strides[0], out.ctypes.data, out.strides[0], columns
        work = [(*places, low, low + part) for low in range(0, rows, part)]
        return min(_fastest(run, work) for run in loops)

    return seconds


def gathering(table: np.ndarray, rows: np.ndarray, out: np.ndarray) -> Pattern:
    """The ``rows`` (int32) of ``table``, float32, copied to ``out`` one after the other."""
    aligned = out.ctypes.data % _LINE == 0 and out.strides[0] % _LINE == 0
    loops = [_compiled(_picking(past)) for past in range(1 + aligned)]

    def seconds(threads: int) -> float:
        part, line = len(rows) // threads, out.strides[0]
        ends = range(0, len(rows), part)
        work = [
            (table.ctypes.data, rows.ctypes.data + 4 * low, out.ctypes.data + line * low, part, line, 0, 0)
            for low in ends
        ]
        return min(_fastest(run, work) for run in loops)

    return seconds


def counting(values: np.ndarray, bins: int) -> Pattern:
    """A histogram of int32: an addition in memory for each."""
    run = _compiled(_counting())

    def seconds(threads: int) -> float:
        part = values.size // threads
        counts = np.zeros((threads, bins + 2 * _APART), np.int32)[:, _APART:]  # on pages of their own
        starts = [(values.ctypes.data + 4 * k * part, counts[k].ctypes.data, part, 0, 0, 0, 0) for k in range(threads)]
        return _fastest(run, starts)

    return seconds


def _transposing(past: bool, order: tuple[str, str]) -> Callable[[TextBuilder, Sequence[ir.Value]], None]:
    def emit(builder: TextBuilder, arguments: Sequence[ir.Value]) -> None:
        source, line, target, row, columns, low, high = arguments
        nest = Nest(builder)
        ends = {"rows": (high, low), "columns": (columns, 0)}
        at = {name: nest.begin(ends[name][0], _TILE, ends[name][1]) for name in order}
        for name in reversed(order):
            at[name] = nest.begin(nest.builder.add(at[name], I64(_TILE)), _SIDE, at[name])
        b = nest.builder

        def place(base: ir.Value, stride: ir.Value, i: ir.Value, j: ir.Value, k: int) -> ir.Value:
            offset = b.add(b.mul(b.add(i, I64(k)), stride), b.mul(j, I64(4)))
            return b.inttoptr(b.add(base, offset), lanes.POINTER)

        rows = [b.load(place(source, line, at["rows"], at["columns"], k), align=4, typ=_VECTOR) for k in range(_SIDE)]
        for k, column in enumerate(transpose(b, rows)):
            where = place(target, row, at["columns"], at["rows"], k)
            if past:
                lanes.streaming_store(b, column, where, _LINE)
            else:
                b.store(column, where, align=4)
        nest.close()

    return emit


def _picking(past: bool) -> Callable[[TextBuilder, Sequence[ir.Value]], None]:
    def emit(builder: TextBuilder, arguments: Sequence[ir.Value]) -> None:
        table, rows, target, count, line = arguments[:5]
        nest = Nest(builder)
        row = nest.begin(count)
        b = nest.builder
        number = b.load(b.inttoptr(b.add(rows, b.mul(row, I64(4))), lanes.POINTER), align=4, typ=ir.IntType(32))
        source, to = b.add(table, b.mul(b.zext(number, I64), line)), b.add(target, b.mul(row, line))
        at = nest.begin(line, _LINE)
        b = nest.builder
        vector = b.load(b.inttoptr(b.add(source, at), lanes.POINTER), align=4, typ=_VECTOR)
        where = b.inttoptr(b.add(to, at), lanes.POINTER)
        if past:
            lanes.streaming_store(b, vector, where, _LINE)
        else:
            b.store(vector, where, align=4)
        nest.close()

    return emit


def _counting() -> Callable[[TextBuilder, Sequence[ir.Value]], None]:
    def emit(builder: TextBuilder, arguments: Sequence[ir.Value]) -> None:
        values, counts, n = arguments[:3]
        nest, i32 = Nest(builder), ir.IntType(32)
        at = nest.builders[0].add(values, I64(0))
        k = nest.begin(n, _SIDE)
        b = nest.builder
        start = b.add(at, b.mul(k, I64(4)))
        ahead = b.inttoptr(b.add(start, I64(_FAR)), lanes.POINTER)
        lanes.call_external(b, "llvm.prefetch.p0", ir.VoidType(), [ahead, i32(0), i32(3), i32(1)])
        for pair in range(0, _SIDE, 2):
            both = b.load(b.inttoptr(b.add(start, I64(4 * pair)), lanes.POINTER), align=4, typ=I64)
            for value in (b.and_(both, I64(0xFFFFFFFF)), b.lshr(both, I64(32))):
                where = b.inttoptr(b.add(counts, b.mul(value, I64(4))), lanes.POINTER)
                b.store(b.add(b.load(where, align=4, typ=i32), i32(1)), where, align=4)
        nest.close()

    return emit


def _compiled(emit: Callable[[TextBuilder, Sequence[ir.Value]], None]) -> Callable[..., object]:
    """A function of seven numbers, which runs without Python's lock."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 7), "work")
    builder = TextBuilder(function.append_basic_block("entry"))
    emit(builder, function.args)
    builder.ret_void()
    code = MachineCode(text_of(module), new_machine(host(), level=3))
    run: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 7)(code.address("work"))
    run.code = code  # kept as long as the function is
    return run


def _fastest(run: Callable[..., object], arguments: Sequence[tuple[int, ...]]) -> float:
    """The seconds of the fastest of several runs with all ``arguments`` at once."""
    return fastest_seconds([functools.partial(run, *a) for a in arguments], _REPETITIONS)
