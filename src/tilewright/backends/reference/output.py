"""print and assert."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.backends.reference.elementwise import element_type
from tilewright.backends.reference.values import Pointers
from tilewright.ir.core import Op
from tilewright.ir.errors import TileError
from tilewright.ir.formatting import failure, format_print
from tilewright.ir.ops.memory import Assert, Assume, Print
from tilewright.ir.types import Type


def print_values(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> None:
    """Writes the whole text at once, so that blocks and threads do not mix within it."""
    values = [(x.address if isinstance(x, Pointers) else x, element_type(type)) for x, type in zip(operands, types)]
    sys.stdout.write(format_print(attributes["parts"], attributes["formats"], values))


def check_assertion(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> None:
    """TileError unless every element of the condition is true."""
    condition, *values = operands
    if condition.all():
        return
    element = int(np.argmin(condition.reshape(-1)))
    found = [int(np.broadcast_to(v, condition.shape).reshape(-1)[element]) for v in values]
    raise TileError(failure(attributes["message"], condition.shape, element, found))


def _nothing(attributes: Mapping[str, Any], operands: Sequence[Any], types: Sequence[Type]) -> None:
    """Promises have no effect here."""


OUTPUT: dict[type[Op], Callable[[Mapping[str, Any], Sequence[Any], Sequence[Type]], None]] = {
    Print: print_values,
    Assert: check_assertion,
    Assume: _nothing,
}
