"""Ops that make tiles and rearrange their elements. Evaluators are as in ``elementwise``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.backends.reference.elementwise import Evaluator, element_type
from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Array, Pointers, rearrange
from tilewright.ir.core import Op
from tilewright.ir.dtypes import DType, float4_e2m1fn
from tilewright.ir.ops import shape
from tilewright.ir.ops.memory import AssumeBlocked, AssumeBounded, AssumeDivisible
from tilewright.ir.semantics import constant_array
from tilewright.ir.types import Type

Attributes = Mapping[str, Any]
Types = Sequence[Type]


def _filled(value: bool | float, attributes: Attributes) -> Any:
    type = attributes["type"]
    if type.is_pointer:
        return Pointers(np.full(type.shape, UNKNOWN_ALLOCATION, np.int64), np.full(type.shape, int(value), np.int64))
    return constant_array(value, type.dtype, type.shape)


def _iota(attributes: Attributes, operands: Sequence[Any], types: Types) -> Array:
    type = attributes["type"]
    return np.arange(type.size).astype(type.element.storage).reshape(type.shape)


def _reshape(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    return rearrange(lambda x: x.reshape(attributes["shape"]), *operands)


def _broadcast(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    return rearrange(lambda x: np.broadcast_to(x, attributes["shape"]), *operands)


def _permute(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    return rearrange(lambda x: x.transpose(attributes["axes"]), *operands)


def _cat(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    return rearrange(lambda x, y: np.concatenate([x, y], attributes["axis"]), *operands)


def _subtile(whole: tuple[int, ...], part: tuple[int, ...], indices: Sequence[Array]) -> tuple[slice, ...]:
    """Where the subtile of shape ``part`` at grid index ``indices`` lies; indices outside the grid wrap around."""
    starts = [int(i) % (n // m) * m for n, m, i in zip(whole, part, indices)]
    return tuple(slice(start, start + m) for start, m in zip(starts, part))


def _extract(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    x, *indices = operands
    subtile = _subtile(x.shape, attributes["shape"], indices)
    return rearrange(lambda a: a[subtile], x)


def _insert(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    x, value, *indices = operands
    subtile = _subtile(x.shape, value.shape, indices)

    def replace(whole: Array, part: Array) -> Array:
        result = whole.copy()
        result[subtile] = part
        return result

    return rearrange(replace, x, value)


def _pack(attributes: Attributes, operands: Sequence[Any], types: Types) -> Array:
    codes = np.frombuffer(operands[0].tobytes(), np.uint8)
    if element_type(types[0]) is float4_e2m1fn:
        return codes[0::2] & 15 | codes[1::2] << 4
    return codes


def _unpack(attributes: Attributes, operands: Sequence[Any], types: Types) -> Array:
    codes = operands[0]
    dtype: DType = attributes["dtype"]
    if dtype is float4_e2m1fn:
        codes = np.stack([codes & 15, codes >> 4], axis=-1)
    return np.frombuffer(codes.tobytes(), dtype.storage)


def _identity(attributes: Attributes, operands: Sequence[Any], types: Types) -> Any:
    return operands[0]


SHAPE: dict[type[Op], Evaluator] = {
    shape.Constant: lambda attributes, operands, types: _filled(attributes["value"], attributes),
    shape.Undefined: lambda attributes, operands, types: _filled(0, attributes),
    shape.Iota: _iota,
    shape.Reshape: _reshape,
    shape.Broadcast: _broadcast,
    shape.Permute: _permute,
    shape.Cat: _cat,
    shape.Extract: _extract,
    shape.Insert: _insert,
    shape.Pack: _pack,
    shape.Unpack: _unpack,
    AssumeDivisible: _identity,
    AssumeBounded: _identity,
    AssumeBlocked: _identity,
}
