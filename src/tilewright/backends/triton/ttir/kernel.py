"""From a Tile IR function to a TTIR module."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.gpu.tma_descriptors import plan_lowering
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.triton.ttir import convert, elements, linear, math, memory, shape, views
from tilewright.backends.triton.ttir.barrier_insertion import BarrierInsertion
from tilewright.backends.triton.ttir.control import ControlFlow
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import Val, Writer
from tilewright.backends.triton.ttir.types import FP8
from tilewright.gpu_runtime.constraints import Constraints
from tilewright.ir.core import Function, Op
from tilewright.ir.dtypes import tfloat32
from tilewright.ir.effects import acquires
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.gpu_parameters import Descriptor
from tilewright.ir.ops import memory as memory_ops
from tilewright.ir.ops import shape as shape_ops
from tilewright.ir.ops.arith import Bitcast, Cast
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.transforms.gpu.lower_reports import LOCAL, LOCAL_ALIGNMENT


@dataclass(frozen=True)
class TtirKernel:
    """A TTIR module with one kernel, ``name``. Its parameters are those of the function and the ``descriptors``.

    Warp groups read float32 words from shared memory along K only: of operands of tfloat32 that lie ``across`` it they
    multiply copies, which takes longer than ``mma.sync`` does.
    """

    text: str
    name: str
    parameters: tuple[str, ...]
    descriptors: tuple[Descriptor, ...]
    across: bool

    @property
    def has_mma(self) -> bool:
        return "tt.dot" in self.text


_PLAIN = Constraints()


def lower(function: Function, target: GpuTarget, dialect: tuple[int, int], how: Constraints = _PLAIN) -> TtirKernel:
    """``function``, which the passes have optimized, as TTIR for ``target``, for this version of Triton."""
    analyses = AnalysisManager(function)
    facts = analyses.get(IntegerRanges)
    plan = analyses.get(plan_lowering, target, how.descriptors, how.realign)
    by_tma = frozenset(op for op in plan.descriptors if isinstance(op, memory_ops.StoreView))
    ordering = BarrierInsertion(function, analyses.get(AliasAnalysis), by_tma)
    s = LoweringState(function, Writer(target, how.hide_divisibility), dialect, facts, plan, ordering)
    parameters, types = [], []
    used = _divisors(function)
    for i, value in enumerate(function.body.args):
        stored, _ = s.tensor_type(value)
        name = "i8" if stored in FP8 else stored
        arg = Val(f"%arg{i}", name)
        s.bind(value, s.w.bitcast(arg, stored))
        types.append(name)
        divisor = used.get(i, 1)
        parameters.append(f"{arg.name}: {name}" + (f" {{tt.divisibility = {divisor} : i32}}" if divisor > 1 else ""))
    for d in dict.fromkeys(s.plan.descriptors.values()):
        text = views.descriptor_type(s, d)
        s.descriptors[d] = Val(f"%desc{len(s.descriptors)}", text)
        parameters.append(f"{s.descriptors[d].name}: {text}")
    w = s.w
    flow = ControlFlow(s, lambda op: _lower(s, op))
    flow.block(function.body)
    w.loc = function.loc
    w.located("tt.return")
    name = entry_name(function.name)
    head = f"  tt.func public @{name}({', '.join(parameters)}) attributes {{noinline = false}} {{"
    text = "\n".join(["module {", head, *w.lines, f"  }} {w.location()}", "}", ""])
    across = any(linear.crosses(s, op) for op in function.ops_of(Mma) if op.x.tile.element is tfloat32)
    return TtirKernel(text, name, tuple(types), tuple(s.descriptors), across)


def entry_name(name: str) -> str:
    """The symbol of a kernel, which profilers show: its name in letters, digits and underscores."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def _divisors(function: Function) -> dict[int, int]:
    """What parameters are promised to be divisible by."""
    positions = {value: i for i, value in enumerate(function.body.args)}
    found: dict[int, int] = {}
    for op in function.body.ops:
        if isinstance(op, memory_ops.AssumeDivisible) and op.x in positions and op.every is None:
            divisor = op.divisor
            i = positions[op.x]
            found[i] = max(found.get(i, 1), divisor & -divisor)
    found.update({i: LOCAL_ALIGNMENT for i, param in enumerate(function.params) if param.role == LOCAL})
    return found


