"""The passes over Tile IR before code is generated for a processor."""

from __future__ import annotations

from typing import ClassVar

from tilewright.backends.cpu.loops.unroll import UnrollShortLoops
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Value
from tilewright.ir.dtypes import float16, float64, uint16
from tilewright.ir.ops.arith import Bitcast
from tilewright.ir.ops.shape import Pack, Unpack
from tilewright.ir.rewrite import lower_ops
from tilewright.transforms.base import InPlacePass, Pass
from tilewright.transforms.clip_views import ClipViews
from tilewright.transforms.lower_mma_scaled import LowerMmaScaled
from tilewright.transforms.pipelines import HOIST, SIMPLIFY, run_passes
from tilewright.transforms.raise_to_views import RaiseToViews


class PackBits(InPlacePass):
    """Packs float16 elements as integers: buffers hold them as float32, which would make signaling NaNs quiet ones."""

    name: ClassVar[str] = "pack-bits"

    def change(self, function: Function) -> bool:
        return lower_ops(function, {Pack: _pack, Unpack: _unpack})


def _pack(op: Pack, b: Builder) -> Value | None:
    return b.emit(Pack, b.emit(Bitcast, op.x, dtype=uint16)) if op.x.tile.element is float16 else None


def _unpack(op: Unpack, b: Builder) -> Value | None:
    return b.emit(Bitcast, b.emit(Unpack, op.x, dtype=uint16), dtype=float16) if op.dtype is float16 else None


PASSES: tuple[Pass, ...] = (
    ClipViews(),  # first: of the bounds that are promised, BoundsCheckElimination proves again what it can
    PackBits(),
    LowerMmaScaled(float64),
    UnrollShortLoops(),  # before folding, which finds what an iteration's number decides
    *SIMPLIFY,
    RaiseToViews(),  # after folding and CSE, so that equal indices are one value; what it leaves unused goes next
    *HOIST,
)


def optimize(function: Function) -> Function:
    """``function`` after ``PASSES``."""
    return run_passes(function, PASSES)
