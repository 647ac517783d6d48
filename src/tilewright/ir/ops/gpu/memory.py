"""Memory ops of the gpu dialect: global memory through distributed pointers, shared memory, barriers, async copies."""

from __future__ import annotations

from types import NoneType

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import int32, uint32
from tilewright.ir.enums import MemoryOrder, MemoryScope
from tilewright.ir.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout
from tilewright.ir.opdef import GPU_OPS, Effect, attribute, define, operand, operands, optional_operand
from tilewright.ir.ops.gpu.tiles import with_layout
from tilewright.ir.ops.memory import PointerMemoryOp
from tilewright.ir.ops.rules import bool_like, pointee, pointers, require, scalar_integer, tile
from tilewright.ir.types import SharedType, TileType, Type

WEAK, NONE = MemoryOrder.WEAK, MemoryScope.NONE
READ_WRITE = Effect.READ | Effect.WRITE
SHARED_ALIGNMENT = 16  # bytes; what the widest access of a thread needs
MAX_VECTOR_BYTES = 16


def _vector(op: Op, t: TileType, vector: int, bytes_each: int) -> None:
    """``vector`` is a power of two that divides the registers of a thread, at most 16 bytes."""
    registers = 1 if t.layout is None else t.layout.num_registers
    require(vector > 0 and vector & (vector - 1) == 0 and registers % vector == 0, op, "vector {} of {}", vector, t)
    require(vector == 1 or vector * bytes_each <= MAX_VECTOR_BYTES, op, "a vector of {} bytes", vector * bytes_each)


@define("gpu.load", effect=Effect.READ, table=GPU_OPS)
class GlobalLoad(PointerMemoryOp):
    """The elements that ``ptrs`` point to; where ``mask`` is false, ``padding`` (zero without one).

    Each run of ``vector`` registers, the first a multiple of it, is one access: its addresses are consecutive and
    begin at a multiple of their size, and its mask is the same. A scalar is loaded by every thread.
    """

    mask: Value | None = optional_operand()
    padding: Value | None = optional_operand()
    vector: int = attribute(int, default=1)
    memory_order: MemoryOrder = attribute(MemoryOrder, default=WEAK)
    memory_scope: MemoryScope = attribute(MemoryScope, default=NONE)

    def infer(self) -> tuple[Type, ...]:
        result = self.accessed()
        if self.padding is not None:
            require(self.padding.type == result, self, "padding {}, expected {}", self.padding.type, result)
        _vector(self, self.ptrs.tile, self.vector, result.element.bytes)
        return (result,)


@define("gpu.store", effect=Effect.WRITE, table=GPU_OPS)
class GlobalStore(PointerMemoryOp):
    """Stores ``value`` through ``ptrs`` where ``mask`` is true; ``vector`` as in ``gpu.load``.

    An element that several threads hold is stored by one of them, whose free bits (``LinearLayout.free_mask``) are 0;
    a scalar by thread 0.
    """

    value: Value = operand()
    mask: Value | None = optional_operand()
    vector: int = attribute(int, default=1)
    memory_order: MemoryOrder = attribute(MemoryOrder, default=WEAK)
    memory_scope: MemoryScope = attribute(MemoryScope, default=NONE)

    def infer(self) -> tuple[Type, ...]:
        want = self.accessed()
        require(self.value.type == want, self, "value {}, expected {}", self.value.type, want)
        _vector(self, self.ptrs.tile, self.vector, want.element.bytes)
        return ()


@define("gpu.prefetch", effect=READ_WRITE, table=GPU_OPS)
class Prefetch(Op):
    """Has ``count`` elements from ``base`` on, but for less than 16 bytes at their end, brought to the L2 cache, where
    ``mask`` holds. They begin at a multiple of 16 bytes."""

    base: Value = operand()
    count: Value = operand()
    mask: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        base = pointers(self, self.base)
        require(base.rank == 0, self, "{} from where on", base)
        scalar_integer(self, self.count)
        bool_like(self, self.mask, base)
        return ()


