"""What sm_90a adds: barriers in shared memory, copies of tiles by tensor maps, and products of warp groups.

Addresses of operands in shared memory follow the PTX ISA ("Asynchronous Warpgroup Level Matrix Shared Memory Layout"),
not the layouts of the compiler: rows of a swizzled width, of which eight follow each other, exchange units of 16 bytes by
bits of the address.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from support.aligned_arrays import Geometry
from support.ptx.arithmetic import DTYPES, Fault, Unknown
from support.ptx.in_flight import Action
from support.ptx.parser import Instruction, Operand

from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType
from tilewright.ir.ops.gpu.tma import TensorMap

if TYPE_CHECKING:
    from support.ptx.machine import Cta

Array = np.ndarray[Any, Any]
PARAMETERS = 1 << 52  # where the addresses of parameters begin
LANES, GROUP = 32, 128  # threads of a warp, and of a warp group
_BOX_ALIGNMENT = 128  # bytes: PTX ISA, "cp.async.bulk.tensor"
_RANK = 28  # the bit of an address where the rank of its CTA begins
_WIDTHS = {1: 128, 2: 64, 3: 32}  # modes of descriptors: bytes of a row
_TYPES = {"tf32": dtypes.tfloat32, "e4m3": dtypes.float8_e4m3fn, "e5m2": dtypes.float8_e5m2}


def swizzled(address: Array, width: int) -> Array:
    """The addresses of bytes that lie in rows of ``width`` bytes."""
    return address ^ ((address >> 7 & width // 16 - 1) << 4)


class Map:
    """A tensor map of an array: parameter number ``place`` of a launch, or ``offset`` bytes from where that begins or,
    where it is an address, points to."""

    def __init__(self, op: TensorMap, geometry: Geometry, place: int, offset: int | None = None) -> None:
        self.place, self.offset, self.op = place, offset, op
        self.base, shape, strides = geometry
        self.extents = [shape[a] for a in op.axes]
        self.steps = [strides[a] * op.dtype.bytes for a in op.axes]
        if self.base % 16 or any(s % 16 for s, n in zip(self.steps[:-1], self.extents[:-1]) if n > 1):
            raise Fault(f"a tensor map of an array at {self.base:#x} with strides {self.steps}")

    def box(self, starts: Sequence[int]) -> tuple[Array, Array, Array]:
        """Of each byte of a box: where it lies in global memory, whether it is in the array, and in shared memory."""
        size, box = self.op.dtype.bytes, self.op.box
        places = np.meshgrid(*[s + np.arange(n) for s, n in zip(starts, box)], indexing="ij")
        address = self.base + sum(p * s for p, s in zip(places, self.steps))
        inside = np.all([(p >= 0) & (p < n) for p, n in zip(places, self.extents)], axis=0)
        flat = np.arange(address.size) * size
        each = np.arange(size)
        return (
            (address.reshape(-1, 1) + each), inside.reshape(-1), flat.reshape(-1, 1) + each,
        )  # fmt: skip


class Mbarriers:
    """By address: arrivals, those that are missing, bytes, parity. Threads sleep until something happens to one."""

    def __init__(self, threads: int) -> None:
        self.found: dict[int, list[int]] = {}
        self.awake = np.ones(threads, np.bool_)

    def init(self, address: int, count: int) -> None:
        self.found[address] = [count, count, 0, 0]

    def change(self, address: int, arrivals: int, size: int) -> None:
        if address not in self.found:
            raise Fault(f"no barrier at {address:#x}")
        state = self.found[address]
        state[1] -= arrivals
        state[2] += size
        if state[1] == 0 and state[2] == 0:
            state[1], state[3] = state[0], state[3] ^ 1
        self.awake[:] = True

    def try_wait(self, cta: Cta, i: Instruction, chosen: Array) -> None:
        address, parity = cta.address(i.operands[1]), cta.read(i.operands[2])
        over = np.zeros(cta.threads, np.bool_)
        for place in np.unique(address[chosen]).tolist():
            if place not in self.found:
                raise Fault(f"no barrier at {place:#x}")
            here = chosen & (address == place)
            over[here] = self.found[place][3] != parity[here]
        cta.write(i.operands[0], over, chosen)
        self.awake[chosen & ~over] = False


def mbarrier(cta: Cta, i: Instruction, chosen: Array) -> None:
    name = i.opcode[1]
    if name not in ("init", "arrive"):
        raise Unknown(".".join(i.opcode))
    expects = "expect_tx" in i.opcode
    address = cta.address(i.operands[0 if name == "init" else 1])
    if "shared::cluster" in i.opcode:
        for thread in np.flatnonzero(chosen):
            other, place = cta.cluster[int(address[thread]) >> _RANK], int(address[thread]) & (1 << _RANK) - 1
            if other.exited.all():
                raise Fault("a barrier of a CTA that has ended")
            other.mbarriers.change(place, 1, 0)
        return
    for thread in np.flatnonzero(chosen):
        if name == "init":
            cta.mbarriers.init(int(address[thread]), int(str(i.operands[1])))
        else:
            if expects:
                cta.mbarriers.change(int(address[thread]), 0, int(str(i.operands[2])))
            cta.mbarriers.change(int(address[thread]), 1, 0)


def elect(cta: Cta, i: Instruction, chosen: Array) -> None:
    """The first thread of each warp, all of whose threads are there."""
    if i.opcode[1:] != ("sync",) or i.operands[1] != "-1" or not str(i.operands[0]).startswith("_|"):
        raise Unknown(i.text)
    if not chosen.reshape(-1, LANES).all(1)[chosen.reshape(-1, LANES).any(1)].all():
        raise Fault("a part of a warp elects one of its threads")
    cta.write(str(i.operands[0])[2:], np.arange(chosen.size) % LANES == 0, chosen)


def mapa(cta: Cta, i: Instruction, chosen: Array) -> None:
    """The address of the same place in another CTA of the cluster: its rank is in bits that no other address has."""
    if i.opcode[1:] != ("shared::cluster", "u32"):
        raise Unknown(i.text)
    place, rank = cta.read(i.operands[1]).astype(np.int64), cta.read(i.operands[2]).astype(np.int64)
    if (rank[chosen] >= len(cta.cluster)).any():
        raise Fault("a CTA that is not in the cluster")
    cta.write(i.operands[0], place | rank << _RANK, chosen)


def cluster_barrier(cta: Cta, i: Instruction, chosen: Array, barrier: int) -> None:
    """Threads arrive at the barrier of a cluster, or wait there for all that they have arrived with."""
    if (i.opcode[2] != "wait" and i.opcode[3] not in ("release", "relaxed")) or i.opcode[-1] != "aligned":
        raise Unknown(i.text)
    ahead = cta.arrivals[chosen] - cta.waits[chosen]
    if (ahead != (i.opcode[2] == "wait")).any():
        raise Fault("a thread arrives twice at the barrier of a cluster, or waits without having arrived")
    if i.opcode[2] == "arrive":
        cta.arrivals[chosen] += 1
    else:
        cta.waiting[chosen] = barrier


def store_to_cluster(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Each thread stores one word to shared memory of the CTA that ``mapa`` has found."""
    late = i.opcode[1:4] == ("async", "shared::cluster", "mbarrier::complete_tx::bytes")
    if not late and i.opcode[1:2] != ("shared::cluster",):
        raise Unknown(i.text)
    if (cta.waits[chosen] == 0).any():
        raise Fault("memory of a CTA that may not have begun")
    width, address = DTYPES[i.opcode[-1]].bytes, cta.address(i.operands[0])
    data = cta.read(str(i.operands[1])).astype(f"u{width}")[:, None].view(np.uint8)
    rank = address >> _RANK
    for number in np.unique(rank[chosen]).tolist():
        other, here = cta.cluster[number], chosen & (rank == number)
        if other.exited.all():
            raise Fault("memory of a CTA that has ended")
        store = partial(other.store, "shared", address & (1 << _RANK) - 1, data, here)
        if late:
            barrier = cta.address(i.operands[2]) & (1 << _RANK) - 1
            other.late.append(partial(_complete_stores, other, store, Counter(barrier[here].tolist()), width))
        else:
            store()


