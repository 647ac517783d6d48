"""Tables of lists: what is in them, which a kernel takes by value, and how many arrays these have room for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.ir.core import Function, Value
from tilewright.ir.gpu_parameters import Descriptor, TableParameter, table_parameters
from tilewright.ir.ops.arith import Bitcast
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.gpu.tiles import BroadcastDistributed, Splat
from tilewright.ir.ops.gpu.tma import ListedMap, TensorMap
from tilewright.ir.ops.memory import AssumeDivisible
from tilewright.ir.ops.shape import PtrOffset, Reshape

OTHER_PARAMETERS = 2048  # the room in bytes for parameters that are no tables
_BYTES = 32764 - OTHER_PARAMETERS  # of tables among the parameters, from CUDA 12.1 on
_SWIZZLES = {32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle
_MOVES = (PtrOffset, Bitcast, Splat, BroadcastDistributed, AssumeDivisible, Reshape)


def tables_of(function: Function, wanted: int) -> tuple[tuple[TableParameter, ...], int]:
    """The tables of ``function``, in the gpu stage, and how many of the ``wanted`` arrays those by value have room for.

    A table is passed by value, in the memory of parameters, where that is only read, and it is known where.
    """
    maps: dict[int, dict[Descriptor, dict[str, Any]]] = {}
    for op in function.ops_of(ListedMap):
        maps.setdefault(op.base, {})[op.descriptor] = box_of(op)
    described = ((t, maps.get(t.index, {})) for t in table_parameters(function))
    tables = [replace(t, descriptors=tuple(found), boxes=tuple(found.values())) for t, found in described]
    known = [replace(t, by_value=reads(function.body.args[t.index]) is not None) for t in tables]
    entry = sum(t.entry_bytes for t in known if t.by_value)
    room = min(wanted, _BYTES // entry) if entry else 0
    return tuple(known if room else tables), room


def box_of(op: TensorMap) -> dict[str, Any]:
    """What a launch needs to know of the boxes of a tensor map."""
    return {"block_size": list(op.box), "swizzle": _SWIZZLES[op.swizzle], "elem_size": op.dtype.bytes}


def reads(table: Value) -> list[GlobalLoad] | None:
    """The loads from memory at addresses made of that of ``table``; None where it is used in another way."""
    found: list[GlobalLoad] = []
    for op in table.users:
        if isinstance(op, GlobalLoad) and op.ptrs is table:
            found.append(op)
        elif isinstance(op, _MOVES):
            below = reads(op.result)
            if below is None:
                return None
            found += below
        elif not isinstance(op, ListedMap):
            return None
    return found
