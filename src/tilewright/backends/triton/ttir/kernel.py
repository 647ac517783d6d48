"""From a Tile IR function to a TTIR module."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends.triton.ttir import convert, elements, linear, math, memory, shape
from tilewright.backends.triton.ttir.barrier_insertion import BarrierInsertion
from tilewright.backends.triton.ttir.control import ControlFlow
from tilewright.backends.triton.ttir.state import LoweringState
from tilewright.backends.triton.ttir.text import FP8, Val, Writer
from tilewright.ir.core import Function, Op
from tilewright.ir.effects import acquires
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.ops import memory as memory_ops
from tilewright.ir.ops import shape as shape_ops
from tilewright.ir.ops.arith import Bitcast, Cast
from tilewright.ir.ops.gpu.exit import Exit
from tilewright.ir.ops.linear import Mma, Reduce, Scan
from tilewright.transforms.gpu.lower_reports import LOCAL, LOCAL_ALIGNMENT
from tilewright.transforms.gpu.lower_views import LowerViews
from tilewright.transforms.pipelines import run_passes


@dataclass(frozen=True)
class TtirKernel:
    """A TTIR module with one kernel, ``name``, and the element types of its parameters, those of the function."""

    text: str
    name: str
    parameters: tuple[str, ...]

    @property
    def has_mma(self) -> bool:
        return "tt.dot" in self.text


def lower(
    function: Function, target: GpuTarget, dialect: tuple[int, int], *, hide_divisibility: bool = False
) -> TtirKernel:
    """``function``, which the passes have optimized, as TTIR for ``target``, for this version of Triton."""
    function = run_passes(function, (LowerViews(),))  # last, as pointers of views take no registers to speak of
    analyses = AnalysisManager(function)
    facts = analyses.get(IntegerRanges)
    ordering = BarrierInsertion(function, analyses.get(AliasAnalysis))
    s = LoweringState(Writer(target, hide_divisibility), dialect, facts, ordering)
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
    w = s.w
    flow = ControlFlow(s, lambda op: _lower(s, op))
    flow.block(function.body)
    w.loc = function.loc
    w.located("tt.return")
    name = entry_name(function.name)
    head = f"  tt.func public @{name}({', '.join(parameters)}) attributes {{noinline = false}} {{"
    text = "\n".join(["module {", head, *w.lines, f"  }} {w.location()}", "}", ""])
    return TtirKernel(text, name, tuple(types))


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
    if kind in _ELEMENTWISE:
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
    Mma: linear.mma,
    memory_ops.Bid: lambda s, op: s.w.emit(f"tt.get_program_id {'xyz'[op.axis]} : i32", "i32"),
    memory_ops.NumBlocks: lambda s, op: s.w.emit(f"tt.get_num_programs {'xyz'[op.axis]} : i32", "i32"),
    **dict.fromkeys(
        (memory_ops.AssumeDivisible, memory_ops.AssumeBounded, memory_ops.AssumeBlocked), lambda s, op: s[op.x]
    ),
}
_EFFECTS: dict[type[Op], Callable[[LoweringState, Any], None]] = {
    memory_ops.Store: memory.store,
    memory_ops.Assume: lambda s, op: None,  # a promise
    Exit: _exit,
}
