"""Which kernels are spread over clusters of blocks (``num_ctas``), and how their operands are loaded then.

Triton does not spread a transposition. A transposed operand of a product that is too large for the registers of one
block is loaded in the transposed order instead.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.backends.triton.resources import spreads_over_clusters
from tilewright.backends.triton.target import GpuTarget, resolved
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Op, Value
from tilewright.ir.effects import effect_of
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.memory import LoadView, MakePartitionView
from tilewright.ir.types import PartitionViewType
from tilewright.passes.base import Rewriter
from tilewright.passes.pipelines import optimize

_LARGE = 8 * 32 * 192  # elements of a result that leave the threads of 8 warps too few registers for anything else


def for_clusters(function: Function, target: GpuTarget) -> Function:
    """``function`` so that Triton spreads it over the blocks of a cluster; where it cannot, without that hint."""
    blocks = resolved(function.hints.get("num_ctas"), target) or 1
    if blocks == 1:
        return function
    if target.has_tma and spreads_over_clusters(function):
        return function
    if target.has_wgmma and any(map(_is_large, function.walk())):
        turned = optimize(_Turner().function(function))
        if spreads_over_clusters(turned):
            return turned
    return replace(function, hints={name: hint for name, hint in function.hints.items() if name != "num_ctas"})


def _is_large(op: Op) -> bool:
    """Whether one block has no room for what the product ``op`` of 16-bit numbers gives. Products of 8-bit numbers take
    other instructions, with or without a cluster: they stay as they are."""
    return op.name == "mma" and op.operands[0].tile.element.bitwidth == 16 and op.results[0].tile.size > _LARGE


class _Turner(Rewriter):
    """Loads tiles that are permuted in the order of the permuted tile."""

    def rewrite(self, op: Op, builder: Builder) -> list[Value] | None:
        if op.name != "permute":
            return None
        load, before = op.operands[0].op, builder.block.ops
        if load is None or load.name != "load_view" or load not in before or effect_of(load) != Effect.READ:
            return None
        if any(effect_of(o) & ~Effect.READ for o in before[before.index(load) :]):
            return None  # the tile may have changed since
        builder.loc = load.loc
        return [_loaded(load, op.attributes["axes"], builder)]


def _loaded(load: Op, axes: tuple[int, ...], b: Builder) -> Value:
    """What ``load`` loads, with axis ``axes[k]`` as axis ``k``."""
    partition, *indices = load.operands
    t = partition.type
    assert partition.op is not None and isinstance(t, PartitionViewType)
    tile_shape, order, steps = (tuple(of[a] for a in axes) for of in (t.tile_shape, t.order, t.steps))
    turned = replace(t, tile_shape=tile_shape, order=order, steps=steps)
    view = b.emit(MakePartitionView, partition.op.operands[0], type=turned)
    attributes = {**load.attributes, "in_bounds": tuple(load.attributes["in_bounds"][a] for a in axes)}
    return b.emit(LoadView, view, [indices[a] for a in axes], **attributes)
