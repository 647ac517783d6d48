"""Local arrays: each block has its part of a buffer that the launch allocates."""

from __future__ import annotations

from tilewright.backends.triton.ttir.memory import offset
from tilewright.backends.triton.ttir.state import State
from tilewright.backends.triton.ttir.text import Val
from tilewright.ir.core import Function, Op
from tilewright.ir.ops.memory import LocalArray

_ALIGNMENT = 16


def layout(function: Function) -> tuple[dict[Op, int], int]:
    """Where each local array starts in the part of a block, and the bytes of that part."""
    starts: dict[Op, int] = {}
    size = 0
    for op in function.walk():
        if isinstance(op, LocalArray):
            starts[op] = size
            taken = op.count * op.dtype.bytes
            size += -(-taken // _ALIGNMENT) * _ALIGNMENT
    return starts, size


def local_array(s: State, op: LocalArray) -> Val:
    """A pointer into the part of this block."""
    w = s.w
    assert s.local is not None
    x, y, z = (w.emit(f"tt.get_program_id {axis} : i32", "i32") for axis in "xyz")
    width, height = (w.emit(f"tt.get_num_programs {axis} : i32", "i32") for axis in "xy")
    row = w.op("arith.addi", w.op("arith.muli", z, height), y)
    block = w.op("arith.muli", w.convert("arith.extui", row, "i64"), w.convert("arith.extui", width, "i64"))
    block = w.op("arith.addi", block, w.convert("arith.extui", x, "i64"))
    start = w.op("arith.muli", block, w.constant(s.local_bytes, "i64"))
    start = w.op("arith.addi", start, w.constant(s.local_starts[op], "i64"))
    return w.bitcast(offset(w, s.local, start), s.element(op.results[0]))
