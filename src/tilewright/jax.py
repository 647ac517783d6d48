"""Launches in JAX programs, as ``cuda.tile.jax`` has them. Operators (``ct.op``) have gradients and sharding, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tilewright.language.dtypes import to_dtype
from tilewright.ops.jax_call import Platform, call_handler, register_handler, written_arrays, xla_platform
from tilewright.runtime.abstract import record_launches
from tilewright.runtime.arrays import abstract_array
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launch import launch

__all__ = ["InputOutput", "OutputPlaceholder", "cutile_call"]


@dataclass(frozen=True)
class OutputPlaceholder:
    """An array that the kernel writes: JAX allocates it, and the call returns it."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True, eq=False)
class InputOutput:
    """An array that the kernel changes: the call returns it as it is then. Where it is donated its memory is used."""

    array: Any


def cutile_call(grid: tuple[int, ...], kernel: Any, args: tuple[Any, ...]) -> Any:
    """Launch ``kernel`` in a JAX program, under ``jax.jit`` or outside of it.

    ``args`` has an entry for each parameter: an array of JAX, which the kernel may only read, an ``OutputPlaceholder``,
    an ``InputOutput``, a number known when the function is traced, or a tuple of such. Returns what was written: one
    array, or a tuple in the order of the arguments.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"cutile_call: the arguments must be a tuple, not of type {type(args).__name__}")
    grid, call = checked_grid(grid), _Call()
    given = tuple(call.taken(value, f"argument {i}") for i, value in enumerate(args))
    if not call.results:
        raise ValueError("cutile_call: nothing would be returned; pass an OutputPlaceholder or InputOutput")
    platform = xla_platform("cutile_call")
    key = (kernel, grid, repr(given), tuple(_kinds(call.inputs)), tuple(call.results), platform)
    target = _TARGETS.get(key)
    if target is None:
        target = _TARGETS[key] = _target(kernel, grid, given, call, platform)
    found = call_handler(target, call.inputs, call.results, call.aliases)
    return found[0] if len(found) == 1 else tuple(found)


_TARGETS: dict[Any, str] = {}  # names of handlers, by what they were made for


@dataclass(frozen=True)
class _Array:
    """In place of an array: its number among the inputs, or among the results."""

    number: int
    is_result: bool = False


class _Call:
    """The arrays of a call. ``aliases`` maps the inputs that are changed to the results."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.results: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        self.aliases: dict[int, int] = {}

    def taken(self, value: Any, place: str) -> Any:
        """``value`` with numbers in place of arrays."""
        if isinstance(value, tuple):
            return tuple(self.taken(v, f"{place}[{i}]") for i, v in enumerate(value))
        if isinstance(value, OutputPlaceholder):
            self.results.append((tuple(value.shape), np.dtype(value.dtype)))
            return _Array(len(self.results) - 1, is_result=True)
        if isinstance(value, InputOutput):
            self.aliases[len(self.inputs)] = len(self.results)
            self.results.append((value.array.shape, np.dtype(value.array.dtype)))
            value = value.array
        if isinstance(value, (jax.Array, np.ndarray)):
            if to_dtype(value.dtype) is None:
                raise TypeError(f"cutile_call: {place} has the dtype {value.dtype}, which kernels do not take")
            self.inputs.append(value)
            return _Array(len(self.inputs) - 1)
        if isinstance(value, (bool, int, float)):
            return value
        raise TypeError(
            f"cutile_call: {place} is of type {type(value).__name__}; pass an array of JAX, an OutputPlaceholder, an "
            "InputOutput, or a number that is static"
        )


def _kinds(arrays: list[Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [(a.shape, np.dtype(a.dtype)) for a in arrays]


def _target(kernel: Any, grid: tuple[int, ...], given: tuple[Any, ...], call: _Call, platform: Platform) -> str:
    """The name of the handler of this call."""
    kinds = [*_kinds(call.inputs), *call.results]
    count = len(call.inputs)

    def abstract(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(abstract, value))
        if isinstance(value, _Array):
            number = value.number + count * value.is_result
            return abstract_array(number, *kinds[number], platform.device)
        return value

    launches = record_launches(lambda stream: launch(stream, grid, kernel, abstract(given)))
    for written in (number for made in launches for number in written_arrays(made)):
        if written < count and written not in call.aliases:
            shape, dtype = kinds[written]
            raise ValueError(
                f"cutile_call: {kernel.name}() stores to input {written}, of {dtype} {shape}; pass it as an InputOutput"
            )
    mutated = {i: count + r for i, r in call.aliases.items()}
    return register_handler(platform, "cutile_call", launches, count, mutated, kinds)
