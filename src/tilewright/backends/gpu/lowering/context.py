"""The function that is being written: where instructions go, and which registers hold the values of the gpu stage."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tilewright.backends.external import call_external
from tilewright.backends.gpu.lowering import addresses
from tilewright.backends.gpu.lowering.addresses import BaseOffsets
from tilewright.backends.gpu.lowering.assembly import I1, I32, assembly
from tilewright.backends.gpu.lowering.scalars import ScalarEmitter
from tilewright.backends.gpu.lowering.slow_paths import with_slow_path
from tilewright.backends.gpu.target import Architecture
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.gpu_parameters import TableParameter
from tilewright.ir.layouts import LANE, LANES, REGISTER, WARP, LinearLayout
from tilewright.ir.ops.gpu.wgmma import Wgmma
from tilewright.ir.types import SharedType

Registers = list[ir.Value]


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory: its type, the 32-bit address of its first byte, and the field of matrix descriptors that
    encodes that."""

    type: SharedType
    address: ir.Value
    encoded: ir.Value


@dataclass
class Exits:
    """Where the innermost loop continues and ends, and the values that come there, with the blocks they come from;
    how many elements are in a word of those that are carried, and of the results; 0 for what is no word."""

    header: ir.Block
    after: ir.Block
    next_values: list[tuple[Registers, ir.Block]]
    results: list[tuple[Registers, ir.Block]]
    carried_words: Sequence[int]
    result_words: Sequence[int]


Rule = Callable[["Context", Any], object]


def instruction(text: str) -> Rule:
    """The rule of an op that is one instruction: ``text``, with attributes of the op in braces."""
    return lambda cx, op: cx.asm(text.format_map(op.attributes))


def nothing(cx: Context, op: Op) -> None:
    """The rule of a promise, and of a yield, whose values the op around it takes."""


