"""Runs the body of a gpu-stage function for all threads of one CTA at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from support.gpu_stage import cluster as clusters
from support.gpu_stage import mma_ops, specialized, tensor_memory
from support.gpu_stage.distribution import by_thread, collect, distribute, elements, owners
from support.gpu_stage.faults import DEADLOCK, MISALIGNED, OUT_OF_RANGE, Fault, in_range
from support.gpu_stage.mbarriers import Mbarriers
from support.gpu_stage.ordering import Clocks
from support.gpu_stage.shadow import Shadow
from support.gpu_stage.shared import Buffer, SharedMemory

from tilewright.backends.reference import interpreter
from tilewright.backends.reference.access import MEMORY
from tilewright.backends.reference.linear import PRODUCTS
from tilewright.backends.reference.memory import Memory
from tilewright.backends.reference.values import Array, Pointers, rearrange
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.layouts import LANES, REGISTER, LinearLayout
from tilewright.ir.ops.gpu import tiles
from tilewright.ir.ops.gpu.barriers import MbarrierWait
from tilewright.ir.ops.gpu.cluster import ClusterBarrier, ClusterWait
from tilewright.ir.ops.gpu.memory import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    GlobalLoad,
    GlobalStore,
    PaddedLoad,
    Prefetch,
    PrefetchEach,
    SharedAdd,
    SharedAlloc,
    SharedCopy,
    SharedExtract,
    SharedInsert,
    SharedLoad,
    SharedStore,
)
from tilewright.ir.ops.gpu.mma import GpuMma
from tilewright.ir.ops.gpu.specialize import WarpSpecialize
from tilewright.ir.ops.gpu.wgmma import Wgmma, WgmmaWait
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import Assert, AtomicCas, AtomicRmw, Print
from tilewright.ir.ops.shape import Constant, Iota, Permute, Reshape, Undefined
from tilewright.ir.semantics import constant_array

SHARED_BYTES = 232448  # the most that a CTA can have on sm_90


class CtaInterpreter(interpreter.BlockInterpreter):
    """One CTA of ``warps`` warps: a distributed tile is an array ``[threads, registers]``, a scalar one number."""

    def __init__(
        self,
        index: interpreter.Index,
        grid: interpreter.Index,
        memory: Memory,
        arguments: dict[Value, Any],
        warps: int,
        cluster: clusters.Cluster | None = None,
        shared_bytes: int = SHARED_BYTES,
    ) -> None:
        super().__init__(index, grid, memory, arguments, None)
        self.threads = warps * LANES
        self.rank = 0  # in the cluster
        self.cluster = cluster or clusters.Cluster(Clocks(), [self])
        self.shared = SharedMemory(shared_bytes, self.cluster.clocks)
        self.shadows: dict[int, Shadow] = {}  # of global memory, by allocation
        self.arguments = list(arguments.values())  # of the function
        self.mbarriers = Mbarriers(self.cluster.clocks.count)
        self.mmas = mma_ops.MmaOps()
        self.tensor_memory = tensor_memory.TensorMemory()
        self.is_side = False  # whether other warps do something else

    structured: ClassVar[Mapping[type[Op], str]] = {
        **interpreter.BlockInterpreter.structured,
        WarpSpecialize: "run_warp_specialize",
        MbarrierWait: "run_mbarrier_wait",
        ClusterBarrier: "run_cluster_barrier",
        ClusterWait: "run_cluster_wait",
    }

    def fork(self, threads: int) -> CtaInterpreter:
        """One side of the CTA, of so many ``threads``, with the values that there are, and the same memory."""
        side = copy.copy(self)
        side.values, side.is_side, side.threads = dict(self.values), True, threads
        return side

    run_warp_specialize = specialized.run_warp_specialize
    run_mbarrier_wait = specialized.run_mbarrier_wait
    run_cluster_barrier = clusters.run_barrier
    run_cluster_wait = clusters.run_wait

    def evaluate(self, op: Op, operands: list[Any]) -> Sequence[Any]:
        if not isinstance(op, Wgmma | WgmmaWait):
            operands = [mma_ops.finished(self, op, x) for x in operands]
        rule = RULES.get(type(op))
        if rule is not None:
            found = rule(self, op, *interpreter.grouped(op, operands))
            return () if found is None else found if isinstance(found, tuple) else (found,)
        if isinstance(op, (Print, Assert)):
            values = [_whole(op, v, value) for v, value in zip(op.operands, operands)]
            return (interpreter.EVALUATORS[type(op)](op.attributes, values, [v.type for v in op.operands]),)
        return super().evaluate(op, operands)

    def watches(self, body: Block) -> bool:
        return True

    def barrier(self) -> None:
        """All threads have come this far."""
        self.mbarriers.publish()
        self.shared.shadow.advance()
        for shadow in self.shadows.values():
            shadow.advance()

    def shadow(self, allocation: int) -> Shadow:
        if allocation not in self.shadows:
            buffer = self.memory.buffers[allocation]
            self.shadows[allocation] = Shadow(buffer.high - buffer.low, f"the memory of {buffer.name}")
        return self.shadows[allocation]

    def record(self, op: Op, pointers: Pointers, size: int, threads: Array, *, writing: bool) -> None:
        """Tell the shadow of global memory about an access through a rank-1 tile of pointers that was made."""
        allocation = pointers.allocation
        first = allocation[:1]
        for number in (first if (allocation == first).all() else np.unique(allocation)).tolist():
            if number < 0:
                continue  # made from an integer
            chosen = allocation == number
            start = pointers.address[chosen] - self.memory.buffers[number].low
            addresses = start[:, None] + np.arange(size)
            shadow = self.shadow(number)
            (shadow.write if writing else shadow.read)(op, addresses, threads[chosen])


def _whole(op: Op, value: Value, held: Any) -> Any:
    """A distributed tile as one; a scalar as it is."""
    return held if value.tile.layout is None else collect(op, held, value.tile.layout)


# -- tiles


def _filled(cta: CtaInterpreter, op: Constant | Iota | Undefined) -> Any:
    tile = interpreter.EVALUATORS[type(op)](op.attributes, [], [])
    return tile if op.type.layout is None else distribute(tile, op.type.layout)


def _reshape(cta: CtaInterpreter, op: Reshape, x: Any) -> Any:
    if op.shape or op.x.tile.layout is None:
        return x if op.shape or not op.x.tile.rank else rearrange(lambda a: a.reshape(()), x)
    return rearrange(lambda a: a.reshape(()), collect(op, x, op.x.layout))


def _convert(cta: CtaInterpreter, op: tiles.ConvertLayout, x: Any) -> Any:
    return distribute(collect(op, x, op.x.layout), op.result.layout)


def _splat(cta: CtaInterpreter, op: tiles.Splat, x: Any) -> Any:
    shape = elements(op.result.layout).shape
    return rearrange(lambda a: np.broadcast_to(a, shape), x)


def _broadcast(cta: CtaInterpreter, op: tiles.BroadcastDistributed, x: Any) -> Any:
    registers = tiles.broadcast_sources(op.x.layout, op.result.layout)
    assert registers is not None
    return rearrange(lambda a: a[:, list(registers)], x)


def _shuffle(cta: CtaInterpreter, op: tiles.Shuffle, x: Any) -> Any:
    partners = np.arange(cta.threads) ^ op.lane_xor
    return rearrange(lambda a: a[partners], x)


def _drop_bits(cta: CtaInterpreter, op: tiles.DropBits, x: Any) -> Any:
    before, after = op.x.layout, op.result.layout
    kept = [i for i in range(len(before.bases(REGISTER))) if not before.free_mask(REGISTER) >> i & 1]
    registers = [sum((r >> i & 1) << bit for i, bit in enumerate(kept)) for r in range(after.num_registers)]
    found = rearrange(lambda a: a[:, registers], x)
    collect(op, found, after)
    return found


def _thread_reduce(cta: CtaInterpreter, op: tiles.ThreadReduce, values: list[Array]) -> tuple[Any, ...]:
    combine = cta.combiner(op.body).combine
    groups = np.array(op.groups())
    rows = [[x[:, groups[:, k]] for x in values] for k in range(groups.shape[1])]
    while len(rows) > 1:
        rows = [combine(rows[k], rows[k + 1]) for k in range(0, len(rows), 2)]
    registers = [v.layout.num_registers for v in op.results]
    # Groups that repeat others, in registers that hold the same elements, are left out of the result.
    layout, axis = op.values[0].layout, op.axis
    outer = [i for i, image in enumerate(layout.images(REGISTER)) if not image[axis]]
    free = layout.free_mask(REGISTER)
    kept = [n for n, bit in enumerate(outer) if not free >> bit & 1]
    chosen = [sum((r >> i & 1) << n for i, n in enumerate(kept)) for r in range(registers[0])]
    return tuple(x[:, chosen] for x in rows[0])


def _thread_scan(cta: CtaInterpreter, op: tiles.ThreadScan, values: list[Array]) -> tuple[Any, ...]:
    combine = cta.combiner(op.body).combine
    groups = np.array(op.groups())
    order = range(groups.shape[1])[:: -1 if op.reverse else 1]
    results = [x.copy() for x in values]
    running = [x[:, groups[:, order[0]]] for x in values]
    for k in order[1:]:
        running = combine(running, [x[:, groups[:, k]] for x in values])
        for result, value in zip(results, running):
            result[:, groups[:, k]] = value
    return tuple(results)


def _mma(cta: CtaInterpreter, op: GpuMma, *operands: Array) -> Any:
    """The MMA op of whole tiles; the sum of a float16 accumulator is rounded at the end."""
    whole = [collect(op, x, v.layout) for v, x in zip(op.operands, operands)]
    return distribute(PRODUCTS[Mma](op.attributes, whole, [v.type for v in op.operands]), op.result.layout)


# -- memory


def _threads(shape: tuple[int, ...]) -> Array:
    """The number of the thread at each position of an array of threads and registers."""
    return np.broadcast_to(np.arange(shape[0])[:, None], shape)


def _check_vectors(op: GlobalLoad | GlobalStore | AsyncCopy, ptrs: Pointers, mask: Array | None, size: int) -> None:
    if op.vector == 1:
        return
    address = ptrs.address.reshape(-1, op.vector)
    chosen = np.ones(address.shape, bool) if mask is None else mask.reshape(address.shape)
    mixed = chosen.any(1) != chosen.all(1)
    apart = (np.diff(address, axis=1) != size).any(1)
    crooked = address[:, 0] % (size * op.vector) != 0
    wrong = mixed | ((apart | crooked) & chosen.any(1))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        why = "has a mask of both values" if mixed[row] else "is not of consecutive, aligned addresses"
        thread = row * op.vector // ptrs.address.shape[1]
        raise Fault(MISALIGNED, op, f"of {op.vector} elements {why} in thread {thread}: {address[row].tolist()}")


def _global_load(cta: CtaInterpreter, op: GlobalLoad, ptrs: Pointers, mask: Array | None, padding: Any) -> Any:
    dtype = op.ptrs.tile.pointee
    _check_vectors(op, ptrs, mask, dtype.bytes)
    shape = ptrs.shape
    result = constant_array(0, dtype, shape) if padding is None else np.array(np.broadcast_to(padding, shape))
    chosen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    selected = rearrange(lambda a: np.broadcast_to(a, shape)[chosen], ptrs)
    result[chosen] = in_range(op, lambda: cta.memory.gather(selected, dtype))
    if not shape:  # every thread
        every = np.arange(cta.threads) if chosen else np.arange(0)
        selected = rearrange(lambda a: np.repeat(a, len(every)), selected)
        threads = every
    else:
        threads = _threads(shape)[chosen]
    if op.is_weak:
        cta.record(op, selected, dtype.bytes, threads, writing=False)
    return result


def _global_store(cta: CtaInterpreter, op: GlobalStore, ptrs: Pointers, value: Any, mask: Array | None) -> None:
    dtype = op.ptrs.tile.pointee
    shape = ptrs.shape
    chosen = np.ones(shape, bool) if mask is None else np.array(np.broadcast_to(mask, shape))
    threads = np.zeros((), np.int64)
    layout = op.ptrs.tile.layout
    if layout is not None:
        _check_vectors(op, ptrs, mask, dtype.bytes)
        collect(op, chosen, layout)
        collect(op, ptrs, layout)
        collect(op, value, layout)
        chosen &= owners(layout)
        threads = _threads(shape)
    selected = rearrange(lambda a: np.broadcast_to(a, shape)[chosen], ptrs)
    stored = np.broadcast_to(value, shape)[chosen]
    in_range(op, lambda: cta.memory.scatter(selected, dtype, stored))
    if op.is_weak:
        cta.record(op, selected, dtype.bytes, np.atleast_1d(threads[chosen]), writing=True)


def _prefetch(cta: CtaInterpreter, op: Prefetch, base: Pointers, count: Any, mask: Any) -> None:
    dtype = op.base.tile.pointee
    if mask and count > 0:
        address = base.address + dtype.bytes * np.arange(int(count))
        row = Pointers(np.broadcast_to(base.allocation, address.shape), address)
        in_range(op, lambda: cta.memory.gather(row, dtype))


def _prefetch_each(cta: CtaInterpreter, op: PrefetchEach, ptrs: Pointers, mask: Any) -> None:
    chosen = np.broadcast_to(mask, ptrs.shape)
    selected = rearrange(lambda a: np.broadcast_to(a, ptrs.shape)[chosen], ptrs)
    in_range(op, lambda: cta.memory.gather(selected, op.ptrs.tile.pointee))


def _atomic(cta: CtaInterpreter, op: AtomicRmw | AtomicCas, *operands: Any) -> Any:
    """Each element once, by its owner; other threads that hold it have something else than its old value."""
    fields = [getattr(op, f.name) for f in op.spec.operands]
    whole = [x if x is None else _whole(op, v, x) for v, x in zip(fields, operands)]
    types = [v.type for v in op.operands]
    found = in_range(op, lambda: MEMORY[type(op)](cta.memory, op.attributes, types, *whole))
    layout = op.result.layout
    held = distribute(found, layout)
    wrong = np.frombuffer(b"\xa5" * held.itemsize, np.uint8).view(held.dtype)[0]
    return np.where(owners(layout), held, wrong)


def _shared_copy(cta: CtaInterpreter, op: SharedCopy, buffer: Buffer, index: Array) -> Buffer:
    t = buffer.type
    if not 0 <= int(index) < t.copies:
        raise Fault(OUT_OF_RANGE, op, f"of copy {int(index)} of {t.copies}")
    return Buffer(op.result.type, buffer.offset + int(index) * t.bytes // t.copies, buffer.allocation)  # type: ignore[arg-type]


def _offsets(buffer: Buffer, layout: LinearLayout) -> Array:
    """Where in ``buffer`` the element of each thread and register lies."""
    return by_thread(buffer.type.layout.invert_and_compose(layout).table)


def _shared_load(cta: CtaInterpreter, op: SharedLoad | SharedExtract, buffer: Buffer, *indices: list[Array]) -> Array:
    offsets = _accessed(op, buffer, op.result.layout, *indices)
    threads = _threads(offsets.shape)
    return cta.shared.load(op, buffer, offsets.ravel(), threads.ravel()).reshape(offsets.shape)


def _padded_load(cta: CtaInterpreter, op: PaddedLoad, buffer: Buffer, mask: Array, padding: Array) -> Array:
    return np.where(mask, _shared_load(cta, op, buffer), padding)


def _shared_store(
    cta: CtaInterpreter, op: SharedStore | SharedInsert, buffer: Buffer, value: Array, *indices: list[Array]
) -> None:
    layout = op.value.layout
    if not isinstance(op.value.op, (AtomicRmw, AtomicCas)):  # whose results are with the owners only
        collect(op, value, layout)
    offsets, chosen = _accessed(op, buffer, layout, *indices), owners(layout)
    cta.shared.store(op, buffer, offsets[chosen], _threads(offsets.shape)[chosen], value[chosen])


def _shared_add(
    cta: CtaInterpreter, op: SharedAdd, buffer: Buffer, positions: Array, value: Array, mask: Array | None
) -> None:
    chosen = owners(op.value.layout) if mask is None else owners(op.value.layout) & mask
    places = positions[chosen]
    outside = (places < 0) | (places >= buffer.type.shape[0])
    if outside.any():
        raise Fault(OUT_OF_RANGE, op, f"of element {places[outside][0]} of {buffer.type.shape[0]}")
    cta.shared.add(op, buffer, places, _threads(value.shape)[chosen], value[chosen])


def _accessed(op: Op, buffer: Buffer, layout: LinearLayout, indices: list[Array] | None = None) -> Array:
    """Where in ``buffer`` the elements lie that threads have: those of the part at ``indices``, if there are any."""
    if indices is None:
        return _offsets(buffer, layout)
    position = np.zeros(elements(layout).shape, np.int64)
    coordinates = np.unravel_index(elements(layout), layout.shape)
    for axis, (along, i, n, m) in enumerate(zip(coordinates, indices, buffer.type.shape, layout.shape)):
        if not 0 <= int(i) < n // m:
            raise Fault(OUT_OF_RANGE, op, f"of part {int(i)} of {n // m} along axis {axis}")
        position = position * n + int(i) * m + along
    order = buffer.type.layout.table
    offsets = np.empty(order.size, np.int64)
    offsets[order] = np.arange(order.size)
    return offsets[position]


def _barrier(cta: CtaInterpreter, op: Barrier) -> None:
    if op.threads not in (None, cta.threads) or (cta.is_side and op.threads is None):
        wanted = "all" if op.threads is None else str(op.threads)
        raise Fault(DEADLOCK, op, f"for {wanted} threads, to which {cta.threads} of the CTA come")
    cta.barrier()


def _async_copy(cta: CtaInterpreter, op: AsyncCopy, buffer: Buffer, ptrs: Pointers, mask: Array | None) -> None:
    dtype, layout = op.ptrs.tile.pointee, op.ptrs.layout
    _check_vectors(op, ptrs, mask, dtype.bytes)
    offsets, held = _offsets(buffer, layout), owners(layout)
    values = constant_array(0, dtype, ptrs.shape)
    chosen = held if mask is None else held & mask
    selected = rearrange(lambda a: a[chosen], ptrs)
    values[chosen] = in_range(op, lambda: cta.memory.gather(selected, dtype))
    threads = _threads(offsets.shape)
    cta.record(op, selected, dtype.bytes, threads[chosen], writing=False)
    cta.shared.begin_copy(op, buffer, offsets[held], threads[held], values[held])


RULES: dict[type[Op], Callable[..., Any]] = {
    Constant: _filled,
    Iota: _filled,
    Undefined: _filled,
    Reshape: _reshape,
    Permute: lambda cta, op, x: x,  # the same registers: only their coordinates are others
    tiles.ConvertLayout: _convert,
    tiles.Splat: _splat,
    tiles.BroadcastDistributed: _broadcast,
    tiles.Shuffle: _shuffle,
    tiles.DropBits: _drop_bits,
    tiles.ThreadReduce: _thread_reduce,
    tiles.ThreadScan: _thread_scan,
    GpuMma: _mma,
    GlobalLoad: _global_load,
    GlobalStore: _global_store,
    Prefetch: _prefetch,
    PrefetchEach: _prefetch_each,
    AtomicRmw: _atomic,
    AtomicCas: _atomic,
    SharedAlloc: lambda cta, op: cta.shared.allocate(op),
    SharedCopy: _shared_copy,
    **dict.fromkeys((SharedLoad, SharedExtract), _shared_load),
    PaddedLoad: _padded_load,
    **dict.fromkeys((SharedStore, SharedInsert), _shared_store),
    SharedAdd: _shared_add,
    Barrier: _barrier,
    AsyncCopy: _async_copy,
    AsyncCommit: lambda cta, op: cta.shared.commit(),
    AsyncWait: lambda cta, op: cta.shared.wait(op.pending),
    **specialized.RULES,
    **mma_ops.RULES,
    **tensor_memory.RULES,
    **clusters.RULES,
}
