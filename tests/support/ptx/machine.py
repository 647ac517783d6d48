"""Runs an entry of PTX for all threads of a CTA, instruction by instruction, each for the threads that have come to it.

Of these, those that are furthest behind go first, so that diverged threads meet again. What a GPU would do wrong is an
error: accesses out of range or not aligned, shuffles with lanes that are not there, barriers that not all reach, and
instructions that are not known.
"""

from __future__ import annotations

import functools
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.ptx import blackwell, hopper
from support.ptx.arithmetic import DTYPES, Fault, Unknown, compare, compute, values
from support.ptx.in_flight import BulkStores, Groups, Held
from support.ptx.parser import Entry, Instruction, Operand

from tilewright.backends.launch_arguments import Buffer
from tilewright.backends.reference.memory import Memory
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType, uint8
from tilewright.ir.semantics import evaluate

Array = np.ndarray[Any, Any]
LANES = 32
SHARED = "shared_memory"  # the symbol of what a launch gives a CTA
_ADDRESS = re.compile(r"\[([^\]+]+)(?:\+(-?\d+))?\]")
_SPECIAL = {"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%laneid", "%warpid"}
_UNSIGNED = {1: np.bool_, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_GROUPS = 1 << 10  # the first of the barriers at which warp groups gather
_WARPS, _CLUSTER = 1 << 20, 1 << 30  # and of those of warps, and the barrier of a cluster
_SHARED_WINDOW = 1 << 24  # where shared memory begins; addresses in it are 32 bits


@dataclass
class SharedMemory:
    data: Array
    written: Array  # and no copy into it is in flight
    held: Held


class Cta:
    """The threads of one CTA, with the values of the parameters as bytes."""

    def __init__(
        self, entry: Entry, parameters: Sequence[bytes], memory: Memory, threads: int, shared_bytes: int,
        cta: tuple[int, int, int], grid: tuple[int, int, int], maps: Sequence[hopper.Map] = (),
    ) -> None:  # fmt: skip
        self.entry, self.memory, self.threads = entry, memory, threads
        self.parameters = {name: value for (name, _), value in zip(entry.parameters, parameters)}
        self.by_value: dict[str, int] = {}  # the addresses of parameters that are passed by value
        self._held: list[Array] = []
        described = {m.place for m in maps if m.offset is None}
        for k, (name, value) in enumerate(self.parameters.items()):
            if len(value) > 8 and k not in described:
                self.by_value[name] = self._hold(name, value)
        self.registers = {n: np.zeros(threads, _UNSIGNED[b]) for n, b in entry.registers.items()}
        self.shared = SharedMemory(
            np.zeros(shared_bytes, np.uint8), np.zeros(shared_bytes, np.bool_), Held(shared_bytes)
        )
        self.special: dict[str, Array] = {}
        number = np.arange(threads, dtype=np.uint32)
        everywhere = np.ones(threads, np.uint32)
        self.special = {"%tid.x": number, "%tid.y": 0 * number, "%tid.z": 0 * number, "%laneid": number % LANES}
        self.special |= {"%ntid.x": everywhere * threads, "%ntid.y": everywhere, "%ntid.z": everywhere}
        for i, axis in enumerate("xyz"):
            self.special[f"%ctaid.{axis}"] = everywhere * np.uint32(cta[i])
            self.special[f"%nctaid.{axis}"] = everywhere * np.uint32(grid[i])
        self.constants: dict[str, int] = {}
        for name, data in entry.constants.items():
            self.constants[name] = self._hold(name, data)
        self.arrivals, self.waits = np.zeros(threads, np.int64), np.zeros(threads, np.int64)  # at the cluster's barrier
        self.carry = np.zeros(threads, np.uint64)
        self.pc = np.zeros(threads, np.int64)
        self.waiting = np.full(threads, -1, np.int64)  # the barrier that a thread waits at
        self.expected: dict[int, int] = {}  # how many threads come to a barrier
        self.arrived: Counter[int] = Counter()  # those of them that went on
        self.mbarriers = hopper.Mbarriers(threads)
        self.copies, self.products, self.bulk_stores = Groups(threads), Groups(threads), BulkStores(threads)
        self.late: list[Callable[[], None]] = []  # what arrives at a barrier in memory once nobody can go on
        self.tensor_memory = blackwell.TensorMemory()
        self.maps: dict[int, hopper.Map] = {}  # by their addresses
        for m in maps:
            name = list(self.parameters)[m.place]
            held = self.by_value.get(name, int.from_bytes(self.parameters[name][:8], "little"))
            self.maps[hopper.PARAMETERS + m.place if m.offset is None else held + m.offset] = m
        self.exited = np.zeros(threads, np.bool_)
        self.everyone = True  # executes the instruction, but for its guard
        self.form_cluster([self])
        self.targets = set(entry.labels.values())

    def _hold(self, name: str, data: bytes) -> int:
        """The address of memory that has ``data`` and is only read."""
        array = np.zeros(len(data) // 8 + 1, np.uint64).view(np.uint8)
        array[: len(data)] = np.frombuffer(data, np.uint8)
        self._held.append(array)
        start = array.ctypes.data
        self.memory.add(Buffer(name, start, start, start + array.size, uint8, False))
        return start

    def form_cluster(self, cluster: list[Cta]) -> None:
        """This is one of the CTAs of ``cluster``, by its place there."""
        self.cluster = cluster
        everywhere = np.ones(self.threads, np.uint32)
        self.special["%cluster_ctarank"] = everywhere * np.uint32(cluster.index(self))
        self.special["%cluster_nctarank"] = everywhere * np.uint32(len(cluster))

    def run(self) -> None:
        """Until all threads have ended."""
        run_cluster([self])

    def advance(self) -> bool:
        """Until no thread can go on; whether any could."""
        code, went = self.entry.instructions, False
        while not self.exited.all():
            ready = ~self.exited & (self.waiting < 0) & self.mbarriers.awake
            if not ready.any():
                if not self._release():
                    return went
                continue
            went = True
            at = int(self.pc[ready].min())
            active = ready & (self.pc == at)
            self.everyone = bool(active.all())
            while True:
                instruction = code[at]
                if self._step(instruction, active, at):
                    break
                at += 1
                if at in self.targets:
                    self.pc[active] = at
                    break
        return went

    def _release(self) -> bool:
        """Let those go on who wait at a barrier to which all have come, if there are such."""
        for barrier in sorted(set(self.waiting[self.waiting >= 0].tolist())):
            here = self.waiting == barrier
            if barrier == _CLUSTER:
                here &= self.waits < min(cta.arrivals[~cta.exited].min(initial=1 << 60) for cta in self.cluster)
                self.waits[here] += 1
                self.waiting[here] = -1
                if here.any():
                    return True
                continue
            if here.sum() + self.arrived[barrier] == self.expected[barrier]:
                self.waiting[here] = -1
                self.arrived[barrier] = 0
                return True
        return False

    def arrive(self) -> bool:
        """Let something arrive that is in flight, if there is such."""
        if self.late:
            self.late.pop(0)()
            return True
        return False

    def fail(self) -> None:
        """Fault: nobody can go on."""
        if self.exited.any() and (self.waiting[~self.exited] >= 0).all():
            raise Fault("threads wait at a barrier after others have ended")
        stuck = sorted(set(self.waiting[self.waiting >= 0].tolist()))
        raise Fault(f"threads wait at different barriers: {stuck}, {(~self.mbarriers.awake).sum()} of them in memory")

    def _step(self, i: Instruction, active: Array, at: int) -> bool:
        """Execute ``i``; whether threads may now be at other places than the next one."""
        chosen = active
        if i.guard is not None:
            guard = self.registers[i.guard[0]]
            chosen = active & (~guard if i.guard[1] else guard)
        name = i.opcode[0]
        try:
            if name == "bra":
                self.pc[active] = at + 1
                self.pc[chosen] = self.entry.labels[str(i.operands[0])]
                return True
            if name in ("ret", "exit"):
                self.pc[active] = at + 1
                self.exited |= chosen
                if self.exited.all() and not self.bulk_stores.end(self.exited):
                    raise Fault("copies out of shared memory are in flight when all threads end")
                return True
            if name in ("bar", "barrier"):
                self._barrier(i, chosen)
                self.pc[active] = at + 1
                return True
            if i.opcode[:2] == ("wgmma", "fence") and (alone := hopper.incomplete(chosen)).any():
                self.pc[active] = at
                self._gather(alone, hopper.GROUP, _GROUPS)
                return True
            if name == "mbarrier" and i.opcode[1] == "try_wait":
                self.pc[active] = at + 1
                self.mbarriers.try_wait(self, i, chosen)
                return True
            if chosen is active or chosen.any():
                _INSTRUCTIONS.get(name, _plain)(self, i, chosen)
        except (Unknown, Fault, KeyError) as error:
            raise type(error)(f"{error} in: {i.text}") from error
        return False

    def _barrier(self, i: Instruction, chosen: Array) -> None:
        if i.opcode[1] == "cluster":
            hopper.cluster_barrier(self, i, chosen, _CLUSTER)
            return
        if i.opcode[1:3] == ("warp", "sync"):
            self._gather(chosen, LANES, _WARPS)
            return
        if i.opcode[1] not in ("sync", "cta", "arrive") or len(i.operands) > 2:
            raise Unknown(".".join(i.opcode))
        number = self.read(i.operands[0]).astype(np.int64)[chosen]
        for barrier in np.unique(number).tolist():
            self.expected[barrier] = int(str(i.operands[1])) if len(i.operands) > 1 else self.threads
        if i.opcode[1] == "arrive":
            self.arrived.update(number.tolist())
        else:
            self.waiting[chosen] = number

    def _gather(self, alone: Array, size: int, first: int) -> None:
        """Threads wait for the others of so many that belong together, at the barrier ``first`` or one after it."""
        group = np.arange(self.threads) // size
        for number in np.unique(group[alone]).tolist():
            barrier = first + number
            self.waiting[alone & (group == number)] = barrier
            self.expected[barrier] = size

    # -- operands

    def read(self, operand: Operand) -> Array:
        """The bits of a register or an immediate operand."""
        if isinstance(operand, tuple):
            raise Unknown(f"vector {operand}")
        found = self.registers.get(operand)
        if found is not None:
            return found
        if operand in self.special:
            return self.special[operand]
        if (number := _immediate(operand, self.threads)) is not None:
            return number
        if operand in self.constants:
            return np.full(self.threads, self.constants[operand], np.uint64)
        if operand in self.by_value:
            return np.full(self.threads, self.by_value[operand], np.uint64)
        if operand in self.parameters:  # its address
            return np.full(self.threads, hopper.PARAMETERS + list(self.parameters).index(operand), np.uint64)
        if operand == SHARED:
            return np.full(self.threads, _SHARED_WINDOW, np.uint64)
        raise Unknown(f"operand {operand}")

    def write(self, operand: Operand, bits: Array, chosen: Array) -> None:
        if operand == "_":
            return
        register = self.registers[str(operand)]
        np.copyto(register, bits, casting="unsafe", where=chosen)

    def address(self, operand: Operand) -> Array:
        base, offset = place(operand)
        return self.read(base).astype(np.int64) + offset

    # -- memory

    def load(self, space: str, address: Array, size: int, chosen: Array) -> Array:
        """``size`` bytes for each chosen thread, as ``[threads, size]``."""
        found = np.zeros((self.threads, size), np.uint8)
        for data, where, places in self._areas(space, address, size, chosen, writing=False):
            found[where] = data[places]
        return found

    def store(self, space: str, address: Array, data: Array, chosen: Array) -> None:
        for area, where, places in self._areas(space, address, data.shape[1], chosen, writing=True):
            area[places] = data[where]

    def _areas(self, space: str, address: Array, size: int, chosen: Array, *, writing: bool) -> list[tuple[Array, Array, Array]]:  # fmt: skip
        if (address[chosen] % size).any():
            raise Fault(f"an address that is no multiple of {size}")
        reach = np.arange(size)
        if space == "shared":
            at = address[chosen] - _SHARED_WINDOW
            if (at < 0).any() or (at + size > self.shared.data.size).any():
                raise Fault(f"outside of {self.shared.data.size} bytes of shared memory: {at.min()} to {at.max()}")
            places = at[:, None] + reach
            if writing:
                if self.shared.held.count[places].any():
                    raise Fault("shared memory is written while it is read in flight")
                self.shared.written[places] = True
            elif not self.shared.written[places].all():
                raise Fault("shared memory is read before it is written, or what is in flight has arrived")
            return [(self.shared.data, np.flatnonzero(chosen), places)]
        left, found = chosen.copy(), []
        for buffer, data in zip(self.memory.buffers, self.memory.bytes):
            inside = left & (address >= buffer.low) & (address + size <= buffer.high)
            if inside.any():
                if writing and not buffer.writable:
                    raise Fault(f"a store to {buffer.name}, which is read-only")
                found.append((data, np.flatnonzero(inside), (address[inside] - buffer.low)[:, None] + reach))
                left &= ~inside
        if left.any():
            raise Fault(f"an access outside of all arrays, at {address[left][0]:#x}")
        return found


@functools.lru_cache(maxsize=4096)
def _immediate(operand: str, threads: int) -> Array | None:
    """The bits of a number for each thread, which nobody changes; None of what is no number."""
    if operand.startswith(("0f", "0d")):
        found = np.full(threads, int(operand[2:], 16), np.uint32 if operand[1] == "f" else np.uint64)
    elif re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", operand):
        found = np.full(threads, int(operand, 0) & (1 << 64) - 1, np.uint64)
    else:
        return None
    found.flags.writeable = False
    return found


@functools.lru_cache(maxsize=4096)
def place(operand: Operand) -> tuple[str, int]:
    """The register or name of an address, and what is added to it."""
    found = _ADDRESS.fullmatch(str(operand))
    if found is None:
        raise Unknown(f"address {operand}")
    return found[1], int(found[2] or 0)


def run_cluster(ctas: Sequence[Cta]) -> None:
    """All CTAs of a cluster, until all threads have ended."""
    for cta in ctas:
        cta.form_cluster(list(ctas))
    with np.errstate(all="ignore"):
        while not all(cta.exited.all() for cta in ctas):
            went = [cta.advance() for cta in ctas]
            if not any(went) and not any(cta.arrive() for cta in ctas):
                next(cta for cta in ctas if not cta.exited.all()).fail()


def _plain(cta: Cta, i: Instruction, chosen: Array) -> None:
    operands = [cta.read(x) for x in i.operands[1:]]
    if i.opcode[0] in ("and", "or", "xor", "not") and i.opcode[1] == "pred":
        ops: dict[str, Callable[..., Array]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not}  # fmt: skip
        cta.write(i.operands[0], ops[i.opcode[0]](*operands), chosen)
        return
    # What inactive threads hold must not stop those that are active.
    safe = (
        operands
        if (cta.everyone if i.guard is None else chosen.all())
        else [np.where(chosen, x, np.array(1, x.dtype)) for x in operands]
    )
    cta.write(i.operands[0], compute(i.opcode, safe), chosen)


def _add(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Sums with a carry, which the next one takes; others as usual."""
    if "cc" not in i.opcode and i.opcode[0] == "add":
        _plain(cta, i, chosen)
        return
    width = DTYPES[i.opcode[-1]].bitwidth
    a, b = (cta.read(x).astype(np.uint64) for x in i.operands[1:])
    if width != 64:
        raise Unknown(i.text)
    first = a + b
    total = first + cta.carry if i.opcode[0] == "addc" else first
    if "cc" in i.opcode:
        cta.carry = ((first < a) | (total < first)).astype(np.uint64)
    cta.write(i.operands[0], total, chosen)


def _mov(cta: Cta, i: Instruction, chosen: Array) -> None:
    to, source = i.operands
    if isinstance(to, tuple):
        bits = cta.read(source).astype(np.uint64)
        each = int(i.opcode[1][1:]) // len(to)
        for k, part in enumerate(to):
            cta.write(part, bits >> np.uint64(k * each) & np.uint64((1 << each) - 1), chosen)
    elif isinstance(source, tuple):
        each = int(i.opcode[1][1:]) // len(source)
        total = np.zeros(cta.threads, np.uint64)
        for k, part in enumerate(source):
            total |= (cta.read(part).astype(np.uint64) & np.uint64((1 << each) - 1)) << np.uint64(k * each)
        cta.write(to, total, chosen)
    else:
        cta.write(to, cta.read(source), chosen)


def _setp(cta: Cta, i: Instruction, chosen: Array) -> None:
    _, predicate, *modifiers, kind = i.opcode
    found = compare(predicate, modifiers, DTYPES[kind], *(cta.read(x) for x in i.operands[1:3]))
    if "|" in str(i.operands[0]) or len(i.operands) > 3:
        raise Unknown(i.text)
    cta.write(i.operands[0], found, chosen)


def _selp(cta: Cta, i: Instruction, chosen: Array) -> None:
    x, y, condition = (cta.read(v) for v in i.operands[1:])
    cta.write(i.operands[0], np.where(condition, x.astype(np.uint64), y.astype(np.uint64)), chosen)


def _ld(cta: Cta, i: Instruction, chosen: Array) -> None:
    parts = _parts(i)
    space, kind = parts[0], parts[-1]
    if space == "param" and "%" in place(i.operands[1])[0]:  # the address of one that is passed by value
        space = parts[0] = "global"
    if space == "param":
        base, offset = place(i.operands[1])
        if base in cta.parameters:
            size = DTYPES[kind].bytes
            bits = int.from_bytes(cta.parameters[base][offset : offset + size], "little")
            cta.write(i.operands[0], np.full(cta.threads, bits, np.uint64), chosen)
        else:
            cta.write(i.operands[0], cta.read(base), chosen)
        return
    width = DTYPES[kind].bytes
    to = i.operands[0] if isinstance(i.operands[0], tuple) else (i.operands[0],)
    _check_vector(parts, to)
    data = cta.load(space, cta.address(i.operands[1]), width * len(to), chosen)
    for k, register in enumerate(to):
        bits = np.ascontiguousarray(data[:, k * width : (k + 1) * width]).view(f"u{width}")[:, 0]
        cta.write(register, bits.view(f"i{width}").astype(np.int64).view(np.uint64) if kind[0] == "s" else bits, chosen)


def _st(cta: Cta, i: Instruction, chosen: Array) -> None:
    if "shared::cluster" in i.opcode:
        hopper.store_to_cluster(cta, i, chosen)
        return
    parts = _parts(i)
    space, kind = parts[0], parts[-1]
    if space == "param":
        base, _ = place(i.operands[0])
        cta.write(base, cta.read(i.operands[1]), chosen)
        return
    width = DTYPES[kind].bytes
    source = i.operands[1] if isinstance(i.operands[1], tuple) else (i.operands[1],)
    _check_vector(parts, source)
    raw = [cta.read(x).astype(f"u{width}")[:, None].view(np.uint8) for x in source]
    cta.store(space, cta.address(i.operands[0]), np.concatenate(raw, 1), chosen)


# Words of loads and stores that do not change what they do in this interpreter.
_WORDS = ("weak", "relaxed", "acquire", "release", "cta", "cluster", "gpu", "sys", "L1::evict_last", "L1::evict_first", "L1::no_allocate", "volatile")  # fmt: skip


def _parts(i: Instruction) -> list[str]:
    """The space, the vector and the type of a load or store; what names no space goes to global memory here."""
    parts = [p for p in i.opcode[1:] if p not in _WORDS]
    return parts if parts[0] in ("global", "shared", "param") else ["global", *parts]


def _check_vector(parts: Sequence[str], registers: Sequence[Operand]) -> None:
    count = int(parts[1][1:]) if len(parts) > 2 and parts[1][0] == "v" else 1
    if count != len(registers) or parts[0] not in ("global", "shared"):
        raise Unknown(".".join(parts))


def _cvta(cta: Cta, i: Instruction, chosen: Array) -> None:
    cta.write(i.operands[0], cta.read(i.operands[1]), chosen)


def _shfl(cta: Cta, i: Instruction, chosen: Array) -> None:
    if i.opcode[:2] != ("shfl", "sync") or i.opcode[2] not in ("bfly", "idx") or i.opcode[3] != "b32":
        raise Unknown(".".join(i.opcode))
    x, lane = cta.read(i.operands[1]), cta.read(i.operands[2]).astype(np.int64)
    here = np.arange(cta.threads)
    own, last = divmod(int(str(i.operands[3])), 256)
    if last != LANES - 1 or str(i.operands[4]) not in ("-1", "0xffffffff"):
        raise Unknown(i.text)
    source = here ^ lane if i.opcode[2] == "bfly" else here // LANES * LANES + (here & own | lane % LANES & ~own)
    if not chosen[source[chosen]].all():
        raise Fault("a shuffle with a lane that is not there")
    cta.write(i.operands[0], x[source], chosen)


def _vote(cta: Cta, i: Instruction, chosen: Array) -> None:
    if i.opcode != ("vote", "sync", "any", "pred") or str(i.operands[2]) != "-1":
        raise Unknown(i.text)
    warps = chosen.reshape(-1, LANES)
    if (warps.any(1) != warps.all(1)).any():
        raise Fault("a vote without some lanes of a warp")
    found = (cta.read(i.operands[1]).astype(bool) & chosen).reshape(-1, LANES).any(1)
    cta.write(i.operands[0], np.repeat(found, LANES), chosen)


def _atom(cta: Cta, i: Instruction, chosen: Array) -> None:
    parts = [p for p in i.opcode[1:] if p not in (*_WORDS, "acq_rel", "noftz", "global", "shared", "v2", "v4")]
    space = "shared" if "shared" in i.opcode else "global"
    kind, type_, halves = parts[0], DTYPES[parts[-1].removesuffix("x2")], parts[-1].endswith("x2")
    to = i.operands[0] if i.opcode[0] == "atom" else None
    address, operands = (i.operands[1], i.operands[2:]) if to is not None else (i.operands[0], i.operands[1:])
    places = cta.address(address)
    if not halves and not isinstance(operands[0], tuple):
        _update(cta, space, kind, type_, to, places, [values(cta.read(x), type_) for x in operands], chosen)
        return
    words = [cta.read(x) for x in (operands[0] if isinstance(operands[0], tuple) else operands)]
    several = [part for x in words for part in ((x & np.uint32(0xFFFF), x >> np.uint32(16)) if halves else (x,))]
    for k, bits in enumerate(several):  # elements side by side
        _update(cta, space, kind, type_, None, places + k * type_.bytes, [values(bits, type_)], chosen)


def _update(
    cta: Cta,
    space: str,
    kind: str,
    type_: DType,
    to: Operand | None,
    places: Array,
    given: Sequence[Array],
    chosen: Array,
) -> None:
    size = type_.bytes
    for thread in np.flatnonzero(chosen):
        one = np.zeros(cta.threads, np.bool_)
        one[thread] = True
        old = cta.load(space, places, size, one)[thread].view(type_.storage)
        mine = [x[thread : thread + 1] for x in given]
        if kind == "exch":
            new = mine[0]
        elif kind == "cas":
            new = mine[1] if old.tobytes() == mine[0].tobytes() else old
        else:
            new = evaluate(kind, type_, {}, [old, mine[0]])
        data = np.zeros((cta.threads, size), np.uint8)
        data[thread] = np.ascontiguousarray(new).view(np.uint8)
        cta.store(space, places, data, one)
        if to is not None:
            cta.write(to, np.full(cta.threads, old.view(f"u{size}")[0], np.uint64), one)


def _mma(cta: Cta, i: Instruction, chosen: Array) -> None:
    """A product of the fragments of each warp: exact products, added in float64 or int64 and rounded once."""
    by_warp = chosen.reshape(-1, LANES)
    if (
        (by_warp.any(1) != by_warp.all(1)).any()
        or i.opcode[1:3] != ("sync", "aligned")
        or i.opcode[4:6] != ("row", "col")
    ):
        raise Fault("a product without all threads of a warp")
    m, n, k = map(int, re.findall(r"\d+", i.opcode[3]))
    types = [_MMA_TYPES.get(t) or DTYPES[t] for t in (i.opcode[7], i.opcode[8], i.opcode[6])]
    warps = cta.threads // LANES
    a, b, c = (_elements(cta, registers, t).reshape(warps, LANES, -1) for registers, t in zip(i.operands[1:], types))
    lane, wide = np.arange(LANES), np.int64 if types[2].is_integer else np.float64
    group, within = lane // 4, lane % 4
    matrices = np.zeros((warps, m, k), wide), np.zeros((warps, k, n), wide), np.zeros((warps, m, n), wide)
    per_word = max(4 // types[0].bytes, 1) if types[0].bytes < 8 else 1
    halves = k // (4 * per_word)
    rows = m // 8
    where_c = []
    for e in range(a.shape[2]):
        word, part = e // per_word, e % per_word
        row, half = group + 8 * (word % rows), word // rows
        matrices[0][:, row, half * 4 * per_word + within * per_word + part] = a[:, :, e]
    for e in range(b.shape[2]):
        word, part = e // per_word, e % per_word
        matrices[1][:, word * 4 * per_word + within * per_word + part, group] = b[:, :, e]
    for e in range(c.shape[2]):
        row, column = group + 8 * (e // 2), 2 * within + e % 2
        where_c.append((row, column))
        matrices[2][:, row, column] = c[:, :, e]
    assert a.shape[2] == rows * halves * per_word
    total = matrices[0] @ matrices[1] + matrices[2]
    found = np.stack([total[:, row, column] for row, column in where_c], 2).reshape(cta.threads, -1)
    raw = np.ascontiguousarray(found.astype(types[2].storage))
    bits = types[2].bytes
    results = i.operands[0]
    assert isinstance(results, tuple)
    words = raw.view(np.uint8).reshape(cta.threads, len(results), -1)
    for r, register in enumerate(results):
        cta.write(register, np.ascontiguousarray(words[:, r]).view(f"u{max(bits, 4)}")[:, 0], chosen)


_TF32_BITS = np.uint32(0xFFFFE000)  # what tensor cores take of a float32
_MMA_TYPES = {"tf32": dtypes.tfloat32, "e4m3": dtypes.float8_e4m3fn, "e5m2": dtypes.float8_e5m2}


def _elements(cta: Cta, registers: Operand, dtype: DType) -> Array:
    """The numbers in the words of a fragment: ``[threads, elements]``."""
    assert isinstance(registers, tuple)
    words = np.stack([cta.read(r) for r in registers], 1)
    if dtype is dtypes.tfloat32:
        words = words & _TF32_BITS
    raw = np.ascontiguousarray(words).view(dtype.storage)
    return raw.astype(np.int64 if dtype.is_integer else np.float64)


def _cp(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Asynchronous copies; bytes beyond the size of the source are zeros."""
    if "bulk" in i.opcode[2:4]:
        hopper.bulk(cta, i, chosen)
        return
    if i.opcode[1] != "async" or i.opcode[2] not in ("ca", "cg", "commit_group", "wait_group"):
        raise Unknown(".".join(i.opcode))
    if cta.copies.instruct(i, chosen):
        return
    size = int(str(i.operands[2]))
    read = chosen
    if len(i.operands) > 3:
        given = cta.read(i.operands[3])
        if not np.isin(given[chosen], (0, size)).all():
            raise Unknown(i.text)
        read = chosen & (given == size)
    data = cta.load("global", cta.address(i.operands[1]), size, read)
    places = cta.address(i.operands[0])
    cta.store("shared", places, data, chosen)
    cta.shared.written[(places[chosen] - _SHARED_WINDOW)[:, None] + np.arange(size)] = False
    cta.copies.begin(chosen, lambda threads: cta.store("shared", places, data, threads))


def _nothing(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Fences: here threads see each other's stores at once."""


def _prefetch(cta: Cta, i: Instruction, chosen: Array) -> None:
    if i.opcode[1:] != ("global", "L2") and list(i.opcode[1:]) != ["global", "L2"]:
        raise Unknown(".".join(i.opcode))
    cta.load("global", cta.address(i.operands[0]), 1, chosen)


def _trap(cta: Cta, i: Instruction, chosen: Array) -> None:
    raise Fault("trap")


_INSTRUCTIONS: Mapping[str, Callable[[Cta, Instruction, Array], None]] = {
    "prefetch": _prefetch,
    "mov": _mov,
    "add": _add,
    "addc": _add,
    "setp": _setp,
    "selp": _selp,
    "ld": _ld,
    "st": _st,
    "cvta": _cvta,
    "shfl": _shfl,
    "vote": _vote,
    "atom": _atom,
    "red": _atom,
    "membar": _nothing,
    "fence": _nothing,
    "trap": _trap,
    "mma": _mma,
    "cp": _cp,
    "mbarrier": hopper.mbarrier,
    "mapa": hopper.mapa,
    "elect": hopper.elect,
    "wgmma": hopper.wgmma,
    "tcgen05": blackwell.tcgen05,
    "stmatrix": hopper.stmatrix,
    "ldmatrix": hopper.ldmatrix,
    "setmaxnreg": _nothing,
    "griddepcontrol": _nothing,
}


def pack(value: Any, size: int, floating: bool) -> bytes:
    """A parameter as a launch passes it."""
    if floating:
        return struct.pack({4: "<f", 8: "<d"}[size], value)
    return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")
