"""Views and memory ops. Within a block they take effect in program order. C++ reference 2.11, 2.12.

``latency`` and ``allow_tma`` are performance hints: None, a value, or a ``ByTarget``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType
from tilewright.ir.enums import AtomicKind, MemoryOrder, MemoryScope, PaddingMode
from tilewright.ir.opdef import Effect, attribute, define, operand, operands, optional_operand
from tilewright.ir.ops.rules import Unary, bool_like, pointee, pointers, require, scalar_integer, tile, tile_shape
from tilewright.ir.ops.shape import constant_of
from tilewright.ir.types import I32, PartitionViewType, PointerType, TensorViewType, TileType, Type

if TYPE_CHECKING:
    from tilewright.ir.builder import Builder

WEAK, NONE = MemoryOrder.WEAK, MemoryScope.NONE
READ_WRITE = Effect.READ | Effect.WRITE
MAX_LOCAL_BYTES = 1 << 20  # of one local array


class MemoryOp(Op):
    """What accesses to memory have in common: where they go, and how they are ordered with others."""

    memory_order: MemoryOrder
    memory_scope: MemoryScope

    @property
    def address(self) -> Value:
        """The pointers or the view that is accessed."""
        return self.operands[0]

    @property
    def is_weak(self) -> bool:
        """Whether the access is ordered with none of another block."""
        return self.memory_order is WEAK


class PointerMemoryOp(MemoryOp):
    """An access through a tile of pointers."""

    ptrs: Value = operand()
    mask: Value | None

    def accessed(self) -> TileType:
        """The type of what ``ptrs`` point to, which the mask has to fit."""
        p = pointers(self, self.ptrs)
        bool_like(self, self.mask, p)
        return p.with_dtype(pointee(self, p))


class ViewMemoryOp(MemoryOp):
    """An access to a tile of a partition view."""

    view: Value = operand()
    indices: list[Value]

    @property
    def promised(self) -> tuple[bool, ...]:
        """Along which axes the tile is promised to lie inside of its array."""
        return self.attributes.get("in_bounds", (False,) * len(self.indices))


@define("make_tensor_view")
class MakeTensorView(Op):
    """A strided array at ``base``; ``shape`` and ``strides`` hold the extents that ``type`` leaves open, in order."""

    base: Value = operand()
    shape: list[Value] = operands()
    strides: list[Value] = operands()
    type: TensorViewType = attribute(TensorViewType)

    def extent(self, axis: int) -> int | Value:
        """The extent along ``axis``."""
        known = self.type.shape[axis]
        return self.shape[self.type.shape[:axis].count(None)] if known is None else known

    def infer(self) -> tuple[Type, ...]:
        base = pointers(self, self.base)
        require(base.rank == 0 and pointee(self, base) is self.type.dtype, self, "base {} of {}", base, self.type)
        t = self.type
        require(len(t.shape) == len(t.strides), self, "{} has unequal ranks", t)
        require(t.shape.count(None) == len(self.shape), self, "{} extents for {}", len(self.shape), t)
        require(t.strides.count(None) == len(self.strides), self, "{} strides for {}", len(self.strides), t)
        scalar_integer(self, *self.shape, *self.strides)
        return (self.type,)


@define("make_partition_view")
class MakePartitionView(Op):
    """A tensor view cut into tiles as ``type`` says."""

    view: Value = operand()
    type: PartitionViewType = attribute(PartitionViewType)

    def infer(self) -> tuple[Type, ...]:
        t = self.type
        require(self.view.type == t.view, self, "view {} of {}", self.view.type, t)
        tile_shape(self, t.tile_shape)
        rank = t.view.rank
        require(len(t.tile_shape) == len(t.order) == len(t.steps) == rank, self, "ranks in {}", t)
        require(sorted(t.order) == list(range(rank)), self, "order {} is no permutation", t.order)
        require(all(s > 0 for s in t.steps), self, "steps {} are not positive", t.steps)
        return (t,)


def array_view(partition: Value) -> MakeTensorView | None:
    """What makes the view of an array that ``partition`` cuts into tiles; None where control flow chooses it."""
    view = partition.op.view.op if isinstance(partition.op, MakePartitionView) else None
    return view if isinstance(view, MakeTensorView) else None


def _partition(op: Op, view: Value, indices: list[Value]) -> PartitionViewType:
    require(isinstance(view.type, PartitionViewType), op, "{} is not a partition view", view.type)
    t: PartitionViewType = view.type  # type: ignore[assignment]
    require(len(indices) == len(t.tile_shape), op, "{} indices for {}", len(indices), t)
    scalar_integer(op, *indices)
    return t


class _TileAccess(ViewMemoryOp):
    """Shared by loads and stores of tiles: promises, order and hints."""

    in_bounds: tuple[bool, ...] = attribute(tuple)
    memory_order: MemoryOrder = attribute(MemoryOrder, default=WEAK)
    memory_scope: MemoryScope = attribute(MemoryScope, default=NONE)
    latency: Any = attribute(default=None)
    allow_tma: Any = attribute(default=None)

    def partition(self) -> PartitionViewType:
        """The type of the view, which the indices and promises have to fit."""
        t = _partition(self, self.view, self.indices)
        require(len(self.in_bounds) == len(t.tile_shape), self, "in_bounds needs one flag per axis")
        return t


@define("load_view", effect=Effect.READ)
class LoadView(_TileAccess):
    """The tile at tile index ``indices``. Elements outside the array take the padding of the view.

    ``in_bounds[k]`` promises that the tile does not leave the array along tile axis k.
    """

    indices: list[Value] = operands()

    def infer(self) -> tuple[Type, ...]:
        return (self.partition().tile,)


@define("store_view", effect=Effect.WRITE)
class StoreView(_TileAccess):
    """Stores ``value`` at tile index ``indices``; elements outside the array are dropped."""

    value: Value = operand()
    indices: list[Value] = operands()

    def infer(self) -> tuple[Type, ...]:
        want = self.partition().tile
        require(self.value.type == want, self, "value {}, expected {}", self.value.type, want)
        return ()


@define("local_array", effect=Effect.ALLOCATE)
class LocalArray(Op):
    """A pointer to ``count`` elements of ``dtype`` that belong to this block of the grid and live as long as it.

    Nothing is known of their values until they are stored to. Each op stands for one array: in a loop, every
    iteration sees the same memory. Where it holds several arrays, ``parts`` has the bytes at which they begin.
    """

    dtype: DType = attribute(DType)
    count: int = attribute(int)
    parts: tuple[int, ...] = attribute(tuple, default=())

    def infer(self) -> tuple[Type, ...]:
        limit = MAX_LOCAL_BYTES // self.dtype.bytes
        require(1 <= self.count <= limit, self, "{} elements, where 1 to {} are possible", self.count, limit)
        return (TileType(PointerType(self.dtype)),)


@define("load", effect=Effect.READ)
class Load(PointerMemoryOp):
    """The elements that ``ptrs`` point to; where ``mask`` is false, ``padding``.

    Without ``padding`` masked-off elements are undefined; backends give zero.
    """

    mask: Value | None = optional_operand()
    padding: Value | None = optional_operand()
    memory_order: MemoryOrder = attribute(MemoryOrder, default=WEAK)
    memory_scope: MemoryScope = attribute(MemoryScope, default=NONE)
    latency: Any = attribute(default=None)

    def infer(self) -> tuple[Type, ...]:
        result = self.accessed()
        if self.padding is not None:
            require(self.padding.type == result, self, "padding {}, expected {}", self.padding.type, result)
        return (result,)


@define("store", effect=Effect.WRITE)
class Store(PointerMemoryOp):
    """Stores ``value`` through ``ptrs`` where ``mask`` is true."""

    value: Value = operand()
    mask: Value | None = optional_operand()
    memory_order: MemoryOrder = attribute(MemoryOrder, default=WEAK)
    memory_scope: MemoryScope = attribute(MemoryScope, default=NONE)
    latency: Any = attribute(default=None)

    def infer(self) -> tuple[Type, ...]:
        want = self.accessed()
        require(self.value.type == want, self, "value {}, expected {}", self.value.type, want)
        return ()


# atomic kind -> IR spellings of the dtypes it takes
_WORDS = ("i32", "i64", "u32", "u64")
ATOMIC_DTYPES: dict[AtomicKind, tuple[str, ...]] = {
    AtomicKind.XCHG: (*_WORDS, "f32", "f64"),
    AtomicKind.ADD: (*_WORDS, "f16", "bf16", "f32", "f64"),
    AtomicKind.MAX: _WORDS,
    AtomicKind.MIN: _WORDS,
    AtomicKind.AND: _WORDS,
    AtomicKind.OR: _WORDS,
    AtomicKind.XOR: _WORDS,
}
CAS_DTYPES = ATOMIC_DTYPES[AtomicKind.XCHG]


@define("atomic_rmw", effect=READ_WRITE)
class AtomicRmw(PointerMemoryOp):
    """For each element, in unspecified order: old = *ptr; *ptr = kind(old, value). Returns the old values.

    Masked-off elements are left alone and return 0. ``no_signed_wrap`` promises that signed sums fit; ``subtracts``
    says that ``value`` is the negation of what the program subtracts. In the gpu stage, ``vector`` consecutive
    registers of a thread hold elements side by side in memory.
    """

    value: Value = operand()
    mask: Value | None = optional_operand()
    kind: AtomicKind = attribute(AtomicKind)
    memory_order: MemoryOrder = attribute(MemoryOrder)
    memory_scope: MemoryScope = attribute(MemoryScope)
    no_signed_wrap: bool = attribute(bool, default=False)
    subtracts: bool = attribute(bool, default=False)
    vector: int = attribute(int, default=1)

    def infer(self) -> tuple[Type, ...]:
        want = self.accessed()
        dtype = want.element
        require(self.value.type == want, self, "value {}, expected {}", self.value.type, want)
        require(dtype.short in ATOMIC_DTYPES[self.kind], self, "{} is not available for {}", self.kind.value, dtype)
        require(self.memory_order is not WEAK, self, "an atomic cannot be weak")
        return (want,)


@define("atomic_cas", effect=READ_WRITE)
class AtomicCas(PointerMemoryOp):
    """For each element: old = *ptr; if old has the bits of expected, *ptr = desired. Returns the old values.

    Masked-off elements are left alone and return ``expected``.
    """

    expected: Value = operand()
    desired: Value = operand()
    mask: Value | None = optional_operand()
    memory_order: MemoryOrder = attribute(MemoryOrder)
    memory_scope: MemoryScope = attribute(MemoryScope)

    def infer(self) -> tuple[Type, ...]:
        want = self.accessed()
        dtype = want.element
        require(self.expected.type == self.desired.type == want, self, "operands are not {}", want)
        require(dtype.short in CAS_DTYPES, self, "compare-and-swap is not available for {}", dtype)
        require(self.memory_order is not WEAK, self, "an atomic cannot be weak")
        return (want,)


@define("atomic_view", effect=READ_WRITE)
class AtomicView(ViewMemoryOp):
    """Combines ``value`` into the tile at ``indices``, each element atomically; elements outside are dropped."""

    value: Value = operand()
    indices: list[Value] = operands()
    kind: AtomicKind = attribute(AtomicKind)
    memory_order: MemoryOrder = attribute(MemoryOrder, default=MemoryOrder.RELAXED)
    memory_scope: MemoryScope = attribute(MemoryScope, default=MemoryScope.DEVICE)

    def infer(self) -> tuple[Type, ...]:
        t = _partition(self, self.view, self.indices)
        require(self.value.type == t.tile, self, "value {}, expected {}", self.value.type, t.tile)
        dtype = t.view.dtype
        require(dtype.short in ATOMIC_DTYPES[self.kind], self, "{} is not available for {}", self.kind.value, dtype)
        return ()


def padding_value(mode: PaddingMode, dtype: DType) -> bool | int | float:
    """The Python number that ``mode`` stands for; integers, which have no infinities, saturate, and NaN is 0."""
    if dtype.is_floating:
        return {
            PaddingMode.NEG_ZERO: -0.0,
            PaddingMode.NAN: float("nan"),
            PaddingMode.POS_INF: float("inf"),
            PaddingMode.NEG_INF: float("-inf"),
        }.get(mode, 0.0)
    return {PaddingMode.POS_INF: dtype.max, PaddingMode.NEG_INF: dtype.min}.get(mode, 0)


class _OfGrid(Op):
    """Shared: a number of the grid along ``axis``, as int32."""

    axis: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        require(self.axis in (0, 1, 2), self, "axis {}", self.axis)
        return (I32,)


@define("bid")
class Bid(_OfGrid):
    """The index of this block along grid axis ``axis``, as int32."""


@define("num_blocks")
class NumBlocks(_OfGrid):
    """The number of blocks along grid axis ``axis``, as int32."""


@define("assume_divisible")
class AssumeDivisible(Unary):
    """x, promised to be a multiple of ``divisor`` (bytes for pointers).

    With ``every`` and ``along``, only every ``every``-th element along axis ``along`` is promised so.
    """

    divisor: int = attribute(int)
    every: int | None = attribute(int, type(None), default=None)
    along: int | None = attribute(int, type(None), default=None)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(t.is_pointer or t.element.is_integer, self, "{} is neither integer nor pointer", t)
        require(self.divisor >= 1, self, "divisor {}", self.divisor)
        return (t,)

    def canonicalize(self, builder: Builder) -> Value | None:
        return self.x if self.divisor == 1 or constant_of(self.x) is not None else None


@define("assume_bounded")
class AssumeBounded(Unary):
    """x, promised to lie between ``lower`` and ``upper``, inclusive; None leaves a side open."""

    lower: int | None = attribute(int, type(None), default=None)
    upper: int | None = attribute(int, type(None), default=None)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(not t.is_pointer and t.element.is_integer, self, "{} is not an integer tile", t)
        return (t,)


@define("assume_blocked")
class AssumeBlocked(Unary):
    """x, promised to be constant within each block of ``shape``."""

    shape: tuple[int, ...] = attribute(tuple)

    def infer(self) -> tuple[Type, ...]:
        t = tile(self, self.x)
        require(len(self.shape) == t.rank and all(n >= 1 for n in self.shape), self, "blocks {} of {}", self.shape, t)
        return (t,)


@define("assume")
class Assume(Op):
    """A promise that every element of ``condition`` is true. Backends may drop it.

    When it is broken the program is undefined in the way that ``kind`` names; ``message`` says how, with one ``{}``
    for each of ``values``, which have the shape of the condition or are scalars. A promise about an access also names
    the kernel ``argument`` and gives the ``index`` into it, one entry per dimension.
    """

    condition: Value = operand()
    values: list[Value] = operands()
    index: list[Value] = operands()
    kind: str = attribute(str)
    message: str = attribute(str)
    argument: str = attribute(str, default="")

    def infer(self) -> tuple[Type, ...]:
        condition = tile(self, self.condition)
        shape = condition.shape
        bool_like(self, self.condition, condition)
        for v in (*self.values, *self.index):
            require(tile(self, v).shape in (shape, ()), self, "value {} for a condition of shape {}", v.type, shape)
        require(self.message.count("{}") == len(self.values), self, f"{self.message!r} for {len(self.values)} values")
        return ()


@define("print", effect=Effect.OUTPUT)
class Print(Op):
    """Prints ``parts``, literal strings and one ``None`` per operand, formatted by ``formats`` (printf conversions).

    An empty format stands for the default of the dtype. A tile prints as nested brackets. One call prints
    its text as a whole.
    """

    values: list[Value] = operands()
    parts: tuple[str | None, ...] = attribute(tuple)
    formats: tuple[str, ...] = attribute(tuple)

    def infer(self) -> tuple[Type, ...]:
        for v in self.values:
            tile(self, v)
        holes = sum(p is None for p in self.parts)
        require(holes == len(self.values) == len(self.formats), self, "{} holes for {} values", holes, len(self.values))
        return ()


MAX_ASSERT_VALUES = 3


@define("assert", effect=Effect.OUTPUT)
class Assert(Op):
    """Stops the kernel with ``message`` unless every element of the condition is true.

    ``message`` has one ``{}`` for each of ``values``, integers of the shape of the condition or scalars: it shows
    those of the first element that is false, and which one that is. Without values it is shown as it is.
    """

    condition: Value = operand()
    values: list[Value] = operands()
    message: str = attribute(str)

    def infer(self) -> tuple[Type, ...]:
        condition = tile(self, self.condition)
        shape = condition.shape
        bool_like(self, self.condition, condition)
        for v in self.values:
            t = tile(self, v)
            require(t.shape in (shape, ()), self, "value {} for a condition of shape {}", t, shape)
            require(not t.is_pointer and t.element.is_integer, self, "value {} is no integer", t)
        require(len(self.values) <= MAX_ASSERT_VALUES, self, "{} values", len(self.values))
        return ()