class Context:
    """Emits at the position of ``builder``, for one thread: a distributed value is a list of registers."""

    def __init__(self, builder: ir.IRBuilder, target: Architecture, rules: Mapping[type[Op], Rule]) -> None:
        self.builder = builder
        self.target = target
        self.rules = rules
        self.scalars = ScalarEmitter(builder, target.capability)
        self.base_offsets = BaseOffsets(builder)
        self.parts: dict[ir.Value, Any] = {}  # elements of words that were loaded, see ``words``
        self.by_words: Callable[[Context, Op], Registers | None] = lambda cx, op: None  # see ``packed_arithmetic``
        self.parameter_loads: set[Op] = set()  # from tables that are passed by value
        self.strides: Mapping[Value, int] = {}  # see ``register_strides``
        self.equal_conditions: Mapping[Op, int] = {}
        self.values: dict[Value, Registers] = {}
        self.votes: dict[Value, ir.Value] = {}  # what ``any_lane`` said of a value
        self.pending: dict[Value, Callable[[int], ir.Value]] = {}  # what is loaded where it is used, by registers
        self.buffers: dict[Value, Buffer] = {}
        self.loops: list[Exits] = []
        self.locate: Callable[[Op], None] = lambda op: None
        self.thread = self.special("tid.x")
        self.lane = builder.and_(self.thread, self.i32(31))
        self.warp = builder.lshr(self.thread, self.i32(5))
        self.shared_base: ir.Value | None = None
        self.tile_threads = LANES  # over which tiles are distributed
        self.alone = False  # whether one thread runs what is emitted
        self.elected: ir.Value | None = None  # whether this one copies, of a CTA all of whose warps run the same
        self.joined: dict[Wgmma, list[Wgmma]] = {}  # see ``joined_mma``
        self.packed_accumulators: set[Value] = set()  # see ``wgmma``
        self.tables: Mapping[int, TableParameter] = {}  # by their parameters
        self.maps: dict[Op, ir.Value] = {}  # the parameters that are tensor maps

    # -- values

    def of(self, value: Value) -> Registers:
        """The registers of a value that was emitted."""
        return self.values[value]

    def part(self, value: Value, registers: range) -> Registers:
        """Some of the registers of ``value``, which may be loaded here."""
        load = self.pending.get(value)
        return [self.values[value][r] for r in registers] if load is None else [load(r) for r in registers]

    def scalar(self, value: Value) -> ir.Value:
        (register,) = self.values[value]
        return register

    def i32(self, value: int) -> ir.Constant:
        return ir.Constant(I32, value)

    def special(self, name: str) -> ir.Value:
        """The special register ``name``."""
        return call_external(self.builder, f"llvm.nvvm.read.ptx.sreg.{name}", I32, [])

    def asm(self, text: str, results: Sequence[ir.Type] = (), operands: Sequence[ir.Value] = ()) -> Registers:
        """An instruction with effects."""
        return assembly(self.builder, text, results, operands, effects=True)

    # -- ops

    def run(self, block: Block) -> None:
        """Emit the ops of ``block``, with its terminator."""
        for op in block.ops:
            self.emit(op)

    def emit(self, op: Op) -> None:
        self.locate(op)
        rule = self.rules.get(type(op))
        if rule is not None:
            rule(self, op)
        elif op.spec.elementwise:
            self.elementwise(op)
        else:
            raise unsupported(op, f"the gpu backend has no code for {op.name}")

    def elementwise(self, op: Op) -> None:
        """Each element for itself, or all that one register holds."""
        if (every := self.by_words(self, op)) is not None:
            self.values[op.result] = every
            return
        operands = [self.values[v] for v in op.operands]
        if len(operands) == 1 and (every := with_slow_path(self.scalars, op, operands[0])) is not None:
            self.values[op.result] = every
            return
        if (n := self.equal_conditions.get(op, 1)) > 1:
            operands[0] = [operands[0][r // n * n] for r in range(len(operands[0]))]
        stride = self.strides.get(op.result, 1)
        emit = functools.cache(self.element(op))  # of equal operands, as a broadcast and a short row have them, once
        found: list[Any] = [None] * len(operands[0])
        found[::stride] = map(emit, zip(*(registers[::stride] for registers in operands)))
        self.values[op.result] = found

    def element(self, op: Op) -> Callable[[Sequence[ir.Value]], ir.Value]:
        """What emits an element of the result of an elementwise ``op``, given those of its operands."""
        emit = self.scalars.of(op)
        if not addresses.may_be_sum(op):
            return emit

        def sum_or(each: Sequence[ir.Value]) -> ir.Value:
            address = addresses.emit(self, op, each)
            return emit(each) if address is None else address

        return sum_or

    def any_lane(self, conditions: Sequence[ir.Value]) -> ir.Value:
        """Whether one of the ``conditions`` holds for some lane of the warp, all of whose lanes ask."""
        found = functools.reduce(self.builder.or_, conditions)
        return self.asm("vote.sync.any.pred $0, $1, -1;", [I1], [found])[0]

    # -- linear maps of lanes and warps

    def linear(self, index: ir.Value, bases: Sequence[int]) -> ir.Value | None:
        """The exclusive or of the ``bases`` of the bits that are set in ``index``; None where it is 0."""
        b = self.builder
        by_shift: dict[int, int] = {}
        found: ir.Value | None = None

        def add(term: ir.Value) -> None:
            nonlocal found
            found = term if found is None else b.xor(found, term)

        for bit, base in enumerate(bases):
            for image in range(base.bit_length()):
                if base >> image & 1:
                    by_shift[image - bit] = by_shift.get(image - bit, 0) | 1 << bit
        for shift, mask in by_shift.items():
            part = b.and_(index, self.i32(mask))
            add(b.shl(part, self.i32(shift)) if shift > 0 else b.lshr(part, self.i32(-shift)) if shift else part)
        return found

    def of_thread(self, lanes: Sequence[int], warps: Sequence[int]) -> ir.Value | None:
        """``linear`` of the lane and the warp together."""
        of_lane, of_warp = self.linear(self.lane, lanes), self.linear(self.warp, warps)
        if of_lane is None or of_warp is None:
            return of_warp if of_lane is None else of_lane
        return self.builder.xor(of_lane, of_warp)

    def thread_part(self, layout: LinearLayout) -> ir.Value:
        """What lane and warp contribute to the index that ``layout`` maps to."""
        return self.of_thread(layout.bases(LANE), layout.bases(WARP)) or self.i32(0)

    def owner(self, layout: LinearLayout | None) -> ir.Value | None:
        """Whether this thread holds its elements first, i1; None where every one does. Scalars belong to thread 0."""
        b = self.builder
        if layout is None:
            return b.icmp_unsigned("==", self.thread, self.i32(0))
        free = layout.free_mask(LANE) | layout.free_mask(WARP) << 5
        if not free:
            return None
        return b.icmp_unsigned("==", b.and_(self.thread, self.i32(free)), self.i32(0))


def unsupported(op: Op, message: str) -> TileUnsupportedFeatureError:
    """The error for what this backend lacks."""
    return TileUnsupportedFeatureError(f"{message}; use the triton backend (TILEWRIGHT_BACKEND=triton)", op.loc)


def owned_registers(layout: LinearLayout | None) -> list[int]:
    """The registers whose elements no other register of the thread holds before them."""
    if layout is None:
        return [0]
    free = layout.free_mask(REGISTER)
    return [r for r in range(layout.num_registers) if not r & free]
