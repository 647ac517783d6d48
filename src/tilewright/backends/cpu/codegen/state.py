"""What code generation of one function keeps track of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from llvmlite import ir

from tilewright.backends.cpu.codegen.buffers import Buffer
from tilewright.backends.cpu.codegen.drivers import Updates
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.target import Processor
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.backends.vector import VectorEmitter, storage_type
from tilewright.backends.vector.types import I8, I64, resized
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.types import ElementType
from tilewright.records import NamedTuple, dataclass

if TYPE_CHECKING:
    from tilewright.analysis.affine import AffineTiles
    from tilewright.backends.cpu.codegen.control import Ends
    from tilewright.backends.cpu.codegen.loop_nests import NestWork
    from tilewright.backends.cpu.codegen.mma_in_place import InPlace
    from tilewright.backends.cpu.codegen.views import ViewAccess
    from tilewright.backends.native.lines import SourceLines
    from tilewright.ir.ops.loops import LoopNest

EmitBlock = Callable[["State", Block], None]


class ViewBinding(NamedTuple):
    """A tensor view: address of element 0, extents, strides in elements."""

    base: ir.Value
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]


Binding: TypeAlias = ir.Value | Buffer | ViewBinding


@dataclass(eq=False, repr=False)
class State:
    """Bindings of IR values, the insertion point, and the sites that report to Python.

    A tile of one element is bound to an LLVM value, one in a buffer to that. A tile in an array has its entry in
    ``accesses``. The ops in the body of a nest are not bound: loops compute their elements.
    """

    builder: ir.IRBuilder
    processor: Processor
    scratch: ir.Value
    context: ir.Value
    worker: ir.Value
    emit_block: EmitBlock
    affine: AffineTiles
    entry: ir.Block
    exit: ir.Block  # where a block that failed goes
    may_lock: bool  # whether sums may go by locks
    bindings: dict[Value, Binding] = field(default_factory=dict)
    accesses: dict[Op, ViewAccess] = field(default_factory=dict)
    block: Block | None = None  # the one whose ops are being emitted
    scratch_bytes: int = 0  # that each thread needs
    stores_past_caches: bool = False  # whether there are non-temporal stores
    updates: Updates = Updates()  # that other blocks may make, too
    in_place: dict[Op, InPlace] = field(default_factory=dict)  # of nests that copy what few rows are multiplied with
    panels: list[int] = field(default_factory=list)  # offsets of what blocks leave to those behind them
    polls: list[Op] = field(default_factory=list)  # by the number of their polls
    sites: list[Op] = field(default_factory=list)  # print and assert ops, as the machine code numbers them
    grid: dict[str, ir.Value] = field(default_factory=dict)
    next_axis: int = 0  # of the grid, along which one block follows another
    nests: list[NestWork] = field(default_factory=list)
    ends: list[Ends] = field(default_factory=list)  # of the regions around
    waiting: int = 0  # loops around that may wait
    emit_strip: Callable[[LoopNest], None] | None = None  # in a loop over strips: emits a part of a nest
    lines: SourceLines | None = None  # with TILEWRIGHT_DEBUG_INFO

    def slot(self, type_: ir.Type, count: int = 1) -> ir.Value:
        """A stack variable; LLVM turns it into registers where it can."""
        builder = TextBuilder(self.entry)
        builder.position_at_start(self.entry)
        return builder.alloca(type_, count)

    @property
    def module(self) -> ir.Module:
        return self.builder.module

    def emitter(self, builder: ir.IRBuilder | None = None, lanes: int | None = None) -> VectorEmitter:
        return VectorEmitter(self.builder if builder is None else builder, lanes, self.processor.features)

    def scalar(self, value: Value) -> ir.Value:
        """The LLVM value of a tile of one element."""
        bound = self.bindings[value]
        assert isinstance(bound, ir.Value)
        return bound

    def view(self, value: Value) -> ViewBinding:
        bound = self.bindings[value]
        assert isinstance(bound, ViewBinding)
        return bound

    def index(self, value: Value) -> Index:
        """An integer scalar as an index."""
        register = self.scalar(value)
        if isinstance(register, ir.Constant):
            width = register.type.width
            n = int(register.constant)
            signed = value.tile.element.is_signed and n >> (width - 1) & 1
            return n - (1 << width) if signed else n
        return resized(self.builder, register, I64, signed=value.tile.element.is_signed)

    def buffer(self, offset: int, dtype: ElementType, size: int) -> Buffer:
        """The scratch memory from ``offset`` on, for ``size`` elements."""
        pointer = self.builder.gep(self.scratch, [ir.Constant(I64, offset)], source_etype=I8)
        return Buffer(pointer, offset, size, dtype)

    def tile_buffer(self, value: Value) -> Buffer:
        """The buffer that a tile of more than one element is in."""
        bound = self.bindings[value]
        assert isinstance(bound, Buffer)
        return bound

    def bind(self, value: Value, bound: Binding) -> None:
        self.bindings[value] = bound

    @property
    def waits(self) -> bool:
        """Whether a loop around may wait for other blocks."""
        return self.waiting > 0


def storage_bytes(dtype: ElementType) -> int:
    """Bytes of one element in an array."""
    stored = storage_type(dtype)
    if isinstance(stored, ir.IntType):
        return int(stored.width) // 8
    return 8 if isinstance(stored, ir.DoubleType) else 4


def unsupported(op: Op, message: str) -> TileUnsupportedFeatureError:
    return TileUnsupportedFeatureError(f"{op.name} on the CPU: {message}", op.loc)
