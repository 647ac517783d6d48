"""What is known while one kernel is translated: the IR value of each LLVM value, and conversions between them."""

from __future__ import annotations

from typing import Any, NoReturn

from tilewright.frontend.cpp import llvm_form as llvm
from tilewright.frontend.cpp.hints import StatementHints
from tilewright.frontend.cpp.layout import Layouts
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.names import source_name
from tilewright.frontend.cpp.typecodes import LLVM_DTYPES, tile_type
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Value
from tilewright.ir.dtypes import DType, int64, uint8
from tilewright.ir.errors import TileError, TileUnsupportedFeatureError
from tilewright.ir.ops.arith import Bitcast, Cast
from tilewright.ir.ops.shape import Constant, PtrOffset, Undefined
from tilewright.ir.types import ElementType, PointerType, TileType

VOID_POINTER = PointerType(None)


class Translation:
    """The state of translating ``function``. ``env`` maps LLVM names to IR values, ``types`` to their IR types."""

    def __init__(self, module: llvm.LLVMModule, function: llvm.LLVMFunction, locations: Locations, body: Block) -> None:
        self.module = module
        self.function = function
        self.locations = locations
        self.builder = Builder(body, locations.function(function.subprogram))
        self.env: dict[str, Value] = {}
        self.layouts = Layouts(module.types)
        self.tables: dict[str, Value] = {}  # constant arrays, copied into memory of the block
        self.unavailable: dict[str, str] = {}  # names of values that cannot be used, and why
        self.hints = StatementHints(module, function, locations)
        self.types: dict[str, TileType] = {}
        self.uses: dict[str, int] = {}
        for block in function.blocks:
            for instruction in block.instructions:
                for operand in instruction.operands:
                    if isinstance(operand, llvm.Local):
                        self.uses[operand.name] = self.uses.get(operand.name, 0) + 1

    # -- values

    def value(self, operand: llvm.Operand, type: str, want: ElementType | None = None) -> Value:
        """The IR value of ``operand`` of LLVM type ``type``, as elements of ``want`` when given."""
        if isinstance(operand, llvm.Local):
            if operand.name in self.unavailable:
                self.fail(self.unavailable[operand.name])
            if operand.name not in self.env:
                self.fail("a struct or array that is computed at run time is not available in tile code")
            value = self.env[operand.name]
            return value if want is None else self.coerce(value, want)
        if isinstance(operand, llvm.Symbol):
            if operand.name not in self.module.globals:
                self.fail("pointers to functions, and calls through them, are not available in tile code")
            if operand.name in self.tables:
                value = self.moved(self.tables[operand.name], operand.offset)
                return value if want is None else self.coerce(value, want)
            if operand.name.startswith("_ZTV"):
                self.fail("virtual functions are not available in tile code")
            if operand.name.startswith("__const."):  # what a local array is filled from
                variable = operand.name.rpartition(".")[2]
                self.fail(f"the array '{variable}' holds addresses, which is not available in tile code; use a switch")
            name = source_name(operand.name)
            self.fail(f"the global variable '{name}' is not available in tile code; pass it to the kernel")
        dtype = want if want is not None else self.default_element(type)
        if operand.value is llvm.UNDEFINED:
            if type == llvm.HANDLE:
                self.fail("a tile is used before it is given a value")
            return self.builder.emit(Undefined, type=TileType(dtype))
        own = LLVM_DTYPES.get(type)
        if own is not None and isinstance(dtype, DType) and own != dtype and (own.is_floating or dtype.is_floating):
            return self.coerce(self.constant(operand.value, own), dtype)  # the bits count, not the number
        return self.constant(operand.value, dtype)

    def tile(self, operand: llvm.Operand, like: TileType | None = None) -> Value:
        """The tile behind a handle."""
        if isinstance(operand, llvm.Const) and like is not None:
            return self.builder.emit(Undefined, type=like)
        return self.value(operand, llvm.HANDLE)

    def constant(self, value: Any, dtype: ElementType, shape: tuple[int, ...] = ()) -> Value:
        """A constant of ``dtype``; integers wrap, ``None`` is the null pointer."""
        if isinstance(dtype, PointerType):
            return self.builder.constant(int(value or 0), dtype, shape)
        if dtype.is_bool:
            value = bool(value)
        elif dtype.is_integer:
            value = (int(value) - dtype.min) % (1 << dtype.bitwidth) + dtype.min
        return self.builder.constant(value, dtype, shape)

    def default_element(self, type: str) -> ElementType:
        return VOID_POINTER if type == "ptr" else self.number(type)

    def number(self, type: str) -> DType:
        """The dtype that stands for the numbers of LLVM type ``type`` where nothing says more."""
        if type not in LLVM_DTYPES:
            self.fail(f"values of the LLVM type {type} are not available in tile code")
        return LLVM_DTYPES[type]

    def coerce(self, value: Value, want: ElementType) -> Value:
        """``value`` with the same bits read as ``want``; between bool and 8-bit integers the number is kept."""
        have = value.tile.dtype
        if have == want:
            return value
        source = value.op
        if isinstance(source, Bitcast) and source.x.type == value.tile.with_dtype(want):
            return source.x
        if isinstance(have, DType) and isinstance(want, DType):
            if isinstance(source, Constant) and have.is_integer and want.is_integer:
                return self.constant(source.value, want, value.tile.shape)
            if have.is_bool or want.is_bool:
                return self.builder.emit(Cast, value, dtype=want)
            if have.bitwidth != want.bitwidth:
                self.fail(f"cannot read {have} as {want}")
        elif isinstance(have, DType) or isinstance(want, DType):
            self.fail(f"cannot read {have} as {want}")
        return self.builder.emit(Bitcast, value, dtype=want)

    def moved(self, pointer: Value, offset: int) -> Value:
        """``pointer``, ``offset`` bytes further."""
        if offset == 0:
            return pointer
        have = pointer.tile.dtype
        size = have.pointee.bytes if isinstance(have, PointerType) and have.pointee is not None else 0
        if size and offset % size == 0:
            return self.builder.emit(PtrOffset, pointer, self.constant(offset // size, int64))
        base = self.coerce(pointer, PointerType(uint8))
        return self.coerce(self.builder.emit(PtrOffset, base, self.constant(offset, int64)), have)

    def bind(self, instruction: llvm.Instruction, value: Value) -> None:
        assert instruction.name is not None
        self.env[instruction.name] = value

    # -- constants that the headers pass

    def integer(self, operand: llvm.Operand) -> int:
        """A constant argument of an intrinsic."""
        if isinstance(operand, llvm.Const) and isinstance(operand.value, (int, bool)):
            return int(operand.value)
        self.fail("an argument that must be a compile-time constant is computed at run time")

    def type_argument(self, operand: llvm.Operand) -> TileType:
        return tile_type(self.integer(operand))

    # -- errors

    def fail(self, message: str, error: type[TileError] = TileUnsupportedFeatureError) -> NoReturn:
        raise error(message, self.builder.loc)
