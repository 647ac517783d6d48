"""Launches that repeat the previous one of their kernel with other addresses and numbers, as most launches do.

Describing every argument and looking the description up takes several times as long as the launch itself. For the
arguments of a repeated launch a Python function is written that asks the next ones only whether they are alike.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.ir.dtypes import int32
from tilewright.runtime.arguments import HOLE
from tilewright.runtime.numpy_memory import address_of
from tilewright.runtime.rules import Rule

Values = Callable[[Any], "tuple[Any, ...] | None"]
# Equal ones of one type are the same constant; of floats, 0.0 and -0.0 are not.
_CONSTANTS = (int, bool)
_NUMBERS = (int, bool, float)


@dataclass(frozen=True)
class Again:
    """How to run launches that need the code of an earlier one with the same ``settings``.

    ``values`` gives the values of the function parameters for the arguments of a launch, or None when these need a
    closer look. ``run`` is that of a ``Native`` executable, and ``device`` the index of the GPU, None for a CPU.
    """

    settings: tuple[Any, ...]
    values: Values
    run: Callable[..., None]
    device: int | None


def never(*_: Any) -> None:
    """For what has to be looked at closely each time."""


class _Writer:
    """Collects what a function over the arguments ``a0``, ``a1``, ... asks and computes."""

    def __init__(self, count: int) -> None:
        self.names = [f"a{i}" for i in range(count)]
        self.known: dict[str, Any] = {"address_of": address_of, "MIN": int32.min, "MAX": int32.max}
        self.doubts: list[str] = []  # conditions under which the arguments need a closer look
        self.addresses: list[tuple[str, str, int]] = []  # name, how to get it, what it leaves divided by 16
        self.numbers: list[str] = []  # what fills the holes, in order
        self.tensors: list[tuple[str, Any]] = []

    def put(self, name: str, value: Any) -> str:
        """A name for ``value`` in the function."""
        self.known[name] = value
        return name

    def constant(self, a: str, value: Any) -> None:
        self.doubts.append(f"type({a}) is not {self.put(f'{a}_type', type(value))} or {a} != {value!r}")

    def number(self, a: str, value: Any) -> None:
        in_range = f" or not MIN <= {a} <= MAX" if type(value) is int else ""
        self.doubts.append(f"type({a}) is not {self.put(f'{a}_type', type(value))}{in_range}")
        self.numbers.append(a)

    def array(self, a: str, value: Any, address: int, formula: str, *facts: str) -> None:
        """An array of NumPy's kind, whose attributes ``facts`` must stay what they are."""
        self.doubts.append(f"type({a}) is not {self.put(f'{a}_type', type(value))}")
        self.doubts.append(f"{a}.dtype is not {self.put(f'{a}_dtype', value.dtype)}")
        for fact in ("shape", "strides", *facts):
            self.doubts.append(f"{a}.{fact} != {operator.attrgetter(fact)(value)!r}")
        self._address(a, address, formula)

    def tensor(self, a: str, value: Any) -> None:
        same = next((name for name, tensor in self.tensors if tensor is value), None)
        if same is None:
            self.tensors.append((a, value))
        else:  # PyTorch refuses to compare a tensor twice
            self.doubts.append(f"{a} is not {same}")
        self._address(a, value.data_ptr(), f"{a}.data_ptr()")

    def _address(self, a: str, address: int, formula: str) -> None:
        self.addresses.append((f"{a}_address", formula, address & 15))
        self.numbers.append(f"{a}_address")

    def function(self, values: Sequence[Any]) -> Values:
        """What gives ``values``, of which the holes are to be filled, or None."""
        aligned = [name for name, _, left in self.addresses if not left]
        moved = [f"({' | '.join(aligned)}) & 15"] if aligned else []
        moved += [f"{name} & 15 != {left}" for name, _, left in self.addresses if left]
        holes = iter(self.numbers)
        found = [next(holes) if value is HOLE else repr(value) for value in values]
        lines = [
            "def values(args):",
            f"    if type(args) is not tuple or len(args) != {len(self.names)}: return None",
            f"    {', '.join(self.names)}, = args",
            f"    if {' or '.join(self.doubts)}: return None",
            *(f"    {name} = {formula}" for name, formula, _ in self.addresses),
            f"    if {' or '.join(moved) or False}: return None",
            f"    return {', '.join(found)},",
        ]
        exec("\n".join(lines), self.known)
        made: Values = self.known["values"]
        return made


def values_if_repeated(rules: Iterable[Rule], args: Sequence[Any], values: Sequence[Any]) -> Values:
    """``Again.values`` for arguments that differ from ``args`` by addresses and numbers only.

    ``values`` are those for ``args``, with a HOLE for each address and number, in the order of the arguments.
    ``never`` when an argument is no array of NumPy or CuPy, no tensor of PyTorch, and no number or constant number.
    """
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    w = _Writer(len(args))
    for a, rule, argument in zip(w.names, rules, args):
        kind = type(argument)
        if rule.constant and kind in _CONSTANTS:
            w.constant(a, argument)
        elif rule.constant:
            return never
        elif kind is np.ndarray:
            w.array(a, argument, address_of(argument), f"address_of({a})", "flags.writeable")
        elif cupy is not None and kind is cupy.ndarray:
            w.array(a, argument, argument.data.ptr, f"{a}.data.ptr", "data.device_id")
        elif torch is not None and isinstance(argument, torch.Tensor):
            w.tensor(a, argument)
        elif rule.declared is None and kind in _NUMBERS:
            w.number(a, argument)
        else:
            return never
    if w.tensors:
        names, tensors = zip(*w.tensors)
        agree = _agreement(torch, tensors)
        if agree is None:
            return never
        w.doubts.append(f"not {w.put('agree', agree)}({', '.join(names)})")
    return w.function(values) if w.numbers else never


def _agreement(torch: Any, tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Whether tensors have the class, dtype, device, shape and strides of ``tensors``, as PyTorch asks before it runs
    compiled code again. That is no public part of PyTorch: None where it is missing."""
    try:
        guards = torch._C._dynamo.guards.TensorGuards
        check: Callable[..., bool] = guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    except (AttributeError, TypeError):
        return None
    return check
