"""Loads, stores and atomics through tiles of pointers, under observation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.backends.reference import access as reference
from tilewright.backends.reference.values import Array, Pointers
from tilewright.ir.core import Op
from tilewright.ir.enums import AtomicKind
from tilewright.ir.ops import memory
from tilewright.records import dataclass
from tilewright.sanitizer.arrays import ArrayState
from tilewright.sanitizer.observation import (
    ATOMIC,
    READ,
    WRITE,
    Locate,
    Outcome,
    element_of,
    never_written,
    not_read,
    observe,
    require_kept,
)
from tilewright.sanitizer.report import ElementReference, Related
from tilewright.sanitizer.undefined import Marks, Undefined
from tilewright.sanitizer.windows import Lanes

if TYPE_CHECKING:
    from tilewright.sanitizer.block import CheckedBlock


@dataclass(frozen=True)
class _Targets:
    """The lanes of a pointer operation that can be done: flat positions, with the arrays that they access."""

    chosen: Array
    mask: Array | None  # as the reference takes it
    groups: list[tuple[ArrayState, Array, Lanes]]  # array, positions into ``chosen``, elements
    shape: tuple[int, ...]
    dropped: Array | None  # the lanes that were reported

    @property
    def left_out(self) -> int:
        """How many lanes are masked off."""
        return math.prod(self.shape) - self.chosen.size

    def locate(self, positions: Array, lanes: Lanes) -> Locate:
        """The index in the tile of a position in ``lanes``, those of the lanes at ``positions``."""
        width = lanes.positions.size // positions.size
        return lambda flat: element_of(self.chosen[positions[flat // width]], self.shape)

    def place(self, pointers: Pointers, size: int) -> Callable[[tuple[int, ...]], ElementReference | None]:
        def at(element: tuple[int, ...]) -> ElementReference | None:
            flat = int(np.ravel_multi_index(element, pointers.shape)) if element else 0
            for array, positions, _ in self.groups:
                if flat in self.chosen[positions]:
                    return array.place(int(pointers.address.reshape(-1)[flat]), size)
            return None

        return at


def _targets(
    block: CheckedBlock, op: memory.PointerMemoryOp, pointers: Pointers, mask: Array | None, *, writes: bool
) -> _Targets:
    """The lanes where ``mask`` is true and the pointer is good; the others among them are reported."""
    if writes and op.mask is not None:
        block.require_defined(op, op.mask, "it masks an access")
    size = reference.pointee_of(op.ptrs.type).bytes
    chosen, selected = reference.selected(pointers, mask)
    bad = np.zeros(chosen.size, bool)

    def element(lane: int) -> tuple[int, ...]:
        return element_of(chosen[lane], pointers.shape)

    undefined = block.undefined.get(op.ptrs) if block.undefined else None
    if undefined is not None:
        # A lane that is masked by a check of its own undefined index reads an element or the padding.
        hidden = _undefined_mask(block, op, pointers.shape)
        lanes = (np.broadcast_to(undefined.mask, pointers.shape) & ~hidden).reshape(-1)[chosen]
        if lanes.any() and not undefined.reported:
            text, origin = "an address depends on an undefined value", (undefined.origin,)
            first, count = element(int(np.flatnonzero(lanes)[0])), int(lanes.sum())
            block.report(op, "undefined-value", text, element=first, related=origin, elements=count)
        bad |= lanes
    groups, outside = [], False
    owners = block.launch.resolved(selected).allocation
    for owner in np.unique(owners).tolist():
        mine = np.flatnonzero((owners == owner) & ~bad)
        if mine.size == 0:
            continue
        array = block.launch.array(owner, 0)
        if array is None:
            at = int(selected.address[mine[0]])
            text = "the pointer is null" if at == 0 else f"address {at:#x} lies in no array of the launch"
            block.report(op, "dangling-pointer", text, element=element(mine[0]), elements=mine.size)
            bad[mine] = True
            continue
        address = selected.address[mine]
        odd = np.flatnonzero(address % size)
        if odd.size:
            text = f"the address is no multiple of {size}, the size of an element"
            block.report(op, "misaligned-access", text, element=element(mine[odd[0]]), elements=odd.size)
        wrong = (address < array.buffer.low) | (address + size > array.buffer.high)
        outside |= bool(wrong.any())
        if wrong.any() and not block.out_of_bounds_pointers.used(op.ptrs, outside=True):
            _report_bounds(block, op, array, address[wrong], element(mine[wrong][0]), size)
        elif not wrong.any() and writes and not array.buffer.writable:
            wrong = np.ones(mine.size, bool)
            text, place = f"'{array.buffer.name}' is read-only", array.place(int(address[0]), size)
            block.report(op, "read-only", text, place=place)
        if wrong.any():
            bad[mine[wrong]] = True
            mine, address = mine[~wrong], address[~wrong]
        if mine.size:
            groups.append((array, mine, array.lanes(address, size)))
    if not outside:
        block.out_of_bounds_pointers.used(op.ptrs, outside=False)
    dropped: Array | None = None
    if bad.any():
        keep, dropped = np.zeros(pointers.shape, bool), np.zeros(pointers.shape, bool)
        keep.reshape(-1)[chosen[~bad]] = True
        dropped.reshape(-1)[chosen[bad]] = True
        mask = keep
    return _Targets(chosen, mask, groups, pointers.shape, dropped)


def _undefined_mask(block: CheckedBlock, op: memory.PointerMemoryOp, shape: tuple[int, ...]) -> Array:
    """Where the mask of a pointer operation is undefined."""
    mark = block.undefined.get(op.mask) if op.mask is not None else None
    return np.broadcast_to(np.False_ if mark is None else mark.mask, shape)


def _report_bounds(
    block: CheckedBlock, op: Op, array: ArrayState, outside: Array, element: tuple[int, ...], size: int
) -> None:
    if op.loc not in block.unchecked:  # its index has been reported
        text, place = f"access outside '{array.buffer.name}'", array.place(int(outside[0]), size)
        block.report(op, "out-of-bounds", text, element=element, place=place, elements=outside.size)


def _repeated(block: CheckedBlock, op: memory.MemoryOp, targets: _Targets, pointers: Pointers) -> None:
    """A weak store whose lanes meet writes one element several times, in no order."""
    if not op.is_weak:
        return
    for array, positions, lanes in targets.groups:
        if lanes.positions.size < 2:
            continue
        order = np.argsort(lanes.positions, kind="stable")
        equal = lanes.positions[order][1:] == lanes.positions[order][:-1]
        if equal.any():
            width = lanes.positions.size // positions.size
            second = int(order[1:][equal][0])
            where, count = array.element(int(lanes.positions[second])), int(equal.sum())
            element = element_of(targets.chosen[positions[second // width]], pointers.shape)
            text = f"the store writes an element of '{array.buffer.name}' more than once"
            block.report(op, "race-in-call", text, element=element, place=where, elements=count)
            return


def load(block: CheckedBlock, op: memory.Load, operands: list[Any], marks: Marks) -> Outcome:
    pointers, mask, padding = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=False)
    uninitialized = np.zeros(targets.chosen.size, bool)
    last: ArrayState | None = None
    for array, positions, lanes in targets.groups:
        found = observe(block, op, READ, array, lanes, targets.left_out, targets.locate(positions, lanes))
        if found is not None:
            uninitialized[positions] = found.reshape(positions.size, -1).any(axis=1)
            last = array
    result = reference.load(block.memory, op.attributes, [v.type for v in op.operands], pointers, targets.mask, padding)
    undefined = _masked_off(block, op, mask, padding, pointers.shape) if mask is not None else None
    if last is not None:
        full = np.zeros(pointers.address.size, bool)
        full[targets.chosen[uninitialized]] = True
        more = full.reshape(pointers.shape)
        undefined = never_written(block, op, last, more if undefined is None else more | undefined.mask)
    if targets.dropped is not None:
        undefined = not_read(op, targets.dropped if undefined is None else targets.dropped | undefined.mask)
    return result, undefined


def _masked_off(
    block: CheckedBlock, op: memory.Load, mask: Array, padding: Array | None, shape: tuple[int, ...]
) -> Undefined | None:
    """What of a masked load is undefined apart from what was read."""
    off = ~np.broadcast_to(mask, shape)
    if padding is None:
        if not off.any():
            return None
        return Undefined(off, Related("masked-off elements of this load have no padding", op.loc, block.index))
    if not block.undefined:
        return None
    found, origin = _undefined_mask(block, op, shape), None
    if op.mask is not None and found.any():
        origin = block.undefined[op.mask].origin
    pad = block.undefined.get(op.padding) if op.padding is not None else None
    if pad is not None:
        found, origin = found | (np.broadcast_to(pad.mask, shape) & off), pad.origin
    return Undefined(found, origin) if origin is not None and found.any() else None


def _stored(
    block: CheckedBlock, op: memory.AtomicRmw | memory.Store, operands: list[Any], marks: Marks, kind: str
) -> _Targets:
    """The lanes that are to be written, with a definite value, of which the sinks know."""
    pointers, _, mask = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=True)
    size = reference.pointee_of(op.ptrs.type).bytes
    require_kept(block, op, marks[1] if marks else None, targets.mask, targets.place(pointers, size))
    if kind == WRITE:
        _repeated(block, op, targets, pointers)
    for array, positions, lanes in targets.groups:
        observe(block, op, kind, array, lanes, targets.left_out, targets.locate(positions, lanes))
    return targets


def store(block: CheckedBlock, op: memory.Store, operands: list[Any], marks: Marks) -> Outcome:
    pointers, value, _ = block.grouped(op, operands)
    targets = _stored(block, op, operands, marks, WRITE)
    reference.store(block.memory, op.attributes, [v.type for v in op.operands], pointers, value, targets.mask)
    return None, None


def atomic_rmw(block: CheckedBlock, op: memory.AtomicRmw, operands: list[Any], marks: Marks) -> Outcome:
    pointers, value, mask = block.grouped(op, operands)
    targets = _stored(block, op, operands, marks, ATOMIC)
    types = [v.type for v in op.operands]
    old = reference.atomic_rmw(block.memory, op.attributes, types, pointers, value, targets.mask)
    _atomic_overflow(block, op, old, value, targets, pointers)
    return old, _masked_result(block, op, mask, pointers) if targets.left_out else None


def _masked_result(block: CheckedBlock, op: Op, mask: Array, pointers: Pointers) -> Undefined:
    origin = Related("masked-off elements of this atomic have no value", op.loc, block.index)
    return Undefined(~np.broadcast_to(mask, pointers.shape), origin)


def _atomic_overflow(
    block: CheckedBlock, op: memory.AtomicRmw, old: Array, value: Array, targets: _Targets, pointers: Pointers
) -> None:
    dtype = op.value.tile.element
    if not op.no_signed_wrap or op.kind is not AtomicKind.ADD or not (dtype.is_integer and dtype.is_signed):
        return
    with np.errstate(all="ignore"):
        new = old + value
    wrong = np.asarray(((old ^ new) & (value ^ new)) < 0)
    if targets.mask is not None:
        wrong &= targets.mask
    if not wrong.any():
        return
    flat = int(np.flatnonzero(wrong)[0])
    element = element_of(flat, pointers.shape)
    amount = int(value.reshape(-1)[flat])
    before = int(old.reshape(-1)[flat])
    sign, operand = ("-", -amount) if op.subtracts else ("+", amount)
    block.report(
        op,
        "atomic-sub-overflow" if op.subtracts else "atomic-add-overflow",
        f"{before} {sign} {operand} does not fit {dtype}",
        element=element,
        operands={"old": before, "value": operand},
        place=targets.place(pointers, dtype.bytes)(element),
        elements=int(wrong.sum()),
    )


def atomic_cas(block: CheckedBlock, op: memory.AtomicCas, operands: list[Any], marks: Marks) -> Outcome:
    pointers, expected, desired, mask = block.grouped(op, operands)
    targets = _targets(block, op, pointers, mask, writes=True)
    size = reference.pointee_of(op.ptrs.type).bytes
    if marks:
        block.require_defined(op, op.expected, "a compare-and-swap compares with it")
        require_kept(block, op, marks[2], targets.mask, targets.place(pointers, size))
    types = [v.type for v in op.operands]
    old = reference.atomic_cas(block.memory, op.attributes, types, pointers, expected, desired, targets.mask)
    bits = f"u{size}"
    swapped = (old.view(bits) == expected.view(bits)).reshape(-1)
    for array, positions, lanes in targets.groups:
        done = swapped[targets.chosen[positions]]
        width = lanes.positions.size // positions.size
        for kind, which in ((READ, ~done), (ATOMIC, done)):  # where it failed it only read
            if which.any():
                some = Lanes(lanes.positions[np.repeat(which, width)])
                observe(block, op, kind, array, some, targets.left_out, targets.locate(positions[which], some))
    return old, None
