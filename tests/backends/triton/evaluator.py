"""A writer that computes with NumPy instead of writing TTIR: elementwise lowering can be tested without a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.analysis.gpu.target import GpuTarget, parse_target
from tilewright.backends.triton.ttir.text import Writer
from tilewright.ir.dtypes import bfloat16, float16, float32, float64
from tilewright.ir.enums import RoundingMode
from tilewright.ir.location import UNKNOWN
from tilewright.ir.semantics.exact import rounded

DTYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


@dataclass(frozen=True)
class Computed:
    """Stands for ``Val``: an array and its TTIR element type."""

    array: Any
    element: str
    name: str = ""
    type: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def bits(self) -> int:
        return 1 if self.element == "i1" else self.array.dtype.itemsize * 8


def _unsigned(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


_BINARY = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
}
_UNSIGNED_BINARY = {"arith.shrui": np.right_shift, "arith.divui": np.floor_divide}
_UNARY = {"math.absi": np.abs, "math.absf": np.abs, "tt.precise_sqrt": np.sqrt}
_FLOATS = {"f16": float16, "bf16": bfloat16, "f32": float32, "f64": float64}
_SIGNED = {"slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}
_BITS = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
_ORDERED = {"olt": np.less, "ole": np.less_equal, "ogt": np.greater, "oge": np.greater_equal, "oeq": np.equal}


class Evaluator:
    loc = UNKNOWN

    def __init__(self, target: GpuTarget | None = None) -> None:
        self.target = target or parse_target("sm_90")

    def value(self, array: Any, element: str) -> Computed:
        return Computed(np.asarray(array).view(DTYPES[element]), element)

    def constant(self, value: Any, element: str, shape: tuple[int, ...] = ()) -> Computed:
        if element.startswith("i") and element != "i1":
            bits = int(element[1:])
            value = int(value) & ((1 << bits) - 1)
            value -= (value >> (bits - 1)) << bits
        return Computed(np.full(shape, value, DTYPES[element]), element)

    def like(self, value: Any, x: Computed) -> Computed:
        return self.constant(value, x.element, x.shape)

    def op(self, name: str, *operands: Computed) -> Computed:
        arrays = [v.array for v in operands]
        if name in _UNARY:
            found = _UNARY[name](arrays[0])
        elif name == "math.fma":
            found = rounded("fma", _FLOATS[operands[0].element], RoundingMode.RN, *arrays)
        elif name in _BINARY:
            found = _BINARY[name](*arrays)
        else:
            found = _UNSIGNED_BINARY[name](*map(_unsigned, arrays)).view(arrays[0].dtype)
        return Computed(np.asarray(found, arrays[0].dtype), operands[0].element)

    def compare(self, predicate: str, x: Computed, y: Computed) -> Computed:
        a, b = x.array, y.array
        if predicate in _BITS and x.element.startswith("i"):
            found = _BITS[predicate](_unsigned(a), _unsigned(b))
        elif predicate in _SIGNED:
            found = _SIGNED[predicate](a, b)
        elif predicate in _ORDERED:
            found = _ORDERED[predicate](a, b)
        elif predicate == "uno":
            found = np.isnan(a) | np.isnan(b)
        elif predicate == "one":
            found = (a != b) & ~(np.isnan(a) | np.isnan(b))
        else:
            found = a == b if predicate == "eq" else a != b
        return Computed(found, "i1")

    def select(self, condition: Computed, x: Computed, y: Computed) -> Computed:
        return Computed(np.where(condition.array, x.array, y.array).astype(x.array.dtype), x.element)

    def bitcast(self, x: Computed, element: str) -> Computed:
        return Computed(x.array.view(DTYPES[element]), element)

    def convert(self, name: str, x: Computed, element: str) -> Computed:
        if x.element == element:
            return x
        array = x.array
        if name in ("arith.extui", "arith.uitofp"):
            array = _unsigned(array)
        if name in ("arith.fptosi", "arith.fptoui"):
            kind = "i8" if name.endswith("si") else "u8"
            return Computed(np.trunc(array.astype(np.float64)).astype(kind).astype(DTYPES[element]), element)
        if element == "i1":
            array = array & 1
        return Computed(array.astype(DTYPES[element]), element)

    resize: Any = Writer.resize  # by ``convert``

    def call(self, function: str, *operands: Computed) -> Computed:
        assert function == "sqrt"
        return Computed(np.sqrt(operands[0].array), operands[0].element)

    def asm(self, code: str, constraints: str, operands: list[Computed], element: str) -> Computed:
        """One instruction of AMD's between two that set its rounding mode and reset it."""
        before, instruction, pause, after = code.split("\\0A")
        name, bits = re.fullmatch(r"v_(\w+)_(f\d+) (?:\$\d, )*-?\$\d", instruction).groups()  # type: ignore[union-attr]
        field = f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, {0 if bits == 'f32' else 2}, 2), "
        assert before.startswith(field) and after == field + "0" and pause == "s_nop 1"
        assert bits == element and constraints == ",".join(["=v", *["v"] * len(operands)])
        mode = {"1": RoundingMode.RP, "2": RoundingMode.RM, "3": RoundingMode.RZ}[before[len(field) :]]
        name = "sub" if "-$2" in instruction else name
        return Computed(rounded(name, _FLOATS[element], mode, *(v.array for v in operands)), element)

    def emit(self, text: str, element: str, shape: tuple[int, ...] = ()) -> Computed:
        raise NotImplementedError(text)
