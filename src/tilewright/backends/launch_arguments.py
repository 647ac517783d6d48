"""What a launch hands to an executable: numbers, and the memory that addresses among them refer to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilewright.ir.dtypes import DType
from tilewright.records import NamedTuple, dataclass


@dataclass(frozen=True)
class Buffer:
    """The memory behind one base-pointer parameter of a launch.

    ``address`` is what the parameter holds: the address of element 0, which is not the lowest one when a stride
    is negative. ``low`` and ``high`` delimit the bytes that the array covers. ``name`` is the kernel argument.
    ``shape`` and ``strides`` count elements; None where the memory is no array.
    """

    name: str
    address: int
    low: int
    high: int
    dtype: DType
    writable: bool
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


# What gives the memory that the kernels of a launch may reach through pointers in memory, beside that of the arguments.
REACHABLE: ContextVar[Callable[[], Sequence[Buffer]] | None] = ContextVar("reachable memory", default=None)


class ListTable(NamedTuple):
    """The table of a list argument: rows of 64-bit integers, of which the first is the address of an array.

    ``rows`` are those rows without the ``addresses``. Launches that differ by addresses share them, and nobody changes
    them.
    """

    rows: np.ndarray[Any, Any]
    addresses: Sequence[int]

    def filled(self) -> np.ndarray[Any, Any]:
        """The rows with the addresses."""
        rows = self.rows.copy()
        rows[:, 0] = np.array(self.addresses, np.uint64).view(np.int64)
        return rows


class LaunchArguments(NamedTuple):
    """The flattened arguments of one launch.

    ``values[i]`` is the number for ``function.body.args[i]``: an address, an extent, a stride or a scalar. That of one
    of the ``tables`` is the address of its rows in memory of the host.
    ``buffers`` lists the memory that the pointers among them refer to, but for a ``DirectLaunch``.
    On a GPU, ``stream`` is the handle of the queue that the launch goes to and ``device`` the index of the GPU.
    """

    values: Sequence[Any]
    buffers: Sequence[Buffer]
    stream: int = 0
    device: int = 0
    tables: Sequence[ListTable] = ()
