"""Accumulators in tensor memory (tcgen05): one thread of each warp group begins its MMA ops, its warps load the sums.

An address has the lane in its upper half, and the column in its lower one.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.gpu.lowering.assembly import I32, constraint, operand_names, results_type
from tilewright.backends.gpu.lowering.context import Context, Rule
from tilewright.backends.gpu.lowering.tma import group_barrier, leads_group
from tilewright.backends.gpu.lowering.wgmma import SharedOperand, descriptor, inner_axis, offset_in
from tilewright.ir.core import Op
from tilewright.ir.layouts import LANES, log2
from tilewright.ir.ops.gpu.memory import CONSUMERS
from tilewright.ir.ops.gpu.tensor_memory import (
    SLOTS,
    Tcgen05Mma,
    Tcgen05Wait,
    TensorAlloc,
    TensorFree,
    TensorLoad,
    TensorStore,
)
from tilewright.ir.ops.gpu.wgmma import GROUP_WARPS, ROWS, STEP_BYTES
from tilewright.ir.types import SharedType

_LANE_BIT = 16  # of an address, from which on it has the lane
_DESCRIPTOR = 1 << 46  # bits of descriptors of shared memory that tell them from those of wgmma
# The kind of MMA ops, and the numbers by which descriptors call the dtypes of operands and sums.
_KINDS = {
    "f16": ("f16", 0, 1),
    "bf16": ("f16", 1, 1),
    "tf32": ("tf32", 2, 1),
    "f8e4m3fn": ("f8f6f4", 0, 1),
    "f8e5m2": ("f8f6f4", 1, 1),
    "u8": ("i8", 0, 2),
    "i8": ("i8", 1, 2),
}
_BEFORE, _AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"


def _sync(cx: Context) -> str:
    """A barrier of the warps that have tiles."""
    return f"bar.sync {CONSUMERS}, {cx.tile_threads};"


def _is_first_warp(cx: Context) -> ir.Value:
    return cx.builder.icmp_unsigned("<", cx.thread, cx.i32(LANES))


def _alloc(cx: Context, op: TensorAlloc) -> None:
    text = (
        f"@$2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$1], {op.columns}; "
        f"@$2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; "
        f"{_BEFORE} {_sync(cx)} {_AFTER} ld.shared.b32 $0, [$1];"
    )
    cx.values[op.result] = cx.asm(text, [I32], [cx.buffers[op.buffer].address, _is_first_warp(cx)])


def _free(cx: Context, op: TensorFree) -> None:
    text = f"{_BEFORE} {_sync(cx)} {_AFTER} @$1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, {op.columns};"
    cx.asm(text, [], [cx.scalar(op.address), _is_first_warp(cx)])


def _groups(cx: Context) -> int:
    return cx.tile_threads // (LANES * GROUP_WARPS)


def _of_group(cx: Context, address: ir.Value, size: int) -> ir.Value:
    """What the warp group of this thread has, where each has ``size`` more than the one before."""
    if _groups(cx) == 1:
        return address
    group = cx.builder.lshr(cx.warp, cx.i32(log2(GROUP_WARPS)))
    return cx.builder.add(address, cx.builder.mul(group, cx.i32(size)))


def _of_warp(cx: Context, address: ir.Value, columns: int) -> ir.Value:
    """Where this warp finds its part of an accumulator at ``address``."""
    b = cx.builder
    lanes = b.shl(b.and_(cx.warp, cx.i32(GROUP_WARPS - 1)), cx.i32(_LANE_BIT + log2(LANES)))
    return b.add(_of_group(cx, address, columns), lanes)


def _accesses(cx: Context, shape: tuple[int, ...], text: str, end: str, first: int, address: int) -> str:
    """The instructions for all registers of an accumulator from operand ``first`` on; ``text`` is that for some."""
    rows, columns = shape
    each = columns * ROWS // (LANES * GROUP_WARPS)  # registers
    lines = []
    for i in range(rows // (ROWS * _groups(cx))):
        registers = operand_names(first + i * each, each)
        at = f"[at+{i * columns * _groups(cx)}]"
        lines.append(text.format(count=columns // 8, registers=registers, at=at))
    return f"{{ .reg .b32 at; mov.b32 at, ${address}; {' '.join(lines)} {end} {_BEFORE} }}"


def _load(cx: Context, op: TensorLoad) -> None:
    t, b = op.type, cx.builder
    type_ = cx.scalars.constant(t.dtype, 0).type
    types = [type_] * t.layout.num_registers  # type: ignore[union-attr]
    load = "tcgen05.ld.sync.aligned.16x256b.x{count}.b32 {registers}, {at};"
    text = _accesses(cx, t.shape, load, "tcgen05.wait::ld.sync.aligned;", 0, len(types))
    address = _of_warp(cx, cx.scalar(op.address), t.shape[1])
    constraints = [*(f"=&{constraint(x)}" for x in types), "r", "~{memory}"]
    found = b.assembly(results_type(b, types), text, constraints, [address], effects=True)
    cx.values[op.result] = [b.extract_value(found, i) for i in range(len(types))]
    group_barrier(cx)


def _store(cx: Context, op: TensorStore) -> None:
    values = cx.of(op.value)
    store = "tcgen05.st.sync.aligned.16x256b.x{count}.b32 {at}, {registers};"
    text = _accesses(cx, op.value.tile.shape, store, "tcgen05.wait::st.sync.aligned;", 0, len(values))
    cx.asm(text, [], [*values, _of_warp(cx, cx.scalar(op.address), op.value.tile.shape[1])])
    group_barrier(cx)


def _instruction_descriptor(x: SharedType, y: SharedType) -> int:
    """The shape, types and directions of MMA instructions for these operands. PTX ISA, "Instruction descriptor"."""
    (_, left, sums), (_, right, _) = _KINDS[x.dtype.short], _KINDS[y.dtype.short]
    across = int(inner_axis(x) != 1) << 15 | int(inner_axis(y) != 0) << 16
    return sums << 4 | left << 7 | right << 10 | across | y.shape[1] >> 3 << 17 | ROWS >> 4 << 24


def _barrier(cx: Context, op: Tcgen05Mma | Tcgen05Wait) -> ir.Value:
    """The mbarrier of the warp group for MMA op ``number``."""
    b = cx.builder
    slot = b.shl(b.and_(cx.scalar(op.number), cx.i32(SLOTS - 1)), cx.i32(3))
    return _of_group(cx, b.add(cx.buffers[op.barriers].address, slot), SLOTS * 8)


def _mma(cx: Context, op: Tcgen05Mma) -> None:
    x, y, groups = cx.buffers[op.x], cx.buffers[op.y], _groups(cx)
    m, n = op.shape
    k, size = y.type.shape[0], y.type.dtype.bytes
    kind = f"tcgen05.mma.cta_group::1.kind::{_KINDS[y.type.dtype.short][0]}"
    left = SharedOperand.of(cx, x, groups, _DESCRIPTOR)
    right = descriptor(cx, y.encoded, y.type, 0, fixed=_DESCRIPTOR)
    lines = [_AFTER]
    for repeat in range(m // (ROWS * groups)):
        lines.append(f"add.s32 d, $0, {repeat * groups * n};")
        for at in range(0, k, STEP_BYTES // size):
            before, first = left.operand(repeat * ROWS * groups, at, 1)
            lines.append(f"{before}add.s64 c, $2, {offset_in(y.type.layout, at, 0) * size >> 4};")
            lines.append(f"@$4 {kind} [d], {first}, c, i, {'adds' if at or op.adds else 'sets'};")
    lines.append("@$4 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$3];")
    head = (
        "{ .reg .pred adds, sets; .reg .b64 a, c; .reg .b32 d, i; setp.eq.u32 adds, 0, 0; setp.ne.u32 sets, 0, 0; "
        f"mov.b32 i, {_instruction_descriptor(x.type, y.type)}; "
    )
    address = _of_group(cx, cx.scalar(op.address), n)
    cx.asm(head + " ".join(lines) + " }", [], [address, *left.values, right, _barrier(cx, op), leads_group(cx)])


def _wait(cx: Context, op: Tcgen05Wait) -> None:
    b = cx.builder
    parity = b.and_(b.lshr(cx.scalar(op.number), cx.i32(log2(SLOTS))), cx.i32(1))
    text = (
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
        f"@done bra arrived; bra again; arrived: {_AFTER} }}"
    )
    cx.asm(text, [], [_barrier(cx, op), parity])


RULES: dict[type[Op], Rule] = {
    TensorAlloc: _alloc,
    TensorFree: _free,
    TensorLoad: _load,
    TensorStore: _store,
    Tcgen05Mma: _mma,
    Tcgen05Wait: _wait,
}
