"""Arrays among kernel arguments, whatever library they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.runtime.arrays import array_describer
from tilewright.runtime.launchable import Launchable

Args = tuple[Any, ...]


def is_array(value: Any) -> bool:
    return array_describer(value) is not None


def named_arrays(kernel: Launchable, args: Args) -> Iterator[tuple[str, Any]]:
    """The arrays of ``args``, each with the name that the kernel's IR knows it by: a list has one for its entries."""
    for (ref, _), value in zip(kernel.parameters, args):
        yield from _named(ref.argument, value)


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _named(f"{name}[{i}]", item)
    elif isinstance(value, list):
        for item in value:
            yield name, item
    elif is_array(value):
        yield name, value


def with_arrays(kernel: Launchable, args: Args, change: Callable[[str, Any], Any]) -> Args:
    """``args`` with ``change(name, array)`` in the place of every array."""
    return tuple(_changed(ref.argument, value, change) for (ref, _), value in zip(kernel.parameters, args))


def _changed(name: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_changed(f"{name}[{i}]", item, change) for i, item in enumerate(value))
    if isinstance(value, list):
        return [change(name, item) for item in value]
    return change(name, value) if is_array(value) else value


def copy_of(array: Any) -> Any:
    """A copy in the same memory: of a torch tensor, a NumPy or CuPy array, or what else has a method for it."""
    if isinstance(array, np.ndarray):
        copied = np.empty_like(array)  # keeps the order of the axes in memory
        copied[...] = array
        return copied
    method = getattr(array, "clone", None) or getattr(array, "copy", None)
    if method is None:
        raise TypeError(f"an array of type {type(array).__name__} has neither clone() nor copy(); pass another kind")
    return method()


def on_host(array: Any) -> Any:
    """``array``, or a copy in host memory of one that is not there."""
    for name in ("cpu", "get"):  # of torch, of CuPy
        if hasattr(array, name):
            return getattr(array, name)()
    return array


def as_numpy(array: Any) -> np.ndarray[Any, Any]:
    """The elements, for comparison: floats in double precision."""
    found = on_host(array)
    if hasattr(found, "detach"):  # torch, which shares no bfloat16 or float8 with NumPy
        found = found.detach()
        found = found.double().numpy() if found.dtype.is_floating_point else found.numpy()
    values = np.asarray(found)
    return values if values.dtype.kind in "biu" else values.astype(np.float64)
