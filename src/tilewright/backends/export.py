"""Kernels to be written to files for programs without Python."""

from __future__ import annotations

from tilewright.ir.core import Function
from tilewright.ir.types import TileType
from tilewright.records import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter of an exported function.

    ``position`` is that of the parameter of the IR function which it becomes, or None when the code relies on the
    number ``known`` instead. Callers promise at least ``lower``, and a multiple of ``divisor`` (bytes for addresses).
    ``argument`` is what the kernel's author calls it.
    """

    name: str
    type: TileType
    argument: str
    position: int | None
    known: int | None = None
    lower: int | None = None
    divisor: int = 1


@dataclass(frozen=True)
class Export:
    """A kernel to export: its IR, the symbol, and the parameters of the exported function."""

    function: Function
    symbol: str
    parameters: tuple[Parameter, ...]