@define("gpu.prefetch_each", effect=READ_WRITE, table=GPU_OPS)
class PrefetchEach(Op):
    """Has the elements at ``ptrs``, where ``mask`` holds, brought to the L2 cache, each by the threads that have it."""

    ptrs: Value = operand()
    mask: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        bool_like(self, self.mask, pointers(self, self.ptrs))
        return ()


def shared(op: Op, value: Value) -> SharedType:
    """The type of ``value``, which must be a tile in shared memory."""
    if not isinstance(value.type, SharedType):
        require(False, op, "{} is not in shared memory", value.type)
        raise AssertionError
    return value.type


def is_vector(shared: LinearLayout, layout: LinearLayout, vector: int) -> bool:
    """Whether each thread holds aligned runs of ``vector`` elements of ``shared``, in registers of the same order."""
    offsets = shared.invert_and_compose(layout)
    bases = [b for dim in offsets.names for b in offsets.bases(dim)]
    beside = all(1 << bit in offsets.bases(REGISTER) for bit in range(vector.bit_length() - 1))
    return beside and all(b & (vector - 1) == 0 or b in (1, 2, 4, 8) for b in bases)


def shared_vector(shared: SharedType, layout: LinearLayout) -> int:
    """As many elements as one access of a thread can move."""
    vector = max(MAX_VECTOR_BYTES // shared.dtype.bytes, 1)
    while vector > 1 and not is_vector(shared.layout, layout, vector):
        vector //= 2
    return vector


def _shared_vector(op: Op, buffer: SharedType, t: TileType, vector: int) -> None:
    """Some registers of a thread hold ``vector`` elements that are side by side in ``buffer``."""
    _vector(op, t, vector, buffer.dtype.bytes)
    assert t.layout is not None
    fits = is_vector(buffer.layout, t.layout, vector)
    require(fits, op, "no {} registers of {} are side by side in {}", vector, t, buffer)


class SharedMemoryOp(Op):
    """An access of all threads to a tile in shared memory."""

    buffer: Value = operand()


@define("gpu.shared_alloc", effect=Effect.ALLOCATE, table=GPU_OPS)
class SharedAlloc(Op):
    """Shared memory for a tile of ``type``, uninitialized, at byte ``offset`` once that is assigned."""

    type: SharedType = attribute(SharedType)
    offset: int | None = attribute(int, NoneType, default=None)
    alignment: int = attribute(int, default=SHARED_ALIGNMENT)

    def infer(self) -> tuple[Type, ...]:
        layout = self.type.layout
        require(layout.names == (OFFSET,), self, "{} has dimensions other than offset", self.type)
        require(layout.is_injective and layout.is_surjective, self, "{} does not hold each element once", self.type)
        require(self.type.copies >= 1, self, "{} copies", self.type.copies)
        require(self.alignment > 0 and self.alignment & (self.alignment - 1) == 0, self, "alignment {}", self.alignment)
        aligned = self.offset is None or (self.offset >= 0 and self.offset % self.alignment == 0)
        require(aligned, self, "offset {} is no multiple of {}", self.offset, self.alignment)
        return (self.type,)


@define("gpu.shared_copy", table=GPU_OPS)
class SharedCopy(Op):
    """Copy number ``index`` of ``buffer``, as a tile of its own; the index is smaller than their number.

    With ``type`` it is a tile of that, which begins where the copy begins and is not larger.
    """

    buffer: Value = operand()
    index: Value = operand()
    type: SharedType | None = attribute(SharedType, NoneType, default=None)

    def infer(self) -> tuple[Type, ...]:
        t = shared(self, self.buffer)
        scalar_integer(self, self.index)
        one = SharedType(t.dtype, t.layout)
        if self.type is not None:
            fits = self.type.copies == 1 and self.type.bytes <= one.bytes
            require(fits, self, "{} in the place of {}", self.type, one)
        return (self.type or one,)


@define("gpu.shared_load", effect=Effect.READ, table=GPU_OPS)
class SharedLoad(SharedMemoryOp):
    """The tile in ``buffer``, in the layout of ``type``: each thread loads the elements that it holds.

    ``vector`` of them are one access: the registers whose elements are side by side in memory, aligned to their size.
    """

    type: TileType = attribute(TileType)
    vector: int = attribute(int, default=1)

    def infer(self) -> tuple[Type, ...]:
        t = shared(self, self.buffer)
        with_layout(self, self.type)
        require((t.dtype, t.shape, t.copies) == (self.type.dtype, self.type.shape, 1), self, "{} as {}", t, self.type)
        _shared_vector(self, t, self.type, self.vector)
        return (self.type,)


@define("gpu.padded_load", effect=Effect.READ, table=GPU_OPS)
class PaddedLoad(SharedLoad):
    """As ``gpu.shared_load``, but a constant ``padding`` where ``mask``, which is the same for an access, is false."""

    mask: Value = operand()
    padding: Value = operand()
    type: TileType = attribute(TileType)
    vector: int = attribute(int, default=1)

    def infer(self) -> tuple[Type, ...]:
        bool_like(self, self.mask, self.type)
        require(self.padding.type == self.type, self, "padding {}, expected {}", self.padding.type, self.type)
        return super().infer()


@define("gpu.shared_store", effect=Effect.WRITE, table=GPU_OPS)
class SharedStore(SharedMemoryOp):
    """Stores ``value`` to ``buffer``; ``vector`` as in ``gpu.shared_load``.

    One of the threads that hold an element stores it, as in ``gpu.store``.
    """

    value: Value = operand()
    vector: int = attribute(int, default=1)

    def infer(self) -> tuple[Type, ...]:
        t, v = shared(self, self.buffer), tile(self, self.value)
        with_layout(self, v)
        require((t.dtype, t.shape, t.copies) == (v.dtype, v.shape, 1), self, "{} to {}", v, t)
        _shared_vector(self, t, v, self.vector)
        return ()


@define("gpu.shared_add", effect=READ_WRITE, table=GPU_OPS)
class SharedAdd(SharedMemoryOp):
    """Adds ``value`` to the elements at ``positions`` of ``buffer``, a line in row-major order, where ``mask`` is true.

    One of the threads that hold an element adds it, as in ``gpu.store``, and none is lost where several add to one.
    """

    positions: Value = operand()
    value: Value = operand()
    mask: Value | None = optional_operand()

    def infer(self) -> tuple[Type, ...]:
        t, v, p = shared(self, self.buffer), tile(self, self.value), tile(self, self.positions)
        with_layout(self, v)
        words = t.dtype == v.dtype and v.dtype in (int32, uint32)
        line = t.copies == 1 and len(t.shape) == 1 and t.layout == LinearLayout.row_major(t.shape)
        require(words and line and p == v.with_dtype(int32), self, "{} to {} of {}", v, p, t)
        bool_like(self, self.mask, v)
        return ()


def _subtile(op: Op, buffer: SharedType, part: TileType, indices: list[Value]) -> None:
    scalar_integer(op, *indices)
    fits = part.rank == len(buffer.shape) == len(indices) and part.dtype == buffer.dtype and buffer.copies == 1
    require(fits and all(m <= n for m, n in zip(part.shape, buffer.shape)), op, "{} is no part of {}", part, buffer)


@define("gpu.shared_extract", effect=Effect.READ, table=GPU_OPS)
class SharedExtract(SharedMemoryOp):
    """The part of the tile in ``buffer`` that has the shape of ``type``, at grid index ``indices``, inside of the grid.

    Its element c is element ``indices * shape + c`` of the buffer; as these are different bits, the offset of the one
    is the exclusive or of the offsets of both summands.
    """

    indices: list[Value] = operands()
    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        with_layout(self, self.type)
        _subtile(self, shared(self, self.buffer), self.type, self.indices)
        return (self.type,)


@define("gpu.shared_insert", effect=Effect.WRITE, table=GPU_OPS)
class SharedInsert(SharedMemoryOp):
    """Stores ``value`` to the part of ``buffer`` at grid index ``indices``, as ``gpu.shared_extract`` reads it."""

    value: Value = operand()
    indices: list[Value] = operands()

    def infer(self) -> tuple[Type, ...]:
        part = tile(self, self.value)
        with_layout(self, part)
        _subtile(self, shared(self, self.buffer), part, self.indices)
        return ()


CONSUMERS = 1  # the number of the barrier of the warps that have tiles, where there are others
STAGERS = 6  # and of those that put what was fetched into the order of operands


@define("gpu.barrier", effect=READ_WRITE, table=GPU_OPS)
class Barrier(Op):
    """All threads of the CTA wait for each other, and see what was stored before; the one with number ``id``.

    With ``threads`` that many, a multiple of a warp, take part.
    """

    id: int = attribute(int, default=0)
    threads: int | None = attribute(int, NoneType, default=None)

    def infer(self) -> tuple[Type, ...]:
        require(0 <= self.id < 16, self, "barrier {}, where there are 16", self.id)
        fits = self.threads is None or (0 < self.threads <= 1024 and self.threads % 32 == 0)
        require(fits, self, "{} threads at a barrier", self.threads)
        return ()


@define("gpu.async_copy", effect=READ_WRITE, table=GPU_OPS)
class AsyncCopy(Op):
    """Begins to copy the elements behind ``ptrs`` to ``buffer`` (cp.async); where ``mask`` is false, zeros.

    Each run of ``vector`` registers is one copy of 4, 8 or 16 bytes: as in ``gpu.load``, and also its elements lie
    side by side in ``buffer``. What is copied may be read after a ``gpu.async_wait`` for its group, by other threads
    after a barrier.
    """

    buffer: Value = operand()
    ptrs: Value = operand()
    mask: Value | None = optional_operand()
    vector: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        t, p = shared(self, self.buffer), pointers(self, self.ptrs)
        _, layout = with_layout(self, p)
        require((t.dtype, t.shape, t.copies) == (pointee(self, p), p.shape, 1), self, "{} to {}", p, t)
        bool_like(self, self.mask, p)
        _vector(self, p, self.vector, t.dtype.bytes)
        require(self.vector * t.dtype.bytes in (4, 8, 16), self, "copies of {} bytes", self.vector * t.dtype.bytes)
        run = t.layout.invert_and_compose(layout)
        require(
            run.bases(REGISTER)[: self.vector.bit_length() - 1]
            == tuple(1 << i for i in range(self.vector.bit_length() - 1)),
            self,
            f"{self.vector} registers of {p} are not side by side in {t}",
        )
        others = (*run.bases(REGISTER)[self.vector.bit_length() - 1 :], *run.bases(LANE), *run.bases(WARP))
        require(not any(b & (self.vector - 1) for b in others), self, "copies to {} are not aligned", t)
        return ()


@define("gpu.async_commit", effect=READ_WRITE, table=GPU_OPS)
class AsyncCommit(Op):
    """The asynchronous copies of a thread since the last one are a group."""


class GroupWait(Op):
    """Shared: a wait for groups of copies, but for the latest ones."""

    pending: int = attribute(int, default=0)

    def infer(self) -> tuple[Type, ...]:
        require(self.pending >= 0, self, "{} groups", self.pending)
        return ()


@define("gpu.async_wait", effect=READ_WRITE, table=GPU_OPS)
class AsyncWait(GroupWait):
    """Each thread waits until at most ``pending`` of its latest groups are not complete."""
