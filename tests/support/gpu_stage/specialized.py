"""Barriers in shared memory, TMA, wgmma, and warps with different work, for all threads of a CTA."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from support.gpu_stage.cluster import Waiting, take_turns
from support.gpu_stage.distribution import by_thread
from support.gpu_stage.faults import DEADLOCK, MISALIGNED, Fault, in_range
from support.gpu_stage.mbarriers import Arrival, Mbarrier
from support.gpu_stage.ordering import SIDES
from support.gpu_stage.shadow import Array
from support.gpu_stage.shared import Buffer

from tilewright.backends.reference.interpreter import EVALUATORS
from tilewright.backends.reference.values import UNKNOWN_ALLOCATION, Pointers, rearrange
from tilewright.ir.core import Op
from tilewright.ir.dtypes import float32, int64, tfloat32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.gpu_parameters import row_width
from tilewright.ir.layouts import LANES
from tilewright.ir.ops.arith import Cast
from tilewright.ir.ops.gpu import barriers, tma
from tilewright.ir.ops.gpu.specialize import STAGING_WARPS, Restage, WarpSpecialize
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS
from tilewright.ir.types import SharedType, TileType

if TYPE_CHECKING:
    from support.gpu_stage.cta import CtaInterpreter

BARRIER_BYTES = 8


# -- sides


def run_warp_specialize(cta: CtaInterpreter, op: WarpSpecialize, operands: list[Any]) -> Generator[Any, None, None]:
    """All sides, each until it waits for what others have to do. Fault when all do."""
    first = cta.rank * len(SIDES)
    threads = cta.threads, cta.threads, STAGING_WARPS * LANES
    running = {first + i: cta.fork(n).run(region) for i, (n, region) in enumerate(zip(threads, op.regions))}
    changes = -1
    while running:
        stuck = yield from take_turns(cta.cluster.clocks, running)
        if not stuck or changes != cta.mbarriers.changes:
            changes = cta.mbarriers.changes
        elif len(cta.cluster.ctas) > 1:
            yield Waiting(stuck[0])
        else:
            where = " and ".join(str(o.loc) for o in stuck)
            raise Fault(DEADLOCK, stuck[0], f"of a phase that is never complete, at {where}")


def run_mbarrier_wait(
    cta: CtaInterpreter, op: barriers.MbarrierWait, operands: list[Any]
) -> Generator[Any, None, None]:
    """Copies arrive as late as they can: when a side waits for them."""
    buffer, parity = operands
    barrier = _barrier(cta, op, buffer)
    while barrier.parity == int(parity):
        if barrier.arriving:
            for arrival in barrier.arriving:
                cta.shared.arrive(arrival.op, arrival.addresses, arrival.data, arrival.allocation)
                barrier.gathered = np.maximum(barrier.gathered, arrival.known)
                barrier.expect(-arrival.data.size)
            barrier.arriving = []
            cta.mbarriers.changes += 1
        elif cta.is_side or len(cta.cluster.ctas) > 1:
            yield Waiting(op)
        else:
            raise Fault(DEADLOCK, op, "of a phase that is never complete")
    cta.cluster.clocks.acquire(barrier.known)


def _init(cta: CtaInterpreter, op: barriers.MbarrierInit, buffer: Buffer) -> None:
    for i in range(buffer.type.copies):
        cta.mbarriers.init(buffer.offset + i * BARRIER_BYTES, op.count)
    cta.shared.take(buffer, buffer.type.copies * BARRIER_BYTES)


def _barrier(cta: CtaInterpreter, op: Op, buffer: Buffer) -> Mbarrier:
    """The barrier in ``buffer``, where nothing else was written since it was made."""
    found = cta.mbarriers.at(op, buffer.offset)
    cta.shared.require_held(op, buffer, np.arange(buffer.offset, buffer.offset + BARRIER_BYTES))
    return found


def _expect(cta: CtaInterpreter, op: barriers.MbarrierExpect, buffer: Buffer, mask: Array | None) -> None:
    barrier = _barrier(cta, op, buffer)
    if mask is not None and not bool(mask):
        return
    barrier.bytes += op.bytes
    barrier.arrive(cta.cluster.clocks.release())
    cta.mbarriers.changes += 1


def _arrive(cta: CtaInterpreter, op: barriers.MbarrierArrive, buffer: Buffer, mask: Array | None) -> None:
    barrier, groups = _barrier(cta, op, buffer), -(-cta.threads // (LANES * GROUP_WARPS))
    if mask is None or bool(mask):
        known = cta.cluster.clocks.release()
        barrier.arrive(known, groups)
        cta.mbarriers.changes += 1
        if op.cluster:
            mate = cta.cluster.mate(cta, op)
            mate.mbarriers.at(op, buffer.offset, by_mate=mate is not cta).arrive(known, groups)
            mate.mbarriers.changes += 1


# -- copies


@dataclass(frozen=True)
class Described:
    """An array as the TMA unit knows it, by a tensor map."""

    op: tma.TensorMap
    base: Pointers
    shape: Sequence[int]
    strides: Sequence[int]


def _parameter_map(cta: CtaInterpreter, op: tma.ParameterMap) -> Described:
    numbers = [x if isinstance(x, Pointers) else int(x) for x in cta.arguments]
    base, (shape, strides) = numbers[op.descriptor.base], op.descriptor.extents(numbers)
    assert isinstance(base, Pointers)
    return Described(op, base, shape, strides)


def _listed_map(cta: CtaInterpreter, op: tma.ListedMap, table: Pointers, number: Array) -> Described:
    width = row_width(len(op.axes))
    cells = int(table.address) + int64.bytes * (int(number) * width + np.arange(width))
    row = in_range(op, lambda: cta.memory.gather(Pointers(np.full(width, int(table.allocation)), cells), int64))
    base = Pointers(np.array(UNKNOWN_ALLOCATION, np.int64), row[0])
    return Described(op, base, *op.descriptor.extents(row.tolist()))


def _addresses(
    cta: CtaInterpreter, op: tma.TmaLoad | tma.TmaStore, t: SharedType, array: Described, starts: list[Array]
) -> tuple[Pointers, Array]:
    """The address of each element of a tile, in the order of the tile, and which of them lie in the array."""
    tensor_map, base, shape, strides = array.op, array.base, array.shape, array.strides
    found = tma.swizzle_of(t)
    assert found is not None
    inner, size = found[0], tensor_map.dtype.bytes
    steps = [strides[a] * size for a in tensor_map.axes]
    if int(base.address) % 16 or any(s % 16 for s, n in zip(steps[:-1], tensor_map.box[:-1]) if n > 1):
        raise Fault(MISALIGNED, op, "of an array whose address or strides are no multiples of 16 bytes")
    rows, columns = _rows_and_columns(t, inner)
    address, inside = np.full(rows.shape, int(base.address)), np.ones(rows.shape, bool)
    outer = tma.outer_axis(tensor_map)
    for k, (axis, start, step) in enumerate(zip(tensor_map.axes, starts, steps)):
        along = columns if k == len(steps) - 1 else rows if k == outer else np.zeros_like(rows)
        position = int(start) + along
        inside &= (position >= 0) & (position < shape[axis])
        address += position * step
    if inner == 0:
        address, inside = address.T, inside.T
    return Pointers(np.full(address.shape, int(base.allocation)), address), inside


def _rows_and_columns(t: SharedType, inner: int) -> tuple[Array, Array]:
    """For each element of a tile where it is across and along the contiguous axis ``inner``, in order of both."""
    rows, columns = np.indices((t.shape[1 - inner], t.shape[inner]))
    return rows, columns


def _box_addresses(op: Op, buffer: Buffer, tensor_map: tma.TensorMap) -> Array:
    """As ``_byte_addresses``, of the bytes that the TMA unit accesses: address bits exchange units of 16 bytes."""
    t, found = buffer.type, tma.swizzle_of(buffer.type)
    assert found is not None
    inner, swizzle = found
    if buffer.offset % (8 * swizzle):
        raise Fault(MISALIGNED, op, f"of a tile at byte {buffer.offset}, no multiple of {8 * swizzle}")
    size, width = t.dtype.bytes, tensor_map.box[-1]
    rows, columns = _rows_and_columns(t, inner)
    plain = buffer.offset + (columns // width * t.shape[1 - inner] + rows) * swizzle + columns % width * size
    plain ^= (plain >> 7 & swizzle // tma.UNIT_BYTES - 1) * tma.UNIT_BYTES
    return (plain.T if inner == 0 else plain).reshape(-1, 1) + np.arange(size)


def _tma_load(
    cta: CtaInterpreter,
    op: tma.TmaLoad,
    buffer: Buffer,
    barrier: Buffer,
    array: Described,
    starts: list[Array],
    both: Array | None,
    mask: Array | None,
) -> None:
    if mask is not None and not bool(mask):
        return
    tensor_map = array.op
    pointers, inside = _addresses(cta, op, buffer.type, array, starts)
    dtype, memory = buffer.type.dtype, float32 if tensor_map.rounds else tensor_map.dtype
    data = np.zeros(inside.shape, memory.storage)
    chosen = Pointers(pointers.allocation[inside], pointers.address[inside])
    data[inside] = in_range(op, lambda: cta.memory.gather(chosen, memory))
    if tensor_map.rounds:
        how = {"dtype": tfloat32, "rounding": RoundingMode.RN, "saturating": False}
        data = EVALUATORS[Cast](how, [data], [TileType(float32, data.shape)])
    addresses = _box_addresses(op, buffer, tensor_map)
    raw = np.ascontiguousarray(data.astype(dtype.storage, copy=False)).view(np.uint8).reshape(addresses.shape)
    targets = [cta]
    if both is not None and bool(both):
        mine = _of_my_half(cta, buffer, tensor_map, addresses)
        addresses, raw = addresses[mine], raw[mine]
        targets = [cta, cta.cluster.mate(cta, op)]
    if not cta.is_side:  # a warp that multiplies, too, knows when its group has read the addresses; others it waits for
        cta.shared.shadow.require_read(op, addresses)
    for target in targets:
        target.shared.begin_arrival(op, addresses)
    known = cta.cluster.clocks.release()
    for target in targets:
        arrival = Arrival(op, addresses, raw, buffer.allocation, known)
        target.mbarriers.at(op, barrier.offset, by_mate=target is not cta).arriving.append(arrival)
        target.mbarriers.changes += 1


def _of_my_half(cta: CtaInterpreter, buffer: Buffer, tensor_map: tma.TensorMap, addresses: Array) -> Array:
    """Which elements of a tile are in the boxes that this CTA copies for both: ``addresses`` are those of its bytes."""
    found = tma.boxes(buffer.type, tensor_map)
    size = buffer.type.bytes // len(found)
    half = len(found) // 2
    first = {byte // size for _, _, byte in found[cta.rank * half : (cta.rank + 1) * half]}
    return np.isin((addresses[:, 0] - buffer.offset) // size, list(first))


def _tma_store(cta: CtaInterpreter, op: tma.TmaStore, buffer: Buffer, array: Described, starts: list[Array]) -> None:
    tensor_map = array.op
    pointers, inside = _addresses(cta, op, buffer.type, array, starts)
    addresses = _box_addresses(op, buffer, tensor_map)
    rows = np.arange(inside.size).reshape(inside.shape) // inside.shape[1]
    found = tma.swizzle_of(buffer.type)
    assert found is not None
    rows = rows if found[0] == 1 else np.arange(inside.size).reshape(inside.shape) % inside.shape[1]
    leaders = rows // tma.box_rows(tensor_map) * (LANES * GROUP_WARPS) if op.by_group else np.zeros_like(rows)
    data = cta.shared.begin_departure(op, buffer, addresses, leaders.ravel()).reshape(inside.shape)
    chosen = Pointers(pointers.allocation[inside], pointers.address[inside])
    stored = data[inside]
    if op.adds:
        stored = stored + in_range(op, lambda: cta.memory.gather(chosen, tensor_map.dtype))
    in_range(op, lambda: cta.memory.scatter(chosen, tensor_map.dtype, stored))


def _turn(cta: CtaInterpreter, op: barriers.TakeTurn | barriers.PassTurn) -> None:
    """Warp groups are side by side here: turns are taken and passed in turn, after the first one was passed."""
    if isinstance(op, barriers.TakeTurn) != cta.shared.turn_is_free:
        raise Fault(
            DEADLOCK,
            op,
            "of a turn that nobody passes" if isinstance(op, barriers.TakeTurn) else "of two turns at once",
        )
    cta.shared.turn_is_free = not cta.shared.turn_is_free


def _restage(cta: CtaInterpreter, op: Restage, source: Buffer, target: Buffer) -> None:
    """Threads of a role write nothing that others of it read: what they did, the others know by mbarriers alone."""
    read, written = (by_thread(offsets.table).ravel() for offsets in op.offsets)
    cta.shared.store(op, target, written, None, cta.shared.load(op, source, read, None))
    cta.shared.fence()


def _part(cta: CtaInterpreter, op: tma.Part, x: Any) -> Any:
    registers = tma.part_registers(op.x.layout, op.axis, op.size, op.index)
    return rearrange(lambda held: held[:, registers], x)


def _join(cta: CtaInterpreter, op: tma.Join, low: Any, high: Any) -> Any:
    size = op.low.tile.shape[op.axis]
    order = [r for i in range(2) for r in tma.part_registers(op.type.layout, op.axis, size, i)]
    return rearrange(lambda a, b: np.concatenate([a, b], 1)[:, np.argsort(order)], low, high)


RULES: dict[type[Op], Callable[..., Any]] = {
    tma.ParameterMap: _parameter_map,
    tma.ListedMap: _listed_map,
    barriers.MbarrierInit: _init,
    barriers.MbarrierExpect: _expect,
    barriers.MbarrierArrive: _arrive,
    tma.TmaLoad: _tma_load,
    tma.TmaStore: _tma_store,
    tma.TmaStoreWait: lambda cta, op: cta.shared.end_departures(op, op.pending),
    barriers.GroupBarrier: lambda cta, op: cta.shared.shadow.advance_groups(),
    barriers.TakeTurn: _turn,
    barriers.PassTurn: _turn,
    tma.AsyncFence: lambda cta, op: cta.shared.fence(),
    tma.Part: _part,
    tma.Join: _join,
    Restage: _restage,
}