def _complete_stores(target: Cta, store: Callable[[], None], barriers: Counter[int], width: int) -> None:
    store()
    for barrier, count in barriers.items():
        target.mbarriers.change(barrier, 0, -count * width)


def bulk(cta: Cta, i: Instruction, chosen: Array) -> None:
    """A copy of a box, by each thread that asks for it, which may be added to float32 in memory."""
    if cta.bulk_stores.instruct(i, chosen):
        return
    loads = "mbarrier::complete_tx::bytes" in i.text
    shared, source = (i.operands[0], i.operands[1]) if loads else (i.operands[1], i.operands[0])
    pointer, *coordinates = re.findall(r"[^\[\]{},\s]+", str(source))
    for thread in np.flatnonzero(chosen):
        place = int(cta.read(pointer)[thread])
        found = cta.maps.get(place)
        if found is None:
            raise Fault(f"no tensor map at {place:#x}")
        starts = [int(cta.read(c).astype(np.uint32).view(np.int32)[thread]) for c in reversed(coordinates)]
        address, inside, offsets = found.box(starts)
        base = int(cta.address(shared)[thread])
        if base % _BOX_ALIGNMENT:
            raise Fault(f"a box at {base:#x}")
        places = swizzled(base + offsets, found.op.swizzle)
        if loads:
            data = np.zeros(address.shape, np.uint8)
            data[inside] = _global(cta, address[inside], None)
            if found.op.rounds:
                data = _rounded(data)
            barrier = int(cta.address(i.operands[2])[thread])
            for target in _targets(cta, i, thread):
                _shared(target, places, data)
                target.shared.written[_checked(target, places)] = False
                cta.late.append(partial(_finish_load, target, places, data, barrier))
        else:
            one = np.arange(cta.threads) == thread
            release = cta.shared.held.hold(_checked(cta, places), one)
            adds = i.opcode[1] == "reduce"
            if adds and ("add" not in i.opcode or found.op.dtype is not dtypes.float32):
                raise Unknown(i.text)
            copied: list[Array] = []
            read = partial(_read_copied, cta, places, copied, release)
            cta.bulk_stores.begin(one, read, partial(_write_copied, cta, inside, address, copied, adds))


