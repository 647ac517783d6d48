"""Distributed tiles as arrays ``[threads, registers]``, and as whole tiles."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from support.gpu_stage.faults import REPLICAS, Fault

from tilewright.backends.reference.values import Array, Pointers, rearrange
from tilewright.ir.core import Op
from tilewright.ir.layouts import LANE, REGISTER, WARP, LinearLayout


@lru_cache(maxsize=4096)
def elements(layout: LinearLayout) -> Array:
    """The row-major index of the element that each thread has in each register."""
    return by_thread(layout.table)


def by_thread(table: Array) -> Array:
    """A table over registers, lanes and warps, as one over threads and registers."""
    return table.transpose(2, 1, 0).reshape(-1, table.shape[0])


@lru_cache(maxsize=4096)
def owners(layout: LinearLayout) -> Array:
    """Which threads and registers hold an element first: their free bits are 0."""
    parts = [np.arange(layout.size(dim)) & layout.free_mask(dim) == 0 for dim in (REGISTER, LANE, WARP)]
    held = parts[0][:, None, None] & parts[1][None, :, None] & parts[2][None, None, :]
    return by_thread(held)


def _bytes(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(*x.shape, x.itemsize)


def distribute(tile: Any, layout: LinearLayout) -> Any:
    """What the threads hold of a whole ``tile``."""
    return rearrange(lambda x: x.ravel()[elements(layout)], tile)


def collect(op: Op, value: Any, layout: LinearLayout) -> Any:
    """The whole tile. Fault at ``op`` when threads that hold the same element disagree about it."""

    def gather(x: Array) -> Array:
        whole = np.empty(layout.table.size, x.dtype)
        whole[elements(layout)] = x
        held = owners(layout)
        whole[elements(layout)[held]] = x[held]
        again = whole[elements(layout)]
        different = _bytes(again) != _bytes(x)
        if different.any():
            thread, register = map(int, np.argwhere(different.any(-1))[0])
            index = np.unravel_index(int(elements(layout)[thread, register]), layout.shape)
            raise Fault(
                REPLICAS,
                op,
                f"where register {register} of thread {thread} has {x[thread, register]} for element "
                f"{tuple(map(int, index))}, and another thread {again[thread, register]}",
            )
        size = int(np.prod(layout.shape))
        return whole[:size].reshape(layout.shape)

    if isinstance(value, Pointers):
        return Pointers(gather(value.allocation), gather(value.address))
    return gather(value)
