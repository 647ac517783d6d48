"""Kernels that this backend takes from another one, see ``composition``: each class is a predicate on the IR.

They look at what the front end made: a kernel without products is told from others by a walk, before any pass.
"""

from __future__ import annotations

from tilewright.analysis.gpu.target import parse_target
from tilewright.backends.base import Backend
from tilewright.backends.gpu.backend import GpuBackend
from tilewright.backends.gpu.hints import with_resolved_hints
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.dtypes import float32
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.control import For
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Bid, LoadView, MemoryOp, NumBlocks, StoreView
from tilewright.transforms.gpu.choose_wgmma import ChooseWgmma, choose
from tilewright.transforms.pipelines import optimize

_BITS = 16
_LARGE = 128 * 256  # sums of a tile
_COLUMNS = 128
_HINTS = {"num_ctas", "num_worker_warps"}  # which this backend honours as the other one does


def is_large_product(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 16-bit floats in tiles of 128x256 or more."""
    products = _products(function, backend)
    return bool(products) and all(op.acc.tile.size >= _LARGE for op in products)


def is_persistent_product(function: Function, backend: Backend) -> bool:
    """Whether ``function`` multiplies aligned matrices of 16-bit floats in tiles of 128 columns or more, in a loop over
    the tiles that are left to a block."""
    products = _products(function, backend)
    return bool(products) and all(op.acc.tile.shape[-1] >= _COLUMNS and _is_in_persistent_loop(op) for op in products)


def _products(function: Function, backend: Backend) -> list[Mma]:
    """The products of ``function``, where warp groups multiply all, and TMA loads all that it reads and stores all that
    it writes; none otherwise."""
    if not _multiplies(function):
        return []
    assert isinstance(backend, GpuBackend)
    target = parse_target(backend.architecture().removesuffix("a"))
    if not target.has_wgmma:
        return []
    optimized = optimize(with_resolved_hints(function, target))
    products = [op for op in optimized.walk() if isinstance(op, Mma)]
    chosen = choose(optimized, ChooseWgmma(target))
    loaded = {operand.load for pair in chosen.products.values() for operand in pair if operand is not None}
    moved = all(op in loaded or op in chosen.stores for op in optimized.walk() if isinstance(op, MemoryOp))
    all_of_memory = all(x is not None for x, _ in chosen.products.values())
    return products if moved and all_of_memory and set(chosen.products) == set(products) else []


def _multiplies(function: Function) -> bool:
    """Whether products of 16-bit floats are all that ``function`` has, and it has no hints that are not honoured."""
    products = [op for op in function.walk() if isinstance(op, Mma)]
    return (
        bool(products)
        and function.hints.keys() <= _HINTS
        and function.hints.get("num_ctas") in (None, 1)
        and all(op.x.tile.element.bitwidth == _BITS and op.acc.tile.element is float32 for op in products)
        and all(isinstance(op, (LoadView, StoreView)) for op in function.walk() if isinstance(op, MemoryOp))
    )


def _is_in_persistent_loop(op: Op) -> bool:
    """Whether a loop from the number of the block on, in steps of the number of blocks, is around that of ``op``."""
    inner = op.parent
    outer = inner.parent if isinstance(inner, For) else None
    return isinstance(outer, For) and _is(outer.bounds[0], Bid) and _is(outer.bounds[2], NumBlocks)


def _is(value: Value, kind: type[Bid | NumBlocks]) -> bool:
    while isinstance(value.op, Cast):
        value = value.op.x
    return isinstance(value.op, kind)
