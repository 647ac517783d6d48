"""Every op, in every variant that the IR allows, compiles for every architecture: on those of NVIDIA for a third of the
dtypes each."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from backends.cpu.programs import ProgramMaker
from backends.triton.conftest import TARGETS
from support.irbuild import KernelBuilder

import tilewright as ct
from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.triton.backend import compile_for
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import (
    ALL_DTYPES,
    DType,
    bool_,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    tfloat32,
    uint8,
    uint64,
)
from tilewright.ir.enums import AtomicKind, CmpPredicate, MemoryOrder, MemoryScope, RoundingMode
from tilewright.ir.opdef import OPS, IRError
from tilewright.ir.ops.arith import Bitcast, Cast
from tilewright.ir.ops.linear import Mma, MmaScaled
from tilewright.ir.ops.memory import (
    Assert,
    Assume,
    AssumeBlocked,
    AssumeBounded,
    AssumeDivisible,
    AtomicCas,
    AtomicRmw,
    AtomicView,
    Load,
    LoadView,
    LocalArray,
    NumBlocks,
    Print,
    Store,
    StoreView,
)
from tilewright.ir.ops.shape import IntToPtr, PtrDiff, PtrOffset, PtrToInt, Undefined
from tilewright.ir.types import PointerType, TileType

pytest.importorskip("triton", reason="the package triton is not installed")

SIZE = 32
VALUES: dict[type, Sequence[Any]] = {
    RoundingMode: tuple(RoundingMode),
    CmpPredicate: tuple(CmpPredicate),
    bool: (False, True),
}


class Sink:
    """Keeps every value that is put into it alive, at little cost: all bits end up in one store."""

    def __init__(self) -> None:
        self.k = KernelBuilder("everything")
        self.out = self.k.array("out", int64, 1)
        self.total = self.k.constant(0, int64, (SIZE,))

    def put(self, value: Value) -> None:
        k, dtype = self.k, value.tile.dtype
        if isinstance(dtype, PointerType):
            value = k.emit(PtrToInt, value, dtype=int64)
        elif not dtype.is_integer:
            value = k.emit(Bitcast, value, dtype=_INTEGERS[dtype.storage.itemsize])
        if value.tile.element.bitwidth < 64:
            value = k.emit(Cast, value, dtype=int64)
        elif value.tile.element is not int64:
            value = k.emit(Bitcast, value, dtype=int64)
        if not value.tile.rank:
            value = k.fill(value, (SIZE,))
        self.total = k.emit(OPS["xor"], self.total, value)

    def function(self) -> Function:
        self.k.store_tile(self.out, self.total, [self.k.constant(0)])
        return self.k.function()


_INTEGERS = {1: uint8, 2: next(d for d in ALL_DTYPES if d.name == "uint16"), 4: int32, 8: uint64}


def variants(op: type[Op], operands: Sequence[Value], build: Callable[..., Any]) -> Iterator[Any]:
    """``op`` with all attributes that it takes for these operands."""
    fields = {a.name: VALUES[a.types[0]] for a in op.spec.attributes if a.types and a.types[0] in VALUES}
    for chosen in itertools.product(*fields.values()):
        try:
            yield build(op, *operands, **dict(zip(fields, chosen)))
        except IRError:
            continue


def elementwise(dtypes: Sequence[DType]) -> Function:
    sink = Sink()
    k = sink.k
    for dtype in dtypes:
        array = k.array(dtype.name, dtype, 1)
        x, y, z = (k.load_tile(array, (SIZE,), [k.constant(i)]) for i in range(3))
        condition = k.load_tile(k.array(f"{dtype.name}_condition", bool_, 1), (SIZE,), [k.constant(0)])
        for op in OPS.values():
            names = [f.name for f in op.spec.operands]
            if not op.spec.elementwise or "dtype" in [a.name for a in op.spec.attributes] or op is PtrOffset:
                continue
            operands = [condition, x, y] if names[0] == "condition" else [x, y, z][: len(names)]
            for value in variants(op, operands, k.emit):
                sink.put(value)
    return sink.function()


def conversions(sources: Sequence[DType]) -> Function:
    sink = Sink()
    k = sink.k
    for source in sources:
        x = k.load_tile(k.array(source.name, source, 1), (SIZE,), [k.constant(0)])
        for target in CONVERTED:
            for op in (Cast, Bitcast):
                with contextlib.suppress(IRError):
                    sink.put(k.emit(op, x, dtype=target))
    return sink.function()


SCOPES = (MemoryScope.BLOCK, MemoryScope.DEVICE, MemoryScope.SYS)


def accesses(dtypes: Sequence[DType]) -> Function:
    """Loads, stores and atomics of each dtype, order and scope, with and without masks, of tiles and of one element."""
    sink = Sink()
    k = sink.k
    mask = k.emit(OPS["cmp"], k.iota(SIZE), k.constant(20, int32, (SIZE,)), predicate=CmpPredicate.LT)
    for dtype in dtypes:
        array = k.array(dtype.name, dtype, 1)
        zero = [k.constant(0)]
        view = k.view(array, (SIZE,))
        pointers = k.pointers(array, k.iota(SIZE))
        value = k.load_tile(array, (SIZE,), zero)
        one = k.emit(Load, array.base, None, None)
        for scope, order in itertools.product(SCOPES, (MemoryOrder.RELAXED, MemoryOrder.ACQUIRE)):
            strong = {"memory_order": order, "memory_scope": scope}
            sink.put(k.emit(Load, pointers, mask, value, **strong))
            sink.put(k.emit(LoadView, view, zero, in_bounds=(False,), **strong))
            sink.put(k.emit(Load, array.base, None, None, **strong))
        for order in (MemoryOrder.RELAXED, MemoryOrder.RELEASE):
            strong = {"memory_order": order, "memory_scope": MemoryScope.DEVICE}
            k.b.emit_op(Store, pointers, value, mask, **strong)
            k.b.emit_op(StoreView, view, value, zero, in_bounds=(False,), **strong)
            k.b.emit_op(Store, array.base, one, None, **strong)
        for order, kind in zip(itertools.cycle(list(MemoryOrder)[1:]), [*AtomicKind, None]):
            strong = {"memory_order": order, "memory_scope": MemoryScope.SYS}
            for pointer, operand, where in ((pointers, value, mask), (array.base, one, None)):
                with contextlib.suppress(IRError):
                    if kind is None:
                        sink.put(k.emit(AtomicCas, pointer, operand, operand, where, **strong))
                    else:
                        sink.put(k.emit(AtomicRmw, pointer, operand, where, kind=kind, **strong))
            with contextlib.suppress(IRError):
                k.b.emit_op(AtomicView, view, value, zero, kind=kind)
    return sink.function()


def others() -> Function:
    """What no generated program has."""
    sink = Sink()
    k = sink.k
    array = k.array("x", float32, 1)
    i, value = k.emit(NumBlocks, axis=1), k.load_tile(array, (SIZE,), [k.bid(0)])
    i = k.emit(AssumeBounded, k.emit(AssumeDivisible, i, divisor=4), lower=0, upper=99)
    sink.put(k.emit(AssumeBlocked, k.iota(SIZE), shape=(4,)))
    k.b.emit_op(Assume, k.constant(True, bool_), [i], [], kind="index", message="{} is in the array")
    local = k.emit(LocalArray, dtype=float32, count=SIZE)
    places = k.emit(PtrOffset, k.fill(local, (SIZE,)), k.iota(SIZE))
    k.b.emit_op(Store, places, value, None)
    sink.put(k.emit(Load, places, None, None))
    address = k.emit(PtrToInt, places, dtype=int64)
    sink.put(k.emit(IntToPtr, address, dtype=PointerType(float32)))
    sink.put(k.emit(PtrDiff, places, k.pointers(array, k.iota(SIZE)), dtype=int64))
    sink.put(k.emit(Undefined, type=TileType(float32, (SIZE,))))
    k.b.emit_op(Print, [i], parts=("block ", None), formats=("%d",))
    k.b.emit_op(Assert, k.constant(True, bool_, (SIZE,)), [i], message="positive")
    return sink.function()


def products() -> Function:
    sink = Sink()
    k = sink.k
    rows = [k.constant(0), k.constant(0)]

    def tile(dtype: DType, *shape: int) -> Value:
        return k.load_tile(k.array(f"{dtype.name}_{shape}_{len(k.params)}", dtype, 2), shape, rows)

    for dtype, total in ((float16, float16), (float16, float32), (float32, float32), (float64, float64), (int8, int32)):
        acc = k.constant(0, total, (16, 16))
        fast = total is float16
        product = k.emit(Mma, tile(dtype, 16, 16), tile(dtype, 16, 16), acc, fast_acc=fast)
        k.store_tile(k.array(f"{dtype}_{total}", total, 2), product, rows)
    for dtype, total, depth in (
        (float16, float32, 1),
        (tfloat32, float32, 8),
        (float64, float64, 8),
        (uint8, int32, 16),
    ):
        acc = k.constant(0, total, (16, 32))
        product = k.emit(Mma, tile(dtype, 16, depth), tile(dtype, depth, 32), acc)
        k.store_tile(k.array(f"{dtype}_{depth}", total, 2), product, rows)
    for x, scale in ((float8_e4m3fn, float8_e8m0fnu), (float8_e5m2, float8_e8m0fnu), (float4_e2m1fn, float8_e8m0fnu)):
        scales = tile(scale, 16, 1), tile(scale, 1, 16)
        acc = k.constant(0.0, float32, (16, 16))
        found = k.emit(MmaScaled, tile(x, 16, 32), scales[0], tile(x, 32, 16), scales[1], acc)
        k.store_tile(k.array(f"scaled_{x}", float32, 2), found, rows)
    return sink.function()


CONVERTED = [d for d in ALL_DTYPES if d.is_floating or d in (bool_, int8, int32, uint64)]
FUNCTIONS: dict[str, tuple[Callable[..., Function], Sequence[DType]]] = {
    "float arithmetic": (elementwise, [d for d in ALL_DTYPES if d.is_float and not d.is_restricted]),
    "integer arithmetic": (elementwise, [d for d in ALL_DTYPES if d.is_integer]),
    "conversions": (conversions, CONVERTED),
    "accesses": (accesses, [bool_, int8, float8_e5m2, float16, float32, uint64]),
    "products": (products, ()),
    "others": (others, ()),
}


def function_of(name: str, part: int | None = None) -> Function:
    """The function ``name``, with every third one of its dtypes where there is a ``part``."""
    make, dtypes = FUNCTIONS[name]
    return make(dtypes if part is None else dtypes[part::3]) if dtypes else make()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiles(name: str, target: str) -> None:
    function = function_of(name, {"sm_80": 0, "sm_90": 1, "sm_100": 2}.get(target))
    try:
        assert compile_for(function, parse_target(target), {"num_warps": 1 if name != "products" else 4}).binary.code
    except ct.TileUnsupportedFeatureError as e:  # of integers, by what Triton makes of them
        assert target.startswith("sm_") and "compiled wrongly" in str(e)


def test_no_op_is_left_out() -> None:
    seen = {op.name for name in FUNCTIONS for op in function_of(name).walk()}
    seen |= {op.name for seed in range(6) for op in ProgramMaker(seed).make(16)[0].walk()}
    assert set(OPS) - seen == set()
