"""How elements of Tile IR are held on a GPU, in MLIR's names of element types."""

from __future__ import annotations

from tilewright.analysis.gpu.target import GpuTarget
from tilewright.ir.dtypes import DType

_ELEMENTS = {
    "i1": "i1",
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
    "tf32": "f32",
    "f8e4m3fn": "f8E4M3FN",
    "f8e5m2": "f8E5M2",
}


def register_element(dtype: DType, target: GpuTarget) -> str:
    """The element type of a tile. Small floats that the target has no type for are held as their bits, in ``i8``."""
    if dtype.is_integer:
        return f"i{dtype.bitwidth}"
    if dtype.short in ("f8e4m3fn", "f8e5m2") and not target.has_fp8:
        return "i8"
    return _ELEMENTS.get(dtype.short, "i8")


def memory_element(dtype: DType | None, target: GpuTarget) -> str:
    """The element type behind a pointer: bool takes a byte, and so does an untyped pointer's step."""
    return "i8" if dtype is None or dtype.is_bool else register_element(dtype, target)
