"""Stores to shared memory by ``stmatrix``, and loads from there by ``ldmatrix``, along rows and across them: a warp
moves four matrices of 8 rows of 16 bytes at once."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I32
from tilewright.backends.gpu.lowering.context import Buffer, Context, Rule, unsupported
from tilewright.backends.gpu.lowering.memory import RULES as MEMORY_RULES
from tilewright.backends.gpu.lowering.memory import accessed, widest
from tilewright.backends.gpu.lowering.words import exchanged_words, packed_words, unpacked_words
from tilewright.ir.core import Op
from tilewright.ir.effects import is_pure
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout
from tilewright.ir.ops.gpu.memory import STAGERS, SharedCopy, SharedExtract, SharedLoad, SharedStore
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import STAGING_WARPS, Restage
from tilewright.ir.span import sums

_ROW, _WORD = 16, 4  # bytes
_AT_ONCE = 2  # instructions of those who have few registers
Instruction = tuple[list[list[int]], ir.Value, str]  # see ``Matrices.instructions``
_CAPABILITY = 90  # of ``stmatrix``: PTX ISA


@dataclass(frozen=True)
class Matrices:
    """Which elements an instruction moves, by the bits of the numbers of registers and lanes.

    The registers of a word differ in the bits ``word``, those of four matrices in the bits ``matrices``; ``rows`` are
    the offsets of the bits that tell the 8 rows of a matrix apart.
    """

    offsets: LinearLayout
    word: tuple[int, ...]
    rows: tuple[int, ...]
    matrices: tuple[int, int]

    def instructions(self, cx: Context, start: ir.Value, item: int, part: int = 0) -> Iterator[Instruction]:
        """The registers of the words of four matrices, for each instruction; the address of a row for each lane, and
        what is added to it, as text. Offsets are those in a ``part``, whose own one has other bits."""
        b, warps = cx.builder, self.offsets.bases(WARP)
        # Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
        lanes = (*self.rows, *(self.offsets.bases(REGISTER)[bit] for bit in self.matrices))
        mine = cx.of_thread(lanes, warps)
        assert mine is not None  # as no basis is 0
        moving = functools.reduce(operator.or_, (*lanes, *warps))
        bases: dict[int, ir.Value] = {}
        each, four = (sums(1 << bit for bit in bits) for bits in (self.word, self.matrices))
        for first in range(self.offsets.size(REGISTER)):
            if first & (each[-1] | four[-1]):
                continue
            offset = self.offsets.index(register=first) ^ part
            mixed, alone = offset & moving, offset & ~moving
            if mixed not in bases:
                swizzled = b.xor(mine, cx.i32(mixed)) if mixed else mine
                bases[mixed] = b.add(start, b.mul(swizzled, cx.i32(item)))
            yield [[first | m | e for e in each] for m in four], bases[mixed], f"+{alone * item}" if alone else ""


def _bits(registers: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """The bits whose offsets are ``wanted``."""
    return tuple(registers.index(n) for n in wanted) if set(wanted) <= set(registers) else None


def matrices_along(offsets: LinearLayout, item: int) -> Matrices | None:
    """How matrices hold elements of ``item`` bytes at the ``offsets``; None where they do not.

    A word of four lanes is a row of 16 bytes, the other lanes are rows.
    """
    registers, lanes, row = offsets.bases(REGISTER), offsets.bases(LANE), _ROW // item
    along = [1 << i for i in range((row - 1).bit_length())]
    word = _bits(registers, along[:-2])
    if word is None or lanes[:2] != tuple(along[-2:]):
        return None
    return _matrices(offsets, word, lanes[2:], row)


def matrices_across(offsets: LinearLayout, item: int) -> Matrices | None:
    """How elements of one or two bytes are transposed in pairs of bytes: a lane has one of these of two
    rows in a word, those of other lanes are beside it and below; None where it does not."""
    registers, lanes, row = offsets.bases(REGISTER), offsets.bases(LANE), _ROW // item
    along = [1 << i for i in range((row - 1).bit_length())]
    below = next((bit for bit, n in enumerate(registers) if n and n % row == 0), None)
    beside = _bits(registers, along[:-3])
    if below is None or beside is None or lanes[2:] != tuple(along[-3:]):
        return None
    return _matrices(offsets, (*beside, below), (registers[below], *lanes[:2]), row)


def _matrices(offsets: LinearLayout, word: tuple[int, ...], rows: tuple[int, ...], row: int) -> Matrices | None:
    registers = offsets.bases(REGISTER)
    others = [bit for bit in range(len(registers)) if bit not in word]
    starts = (*(registers[bit] for bit in others), *rows)
    if len(others) < 2 or 0 in starts or any(n % row for n in (*starts, *offsets.bases(WARP))):
        return None
    return Matrices(offsets, word, rows, (others[0], others[1]))


def _shared_store(cx: Context, op: SharedStore) -> None:
    buffer, t = cx.buffers[op.buffer], op.value.tile
    offsets = buffer.type.layout.invert_and_compose(op.value.layout)
    fits = cx.target.capability >= _CAPABILITY and not t.is_pointer and t.element.bitwidth in (8, 16)
    fits &= offsets.is_injective
    along = matrices_along(offsets, t.element.bytes) if fits else None
    found = along or (matrices_across(offsets, t.element.bytes) if fits else None)
    if found is None:
        MEMORY_RULES[SharedStore](cx, op)
        return
    transposed = ".trans" if along is None else ""
    values = cx.of(op.value)
    for words, address, more in found.instructions(cx, buffer.address, t.element.bytes):
        stored = packed_words(cx, [values[r] for word in words for r in word], buffer.type.dtype)
        _store(cx, address, more, stored, transposed)


def _store(cx: Context, address: ir.Value, more: str, words: Sequence[ir.Value], transposed: str = "") -> None:
    text = f"stmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 [$0{more}], {{$1, $2, $3, $4}};"
    cx.asm(text, [], [address, *words])


def _shared_load(cx: Context, op: SharedLoad | SharedExtract) -> None:
    t, place = op.result.tile, accessed(cx, op, op.result.layout)
    item = 0 if t.is_pointer else t.element.bytes
    offsets, part = place.layout, place.part or 0
    vector = op.vector if isinstance(op, SharedLoad) else widest(offsets, max(item, 1))
    across = matrices_across(offsets, item) if item in (1, 2) else None
    along = matrices_along(offsets, item) if item in (1, 2, 4) and vector * item <= _WORD else None
    found = across or along
    if found is None or not isinstance(part, int) or part * item % _ROW:
        MEMORY_RULES[type(op)](cx, op)
        return
    load = _loads(cx, place.buffer, found, part, transposed=across is not None)
    if isinstance(op, SharedLoad) and _is_for_next_mma(op):
        cx.pending[op.result] = load
    else:
        cx.values[op.result] = [load(r) for r in range(offsets.size(REGISTER))]


def _loads(
    cx: Context, buffer: Buffer, found: Matrices, part: int = 0, *, transposed: bool
) -> Callable[[int], ir.Value]:
    """What loads a register, with those that an instruction loads together, where it is asked for first."""
    how = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{how}.shared.b16 {{$0, $1, $2, $3}}, [$4%s];"
    each = found.instructions(cx, buffer.address, buffer.type.dtype.bytes, part)
    instructions = {r: instruction for instruction in each for word in instruction[0] for r in word}
    values: dict[int, ir.Value] = {}

    def load(register: int) -> ir.Value:
        if register not in values:
            words, address, more = instructions[register]
            loaded = cx.asm(text % more, [I32] * len(words), [address])
            values.update(zip((r for word in words for r in word), unpacked_words(cx, loaded, buffer.type.dtype)))
        return values[register]

    return load


def _restage(cx: Context, op: Restage) -> None:
    """A few instructions at a time, as a warp that does not multiply has few registers, and the next ones are loaded
    before these are stored.

    A matrix has every other row of the target, of which the first and the last ones are in the same banks: the upper
    lanes exchange theirs with the matrix of the rows between.
    """
    source, target = cx.buffers[op.source], cx.buffers[op.target]
    (read, written), item = op.offsets, source.type.dtype.bytes
    across, along = matrices_across(read, item), matrices_along(written, item)
    if across is None or along is None:
        raise unsupported(op, f"no matrices of {op.read} are transposed to {op.written}")
    first, second, last = along.rows
    apart = replace(along, rows=(first, second, last ^ written.bases(REGISTER)[along.matrices[0]]))
    load, stores = _loads(cx, source, across, transposed=True), [*apart.instructions(cx, target.address, item)]
    upper = cx.builder.icmp_unsigned(">=", cx.lane, cx.i32(LANES // 2))
    parts = [stores[i : i + _AT_ONCE] for i in range(0, len(stores), _AT_ONCE)]
    loaded = _loaded(load, parts[0])
    for part, following in zip(parts, [*parts[1:], []]):
        held = [
            exchanged_words(cx, [[loaded[r] for r in word] for word in words], target.type.dtype, upper)
            for words, _, _ in part
        ]
        loaded = _loaded(load, following)
        for (_, address, more), words in zip(part, held):
            _store(cx, address, more, words)
    cx.asm("fence.proxy.async.shared::cta;")
    cx.asm(f"bar.sync {STAGERS}, {STAGING_WARPS * LANES};")


def _loaded(load: Callable[[int], ir.Value], part: Sequence[Instruction]) -> dict[int, ir.Value]:
    return {r: load(r) for words, _, _ in part for word in words for r in word}


def _is_for_next_mma(op: SharedLoad) -> bool:
    """Whether only an MMA op reads what ``op`` loads, before anything may change it."""
    users = list(op.result.users)
    if len(users) != 1 or not isinstance(users[0], GpuMma) or users[0].block is not op.block:
        return False
    assert op.block is not None
    first, last = op.block.ops.index(op), op.block.ops.index(users[0])
    return all(isinstance(o, (SharedLoad, SharedCopy, GpuMma)) or is_pure(o) for o in op.block.ops[first:last])


RULES: dict[type[Op], Rule] = {
    SharedStore: _shared_store,
    SharedLoad: _shared_load,
    SharedExtract: _shared_load,
    Restage: _restage,
}
