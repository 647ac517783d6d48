"""How element types of Tile IR are held in TTIR."""

from __future__ import annotations

from tilewright.backends.triton.target import GpuTarget
from tilewright.backends.triton.ttir.text import Shape, squeezed
from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType, PointerType, TileType

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
FP8 = {"f8E4M3FN": (4, 3), "f8E5M2": (5, 2)}


def element(dtype: ElementType, target: GpuTarget) -> str:
    """The TTIR element type. Small floats that the target has no type for are held as their bits, in ``i8``."""
    if isinstance(dtype, PointerType):
        return f"!tt.ptr<{memory_element(dtype.pointee, target)}>"
    if dtype.is_integer:
        return f"i{dtype.bitwidth}"
    if dtype.short in ("f8e4m3fn", "f8e5m2") and not target.has_fp8:
        return "i8"
    return _ELEMENTS.get(dtype.short, "i8")


def memory_element(dtype: DType | None, target: GpuTarget) -> str:
    """The element type behind a pointer: bool takes a byte, and so does an untyped pointer's step."""
    if dtype is None or dtype.is_bool:
        return "i8"
    return element(dtype, target)


def tile_form(t: TileType, target: GpuTarget) -> tuple[str, Shape]:
    """Element type and shape of the TTIR value for a tile of type ``t``."""
    return element(t.dtype, target), squeezed(t.shape)
