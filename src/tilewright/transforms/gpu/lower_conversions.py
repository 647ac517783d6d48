"""Conversions of layouts: registers and shuffles where a warp has what it needs, else shared memory."""

from __future__ import annotations

from typing import ClassVar

from tilewright.analysis.gpu.layout_conversion import (
    copy_layout,
    is_transposed,
    is_within_thread,
    shared_layout,
    within_warp,
)
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import int64
from tilewright.ir.layouts import LANE, REGISTER, LinearLayout
from tilewright.ir.ops.gpu.memory import MAX_VECTOR_BYTES, SharedAlloc, SharedLoad, SharedStore, shared_vector
from tilewright.ir.ops.gpu.tiles import ConvertLayout
from tilewright.ir.ops.shape import IntToPtr, PtrToInt
from tilewright.ir.rewrite import lower_ops
from tilewright.ir.types import PointerType, SharedType
from tilewright.transforms.base import InPlacePass

# Shuffles of one element each, with selections, beyond which a store and a load through shared memory are fewer
# instructions: each of these moves up to four elements, and a warp needs no barrier of its own for shuffles.
_MOST_SHUFFLES = 8
# Of few elements that many lanes need, without selections: two warp groups that wait for each other for two vectors of
# 64 in a step have 610 TFLOP/s in gradients of keys, 744 with shuffles (64x128, one H200).
_MOST_SPREAD = 32
_FEW_REGISTERS = 8  # that a thread has for what warps exchange, without spilling others


class LowerConversions(InPlacePass):
    """Leaves the conversions that registers and few shuffles do, and puts shared memory in place of the others.

    Runs after reductions are lowered, which converts as well, and before shared memory is laid out.
    """

    name: ClassVar[str] = "lower-conversions"

    def change(self, function: Function) -> bool:
        return lower_ops(function, {ConvertLayout: _lowered})


def _lowered(op: ConvertLayout, b: Builder) -> Value | None:
    source, target = op.x.layout, op.result.layout
    if source == target:
        return op.x
    if is_register_or_shuffle(source, target):
        return None
    x, dtype = op.x, op.type.dtype
    if isinstance(dtype, PointerType):
        x = b.emit(PtrToInt, x, dtype=int64)
    element = x.tile.element
    layout, vector = shared_layout(source, target, element.bytes)
    transposed = is_transposed(source, target, element.bytes)
    if transposed:
        vector = MAX_VECTOR_BYTES // element.bytes
        layout = copy_layout(source, target, element.bytes, vector)
    shared = SharedType(element, layout)
    buffer = b.emit(SharedAlloc, type=shared)
    b.emit_op(SharedStore, buffer, x, vector=vector)
    if transposed:
        vector = 1
    elif not any(target.bases(LANE)) and target.num_registers <= _FEW_REGISTERS:  # all lanes load the same at once
        vector = shared_vector(shared, target)
    loaded = b.emit(SharedLoad, buffer, type=op.type.with_dtype(element), vector=vector)
    return b.emit(IntToPtr, loaded, dtype=dtype) if isinstance(dtype, PointerType) else loaded


def is_register_or_shuffle(source: LinearLayout, target: LinearLayout) -> bool:
    """Whether a conversion stays a ``gpu.convert_layout``: within a thread, or a few shuffles."""
    conversion = within_warp(source, target)
    if conversion is None:
        return False
    spreads = target.size(REGISTER) > source.size(REGISTER) and not any(image[0] for image in conversion.images(LANE))
    return is_within_thread(conversion) or target.size(REGISTER) <= (_MOST_SPREAD if spreads else _MOST_SHUFFLES)
