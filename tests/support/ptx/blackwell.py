"""What sm_100a adds: tensor memory, and products that one thread begins for it (tcgen05).

An address has the lane in its upper half, and the column in its lower one. Descriptors are those of the PTX ISA ("Shared
memory descriptor", "Instruction descriptor"), and a product of 64 rows has rows 16 w to 16 w + 15 in lanes 32 w to
32 w + 15 ("Data path layout").
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from support.ptx.arithmetic import Fault, Unknown
from support.ptx.hopper import LANES, matrix
from support.ptx.parser import Instruction

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType

if TYPE_CHECKING:
    from support.ptx.machine import Cta

Array = np.ndarray[Any, Any]
ROWS, COLUMNS = 128, 512
_WARPS = 4  # that reach all lanes together
_FORMATS: dict[str, dict[int, DType]] = {
    "f16": {0: dtypes.float16, 1: dtypes.bfloat16},
    "tf32": {2: dtypes.tfloat32},
    "f8f6f4": {0: dtypes.float8_e4m3fn, 1: dtypes.float8_e5m2},
    "i8": {0: dtypes.uint8, 1: dtypes.int8},
}
_SUMS = {1: np.float32, 2: np.int32}
_RESERVED = 0b1111 | 1 << 6 | 0b11 << 13 | 1 << 23 | 0b111 << 29  # sparse, saturating and negated ones are not made
_VERSION = 0b001  # bits 46 to 48 of a descriptor


class TensorMemory:
    """The words of it, and how many columns are allocated, from the first on."""

    def __init__(self) -> None:
        self.words = np.zeros((ROWS, COLUMNS), np.uint32)
        self.written = np.zeros((ROWS, COLUMNS), np.bool_)
        self.in_flight = np.zeros((ROWS, COLUMNS), np.int64)  # products that are not done
        self.columns = 0

    def check(self, first: int, count: int) -> None:
        if first < 0 or first + count > self.columns:
            raise Fault(f"columns {first} to {first + count} of tensor memory, of {self.columns}")


def tcgen05(cta: Cta, i: Instruction, chosen: Array) -> None:
    name = i.opcode[1]
    if name in ("ld", "st"):
        _move(cta, i, chosen)
    elif name == "mma":
        _mma(cta, i, chosen)
    elif name == "commit":
        _commit(cta, i, chosen)
    elif name in ("alloc", "dealloc"):
        _allocate(cta, i, chosen)
    elif name.partition("::")[0] not in ("fence", "wait", "relinquish_alloc_permit"):
        raise Unknown(i.text)


def _allocate(cta: Cta, i: Instruction, chosen: Array) -> None:
    if chosen.sum() != LANES or not chosen[:LANES].all():
        raise Fault("tensor memory is allocated by something else than one warp")
    count = int(str(i.operands[1]))
    if not 32 <= count <= COLUMNS or count & count - 1:
        raise Fault(f"{count} columns")
    memory = cta.tensor_memory
    if i.opcode[1] == "dealloc":
        if memory.columns != count or cta.read(i.operands[0])[0] != 0:
            raise Fault(f"{count} columns are given back, of {memory.columns}")
        memory.columns = 0
        return
    if memory.columns:
        raise Fault("tensor memory is allocated twice")
    memory.columns = count
    address = cta.address(i.operands[0])
    cta.store("shared", address, np.zeros((cta.threads, 4), np.uint8), np.arange(cta.threads) == 0)


def _move(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Shape 16x256b: lane 4 g + t has, of each eight columns, 2 t and 2 t + 1 of row g, and of row g + 8."""
    loads = i.opcode[1] == "ld"
    if i.opcode[2:5] != ("sync", "aligned", "16x256b") or i.opcode[-1] != "b32":
        raise Unknown(i.text)
    registers, place = i.operands if loads else reversed(i.operands)
    assert isinstance(registers, tuple)
    count = int(i.opcode[5][1:])
    if len(registers) != 4 * count:
        raise Fault(f"{len(registers)} registers for {count} times eight columns")
    warps = chosen.reshape(-1, LANES)
    if not warps.all(1)[warps.any(1)].all():
        raise Fault("a part of a warp")
    thread = np.arange(cta.threads)
    address = cta.address(place)
    row, column = address >> 16, address & 0xFFFF
    if (row[chosen] % 32 != 0).any() or (row[chosen] // 32 != thread[chosen] // LANES % _WARPS).any():
        raise Fault("a warp accesses lanes that it does not reach")
    for first in np.unique(column[chosen]).tolist():
        cta.tensor_memory.check(first, 8 * count)
    for e, register in enumerate(registers):
        lane, word = row + thread % LANES // 4 + 8 * (e // 2 % 2), column + 8 * (e // 4) + 2 * (thread % 4) + e % 2
        at = lane[chosen], word[chosen]
        if loads:
            if not cta.tensor_memory.written[at].all():
                raise Fault("tensor memory is read before it is written")
            found = np.zeros(cta.threads, np.uint32)
            found[chosen] = cta.tensor_memory.words[at]
            cta.write(register, found, chosen)
        else:
            cta.tensor_memory.words[at] = cta.read(register).astype(np.uint32)[chosen]
            cta.tensor_memory.written[at] = True


def _mma(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Exact products, added in float64 or int64, rounded once; later, in order."""
    kind = re.findall(r"kind::(\w+)", i.text)[0]
    to, a, b, how, adds = i.operands
    for thread in np.flatnonzero(chosen):
        word = int(cta.read(how)[thread])
        n, m = (word >> 17 & 63) << 3, (word >> 24 & 31) << 4
        if m != 64 or n % 8 or not 8 <= n <= 256 or word & _RESERVED:
            raise Fault(f"instruction descriptor {word:#x}")
        x_type, y_type = _FORMATS[kind][word >> 7 & 7], _FORMATS[kind][word >> 10 & 7]
        sums = _SUMS[word >> 4 & 3]
        k = 32 // x_type.bytes
        tiles: list[Array] = []
        read: list[Array] = []
        for operand, rows, dtype, turned in ((a, m, x_type, word >> 15 & 1), (b, n, y_type, word >> 16 & 1)):
            descriptor = int(cta.read(operand)[thread])
            if descriptor >> 46 & 7 != _VERSION or descriptor >> 49 & 0xFFF:
                raise Fault(f"descriptor {descriptor:#x}")
            tiles.append(matrix(cta, descriptor & ~(_VERSION << 46), rows, k, dtype, turned, read))
        wide: Any = np.int64 if sums is np.int32 else np.float64
        total = tiles[0].astype(wide) @ tiles[1].astype(wide).T
        address = int(cta.read(str(to).strip("[]"))[thread])
        cta.tensor_memory.check(address & 0xFFFF, n)
        row, column = np.indices((m, n))
        at = (address >> 16) + row // 16 * 32 + row % 16, (address & 0xFFFF) + column
        memory, adds_old = cta.tensor_memory, bool(cta.registers[str(adds)][thread])
        if adds_old and not (memory.written[at] | (memory.in_flight[at] > 0)).all():
            raise Fault("a product is added to what was never written")
        memory.in_flight[at] += 1
        memory.written[at] = False
        one = np.arange(cta.threads) == thread
        release = cta.shared.held.hold(np.concatenate([places.ravel() for places in read]), one)
        cta.late.append(partial(release, one))
        cta.late.append(partial(_finish, memory, at, total, sums, adds_old))


def _finish(memory: TensorMemory, at: tuple[Array, Array], total: Array, sums: Any, adds: bool) -> None:
    if adds:
        total = total + memory.words[at].view(sums).astype(total.dtype)
    memory.words[at] = total.astype(sums).view(np.uint32)
    memory.in_flight[at] -= 1
    memory.written[at] = memory.in_flight[at] == 0


def _commit(cta: Cta, i: Instruction, chosen: Array) -> None:
    """All products that the thread began are done: it arrives."""
    address = cta.address(i.operands[0])
    for thread in np.flatnonzero(chosen):
        cta.late.append(partial(cta.mbarriers.change, int(address[thread]), 1, 0))
