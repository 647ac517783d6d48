"""What code generation of one function keeps track of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llvmlite import ir

from tilewright.backends.cpu.codegen.buffers import Arena, Buffer
from tilewright.backends.cpu.codegen.index import Index
from tilewright.backends.cpu.codegen.uses import Uses
from tilewright.backends.cpu.scratch import element_bytes
from tilewright.backends.cpu.target import Processor
from tilewright.backends.cpu.vector import VectorEmitter, storage_type
from tilewright.backends.cpu.vector.types import I8, I64
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.types import ElementType, TileType

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen.control import CarriedSlot, LoopTargets
    from tilewright.backends.cpu.codegen.loop_nests import LoopNest
    from tilewright.backends.cpu.codegen.views import ViewAccess

EmitBlock = Callable[["State", Block], None]


@dataclass(frozen=True)
class ViewBinding:
    """A tensor view: address of element 0, extents, strides in elements."""

    base: ir.Value
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]


Binding: TypeAlias = ir.Value | Buffer | ViewBinding


class State:
    """Bindings of IR values, the insertion point, scratch memory and the sites that report to Python.

    A tile of one element is bound to an LLVM value, a larger one to a buffer, or to nothing while the op that
    defines it is deferred: then its elements are computed inside the loops that need them.
    """

    def __init__(
        self,
        function: Function,
        builder: ir.IRBuilder,
        processor: Processor,
        scratch: ir.Value,
        context: ir.Value,
        worker: ir.Value,
        emit_block: EmitBlock,
    ) -> None:
        self.builder = builder
        self.processor = processor
        self.scratch = scratch
        self.context = context
        self.worker = worker
        self.bindings: dict[Value, Binding] = {}
        self.uses = Uses(function)
        self.deferred: set[Op] = set()
        self.arena = Arena()
        self.accesses: dict[Op, ViewAccess] = {}
        self.block = function.body  # the one whose ops are being emitted
        self.pending: list[Op] = []  # loads of this block that may still be deferred
        self.polls: list[Op] = []  # by the number of their polls
        self.sites: list[Op] = []  # print and assert ops, by the number that the machine code knows them by
        self.grid: dict[str, ir.Value] = {}
        self.entry = builder.block
        self.exit: ir.Block | None = None  # where a block that failed goes
        self.nests: list[LoopNest] = []
        self.loops: list[LoopTargets] = []
        self.branches: list[tuple[list[CarriedSlot], ir.Block]] = []
        self.emit_block = emit_block
        self._depths: dict[Op | None, int] = {}
        self._temporaries: list[list[Value]] = []

    def slot(self, type_: ir.Type, count: int = 1) -> ir.Value:
        """A stack variable; LLVM turns it into registers where it can."""
        builder = ir.IRBuilder(self.entry)
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
        if register.type.width == 64:
            return register
        extend = self.builder.sext if value.tile.element.is_signed else self.builder.zext
        return extend(register, I64)

    # Scratch memory

    def allocate(self, tile: TileType) -> Buffer:
        """Scratch memory for ``tile``."""
        return self.allocate_array(tile.dtype, tile.size)

    def allocate_array(self, dtype: ElementType, size: int) -> Buffer:
        """Scratch memory for ``size`` elements."""
        offset = self.arena.allocate(size * element_bytes(dtype))
        pointer = self.builder.gep(self.scratch, [ir.Constant(I64, offset)], source_etype=I8)
        return Buffer(pointer, offset, size, dtype)

    def bind(self, value: Value, bound: Binding) -> None:
        self.bindings[value] = bound

    def release(self, buffer: Buffer) -> None:
        """One value less is bound to ``buffer``."""
        buffer.users -= 1
        if buffer.users == 0 and not buffer.borrowed:
            self.arena.free(buffer.offset)

    @property
    def waits(self) -> bool:
        """Whether a loop around may wait for other blocks."""
        return any(targets.waits for targets in self.loops)

    def is_local(self, value: Value) -> bool:
        """Whether ``value`` is defined in the block being emitted, so that what it is bound to here lasts."""
        return self.uses.home[value] is self.block

    def temporary(self, value: Value, buffer: Buffer) -> None:
        """Read ``value``, which is deferred in an outer block, from ``buffer`` until the end of this block."""
        self.bindings[value] = buffer
        self._temporaries[-1].append(value)

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """While the ops of ``block`` are emitted; what it allocated is free again afterwards."""
        outer, self.block = (self.block, self.pending), block
        self.pending = []
        self._temporaries.append([])
        yield
        own = [*block.args, *(r for op in block.ops for r in op.results)]
        for value in self._temporaries.pop() + own:
            bound = self.bindings.pop(value, None)
            if isinstance(bound, Buffer):
                self.release(bound)
        self.deferred.difference_update(block.ops)
        self.block, self.pending = outer

    def deepen(self, op: Op) -> int:
        """The length of the longest chain of deferred ops that ends in ``op``."""
        depths = [self._depths.get(v.op, 0) for v in op.operands if v.op in self.deferred]
        self._depths[op] = 1 + max(depths, default=0)
        return self._depths[op]

    def forget(self, value: Value) -> None:
        """Nothing needs ``value`` any more."""
        bound = self.bindings.pop(value, None)
        if isinstance(bound, Buffer):
            self.release(bound)
        elif bound is None and value.op in self.deferred:
            assert value.op is not None
            self.complete(value.op)

    def complete(self, op: Op) -> None:
        """The code of ``op`` is emitted, or never will be."""
        self.deferred.discard(op)
        for v in self.uses.complete(op):
            self.forget(v)

    def materialized(self, value: Value, buffer: Buffer) -> None:
        """From here on a deferred ``value`` is read from ``buffer``."""
        self.bindings[value] = buffer
        if value.op in self.deferred:
            assert value.op is not None
            self.complete(value.op)


def storage_bytes(dtype: ElementType) -> int:
    """Bytes of one element in an array."""
    stored = storage_type(dtype)
    if isinstance(stored, ir.IntType):
        return int(stored.width) // 8
    return 8 if isinstance(stored, ir.DoubleType) else 4


def unsupported(op: Op, message: str) -> TileUnsupportedFeatureError:
    return TileUnsupportedFeatureError(f"{op.name} on the CPU: {message}", op.loc)
