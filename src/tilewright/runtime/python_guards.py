"""The guards of a cached launch as a function of Python."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import ListTable
from tilewright.ir.dtypes import int32
from tilewright.runtime.arguments import RUNTIME_SLOT
from tilewright.runtime.guards import emit_guards
from tilewright.runtime.numpy_memory import address_of
from tilewright.runtime.rules import Rule

Values = Callable[[Any], "tuple[Any, ...] | None"]


def never(*_: Any) -> None:
    """For what has to be looked at closely each time."""


class _GuardBuilder:
    """Collects what a function over the arguments ``a0``, ``a1``, ... guards and computes."""

    def __init__(self, tables: Sequence[np.ndarray[Any, Any]]) -> None:
        self.known: dict[str, Any] = {
            "ListTable": ListTable,
            "address_of": address_of,
            "copysign": math.copysign,
            "MIN": int32.min,
            "MAX": int32.max,
        }
        self._tables = iter(tables)
        self.lists: list[str] = []  # statements that take lists apart, or give up
        self.failures: list[str] = []  # guard failures: conditions under which the arguments need a closer look
        self.addresses: list[tuple[str, str, int]] = []  # name, how to get it, that of the earlier launch
        self.numbers: list[str] = []  # what fills the slots, in order
        self.raises = False  # whether an attribute may raise RuntimeError instead, as those of nested tensors do
        self.able = True  # whether guards in Python take less time than describing the arguments

    def constant(self, i: int, value: float) -> None:
        self._guard_type(i, value)
        self.failures.append(f"a{i} != {self._put(f'a{i}_value', value)}")
        if type(value) is float and value == 0:
            self.failures.append(f"copysign(1, a{i}) != {math.copysign(1, value)}")

    def object(self, i: int, value: object) -> None:
        self.failures.append(f"a{i} is not {self._put(f'a{i}_value', value)}")

    def number(self, i: int, value: float) -> None:
        self._guard_type(i, value)
        if type(value) is int:
            self.failures.append(f"not MIN <= a{i} <= MAX")
        self.numbers.append(f"a{i}")

    def numpy(self, i: int, array: np.ndarray[Any, Any]) -> None:
        self._guard_array(i, array, ("shape", "strides", "flags.writeable"))
        self._address(i, address_of(array), f"address_of(a{i})")

    def cupy(self, i: int, array: Any) -> None:
        self._guard_array(i, array, ("shape", "strides", "data.device_id"))
        self._address(i, array.data.ptr, f"a{i}.data.ptr")

    def interface(self, i: int, array: Any, name: str) -> None:
        self.able = False

    def exported(self, i: int, array: Any) -> None:
        self.able = False

    def tensor(self, i: int, tensor: Any, changed: bool) -> None:
        self.raises = True
        self._guard_array(i, tensor, ("shape", "stride", "device", "is_neg", *["is_inference"] * changed))
        if changed and tensor.is_inference():
            self.failures.append(f"not {self._put('inference', sys.modules['torch'].is_inference_mode_enabled)}()")
        self._address(i, tensor.data_ptr(), f"a{i}.data_ptr()")

    def entries(self, i: int, entries: Sequence[int]) -> bool:
        self.lists.append(f"if type(a{i}) is not list or len(a{i}) != {len(entries)}: return None")
        self.lists.append(f"{', '.join(f'a{k}' for k in entries)}, = a{i}")
        return True

    def table(self, i: int, entries: Sequence[int]) -> None:
        addresses = ", ".join(self.numbers[-len(entries) :])
        rows = self._put(f"a{i}_rows", next(self._tables))
        self.numbers[-len(entries) :] = [f"ListTable({rows}, [{addresses}])"]

    def _guard_type(self, i: int, value: Any) -> None:
        self.failures.append(f"type(a{i}) is not {self._put(f'a{i}_type', type(value))}")

    def _guard_array(self, i: int, array: Any, facts: Sequence[str]) -> None:
        """Guard the type, the dtype and ``facts``, which are attributes or methods without arguments."""
        self._guard_type(i, array)
        self.failures.append(f"a{i}.dtype is not {self._put(f'a{i}_dtype', array.dtype)}")
        for name in facts:
            value, call = operator.attrgetter(name)(array), ""
            if callable(value):
                value, call = value(), "()"
            known = self._put(f"a{i}_{name.replace('.', '_')}", value)
            self.failures.append(f"a{i}.{name}{call} != {known}")

    def _put(self, name: str, value: Any) -> str:
        """A name for ``value`` in the function."""
        self.known[name] = value
        return name

    def _address(self, i: int, address: int, formula: str) -> None:
        self.addresses.append((f"a{i}_address", formula, address))
        self.numbers.append(f"a{i}_address")

    def function(self, count: int, values: Sequence[Any]) -> Values:
        """What gives ``values``, of which the slots are to be filled, or None."""
        aligned = [name for name, _, address in self.addresses if not address & 15]
        moved = [f"({' | '.join(aligned)}) & 15"] if aligned else []
        moved += [f"{name} & 15 != {address & 15}" for name, _, address in self.addresses if address & 15]
        # The address of an array that has elements is not 0, nor is that of most others.
        moved += [f"not {name}" for name, _, address in self.addresses if address and not address & 15]
        slots = iter(self.numbers)
        found = [next(slots) if value is RUNTIME_SLOT else repr(value) for value in values]
        lines = [
            f"if type(args) is not tuple or len(args) != {count}: return None",
            f"{', '.join(f'a{i}' for i in range(count))}, = args",
            *self.lists,
            f"if {' or '.join(self.failures)}: return None",
            *(f"{name} = {formula}" for name, formula, _ in self.addresses),
            f"if {' or '.join(moved) or False}: return None",
            f"return {', '.join(found)},",
        ]
        if self.raises:
            lines = ["try:", *(f"    {line}" for line in lines), "except RuntimeError: return None"]
        exec("\n    ".join(("def values(args):", *lines)), self.known)
        made: Values = self.known["values"]
        return made


def guarded_values(
    rules: Sequence[Rule],
    args: Sequence[Any],
    values: Sequence[Any],
    tables: Sequence[np.ndarray[Any, Any]] = (),
    changed: Collection[int] = (),
) -> Values:
    """What gives the values of the function parameters for arguments that differ from ``args`` by addresses and numbers
    only, and None for others.

    ``values`` are those for ``args``, with a RUNTIME_SLOT for each address, number and table, in the order of the
    arguments; ``tables`` are the rows of tables without their addresses. A launch writes to the arguments ``changed``.
    ``never`` where there are no such guards, or none that take less time than describing the arguments.
    """
    guards = _GuardBuilder(tables)
    known = emit_guards(rules, args, guards, changed) and guards.able and guards.numbers
    return guards.function(len(args), values) if known else never
