"""Accesses to shared memory by which warp groups do not meet: each has bytes of its own."""

from __future__ import annotations

from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout, log2
from tilewright.ir.ops.gpu.tma import TensorMap, box_rows, swizzle_of
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS
from tilewright.ir.types import SharedType

_GROUP_BIT = log2(GROUP_WARPS)  # the first bit of a warp's number that tells groups apart


def group_offset(shared: LinearLayout, layout: LinearLayout) -> int | None:
    """The one bit of an offset by which the elements of two warp groups differ, when threads access what they hold.

    None where there are not two groups, or both access elements on each side.
    """
    offsets = shared.invert_and_compose(layout)
    if len(offsets.bases(WARP)) != _GROUP_BIT + 1:
        return None
    *others, own = offsets.bases(WARP)
    if not own or own & (own - 1):
        return None
    return None if any(b & own for b in (*offsets.bases(REGISTER), *offsets.bases(LANE), *others)) else own


def box_offset(t: SharedType, tensor_map: TensorMap) -> int | None:
    """The one bit of an offset by which the elements of two boxes differ; None for other numbers of boxes."""
    found = swizzle_of(t)
    if found is None or t.shape[found[0]] != tensor_map.box[-1]:
        return None
    rows = box_rows(tensor_map)
    return rows * tensor_map.box[-1] if t.shape[1 - found[0]] == 2 * rows else None
