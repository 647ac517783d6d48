"""Elementwise ops: numbers through ``ir.semantics``, pointers here.

Evaluators take the attributes of the op, its operands and their types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, Pointers, rearrange
from tilewright.ir.core import Op
from tilewright.ir.dtypes import int64
from tilewright.ir.opdef import OPS
from tilewright.ir.ops.arith import Bitcast, Cmp, Select
from tilewright.ir.ops.shape import IntToPtr, PtrDiff, PtrOffset, PtrToInt
from tilewright.ir.semantics import TABLE, evaluate
from tilewright.ir.types import ElementType, PointerType, TileType, Type

Evaluator = Callable[[Mapping[str, Any], Sequence[Any], Sequence[Type]], Any]


def element_type(type: Type) -> ElementType:
    """The dtype of a tile type."""
    assert isinstance(type, TileType)
    return type.dtype


def pointee_bytes(type: Type) -> int:
    """How many bytes a pointer of ``type`` advances per element; untyped ones count bytes."""
    dtype = element_type(type)
    assert isinstance(dtype, PointerType)
    return dtype.pointee.bytes if dtype.pointee is not None else 1


def _numbers(name: str, attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Array:
    # The last operand has the operand dtype also of ``select``, whose first is the condition.
    return evaluate(name, element_type(types[-1]), attributes, operands)


def _compare(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Array:
    addresses = [x.address if isinstance(x, Pointers) else x for x in operands]
    dtype = int64 if isinstance(operands[0], Pointers) else element_type(types[0])
    return evaluate("cmp", dtype, attributes, addresses)


def _select(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Any:
    return rearrange(lambda x, y: np.asarray(np.where(operands[0], x, y)), *operands[1:])


def _bitcast(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Any:
    (x,) = operands
    to_pointer = isinstance(attributes["dtype"], PointerType)
    if isinstance(x, Pointers):
        return x if to_pointer else evaluate("bitcast", int64, attributes, [x.address])
    if to_pointer:
        return _from_integer(attributes, operands, types)
    return _numbers("bitcast", attributes, operands, types)


def _offset(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Pointers:
    pointers, offset = operands
    distance = offset.astype(np.int64) * np.int64(pointee_bytes(types[0]))
    address = np.asarray(pointers.address + distance)
    return Pointers(np.broadcast_to(pointers.allocation, address.shape), address)


def _difference(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Array:
    left, right = operands
    return np.asarray((left.address - right.address) // pointee_bytes(types[0])).astype(attributes["dtype"].storage)


def _from_integer(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> Pointers:
    address = operands[0].view(np.int64)
    return Pointers(np.full(address.shape, UNKNOWN_ALLOCATION, np.int64), address)


ELEMENTWISE: dict[type[Op], Evaluator] = {
    **{OPS[name]: partial(_numbers, name) for name in TABLE},
    Cmp: _compare,
    Select: _select,
    Bitcast: _bitcast,
    PtrOffset: _offset,
    PtrDiff: _difference,
    PtrToInt: lambda attributes, operands, types: operands[0].address.astype(attributes["dtype"].storage),
    IntToPtr: _from_integer,
}
