"""Builds small kernels in Tile IR, and launches them on NumPy arrays, for tests of backends.

k = KernelBuilder()
x, y = k.array("x", float32, 1), k.array("y", float32, 1)
i = k.bid(0)
k.store_tile(y, k.emit(Neg, k.load_tile(x, (8,), [i])), [i])
run(BACKEND, k.function(), (4,), x=source, y=target)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.base import Backend
from tilewright.backends.launch_arguments import Buffer, LaunchArguments
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Param, Value
from tilewright.ir.dtypes import DType, int32
from tilewright.ir.enums import PaddingMode
from tilewright.ir.location import Loc
from tilewright.ir.ops.control import Return, Yield
from tilewright.ir.ops.memory import Bid, LoadView, MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.ops.shape import Broadcast, Iota, PtrOffset, Reshape
from tilewright.ir.types import ElementType, PartitionViewType, PointerType, TensorViewType, TileType, Type


@dataclass(frozen=True)
class ArrayParam:
    """The flattened parameters of one array."""

    name: str
    dtype: DType
    base: Value
    shape: list[Value]
    strides: list[Value]


class KernelBuilder:
    """A function under construction. ``b`` is the plain IR builder; set ``b.loc`` to give ops a location."""

    def __init__(self, name: str = "kernel") -> None:
        self.name = name
        self.body = Block()
        self.params: list[Param] = []
        self.b = Builder(self.body, Loc("kernel.py", 1, function=name))

    def _param(self, type: Type, *param: Any) -> Value:
        self.params.append(Param(*param))
        return self.body.add_arg(type, "_".join(map(str, param)))

    def array(self, name: str, dtype: DType, rank: int, index_dtype: DType = int32) -> ArrayParam:
        """An array argument: base pointer, extents, strides."""
        index = TileType(index_dtype)
        base = self._param(TileType(PointerType(dtype)), name, "base")
        shape = [self._param(index, name, "shape", axis) for axis in range(rank)]
        return ArrayParam(name, dtype, base, shape, [self._param(index, name, "stride", axis) for axis in range(rank)])

    def scalar(self, name: str, dtype: DType) -> Value:
        return self._param(TileType(dtype), name, "scalar")

    def emit(self, cls: type[Op], *operands: Any, **keywords: Any) -> Value:
        return self.b.emit(cls, *operands, **keywords)

    def constant(self, value: bool | float, dtype: ElementType = int32, shape: tuple[int, ...] = ()) -> Value:
        return self.b.constant(value, dtype, shape)

    def bid(self, axis: int) -> Value:
        return self.emit(Bid, axis=axis)

    def iota(self, *shape: int, dtype: DType = int32) -> Value:
        return self.emit(Iota, type=TileType(dtype, shape))

    def fill(self, scalar: Value, shape: tuple[int, ...]) -> Value:
        """A scalar, numeric or pointer, broadcast to ``shape``."""
        return self.emit(Broadcast, self.emit(Reshape, scalar, shape=(1,) * len(shape)), shape=shape)

    def pointers(self, array: ArrayParam, offsets: Value) -> Value:
        """Pointers to the elements of a rank-1, unit-stride array at ``offsets``."""
        return self.emit(PtrOffset, self.fill(array.base, offsets.tile.shape), offsets)

    def view(
        self,
        array: ArrayParam,
        tile_shape: tuple[int, ...],
        order: tuple[int, ...] | None = None,
        padding: PaddingMode = PaddingMode.UNDETERMINED,
        steps: tuple[int, ...] | None = None,
    ) -> Value:
        """A partition view of the whole array."""
        unknown = (None,) * len(array.shape)
        index_dtype = array.shape[0].tile.element if array.shape else int32
        type = TensorViewType(array.dtype, unknown, unknown, index_dtype)
        view = self.emit(MakeTensorView, array.base, array.shape, array.strides, type=type)
        order = tuple(range(len(tile_shape))) if order is None else order
        partition = PartitionViewType(type, tile_shape, order, padding, tile_shape if steps is None else steps)
        return self.emit(MakePartitionView, view, type=partition)

    def load_tile(self, array: ArrayParam, shape: tuple[int, ...], indices: Sequence[Value], **keywords: Any) -> Value:
        view = self.view(array, shape, **keywords)
        return self.emit(LoadView, view, indices, in_bounds=(False,) * len(shape))

    def store_tile(self, array: ArrayParam, value: Value, indices: Sequence[Value], **keywords: Any) -> None:
        view = self.view(array, value.tile.shape, **keywords)
        self.b.emit_op(StoreView, view, value, indices, in_bounds=(False,) * value.tile.rank)

    @contextmanager
    def region(self, *types: Type) -> Iterator[Block]:
        """A new region with arguments of ``types``, into which ops are emitted for the duration."""
        with self.b.at(Block(types)) as block:
            yield block

    def combiner(self, dtypes: Sequence[DType], combine: Callable[..., Sequence[Value]]) -> Block:
        """The region of a ``reduce`` or ``scan``: ``combine`` takes the left scalars, then the right ones."""
        with self.region(*(TileType(d) for d in [*dtypes, *dtypes])) as block:
            self.b.emit_op(Yield, combine(*block.args))
        return block

    def function(self) -> Function:
        """The finished function."""
        self.b.emit_op(Return)
        return Function(self.name, self.body, self.params, self.b.loc)


def launch_arguments(function: Function, values: dict[str, Any]) -> LaunchArguments:
    """The flattened form of ``values``, NumPy arrays and numbers by argument name. Read-only arrays stay so."""
    numbers: list[Any] = []
    buffers = []
    for param, arg in zip(function.params, function.body.args):
        value = values[param.argument]
        if param.role == "base":
            numbers.append(value.ctypes.data)
            low, high = np.lib.array_utils.byte_bounds(value) if value.size else (value.ctypes.data,) * 2
            dtype = arg.tile.pointee
            assert value.dtype == dtype.storage, f"argument {param.argument} has dtype {value.dtype}, expected {dtype}"
            buffers.append(Buffer(param.argument, value.ctypes.data, low, high, dtype, value.flags.writeable))
        elif param.role == "shape":
            numbers.append(value.shape[param.axis])
        elif param.role == "stride":
            numbers.append(value.strides[param.axis] // value.itemsize)
        else:
            numbers.append(value)
    return LaunchArguments(numbers, buffers)


def run(backend: Backend, function: Function, grid: tuple[int, ...] = (1,), **values: Any) -> None:
    """Compile ``function`` and run it over ``grid``, of which absent axes have length 1."""
    x, y, z = (*grid, 1, 1, 1)[:3]
    backend.compile(function, {}).launch((x, y, z), launch_arguments(function, values))
