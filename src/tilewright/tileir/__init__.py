"""CUDA Tile IR, the common form below cuTile Python, Tile C++ and others: read, run, and written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tilewright.system import forks

if TYPE_CHECKING:
    from tilewright.tileir.kernels import Module

__all__ = ["flattened", "load"]


def load(source: str | bytes | os.PathLike[str]) -> Module:
    """The module in the file ``source``, or in these bytes: bytecode of version 13.1 to 13.5 (``.tilebc``,
    ``.tileirbc``), text as ``tileirdisasm`` prints it (``.mlir``), or an object or a fat binary of nvcc with bytecode.

    Its kernels are launched as any other: ``load("kernels.tilebc").kernel("add")``.

    FileNotFoundError when there is no such file; TileError, with the byte or the line, for one that is damaged.
    """
    found: Module = forks.load("tilewright.tileir.kernels").load(source)
    return found


def flattened(*arguments: Any) -> tuple[Any, ...]:
    """Arguments as the entries of cuTile Python take them: an array becomes itself, its extents, and its strides in
    elements; a list or tuple of arguments its entries; a number stays."""
    found: tuple[Any, ...] = forks.load("tilewright.tileir.kernels").flattened(*arguments)
    return found
