"""How element types of Tile IR are held in TTIR."""

from __future__ import annotations

from tilewright.analysis.gpu.element_types import memory_element, register_element
from tilewright.analysis.gpu.target import GpuTarget
from tilewright.backends.triton.ttir.text import Shape, squeezed
from tilewright.ir.types import ElementType, PointerType, TileType

FP8 = {"f8E4M3FN": (4, 3), "f8E5M2": (5, 2)}


def element(dtype: ElementType, target: GpuTarget) -> str:
    """The TTIR element type."""
    if isinstance(dtype, PointerType):
        return f"!tt.ptr<{memory_element(dtype.pointee, target)}>"
    return register_element(dtype, target)


def tensor_type(t: TileType, target: GpuTarget) -> tuple[str, Shape]:
    """Element type and shape of the TTIR value for a tile of type ``t``."""
    return element(t.dtype, target), squeezed(t.shape)
