"""Tables of list arguments: which column of which array a kernel reads.

A table is rows of 64-bit integers: address, extents, strides. What a kernel reads is known where it reads rows and does
nothing else with a table: in all that do not choose between lists.
"""

from __future__ import annotations

from tilewright.ir.core import Function, Op, Param, Value
from tilewright.ir.dtypes import int64
from tilewright.ir.gpu_parameters import row_width
from tilewright.ir.ops.arith import Add, Cast, Mul
from tilewright.ir.ops.gpu.memory import GlobalLoad
from tilewright.ir.ops.memory import AssumeBounded, AssumeDivisible, Load
from tilewright.ir.ops.shape import IntToPtr, PtrOffset, constant_of
from tilewright.records import dataclass


@dataclass(frozen=True)
class Cell:
    """A number in the table that is function parameter ``table``: that in ``column`` of the row which is ``row``, a
    number, beyond row ``first``, if that is a value."""

    table: int
    first: Value | None
    row: int
    column: int

    @property
    def array(self) -> tuple[int, Value | None, int]:
        """Which array of the list it describes: equal for all columns of a row."""
        return self.table, self.first, self.row


class Tables:
    """The tables of ``function``: ``cells`` are the loads from those of which it only reads rows."""

    def __init__(self, function: Function) -> None:
        self.cells: dict[Op, Cell] = {}
        self.loads: dict[Op, Value] = {}  # the loads from any table, and its parameter
        for i, (value, param) in enumerate(zip(function.body.args, function.params)):
            if param.role == "table":
                cells = self._cells(i, value, rank_of(param))
                self.cells |= cells or {}

    def _cells(self, table: int, base: Value, rank: int) -> dict[Op, Cell] | None:
        """All uses of a table, as loads; None when there are others."""
        offsets: dict[Value, tuple[Value | None, int] | None] = {base: (None, 0)}
        cells: dict[Op, Cell] = {}
        plain, width = True, row_width(rank)
        pending = [base]
        for value in pending:  # which grows
            for op in value.users:
                if isinstance(op, PtrOffset):
                    offsets[op.result] = _sum(offsets[value], op.offset, width)
                    pending.append(op.result)
                elif isinstance(op, (Load, GlobalLoad)) and op.ptrs is value:
                    self.loads[op] = base
                    found = offsets[value]
                    plain = plain and found is not None and _is_simple(op)
                    if found is not None:
                        row, column = divmod(found[1], width)
                        cells[op] = Cell(table, found[0], row, column)
                else:
                    plain = False
        return cells if plain else None

    def cell(self, value: Value) -> Cell | None:
        """The number of a table that ``value`` is, apart from its type."""
        while isinstance(op := value.op, _CONVERSIONS) and op not in self.cells and _keeps(op):
            value = op.x
        return self.cells.get(op) if op is not None else None


_CONVERSIONS = (Cast, AssumeDivisible, AssumeBounded, IntToPtr)


def _keeps(op: Cast | AssumeDivisible | AssumeBounded | IntToPtr) -> bool:
    """Whether the result of ``op`` is the number or address that its operand is. Extents and strides of the arrays of a
    list fit in 32 bits where they are used as such."""
    if isinstance(op, Cast):
        return op.result.tile.element.is_integer and op.result.tile.element.bitwidth >= 32
    return True


def rank_of(table: Param) -> int:
    """The rank of the arrays of a list."""
    assert table.axis is not None
    return table.axis


def _is_simple(load: Load | GlobalLoad) -> bool:
    return len(load.operands) == 1 and load.is_weak and not load.result.tile.shape


def _sum(offset: tuple[Value | None, int] | None, added: Value, width: int) -> tuple[Value | None, int] | None:
    """The sum of an offset, of so many times ``width`` and a number, and ``added``, where that is one as well."""
    more = _parts(added, width)
    if offset is None or more is None or (offset[0] is not None and more[0] is not None):
        return None
    return offset[0] if offset[0] is not None else more[0], offset[1] + more[1]


def _parts(value: Value, width: int) -> tuple[Value | None, int] | None:
    known, op = constant_of(value), value.op
    if known is not None:
        return None, int(known)
    if op is None or value.tile.shape or value.tile.element is not int64:
        return None
    factor = constant_of(op.rhs) if isinstance(op, (Add, Mul)) else None
    if not isinstance(op, (Add, Mul)) or factor is None:
        return None
    if isinstance(op, Mul):
        return (op.lhs, 0) if factor == width else None
    found = _parts(op.lhs, width)
    return (found[0], found[1] + int(factor)) if found is not None else None