def _finish_load(target: Cta, places: Array, data: Array, barrier: int) -> None:
    _shared(target, places, data)
    target.mbarriers.change(barrier, 0, -data.size)


def _read_copied(cta: Cta, places: Array, copied: list[Array], release: Action, threads: Array) -> None:
    release(threads)
    copied.append(_shared(cta, places, None))


def _write_copied(cta: Cta, inside: Array, address: Array, copied: list[Array], adds: bool, threads: Array) -> None:
    data = copied[0][inside]
    if adds:
        data = (data.view(np.float32) + _global(cta, address[inside], None).view(np.float32)).view(np.uint8)
    _global(cta, address[inside], data)


def _targets(cta: Cta, i: Instruction, thread: int) -> list[Cta]:
    """The CTAs that a copy goes to."""
    if "multicast::cluster" not in i.text:
        return [cta]
    mask = int(cta.read(i.operands[3])[thread])
    if mask >> len(cta.cluster):
        raise Fault(f"a copy to CTAs {mask:#b} of {len(cta.cluster)}")
    return [other for rank, other in enumerate(cta.cluster) if mask >> rank & 1]


def _rounded(data: Array) -> Array:
    """float32 to tfloat32: to the nearest, ties to even."""
    bits = np.ascontiguousarray(data).view(np.uint32).astype(np.uint64)
    bits = bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000
    return bits.astype(np.uint32).view(np.uint8).reshape(data.shape)


def _global(cta: Cta, address: Array, data: Array | None) -> Array:
    """Load, or store ``data``."""
    found = np.zeros(address.shape, np.uint8)
    left = np.ones(len(address), np.bool_)
    for buffer, held in zip(cta.memory.buffers, cta.memory.bytes):
        here = left & (address[:, 0] >= buffer.low) & (address[:, -1] < buffer.high)
        if data is None:
            found[here] = held[address[here] - buffer.low]
        else:
            held[address[here] - buffer.low] = data[here]
        left &= ~here
    if left.any():
        raise Fault(f"a copy outside of all arrays, at {address[left][0, 0]:#x}")
    return found


