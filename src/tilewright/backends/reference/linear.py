"""Reductions and scans in their documented order, and MMA ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.backends.reference import ordered_products
from tilewright.backends.reference.elementwise import Evaluator, element_type
from tilewright.backends.reference.shape import SHAPE
from tilewright.backends.reference.values import Array
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.dtypes import DType, float32, float64
from tilewright.ir.ops.linear import Mma, MmaScaled, reduction_partials
from tilewright.ir.ops.shape import Constant
from tilewright.ir.semantics import TABLE, evaluate
from tilewright.ir.types import Type
from tilewright.records import NamedTuple

Tiles = list[Array]


class Combiner(NamedTuple):
    """What reductions and scans combine tiles with."""

    combine: Callable[[Tiles, Tiles], Tiles]  # the left tiles with the right ones, element by element
    ufunc: np.ufunc | None = None  # the function of NumPy that does the same, where one does


def as_function(body: Block, known: Mapping[Value, Any]) -> Callable[[Sequence[Array]], list[Array]] | None:
    """What a region computes of its arguments, where it has only numeric elementwise ops; None for other regions.

    ``known`` has the values from outside of it. A call takes a fraction of the time that executing op by op takes.
    """
    values = {v: known[v] for op in body.ops for v in op.operands if v in known}
    steps = []
    for op in body.ops[:-1]:
        types = [v.tile for v in (*op.results, *op.operands)]  # the last is of the operand dtype, also of ``select``
        if isinstance(op, Constant):
            values[op.result] = SHAPE[Constant](op.attributes, [], [])
        elif op.name not in TABLE or any(t.is_pointer for t in types):
            return None
        else:
            steps.append((op.results[0], partial(TABLE[op.name], types[-1].dtype, op.attributes), op.operands))

    def function(arguments: Sequence[Array]) -> list[Array]:
        values.update(zip(body.args, arguments))
        with np.errstate(all="ignore"):
            for result, evaluator, operands in steps:
                values[result] = evaluator(*[values[v] for v in operands])
        return [np.asarray(values[v]) for v in body.terminator.operands]

    return function


def reduce(attributes: Mapping[str, Any], tiles: Sequence[Array], combiner: Combiner) -> Tiles:
    """Fold ``tiles`` along the axis, vectorized over the other ones; see the ``reduce`` op for the order."""
    axis = attributes["axis"]
    partials = reduction_partials(tiles[0].shape, axis) if attributes["commutative"] else 1
    # As steps of ``partials`` elements. Reductions of NumPy choose their order themselves, scans do not.
    rows = [np.moveaxis(t, axis, 0) for t in tiles]
    steps = [r.reshape(-1, partials, *r.shape[1:]) for r in rows]
    result = [s[-1] for s in _in_order(steps, combiner)]
    while partials > 1:
        partials //= 2
        result = combiner.combine([r[:partials] for r in result], [r[partials:] for r in result])
    return [r[0] for r in result]


def scan(attributes: Mapping[str, Any], tiles: Sequence[Array], combiner: Combiner) -> Tiles:
    """Running reductions along the axis, in order, from the end when ``reverse``."""
    axis = attributes["axis"]
    rows = [np.moveaxis(t, axis, 0)[:: -1 if attributes["reverse"] else 1] for t in tiles]
    return [np.moveaxis(r[:: -1 if attributes["reverse"] else 1], 0, axis) for r in _in_order(rows, combiner)]


def _in_order(rows: Tiles, combiner: Combiner) -> Tiles:
    """Running reductions along the first axis."""
    if combiner.ufunc is not None:
        return [np.asarray(combiner.ufunc.accumulate(r, axis=0, dtype=r.dtype)) for r in rows]
    results = [np.empty_like(r) for r in rows]
    running = [r[0] for r in rows]
    for k in range(len(rows[0])):
        if k:
            running = combiner.combine(running, [r[k] for r in rows])
        for result, value in zip(results, running):
            result[k] = value
    return results


def _convert(x: Array, source: DType, target: DType) -> Array:
    return evaluate("cast", source, {"dtype": target}, [x])


def _dtype(type: Type) -> DType:
    dtype = element_type(type)
    assert isinstance(dtype, DType)
    return dtype


def _add_products(acc: Array, x: Array, y: Array, wide: Any) -> Array:
    """acc + x @ y in order along k: each sum is formed in ``wide``, and rounded to the type of ``acc``.

    A matmul of NumPy would sum in an order that depends on the processor.
    """
    shape = acc.shape
    if max(len(shape), x.ndim, y.ndim) > 2:  # blocks that run together may share the accumulator
        shape = np.broadcast_shapes(shape, (*x.shape[:-1], 1), y[..., :1, :].shape)
    total = np.array(np.broadcast_to(acc, shape) if shape != acc.shape else acc, order="C")
    if wide is np.int32:  # which wraps, so that the order does not matter
        return total + np.matmul(x.astype(wide), y.astype(wide))
    if all(t.dtype == np.float32 for t in (total, x, y)) and ordered_products.add_products(total, x, y):
        return total
    x, y = x.astype(wide), y.astype(wide)
    term = np.empty(total.shape, wide)
    for k in range(x.shape[-1]):
        np.multiply(x[..., :, k, None], y[..., None, k, :], out=term)
        np.add(total, term, out=term)
        np.copyto(total, term, casting="unsafe")
    return total


def _mma(attributes: Mapping[str, Any], operands: Sequence[Array], types: Sequence[Type]) -> Array:
    x, y, acc = operands
    dtype, target = _dtype(types[0]), _dtype(types[2])
    if target.is_integer:
        return _add_products(acc, x, y, np.int32)
    compute, wide = (float64, np.longdouble) if target is float64 else (float32, np.float64)
    with np.errstate(all="ignore"):
        factors = _convert(x, dtype, compute), _convert(y, _dtype(types[1]), compute)
        return _convert(_add_products(_convert(acc, target, compute), *factors, wide), compute, target)


def _mma_scaled(attributes: Mapping[str, Any], operands: Sequence[Array], types: Sequence[Type]) -> Array:
    # float64 has room for a product of two scales of 2**127.
    x, x_scale, y, y_scale, acc = (_convert(t, _dtype(type), float64) for t, type in zip(operands, types))
    run = x.shape[-1] // x_scale.shape[-1]
    with np.errstate(all="ignore"):
        factors = x * np.repeat(x_scale, run, axis=-1), y * np.repeat(y_scale, run, axis=-2)
        return _convert(_add_products(acc, *factors, np.float64), float64, float32)


PRODUCTS: dict[type[Op], Evaluator] = {Mma: _mma, MmaScaled: _mma_scaled}
