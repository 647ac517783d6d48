"""Barriers in shared memory, copies by the TMA unit, and warps with different work."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I1, I16, I64, operand_names
from tilewright.backends.gpu.lowering.context import Context, Rule, instruction, owned_registers
from tilewright.backends.gpu.lowering.words import bytes_of, packed, words_of
from tilewright.ir.core import Op, Value
from tilewright.ir.gpu_parameters import MAP_BYTES
from tilewright.ir.layouts import LANE, LANES, WARP, log2
from tilewright.ir.ops.control import Yield
from tilewright.ir.ops.gpu import tma
from tilewright.ir.ops.gpu.barriers import (
    GroupBarrier,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    PassTurn,
    TakeTurn,
)
from tilewright.ir.ops.gpu.cluster import ClusterArrive, ClusterBarrier, ClusterSize, ClusterStore, ClusterWait
from tilewright.ir.ops.gpu.specialize import STAGING_WARPS, WarpSpecialize
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS

_BARRIER_BYTES = 8
_FIRST_GROUP = 2  # the number of the barrier of warp group 0; others follow
_WAIT = "barrier.cluster.wait.acquire.aligned;"
_FIRST_TURN = 4  # that of the turns of warp group 0 of two


# -- parameters


def _parameter_map(cx: Context, op: tma.ParameterMap) -> None:
    cx.values[op.result] = [cx.builder.ptrtoint(cx.maps[op], I64)]


def _listed_map(cx: Context, op: tma.ListedMap) -> None:
    """In memory, where it was copied, it may be another one than in the launch before."""
    b, table, number = cx.builder, cx.tables[op.base], cx.scalar(op.number)
    before = MAP_BYTES * (table.descriptors.index(op.descriptor) + 1)
    distance = b.add(b.mul(number, ir.Constant(I64, table.map_bytes)), ir.Constant(I64, before))
    address = b.sub(cx.scalar(op.table), distance)
    if not table.by_value:
        cx.asm(f"fence.proxy.tensormap::generic.acquire.sys [$0], {MAP_BYTES};", [], [address])
    cx.values[op.result] = [address]


# -- barriers


def _mbarrier_init(cx: Context, op: MbarrierInit) -> None:
    """Without a branch, so that those of several rings are made one after the other."""
    barriers = cx.buffers[op.barriers]
    offsets = range(0, _BARRIER_BYTES * barriers.type.copies, _BARRIER_BYTES)
    inits = (f"@$1 mbarrier.init.shared::cta.b64 [$0+{offset}], {op.count};" for offset in offsets)
    text = " ".join([*inits, "@$1 fence.mbarrier_init.release.cluster;"])
    cx.asm(text, [], [barriers.address, _is_first(cx)])


def _mbarrier_expect(cx: Context, op: MbarrierExpect) -> None:
    text, address = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {op.bytes};", cx.buffers[op.barrier].address
    _by_one(cx, text, [address], op.mask)


def _mbarrier_arrive(cx: Context, op: MbarrierArrive) -> None:
    leads = leads_group(cx)
    arrives = leads if op.mask is None else cx.builder.and_(leads, cx.scalar(op.mask))
    address = cx.buffers[op.barrier].address
    cx.asm("@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", [], [address, arrives])
    if op.cluster:
        # Not released to the cluster, which would wait for all stores to memory: only wgmma has read, and it is done.
        text = (
            "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $2; "
            "@$1 mbarrier.arrive.shared::cluster.b64 _, [there]; }"
        )
        cx.asm(text, [], [address, arrives, _mate(cx)])


def _mbarrier_wait(cx: Context, op: MbarrierWait) -> None:
    text = (
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
        "@done bra arrived; bra again; arrived: }"
    )
    cx.asm(text, [], [cx.buffers[op.barrier].address, cx.scalar(op.parity)])


def leads_group(cx: Context) -> ir.Value:
    """Whether this is the first thread of a warp group."""
    return cx.builder.icmp_unsigned("==", cx.builder.and_(cx.thread, cx.i32(GROUP_WARPS * LANES - 1)), cx.i32(0))


def _by_one(cx: Context, text: str, operands: list[ir.Value], mask: Value | None) -> None:
    """Emit what the thread does that loads, where ``mask`` is true: the only one that runs this, or one of the first
    warp."""
    if cx.alone and mask is None:
        cx.asm(text, [], operands)
    else:
        given = [] if mask is None else [cx.scalar(mask)]
        predicate = functools.reduce(cx.builder.and_, given if cx.elected is None else [cx.elected, *given])
        cx.asm(f"@${len(operands)} {text}", [], [*operands, predicate])


def elected(cx: Context) -> ir.Value:
    """Whether this is the one thread of the first warp that is elected. The assembler knows that it is one: it makes no
    branch for it."""
    text = f"{{ .reg .pred one; elect.sync _|one, -1; setp.lt.u32 $0, $1, {LANES}; and.pred $0, $0, one; }}"
    return cx.asm(text, [I1], [cx.thread])[0]


def _is_first(cx: Context) -> ir.Value:
    return cx.builder.icmp_unsigned("==", cx.thread, cx.i32(0))


# -- clusters


def _cluster_size(cx: Context, op: ClusterSize) -> None:
    cx.values[op.result] = [cx.special("cluster.nctarank")]


def _cluster_barrier(cx: Context, op: ClusterBarrier) -> None:
    _cluster_arrive(cx, op)
    cx.asm(_WAIT)


def _cluster_arrive(cx: Context, op: ClusterArrive | ClusterBarrier) -> None:
    cx.asm("bar.warp.sync -1;")  # one thread of the warp that loads comes later than the others
    cx.asm(f"barrier.cluster.arrive.{'relaxed' if isinstance(op, ClusterArrive) else 'release'}.aligned;")


def _cluster_store(cx: Context, op: ClusterStore) -> None:
    """Each lane stores to another CTA, where several hold the same element; else one to all of them."""
    b, layout, values, dtype = cx.builder, op.value.layout, cx.of(op.value), op.value.tile.dtype
    buffer, size, words = cx.buffers[op.buffer], bytes_of(dtype), words_of(bytes_of(dtype), 1)
    ctas, owner = buffer.type.shape[0], cx.owner(layout)
    place = b.add(b.mul(cx.special("cluster.ctarank"), cx.i32(op.value.tile.size)), cx.thread_part(layout))
    address = b.add(buffer.address, b.mul(place, cx.i32(size)))
    targets: list[ir.Value] = [cx.i32(rank) for rank in range(ctas)]
    free = layout.free_mask(LANE)
    if free & ctas - 1 == ctas - 1:
        targets = [b.and_(cx.lane, cx.i32(ctas - 1))]
        others = (free | layout.free_mask(WARP) << log2(LANES)) & -ctas
        owner = b.icmp_unsigned("==", b.and_(cx.thread, cx.i32(others)), cx.i32(0))
    text = "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $2; %sst.shared::cluster.%s [there+%d], $1; }"
    if op.barrier is not None:
        text = (
            "{ .reg .b32 there, done; mapa.shared::cluster.u32 there, $0, $2; mapa.shared::cluster.u32 done, $3, $2; "
            "%sst.async.shared::cluster.mbarrier::complete_tx::bytes.%s [there+%d], $1, [done]; }"
        )
    more = [] if op.barrier is None else [cx.buffers[op.barrier].address]
    for target in targets:
        for r in owned_registers(layout):
            (stored,) = packed(cx, words, [values[r]], dtype)
            how = "" if owner is None else f"@${3 + len(more)} ", words.suffix, layout.index(register=r) * size
            cx.asm(text % how, [], [address, stored, target, *more, *([] if owner is None else [owner])])


def _mate(cx: Context) -> ir.Value:
    """The rank of the other CTA of the cluster; of this one where it is alone."""
    b = cx.builder
    last = b.sub(cx.special("cluster.nctarank"), cx.i32(1))
    return b.and_(b.xor(cx.special("cluster.ctarank"), cx.i32(1)), last)


# -- copies


def _boxes(cx: Context, buffer: Value, map_value: Value, starts: Sequence[Value]) -> list[list[ir.Value]]:
    """For each box of a tile its address in shared memory, and its coordinates, the innermost first."""
    shared, tensor_map = cx.buffers[buffer], map_value.op
    assert isinstance(tensor_map, tma.TensorMap)
    outer = tma.outer_axis(tensor_map)
    found = []
    for row, column, byte in tma.boxes(shared.type, tensor_map):
        first = {len(starts) - 1: column} | ({outer: row} if outer is not None else {})
        coordinates = [_plus(cx, cx.scalar(v), first.get(k, 0)) for k, v in enumerate(starts)]
        found.append([_plus(cx, shared.address, byte), *reversed(coordinates)])
    return found


def _plus(cx: Context, value: ir.Value, constant: int) -> ir.Value:
    return cx.builder.add(value, ir.Constant(value.type, constant)) if constant else value


def _tma_load(cx: Context, op: tma.TmaLoad) -> None:
    rank, b = len(op.starts), cx.builder
    copy = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    operands = f"[$0], [${rank + 1}, {operand_names(1, rank)}], [${rank + 2}]"
    found = _boxes(cx, op.buffer, op.map, op.starts)
    more = [cx.scalar(op.map), cx.buffers[op.barrier].address]
    if op.both is None:
        for box in found:
            _by_one(cx, f"{copy} {operands};", [*box, *more], op.mask)
        return
    half = len(found) // 2
    with b.if_else(cx.scalar(op.both)) as (together, alone):
        with together:
            cta = cx.special("cluster.ctarank")
            for first, second in zip(found[:half], found[half:]):
                box = [_between(cx, x, y, cta) for x, y in zip(first, second)]
                cx.asm(f"{copy}.multicast::cluster {operands}, ${rank + 3};", [], [*box, *more, ir.Constant(I16, 3)])
        with alone:
            for box in found:
                cx.asm(f"{copy} {operands};", [], [*box, *more])


def _tma_store(cx: Context, op: tma.TmaStore) -> None:
    rank, b = len(op.starts), cx.builder
    name, how = ("cp.reduce.async", "add.") if op.adds else ("cp.async", "")
    name += f".bulk.tensor.{rank}d.global.shared::cta.{how}bulk_group"
    text = f"{name} [${rank + 1}, {operand_names(1, rank)}], [$0];"
    with b.if_then(leads_group(cx) if op.by_group else _is_first(cx)):
        found = _boxes(cx, op.buffer, op.map, op.starts)
        if op.by_group:  # the one of the group: addresses and coordinates are sums
            group = b.lshr(cx.warp, cx.i32(log2(GROUP_WARPS)))
            first, second = found
            found = [[_between(cx, x, y, group) for x, y in zip(first, second)]]
        for box in found:
            cx.asm(text, [], [*box, cx.scalar(op.map)])
        cx.asm("cp.async.bulk.commit_group;")


def _between(cx: Context, first: ir.Value, second: ir.Value, group: ir.Value) -> ir.Value:
    """What the box of a warp group or a CTA has: ``first`` that of number 0, ``second`` that of number 1."""
    b = cx.builder
    return first if first is second else b.select(b.icmp_unsigned("==", group, cx.i32(0)), first, second)


def _tma_store_wait(cx: Context, op: tma.TmaStoreWait) -> None:
    with cx.builder.if_then(leads_group(cx)):
        cx.asm(f"cp.async.bulk.wait_group{'' if op.written else '.read'} {op.pending};")


def group_barrier(cx: Context, op: Op | None = None) -> None:
    """The threads of each warp group wait for each other."""
    number = cx.builder.add(cx.builder.lshr(cx.warp, cx.i32(log2(GROUP_WARPS))), cx.i32(_FIRST_GROUP))
    cx.asm(f"bar.sync $0, {GROUP_WARPS * LANES};", [], [number])


def _turn(cx: Context, other: int) -> ir.Value:
    """The number of the barrier of the turns of this warp group, or of the ``other`` one."""
    group = cx.builder.lshr(cx.warp, cx.i32(log2(GROUP_WARPS)))
    return cx.builder.add(cx.builder.xor(group, cx.i32(other)), cx.i32(_FIRST_TURN))


def _take_turn(cx: Context, op: TakeTurn) -> None:
    cx.asm(f"bar.sync $0, {2 * GROUP_WARPS * LANES};", [], [_turn(cx, 0)])


def _pass_turn(cx: Context, op: PassTurn) -> None:
    threads = 2 * GROUP_WARPS * LANES
    if op.first:
        last = cx.builder.lshr(cx.warp, cx.i32(log2(GROUP_WARPS)))
        text = f"{{ .reg .pred last; setp.eq.u32 last, $1, 1; @last bar.arrive $0, {threads}; }}"
        cx.asm(text, [], [_turn(cx, 1), last])
    else:
        cx.asm(f"bar.arrive $0, {threads};", [], [_turn(cx, 1)])


def _part(cx: Context, op: tma.Part) -> None:
    registers = cx.of(op.x)
    cx.values[op.result] = [registers[r] for r in tma.part_registers(op.x.layout, op.axis, op.size, op.index)]


def _join(cx: Context, op: tma.Join) -> None:
    layout, size = op.result.layout, op.low.tile.shape[op.axis]
    parts = [tma.part_registers(layout, op.axis, size, index) for index in range(2)]
    found = dict(zip([*parts[0], *parts[1]], [*cx.of(op.low), *cx.of(op.high)]))
    cx.values[op.result] = [found[r] for r in range(len(found))]


# -- warps with different work


def _warp_specialize(cx: Context, op: WarpSpecialize) -> None:
    """Consumers have the lower numbers, as tiles are distributed over them; then come those of a stager."""
    b, first = cx.builder, cx.tile_threads
    consumer, producer, alone, after = (b.append_basic_block(n) for n in ("consumer", "producer", "alone", "ended"))
    b.cbranch(b.icmp_unsigned("<", cx.thread, cx.i32(cx.tile_threads)), consumer, producer)
    b.position_at_end(consumer)
    if op.registers is not None:
        cx.asm(f"setmaxnreg.inc.sync.aligned.u32 {op.registers[1]};")
    if any(isinstance(o, tma.TmaLoad) for o in op.consumer.ops):
        cx.elected = elected(cx)
    _region(cx, op.consumer.ops)
    cx.elected = None
    b.branch(after)
    b.position_at_end(producer)
    if op.registers is not None:
        cx.asm(f"setmaxnreg.dec.sync.aligned.u32 {op.registers[0]};")
    if op.stager is not None:
        stager, rest = b.append_basic_block("stager"), b.append_basic_block("rest")
        first += STAGING_WARPS * LANES
        b.cbranch(b.icmp_unsigned("<", cx.thread, cx.i32(first)), stager, rest)
        b.position_at_end(stager)
        warp, cx.warp = cx.warp, b.and_(cx.warp, cx.i32(STAGING_WARPS - 1))
        _region(cx, op.stager.ops)
        cx.warp = warp
        b.branch(after)
        b.position_at_end(rest)
    b.cbranch(b.icmp_unsigned("==", cx.thread, cx.i32(first)), alone, after)
    b.position_at_end(alone)
    cx.alone = True
    _region(cx, op.producer.ops)
    cx.alone = False
    b.branch(after)
    b.position_at_end(after)


def _region(cx: Context, ops: Sequence[Op]) -> None:
    for op in ops:
        if not isinstance(op, Yield):
            cx.emit(op)


RULES: dict[type[Op], Rule] = {
    tma.ParameterMap: _parameter_map,
    tma.ListedMap: _listed_map,
    MbarrierInit: _mbarrier_init,
    MbarrierExpect: _mbarrier_expect,
    MbarrierArrive: _mbarrier_arrive,
    MbarrierWait: _mbarrier_wait,
    ClusterSize: _cluster_size,
    ClusterBarrier: _cluster_barrier,
    ClusterArrive: _cluster_arrive,
    ClusterWait: instruction(_WAIT),
    ClusterStore: _cluster_store,
    tma.TmaLoad: _tma_load,
    tma.TmaStore: _tma_store,
    tma.TmaStoreWait: _tma_store_wait,
    GroupBarrier: group_barrier,
    TakeTurn: _take_turn,
    PassTurn: _pass_turn,
    tma.AsyncFence: instruction("fence.proxy.async.shared::cta;"),
    tma.Part: _part,
    tma.Join: _join,
    WarpSpecialize: _warp_specialize,
}