def _checked(cta: Cta, address: Array) -> Array:
    """Places in shared memory."""
    at: Array = address - cta.read("shared_memory")[0].astype(np.int64)
    if (at < 0).any() or (at >= cta.shared.data.size).any():
        raise Fault(f"outside of {cta.shared.data.size} bytes of shared memory: {at.min()} to {at.max()}")
    return at


def _shared(cta: Cta, address: Array, data: Array | None) -> Array:
    at = _checked(cta, address)
    if data is None:
        if not cta.shared.written[at].all():
            raise Fault("shared memory is read before it is written, or what is in flight has arrived")
        return cta.shared.data[at]
    if cta.shared.held.count[at].any():
        raise Fault("shared memory is written while it is read in flight")
    cta.shared.written[at] = True
    cta.shared.data[at] = data
    return data


def _matrices(cta: Cta, i: Instruction, start: Operand, chosen: Array) -> Iterator[list[Array]]:
    """Where both halves of the word of each thread lie, for each matrix, of whose rows lanes 8 m to 8 m + 7 give the
    addresses."""
    transposed = "trans" in i.opcode
    if i.opcode[1:] != ("sync", "aligned", "m8n8", "x4", *["trans"] * transposed, "shared", "b16"):
        raise Unknown(".".join(i.opcode))
    if not chosen.reshape(-1, 32).all(1)[chosen.reshape(-1, 32).any(1)].all():
        raise Fault("matrices without all threads of a warp")
    address, lane = cta.address(start), np.arange(cta.threads) % 32
    if (address[chosen] % 16).any():
        raise Fault("a row that is no multiple of 16 bytes")
    for m in range(4):
        first = np.arange(cta.threads) // 32 * 32 + 8 * m
        line, places = lane // 4, 2 * (lane % 4)
        if transposed:
            yield [address[first + places + half] + 2 * line for half in range(2)]
        else:
            yield [address[first + line] + 2 * (places + half) for half in range(2)]


def stmatrix(cta: Cta, i: Instruction, chosen: Array) -> None:
    """What ``ldmatrix`` would load."""
    address, words = i.operands
    assert isinstance(words, tuple)
    for register, places in zip(words, _matrices(cta, i, address, chosen)):
        word = np.ascontiguousarray(cta.read(register).astype(np.uint32))[:, None].view(np.uint8)
        for half, place in zip((word[:, :2], word[:, 2:]), places):
            cta.store("shared", place, np.ascontiguousarray(half), chosen)


def ldmatrix(cta: Cta, i: Instruction, chosen: Array) -> None:
    """Lane 4 r + w takes elements 2 w and 2 w + 1, of 16 bits, of row r of each matrix, or of column r."""
    words, address = i.operands
    assert isinstance(words, tuple)
    for register, places in zip(words, _matrices(cta, i, address, chosen)):
        halves = [cta.load("shared", place, 2, chosen) for place in places]
        cta.write(register, np.concatenate(halves, axis=1).view(np.uint32)[:, 0], chosen)


def incomplete(chosen: Array) -> Array:
    """Those of ``chosen`` whose warp group is not there as a whole."""
    groups = _by_group(chosen)
    return chosen & np.repeat(groups.any(1) & ~groups.all(1), GROUP)[: chosen.size]


def _by_group(chosen: Array) -> Array:
    """A row for each warp group, of which the last one may have fewer warps."""
    return np.concatenate([chosen, np.zeros(-chosen.size % GROUP, bool)]).reshape(-1, GROUP)


