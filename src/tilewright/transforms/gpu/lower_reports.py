"""Print, assert and local arrays as accesses to memory that the launch gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from tilewright.ir import report_buffer
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Param, Value
from tilewright.ir.dtypes import DType, float4_e2m1fn, int32, int64
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope
from tilewright.ir.ops.arith import Add, Bitcast, Cast, Cmp, Min, Mul, Or, Select
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.ops.memory import Assert, AtomicCas, AtomicRmw, Bid, LocalArray, NumBlocks, Print, Store
from tilewright.ir.ops.shape import Iota, PtrOffset, PtrToInt, Reshape
from tilewright.ir.rewrite import Rewriter, open_block
from tilewright.ir.structured import emit_if, emit_region
from tilewright.ir.types import PointerType, TileType
from tilewright.transforms.lower_packing import as_unsigned, float4_code

REPORT, LOCAL = "report", "local"  # the roles of the parameters that the launch adds: pointers, in this order
LOCAL_ALIGNMENT = 16
_RELAXED = {"memory_order": MemoryOrder.RELAXED, "memory_scope": MemoryScope.DEVICE}


class LowerReports:
    """Gives a kernel that prints or asserts a pointer to its ``ir.report_buffer``, and stores there what it reports.

    One with local arrays gets a pointer to those of all blocks of the grid. Runs first: what it makes are accesses like
    others.
    """

    name: ClassVar[str] = "lower-reports"

    def run(self, function: Function) -> Function:
        reports, local = bool(report_buffer.sites(function)), local_bytes(function)
        return _Lowering(function).function(function) if reports or local else function


def local_bytes(function: Function) -> int:
    """The bytes of the local arrays of a block."""
    return sum(_local_sizes(function).values())


def _local_sizes(function: Function) -> dict[Op, int]:
    return {
        op: -(-op.count * op.dtype.bytes // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT
        for op in function.walk()
        if isinstance(op, LocalArray)
    }


class _Lowering(Rewriter):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.sites = {op: i for i, op in enumerate(report_buffer.sites(function))}
        self.local_starts: dict[Op, int] = {}
        self.local_bytes = 0
        for op, size in _local_sizes(function).items():
            self.local_starts[op] = self.local_bytes
            self.local_bytes += size
        self.added: dict[str, Value] = {}

    def function(self, function: Function) -> Function:
        body = open_block(function.body, self.values)
        params = list(function.params)
        for role, needed in ((REPORT, bool(self.sites)), (LOCAL, bool(self.local_bytes))):
            if needed:
                self.added[role] = body.add_arg(TileType(PointerType(int64)), role)
                params.append(Param(role, role))
        builder = Builder(body, function.loc)
        for op in function.body.ops:
            self.insert(op, builder)
        return Function(function.name, body, params, function.loc, dict(function.hints), function.may_alias)

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        if isinstance(op, Print):
            self._print(op, builder)
        elif isinstance(op, Assert):
            self._assert(op, builder)
        elif isinstance(op, LocalArray):
            self.values[op.result] = self._local(op, builder)
        else:
            super().insert(op, builder)

    # -- print

    def _print(self, op: Print, b: Builder) -> None:
        """Takes room in the buffer and fills it; what does not fit is counted and lost."""
        words, report = report_buffer.record_words(op), self.added[REPORT]
        start = b.emit(AtomicRmw, report, b.constant(words, int64), None, kind=AtomicKind.ADD, **_RELAXED)
        fits = b.emit(
            Cmp, start, b.constant(report_buffer.WORDS - report_buffer.HEADER - words, int64), predicate=CmpPredicate.LE
        )

        def fill() -> list[Value]:
            at = b.emit(PtrOffset, report, b.emit(Add, start, b.constant(report_buffer.HEADER, int64)))
            _put_all(b, at, 0, [b.constant(self.sites[op], int64), *_block(b)])
            position = report_buffer.RECORD
            for value in self.all(op.operands):
                _put(b, at, position, _bits(b, value))
                position += value.tile.size
            return []

        emit_if(b, fits, fill)

    # -- assert

    def _assert(self, op: Assert, b: Builder) -> None:
        """The first block that fails says where and why, and every block that fails ends."""
        condition = self.value(op.condition)
        holds, element = _first_false(b, condition)
        failed = b.emit(Cmp, holds, b.constant(False, holds.tile.element), predicate=CmpPredicate.EQ)
        report = self.added[REPORT]

        def tell() -> list[Value]:
            _put_all(b, report, report_buffer.FAILED_BLOCK, _block(b))
            _put(b, report, report_buffer.FAILED_ELEMENT, b.emit(Cast, element, dtype=int64))
            for i, value in enumerate(self.all(op.values)[: report_buffer.MOST_VALUES]):
                _put(b, report, report_buffer.FAILED_VALUES + i, _element_of(b, value, condition.tile.shape, element))
            return []

        def fail() -> list[Value]:
            cell = b.emit(PtrOffset, report, b.constant(report_buffer.FAILED_SITE, int64))
            site = b.constant(self.sites[op] + 1, int64)
            old = b.emit(AtomicCas, cell, b.constant(0, int64), site, None, **_RELAXED)
            emit_if(b, b.emit(Cmp, old, b.constant(0, int64), predicate=CmpPredicate.EQ), tell)
            b.emit_op(Exit)
            return []

        emit_if(b, failed, fail)

    # -- local arrays

    def _local(self, op: LocalArray, b: Builder) -> Value:
        """The part of this block."""
        x, y, z = _block(b)
        width, height = (b.emit(Cast, b.emit(NumBlocks, axis=axis), dtype=int64) for axis in (0, 1))
        row = b.emit(Add, b.emit(Mul, z, height), y)
        block = b.emit(Add, b.emit(Mul, row, width), x)
        start = b.emit(Mul, block, b.constant(self.local_bytes // int64.bytes, int64))
        first = b.constant(self.local_starts[op] // int64.bytes, int64)
        pointer = b.emit(PtrOffset, self.added[LOCAL], b.emit(Add, start, first))
        return b.emit(Bitcast, pointer, dtype=PointerType(op.dtype))


def _block(b: Builder) -> list[Value]:
    return [b.emit(Cast, b.emit(Bid, axis=axis), dtype=int64) for axis in range(3)]


def _put(b: Builder, base: Value, position: int, words: Value) -> None:
    """Store int64 ``words`` in row-major order, the first at ``position`` after ``base``."""
    at = b.emit(PtrOffset, base, b.constant(position, int64))
    count = words.tile.size
    if words.tile.rank:
        words = _flat(b, words)
        at = b.emit(PtrOffset, b.splat(at, (count,)), b.emit(Iota, type=TileType(int32, (count,))))
    b.emit_op(Store, at, words, None)


def _put_all(b: Builder, base: Value, position: int, words: Sequence[Value]) -> None:
    for i, word in enumerate(words):
        _put(b, base, position + i, word)


def _flat(b: Builder, x: Value) -> Value:
    return x if x.tile.rank == 1 else b.emit(Reshape, x, shape=(x.tile.size,))


def _bits(b: Builder, x: Value) -> Value:
    """The bits of each element as an int64."""
    if x.tile.is_pointer:
        return b.emit(PtrToInt, x, dtype=int64)
    if x.tile.element is float4_e2m1fn:
        x = float4_code(b, x)
    elif not x.tile.element.is_bool:
        x = as_unsigned(b, x)
    return b.emit(Cast, x, dtype=int64)


def _reduced(b: Builder, x: Value, kind: type[Op], identity: int) -> Value:
    """All elements of a rank-1 tile combined."""
    body = emit_region(b, [TileType(x.tile.dtype)] * 2, lambda *args: [b.emit(kind, *args)])
    return b.emit(Reduce, [x], axis=0, identities=(identity,), commutative=True, body=body)


def _first_false(b: Builder, condition: Value) -> tuple[Value, Value]:
    """Whether all elements are true, and the row-major position of the first that is not."""
    if not condition.tile.rank:
        return condition, b.constant(0, int32)
    count = math.prod(condition.tile.shape)
    flat = _flat(b, condition)
    here = b.emit(Iota, type=TileType(int32, (count,)))
    positions = b.emit(Select, flat, b.constant(count, int32, (count,)), here)
    smallest = _reduced(b, positions, Min, count)
    return b.emit(Cmp, smallest, b.constant(count, int32), predicate=CmpPredicate.EQ), smallest


def _element_of(b: Builder, value: Value, shape: tuple[int, ...], element: Value) -> Value:
    """Element ``element`` of ``value``, of the shape of the condition or a scalar, as int64."""
    wide = _as_int64(b, value)
    if not wide.tile.rank or not shape:
        return wide
    flat, count = _flat(b, wide), wide.tile.size
    here = b.emit(Iota, type=TileType(int32, (count,)))
    chosen = b.emit(Cmp, here, b.splat(element, (count,)), predicate=CmpPredicate.EQ)
    return _reduced(b, b.emit(Select, chosen, flat, b.constant(0, int64, (count,))), Or, 0)


def _as_int64(b: Builder, value: Value) -> Value:
    dtype: DType = value.tile.element
    return value if dtype is int64 else b.emit(Cast, value, dtype=int64)
