"""Every op builder, by the stub that declares it; operators; attributes and methods of run-time values."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.python.context import OpBuilder
from tilewright.frontend.python.ops import (
    atomics,
    debug,
    elementwise,
    gather,
    load_store,
    matrix,
    metadata,
    reduction,
    tiles,
)

BUILDERS: dict[Any, OpBuilder] = {
    **metadata.BUILDERS,
    **tiles.BUILDERS,
    **elementwise.BUILDERS,
    **reduction.BUILDERS,
    **matrix.BUILDERS,
    **load_store.BUILDERS,
    **gather.BUILDERS,
    **atomics.BUILDERS,
    **debug.BUILDERS,
}
OPERATORS: dict[str, OpBuilder] = {**elementwise.OPERATORS, **matrix.OPERATORS, "getitem": tiles.getitem}
ATTRIBUTES = metadata.ATTRIBUTES
METHODS = metadata.METHODS
