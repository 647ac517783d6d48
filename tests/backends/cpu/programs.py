"""Random straight and structured programs of Tile IR, for comparing backends.

Only operations with one exact result are used, so that results can be compared bit for bit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.irbuild import ArrayParam, KernelBuilder

from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import DType, bool_, float16, float32, float64, int8, int32, int64, uint8
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.ops.arith import Abs, Add, And, Cast, Cmp, Div, Max, Min, Mul, Neg, Not, Or, Select, Sub, Xor
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.ir.ops.memory import AtomicRmw, Load, LoadView, MakePartitionView, MakeTensorView, Store, StoreView
from tilewright.ir.ops.shape import Broadcast, Cat, Extract, Insert, Pack, Permute, Reshape, Unpack
from tilewright.ir.types import PartitionViewType, TensorViewType, TileType

DTYPES = (float32, float32, int32, float16, int8, uint8, int64, float64, bool_)
SHAPES = ((), (1,), (8,), (64,), (2, 16), (16, 4), (1, 32), (32, 1), (4, 2, 8), (2, 1, 2, 16), (128, 2), (8, 128))
_INTEGER_BINARY = (Add, Sub, Mul, Min, Max, And, Or, Xor)
_FLOAT_BINARY = (Add, Sub, Mul, Min, Max)


class ProgramMaker:
    """Builds one program from a seed, and the arrays that it runs on. With ``any_order`` its folds give the same in
    whatever order elements are combined."""

    def __init__(self, seed: int, *, any_order: bool = False) -> None:
        self.any_order = any_order
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.k = KernelBuilder(f"program{seed}")
        self.pool: list[Value] = []
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self.params: list[ArrayParam] = []
        self.depth = 0

    # Choices

    def pick(self, *dtypes: DType, shape: tuple[int, ...] | None = None, rank: int = 0) -> Value:
        """A value of the pool of one of ``dtypes`` (any if none), or a new constant."""
        found = [
            v
            for v in self.pool
            if (not dtypes or v.tile.element in dtypes)
            and (shape is None or v.tile.shape == shape)
            and v.tile.rank >= rank
        ]
        if found:
            return self.random.choice(found[-12:])
        dtype = self.random.choice(dtypes or DTYPES)
        if shape is None:
            shape = self.random.choice([s for s in SHAPES if len(s) >= rank])
        return self.fresh(dtype, shape)

    def fresh(self, dtype: DType, shape: tuple[int, ...]) -> Value:
        k = self.k
        if dtype.is_bool or self.random.random() < 0.3:
            return k.constant(self.random.choice((False, True)) if dtype.is_bool else 3, dtype, shape)
        return k.emit(Cast, k.iota(*shape), dtype=dtype) if dtype is not int32 else k.iota(*shape)

    def array(self, dtype: DType, rank: int) -> ArrayParam:
        """A new array argument with odd extents and strides of either sign."""
        name = f"a{len(self.params)}"
        extents = [
            self.random.choice((1, 3, 7, 8, 16, 33, 64, 130)) if rank < 3 else self.random.choice((1, 3, 8, 17))
            for _ in range(rank)
        ]
        full = self.numbers.integers(-9, 10, [2 * e for e in extents]).astype(dtype.storage)
        steps = [self.random.choice((1, 1, 2, -1)) for _ in range(rank)]
        strided: Any = (..., *(slice(None, None, s) for s in steps))
        inner: Any = (..., *(slice(0, e) for e in extents))
        view = full[strided][inner]
        if rank and self.random.random() < 0.3:
            view = view.transpose(self.random.sample(range(rank), rank))
        self.arrays[name] = view
        param = self.k.array(name, dtype, rank, self.random.choice((int32, int64)))
        self.params.append(param)
        return param

    def partition(self, array: ArrayParam, tile: tuple[int, ...]) -> Value:
        """A partition view; extents and strides are static at random."""
        k, rank = self.k, len(tile)
        value = self.arrays[array.name]
        strides = [s // value.itemsize for s in value.strides]
        known_shape = [self.random.random() < 0.4 for _ in range(rank)]
        known_stride = [s == 1 or self.random.random() < 0.4 for s in strides]
        view_type = TensorViewType(
            array.dtype,
            tuple(n if known else None for n, known in zip(value.shape, known_shape)),
            tuple(s if known else None for s, known in zip(strides, known_stride)),
            array.shape[0].tile.element if rank else int32,
        )
        shape = [v for v, known in zip(array.shape, known_shape) if not known]
        stride = [v for v, known in zip(array.strides, known_stride) if not known]
        view = k.emit(MakeTensorView, array.base, shape, stride, type=view_type)
        order = tuple(self.random.sample(range(rank), rank)) if self.random.random() < 0.3 else tuple(range(rank))
        steps = tuple(self.random.choice((n, n, max(n // 2, 1), n + 3)) for n in tile)
        padding = self.random.choice(list(PaddingMode))
        return k.emit(MakePartitionView, view, type=PartitionViewType(view_type, tile, order, padding, steps))

    def indices(self, rank: int) -> list[Value]:
        return [self.k.constant(self.random.choice((0, 0, 0, 1, 1, 2, -1, 50)), int32) for _ in range(rank)]

    # Steps: each adds one value to the pool

    def load(self) -> Value:
        dtype = self.random.choice(DTYPES)
        shape = self.random.choice(SHAPES)
        array = self.random.choice([*self.params, None, None])
        if array is None or array.dtype not in DTYPES or len(array.shape) != len(shape):
            array = self.array(dtype, len(shape))
        view = self.partition(array, shape)
        return self.k.emit(LoadView, view, self.indices(len(shape)), in_bounds=(False,) * len(shape))

    def store(self) -> Value:
        value = self.pick()
        rank = value.tile.rank
        same = [a for a in self.params if a.dtype is value.tile.element and len(a.shape) == rank]
        array = self.random.choice(same) if same else self.array(value.tile.element, rank)
        view = self.partition(array, value.tile.shape)
        steps = view.type.steps  # type: ignore[union-attr]
        assert len(steps) == rank
        self.k.b.emit_op(StoreView, view, value, self.indices(rank), in_bounds=(False,) * rank)
        return value

    def update(self) -> Value:
        """Load and store overlapping tiles of one array."""
        dtype, shape = self.random.choice((float32, int32)), self.random.choice(SHAPES)
        array = self.array(dtype, len(shape))
        view = self.partition(array, shape)
        index = self.indices(len(shape))
        x = self.k.emit(LoadView, view, index, in_bounds=(False,) * len(shape))
        y = self.k.emit(Add, x, x)
        where = index if self.random.random() < 0.5 else self.indices(len(shape))
        self.k.b.emit_op(StoreView, view, y, where, in_bounds=(False,) * len(shape))
        return x

    def pointers(self) -> Value:
        """Gather from, and scatter or add to, a rank-1 array."""
        k, shape = self.k, self.random.choice(SHAPES[1:])
        dtype = self.random.choice((float32, int32, float16, int64))
        name = f"a{len(self.params)}"
        count = math.prod(shape)
        several = count > 128 and not self.any_order  # elements of the tile for one of the array
        self.arrays[name] = self.numbers.integers(-9, 10, 300 if several else max(300, count + 5)).astype(dtype.storage)
        array = k.array(name, dtype, 1)
        self.params.append(array)
        offsets = k.emit(Add, k.iota(*shape), k.constant(self.random.choice((0, 5)), int32, shape))
        if several:
            offsets = k.emit(And, offsets, k.constant(127, int32, shape))
        ptrs = k.pointers(array, offsets)
        mask = self.pick(bool_, shape=shape) if self.random.random() < 0.6 else None
        padding = self.pick(dtype, shape=shape) if mask is not None and self.random.random() < 0.5 else None
        x = k.emit(Load, ptrs, mask, padding)
        kind = self.random.random()
        if kind < 0.4 and not several:
            k.b.emit_op(Store, ptrs, k.emit(Add, x, x), mask)
        elif kind < 0.7 and dtype is not float16:
            return k.emit(
                AtomicRmw,
                ptrs,
                self.pick(dtype, shape=shape),
                mask,
                kind=AtomicKind.ADD if several else self.random.choice((AtomicKind.ADD, AtomicKind.XCHG)),
                memory_order=MemoryOrder.ACQ_REL,
                memory_scope=MemoryScope.DEVICE,
            )
        return x

    def binary(self) -> Value:
        x = self.pick(float32, float16, float64, int32, int8, uint8, int64)
        y = self.pick(x.tile.element, shape=x.tile.shape)
        ops = _FLOAT_BINARY if x.tile.element.is_float else _INTEGER_BINARY
        return self.k.emit(self.random.choice(ops), x, y)

    def unary(self) -> Value:
        x = self.pick(float32, float16, int32, int8, int64)
        choices = (Neg, Abs) if x.tile.element.is_float else (Neg, Abs, Not)
        return self.k.emit(self.random.choice(choices), x)

    def divide(self) -> Value:
        x = self.pick(float32, float16)
        return self.k.emit(Div, x, self.pick(x.tile.element, shape=x.tile.shape))

    def compare(self) -> Value:
        x = self.pick(float32, int32, int8, uint8, float16, int64)
        return self.k.emit(
            Cmp, x, self.pick(x.tile.element, shape=x.tile.shape), predicate=self.random.choice(list(CmpPredicate))
        )

    def choose(self) -> Value:
        x = self.pick()
        return self.k.emit(
            Select, self.pick(bool_, shape=x.tile.shape), x, self.pick(x.tile.element, shape=x.tile.shape)
        )

    def cast(self) -> Value:
        return self.k.emit(Cast, self.pick(), dtype=self.random.choice(DTYPES))

    def reshape(self) -> Value:
        x = self.pick()
        rest, shape = x.tile.size, []
        for _ in range(self.random.randrange(4)):
            n = min(rest, self.random.choice((1, 2, 4, 8)))
            shape.append(n)
            rest //= n
        shape.append(rest)
        self.random.shuffle(shape)
        return self.k.emit(Reshape, x, shape=tuple(shape) if x.tile.size > 1 or self.random.random() < 0.5 else ())

    def broadcast(self) -> Value:
        x = self.pick(rank=1)
        shape = tuple(self.random.choice((1, 4, 16)) if n == 1 and x.tile.size <= 256 else n for n in x.tile.shape)
        return self.k.emit(Broadcast, x, shape=shape)

    def permute(self) -> Value:
        x = self.pick(rank=1)
        return self.k.emit(Permute, x, axes=tuple(self.random.sample(range(x.tile.rank), x.tile.rank)))

    def extract(self) -> Value:
        x = self.pick(rank=1)
        shape = tuple(self.random.choice((n, max(n // 2, 1), 1)) for n in x.tile.shape)
        return self.k.emit(Extract, x, self.indices(x.tile.rank), shape=shape)

    def insert(self) -> Value:
        x = self.pick(rank=1)
        shape = tuple(self.random.choice((n, max(n // 2, 1))) for n in x.tile.shape)
        return self.k.emit(Insert, x, self.pick(x.tile.element, shape=shape), self.indices(x.tile.rank))

    def cat(self) -> Value:
        x = self.pick(rank=1)
        return self.k.emit(
            Cat, x, self.pick(x.tile.element, shape=x.tile.shape), axis=self.random.randrange(x.tile.rank)
        )

    def pack(self) -> Value:
        x = self.pick(int32, int64, uint8)  # the sign of a NaN is not specified
        return self.k.emit(Unpack, self.k.emit(Pack, x), dtype=self.random.choice((x.tile.element, int8, uint8)))

    def reduce(self) -> Value:
        x = self.pick(float32, int32, float16, float64, int8, bool_, rank=1)
        dtype, k = x.tile.element, self.k
        axis = self.random.randrange(x.tile.rank)
        inexact = self.any_order and dtype.is_floating
        op: type[Op] = Max if inexact else self.random.choice((Add, Max, Mul))
        if not self.any_order and self.random.random() < 0.3:
            body = k.combiner([dtype, int32], lambda a, i, b, j: _argmax(k, a, i, b, j))
            index = k.iota(*x.tile.shape)
            op2 = k.b.emit_op(
                Reduce, [x, index], axis=axis, identities=(0, 0), commutative=self.random.random() < 0.7, body=body
            )
            self.pool.append(op2.results[1])
            return op2.results[0]
        if dtype.is_bool:
            op = self.random.choice((And, Or, Max))
        body = k.combiner([dtype], lambda a, b: [k.emit(op, a, b)])
        return k.emit(Reduce, [x], axis=axis, identities=(0,), commutative=self.random.random() < 0.7, body=body)

    def scan(self) -> Value:
        x = self.pick(float32, int32, float16, rank=1)
        op = Max if self.any_order and x.tile.element.is_floating else Add
        body = self.k.combiner([x.tile.element], lambda a, b: [self.k.emit(op, a, b)])
        axis = self.random.randrange(x.tile.rank)
        return self.k.emit(Scan, [x], axis=axis, identities=(0,), reverse=self.random.random() < 0.5, body=body)

    def mma(self) -> Value:
        """Small whole numbers, whose products are exact in any order."""
        m, n, k = (self.random.choice((1, 2, 8, 16, 64)) for _ in range(3))
        dtype, out = self.random.choice(((float32, float32), (float16, float32), (float64, float64), (int8, int32)))
        low = self.k.constant(3, int32, (m, k))
        x = self.k.emit(Cast, self.k.emit(And, self.k.iota(m, k), low), dtype=dtype)
        y = self.k.emit(
            Permute,
            self.k.emit(Cast, self.k.emit(And, self.k.iota(n, k), self.k.constant(5, int32, (n, k))), dtype=dtype),
            axes=(1, 0),
        )
        return self.k.emit(Mma, x, y, self.k.constant(1, out, (m, n)))

    def loop(self) -> Value:
        """A ``for`` that carries up to three values and may leave an iteration early."""
        if self.depth >= 3:
            return self.binary()
        inits = [self.pick() for _ in range(self.random.randrange(1, 4))]
        types = [v.type for v in inits]
        outer = list(self.pool)
        k = self.k
        bounds = [
            k.constant(n, int32)
            for n in (self.random.choice((0, 1)), self.random.choice((0, 1, 4)), self.random.choice((1, 2)))
        ]
        with k.region(TileType(int32), *types) as body:
            self.pool = outer + body.args
            self._steps(self.random.randrange(1, 5))
            if self.random.random() < 0.3:
                condition = k.emit(Cmp, body.args[0], k.constant(1, int32), predicate=CmpPredicate.EQ)
                self._leave_early(condition, Continue, [self._value_of(t) for t in types])
            k.b.emit_op(Continue, [self._value_of(t) for t in types])
        self.pool = outer
        op = k.b.emit_op(For, *bounds, inits, body=body)
        self.pool += op.results[1:]
        return op.results[0]

    def until(self) -> Value:
        """A ``loop`` that ends after some iterations."""
        if self.depth >= 3:
            return self.unary()
        k, outer = self.k, list(self.pool)
        inits = [k.constant(0, int32), self.pick(), self.pick()]
        results = [self.pick().type, inits[1].type]
        with k.region(*(v.type for v in inits)) as body:
            self.pool = outer + body.args
            self._steps(self.random.randrange(1, 4))
            done = k.emit(Cmp, body.args[0], k.constant(self.random.randrange(3), int32), predicate=CmpPredicate.GE)
            self._leave_early(done, Break, [self._value_of(t) for t in results])
            following = k.emit(Add, body.args[0], k.constant(1, int32))
            k.b.emit_op(Continue, [following, *(self._value_of(v.type) for v in inits[1:])])
        self.pool = outer
        op = k.b.emit_op(Loop, inits, types=tuple(results), body=body)
        self.pool += op.results[1:]
        return op.results[0]

    def branch(self) -> Value:
        if self.depth >= 3:
            return self.choose()
        k, outer = self.k, list(self.pool)
        types = tuple(self.pick().type for _ in range(self.random.randrange(1, 3)))
        condition = self.pick(bool_, shape=())
        regions = []
        for _ in range(2):
            with k.region() as region:
                self.pool = list(outer)
                self._steps(self.random.randrange(3))
                k.b.emit_op(Yield, [self._value_of(t) for t in types])
            regions.append(region)
        self.pool = outer
        op = k.b.emit_op(If, condition, types=types, then=regions[0], orelse=regions[1])
        self.pool += op.results[1:]
        return op.results[0]

    def _leave_early(self, condition: Value, how: Any, values: Sequence[Value]) -> None:
        with self.k.region() as then:
            self.k.b.emit_op(how, list(values))
        with self.k.region() as orelse:
            self.k.b.emit_op(Yield, [])
        self.k.b.emit_op(If, condition, types=(), then=then, orelse=orelse)

    def _value_of(self, t: Any) -> Value:
        return self.pick(t.element, shape=t.shape)

    def _steps(self, count: int) -> None:
        self.depth += 1
        for _ in range(count):
            step: Callable[[ProgramMaker], Value] = self.random.choice(_STEPS)
            value = step(self)
            if value.tile.size <= 4096:
                self.pool.append(value)
        self.depth -= 1

    def make(self, steps: int) -> tuple[Function, dict[str, np.ndarray[Any, Any]]]:
        """The program, which stores everything it computes last, and its arguments."""
        self._steps(steps)
        for value in self.pool[-6:]:
            name = f"a{len(self.params)}"
            self.arrays[name] = np.zeros(value.tile.shape, value.tile.element.storage)
            array = self.k.array(name, value.tile.element, value.tile.rank)
            self.params.append(array)
            zeros = [self.k.constant(0, int32)] * value.tile.rank
            self.k.store_tile(array, value, zeros)
        return self.k.function(), self.arrays


def _argmax(k: KernelBuilder, a: Value, i: Value, b: Value, j: Value) -> list[Value]:
    larger = k.emit(Cmp, a, b, predicate=CmpPredicate.GE)
    return [k.emit(Select, larger, a, b), k.emit(Select, larger, i, j)]


_STEPS = (
    *[ProgramMaker.binary] * 4,
    *[ProgramMaker.load] * 3,
    *[ProgramMaker.reduce] * 2,
    *[ProgramMaker.reshape] * 2,
    *[ProgramMaker.broadcast] * 2,
    ProgramMaker.store,
    ProgramMaker.update,
    ProgramMaker.pointers,
    ProgramMaker.unary,
    ProgramMaker.divide,
    ProgramMaker.compare,
    ProgramMaker.choose,
    ProgramMaker.cast,
    ProgramMaker.permute,
    ProgramMaker.extract,
    ProgramMaker.insert,
    ProgramMaker.cat,
    ProgramMaker.pack,
    ProgramMaker.scan,
    ProgramMaker.mma,
    ProgramMaker.loop,
    ProgramMaker.until,
    ProgramMaker.branch,
)