def _lower(s: LoweringState, op: Op) -> None:
    """One op that is not control flow."""
    kind = type(op)
    if isinstance(op, Cast) and op in s.plan.rounded:
        s.bind(op.result, s[op.x])
    elif kind in _ELEMENTWISE:
        s.bind(op.result, _ELEMENTWISE[kind](s.w, op, s.all(op.operands)))
    elif kind in _VALUES:
        s.bind(op.result, _VALUES[kind](s, op))
    elif kind in _EFFECTS:
        _EFFECTS[kind](s, op)
    elif isinstance(op, Reduce):
        linear.reduce(s, op, _lower)
    elif isinstance(op, Scan):
        linear.scan(s, op, _lower)
    else:
        raise TileUnsupportedFeatureError(f"the GPU backend does not have the operation {op.name}", op.loc)
    if acquires(op):
        s.w.located("gpu.barrier")
        if s.plan.descriptors:  # what other blocks wrote is there for the loads of the TMA unit too
            s.w.instruction("fence.proxy.async.global;")


def _exit(s: LoweringState, op: Exit) -> None:
    s.w.located("gpu.barrier")
    s.w.instruction("exit;" if s.target.is_cuda else "s_endpgm")


_ELEMENTWISE: dict[type[Op], Callable[[Any, Any, Sequence[Val]], Val]] = {
    **elements.RULES,
    **math.RULES,
    Cast: convert.cast_op,
    Bitcast: convert.bitcast_op,
}
_VALUES: dict[type[Op], Callable[[LoweringState, Any], Val]] = {
    shape_ops.Constant: shape.constant,
    shape_ops.Iota: shape.iota,
    shape_ops.Undefined: shape.undefined,
    shape_ops.Reshape: shape.reshape,
    shape_ops.Broadcast: shape.broadcast,
    shape_ops.Permute: shape.permute,
    shape_ops.Cat: shape.cat,
    shape_ops.Extract: shape.extract,
    shape_ops.Insert: shape.insert,
    shape_ops.PtrOffset: memory.ptr_offset,
    shape_ops.PtrDiff: memory.ptr_diff,
    shape_ops.PtrToInt: memory.ptr_to_int,
    shape_ops.IntToPtr: memory.int_to_ptr,
    memory_ops.Load: memory.load,
    memory_ops.AtomicRmw: memory.atomic_rmw,
    memory_ops.AtomicCas: memory.atomic_cas,
    memory_ops.LoadView: views.load_view,
    Mma: linear.mma,
    memory_ops.Bid: lambda s, op: s.w.emit(f"tt.get_program_id {'xyz'[op.axis]} : i32", "i32"),
    memory_ops.NumBlocks: lambda s, op: s.w.emit(f"tt.get_num_programs {'xyz'[op.axis]} : i32", "i32"),
    **dict.fromkeys(
        (memory_ops.AssumeDivisible, memory_ops.AssumeBounded, memory_ops.AssumeBlocked), lambda s, op: s[op.x]
    ),
}
_EFFECTS: dict[type[Op], Callable[[LoweringState, Any], None]] = {
    memory_ops.MakeTensorView: views.tensor_view,
    memory_ops.MakePartitionView: views.partition_view,
    memory_ops.Store: memory.store,
    memory_ops.StoreView: views.store_view,
    memory_ops.AtomicView: views.atomic_view,
    memory_ops.Assume: lambda s, op: None,  # a promise
    Exit: _exit,
}
