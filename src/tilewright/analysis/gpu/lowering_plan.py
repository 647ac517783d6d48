"""Decisions about a function that is lowered for a GPU: TMA descriptors, barriers, pipelines, operands of MMA ops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.analysis.list_tables import Cell, Tables
from tilewright.ir.core import Op, Value
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView, StoreView

Shape = tuple[int, ...]


class Slice(NamedTuple):
    """A view of ``extent`` elements from ``start`` on along ``axis`` of an array."""

    axis: int
    start: Value
    extent: Value


@dataclass
class LoweringPlan:
    """Decisions made before lowering: see ``plan``, ``ordering`` and ``tf32``."""

    tables: Tables
    barriers_before: set[Op] = field(default_factory=set)
    waits_before: set[Op] = field(default_factory=set)  # for the stores of the TMA unit
    unpipelined: set[Op] = field(default_factory=set)
    descriptors: dict[Op, Descriptor] = field(default_factory=dict)
    slices: dict[Op, Slice] = field(default_factory=dict)  # accesses whose descriptors are those of slices
    copyable: set[Op] = field(default_factory=set)  # loads of arrays that the launch may copy
    rounded: set[Op] = field(default_factory=set)  # conversions that a descriptor has done
    register_operand: dict[Op, int] = field(default_factory=dict)  # MMA ops, and which operand is not in shared memory

    def cell(self, access: LoadView | StoreView) -> Cell | None:
        """Where in a table the array of ``access`` is; None where it is in no list."""
        view = access.view.op.view.op if isinstance(access.view.op, MakePartitionView) else None
        return self.tables.cell(view.base) if isinstance(view, MakeTensorView) else None

    def places(self, access: LoadView) -> list[Value]:
        """What says which tile of which array ``access`` is to."""
        cell = self.cell(access)
        return [*access.indices, *([] if cell is None or cell.first is None else [cell.first])]


def axes_kept(shape: Shape) -> tuple[int, ...]:
    """The axes of ``shape`` that its TTIR tensor has."""
    return tuple(k for k, n in enumerate(shape) if n != 1)
