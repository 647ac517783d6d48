"""MMA ops of warp groups with accumulators in tensor memory (tcgen05, sm_100a).

An SM has 512 columns of 128 lanes of 32 bits. An accumulator of 64 rows takes lanes 32 w to 32 w + 15 for rows 16 w to
16 w + 15, and a column for each of its own; one of more rows has the next 64 in the columns behind. So warp w of a
warp group reaches what it has in the layout of ``gpu.wgmma``. PTX ISA, "Tensor Memory", "Data path layout".
"""

from __future__ import annotations

from tilewright.ir.core import Op, Value
from tilewright.ir.dtypes import DType, uint32
from tilewright.ir.layouts import WARP, LinearLayout
from tilewright.ir.opdef import GPU_OPS, Effect, attribute, define, operand
from tilewright.ir.ops.gpu.barriers import barriers_type
from tilewright.ir.ops.gpu.memory import READ_WRITE, shared
from tilewright.ir.ops.gpu.wgmma import MOST_COLUMNS, ROWS, readable, wgmma_layout, wgmma_multiplies
from tilewright.ir.ops.rules import require, scalar_integer, tile
from tilewright.ir.types import I32, SharedType, TileType, Type

COLUMNS = 512
FEWEST_COLUMNS = 32  # that can be allocated; as many must be a power of two
SLOTS = 4  # MMA ops of a warp group that can be told apart while they are in flight
ADDRESS_TYPE = SharedType(uint32, LinearLayout.row_major((1,)))  # of the shared memory that takes an address


def columns_of(shape: tuple[int, ...]) -> int:
    """How many columns an accumulator of ``shape`` takes."""
    return shape[0] // ROWS * shape[1]


class TensorAllocation(Op):
    """Shared: so many ``columns`` of tensor memory."""

    columns: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        fits = FEWEST_COLUMNS <= self.columns <= COLUMNS and self.columns & (self.columns - 1) == 0
        require(fits, self, "{} columns", self.columns)
        return ()


@define("gpu.tensor_alloc", effect=READ_WRITE, table=GPU_OPS)
class TensorAlloc(TensorAllocation):
    """The address of ``columns`` of tensor memory, which warp 0 allocates and ``buffer`` passes on: every warp that has
    tiles waits for it. Waits while other CTAs on the SM have too many."""

    buffer: Value = operand()
    columns: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        super().infer()
        require(shared(self, self.buffer) == ADDRESS_TYPE, self, "an address in {}", self.buffer.type)
        return (I32,)


@define("gpu.tensor_free", effect=READ_WRITE, table=GPU_OPS)
class TensorFree(TensorAllocation):
    """Gives ``columns`` at ``address`` back, when every warp that has tiles has come this far."""

    address: Value = operand()
    columns: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        scalar_integer(self, self.address)
        return super().infer()


def _accumulator(op: Op, t: TileType) -> None:
    """Require that ``t`` can be an accumulator in tensor memory."""
    fits = t.rank == 2 and t.layout is not None and t.element.bytes == 4 and t.shape[0] % ROWS == 0
    require(fits and t.layout == wgmma_layout(t.shape, t.layout.size(WARP)), op, "the layout of {}", t)  # type: ignore[union-attr]


@define("gpu.tensor_load", effect=Effect.READ, table=GPU_OPS)
class TensorLoad(Op):
    """The accumulator at ``address``; each warp group waits until its warps have loaded what they hold."""

    address: Value = operand()
    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        scalar_integer(self, self.address)
        _accumulator(self, self.type)
        return (self.type,)


@define("gpu.tensor_store", effect=Effect.WRITE, table=GPU_OPS)
class TensorStore(Op):
    """Stores ``value`` at ``address`` as an accumulator; each warp group waits until its warps have."""

    address: Value = operand()
    value: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        scalar_integer(self, self.address)
        _accumulator(self, tile(self, self.value))
        return ()


@define("gpu.tcgen05_mma", effect=READ_WRITE, table=GPU_OPS)
class Tcgen05Mma(Op):
    """Begins x @ y of tiles in shared memory: each warp group multiplies 64 rows, in turn, to the accumulator of
    ``dtype`` at ``address``, to which it ``adds``.

    It is in flight until ``gpu.tcgen05_wait`` for its ``number``: as many MMA ops of the warp group were before it.
    ``barriers`` are ``SLOTS`` mbarriers for each warp group. MMA ops of a warp group follow each other.
    """

    x: Value = operand()
    y: Value = operand()
    address: Value = operand()
    barriers: Value = operand()
    number: Value = operand()
    dtype: DType = attribute(DType)
    adds: bool = attribute(bool, default=True)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the accumulator."""
        x, y = shared(self, self.x), shared(self, self.y)
        return x.shape[0], y.shape[1]

    def infer(self) -> tuple[Type, ...]:
        x, y = shared(self, self.x), shared(self, self.y)
        require(x.copies == y.copies == 1 and readable(x, 1) and readable(y, 0), self, "layouts of {} and {}", x, y)
        require(wgmma_multiplies(x.dtype, y.dtype, self.dtype), self, "dtypes of {}, {} and {}", x, y, self.dtype)
        (m, k), (depth, n) = x.shape, y.shape
        fits = k == depth and m % ROWS == 0 and n % 8 == 0 and n <= MOST_COLUMNS
        require(fits, self, "shapes of {} and {}", x, y)
        scalar_integer(self, self.address, self.number)
        _barriers(self, self.barriers)
        return ()


@define("gpu.tcgen05_wait", effect=READ_WRITE, table=GPU_OPS)
class Tcgen05Wait(Op):
    """Each warp group waits for its MMA op of this ``number``, one of the last ``SLOTS``, and so for those before it;
    for none if it is negative."""

    barriers: Value = operand()
    number: Value = operand()

    def infer(self) -> tuple[Type, ...]:
        scalar_integer(self, self.number)
        _barriers(self, self.barriers)
        return ()


def _barriers(op: Op, value: Value) -> None:
    t = shared(op, value)
    require(t == barriers_type(t.copies) and t.copies % SLOTS == 0, op, "{} are no mbarriers for warp groups", t)