def wgmma(cta: Cta, i: Instruction, chosen: Array) -> None:
    """A product of the tiles that two descriptors tell of: exact products, added in float64 or int64, rounded once.
    It is made at once, and what it reads must stay until a thread waits for it."""
    if i.opcode[1] == "fence" or cta.products.instruct(i, chosen):
        return
    groups = _by_group(chosen)
    if incomplete(chosen).any():
        raise Fault("a product without all threads of a warp group")
    m, n, k = map(int, re.findall(r"\d+", i.opcode[4]))
    types = [_TYPES.get(t) or DTYPES[t] for t in i.opcode[5:8]]
    registers, a, b, adds, *rest = i.operands
    flags = [int(str(r)) for r in rest]
    turned = [0, 0] if len(flags) < 3 else [0, *flags[2:]][-2:]
    if flags[:2] not in ([], [1, 1]):
        raise Unknown(i.text)
    add = cta.registers[str(adds)].astype(np.bool_)
    wide: Any = np.int64 if types[0].is_integer else np.float64
    thread = np.arange(GROUP)
    row = thread // 32 * 16 + thread % 32 // 4
    for first in np.flatnonzero(groups.all(1)) * GROUP:
        mine = slice(int(first), int(first) + GROUP)
        read: list[Array] = []
        if isinstance(a, tuple):
            x = _fragment(cta, a, mine, m, k, types[1]).astype(wide)
        else:
            x = matrix(cta, int(cta.read(a)[first]), m, k, types[1], turned[0], read).astype(wide)
        y = matrix(cta, int(cta.read(b)[first]), n, k, types[2], turned[1], read).astype(wide)
        product = x @ y.T
        assert isinstance(registers, tuple)
        each = 4 // types[0].bytes
        if add[mine].any() and not add[mine].all():
            raise Fault("some threads of a warp group add, and others do not")
        e = np.arange(each * len(registers))
        total = product[row[:, None] + 8 * (e // 2 % 2), 8 * (e // 4) + 2 * (thread[:, None] % 4) + e % 2]
        if add[mine].any():
            held = np.stack([cta.registers[register][mine].astype(np.uint32) for register in registers], 1)
            total = total + held.view(types[0].storage).astype(wide)
        for register, word in zip(registers, np.ascontiguousarray(total.astype(types[0].storage)).view(np.uint32).T):
            cta.registers[register][mine] = word
        within = np.zeros(cta.threads, np.bool_)
        within[mine] = True
        held = np.concatenate([places.ravel() for places in read])
        cta.products.begin(within, cta.shared.held.hold(held, within))


def _fragment(cta: Cta, registers: Sequence[str], mine: slice, m: int, k: int, dtype: DType) -> Array:
    """A left operand in registers: word w of a thread has two elements of row g + 8 (w % 2), from column 8 (w / 2) on;
    of 8 bits, twice as many."""
    thread, found, each = np.arange(GROUP), np.zeros((m, k), np.float64), 4 // dtype.bytes
    for w, register in enumerate(registers):
        words = (
            np.ascontiguousarray(cta.read(register)[mine].astype(np.uint32)).view(dtype.storage).reshape(GROUP, each)
        )
        for e in range(each):
            row = thread // 32 * 16 + thread % 32 // 4 + 8 * (w % 2)
            found[row, each * (4 * (w // 2) + thread % 4) + e] = words[:, e].astype(np.float64)
    return found


def matrix(cta: Cta, descriptor: int, rows: int, k: int, dtype: DType, turned: int, read: list[Array]) -> Array:
    """The tile of ``rows`` by ``k`` that a descriptor tells of; ``turned``: contiguous along its rows, not along k. The
    places where it lies are added to ``read``."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    if descriptor >> 62 not in _WIDTHS or descriptor >> 49 & 7:
        raise Unknown(f"descriptor {descriptor:#x}")
    width, size = _WIDTHS[descriptor >> 62], dtype.bytes
    base = int(cta.read("shared_memory")[0])
    start += base >> 18 << 18  # descriptors have 18 bits of an address
    r, c = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
    if turned:
        each = width // size
        address = start + r // each * leading + r % each * size + c // 8 * stride + c % 8 * width
    else:
        address = start + r // 8 * stride + r % 8 * width + c * size
        if (start % width + k * size) > width:
            raise Fault("a row of an operand leaves its swizzled width")
    places = swizzled(address[..., None] + np.arange(size), width)
    raw = _shared(cta, places, None)
    read.append(_checked(cta, places))
    found: Array = np.ascontiguousarray(raw).view(dtype.storage)[..., 0]
    return found
