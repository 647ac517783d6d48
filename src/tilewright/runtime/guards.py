"""Guards of a cached launch: conditions under which arguments differ from those of the earlier launch by addresses and
numbers only.

``emit_guards`` says which there are; builders write them as a function of Python, which is soon made, and as machine
code.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.language.dtypes import to_dtype
from tilewright.runtime import arrays
from tilewright.runtime.rules import Rule

_MOST = 1024  # arguments and entries of lists
_ENTRY = Rule()
_NUMBERS = (int, bool, float)
_INTERFACES: dict[arrays.Describe | None, str] = {
    arrays.describe_interface: "__array_interface__",
    arrays.describe_cuda_interface: "__cuda_array_interface__",
}


class GuardBuilder(Protocol):
    """Writes guards of arguments, by index. The values are those of the earlier launch.

    Of all but constants and lists the address or number is collected, in the order of the calls, for the runtime slots.
    """

    def constant(self, i: int, value: float) -> None:
        """It has the type and value of ``value``, which is no NaN; 0.0 and -0.0 are different."""

    def object(self, i: int, value: object) -> None:
        """It is ``value``."""

    def number(self, i: int, value: float) -> None:
        """It has the type of ``value``, and fits in 32 bits if that is ``int``."""

    def numpy(self, i: int, array: np.ndarray[Any, Any]) -> None: ...

    def cupy(self, i: int, array: Any) -> None: ...

    def interface(self, i: int, array: Any, name: str) -> None:
        """``array`` has the attribute ``name``, ``__array_interface__`` or that of CUDA."""

    def exported(self, i: int, array: Any) -> None: ...

    def tensor(self, i: int, tensor: Any, changed: bool) -> None:
        """``changed``: the launch writes to it."""

    def entries(self, i: int, entries: Sequence[int]) -> bool:
        """It is a list of arrays, which have these indices from here on. Comes before other guards; False where lists
        cannot be guarded."""

    def table(self, i: int, entries: Sequence[int]) -> None:
        """What was collected of its entries, the addresses, becomes one: the table."""


def emit_guards(rules: Sequence[Rule], args: Sequence[Any], to: GuardBuilder, changed: Collection[int] = ()) -> bool:
    """Write all guards of arguments like ``args``; a launch writes to those ``changed``. False when one of these is no
    number or constant number, no array or one of a derived class, and no list of such arrays."""
    values, lists = list(args), {}
    for i, (rule, argument) in enumerate(zip(rules, args)):
        if type(argument) is list and not rule.constant and rule.declared is None:
            lists[i] = range(len(values), len(values) + len(argument))
            values += argument
            if not to.entries(i, lists[i]):
                return False
    if len(values) > _MOST:
        return False
    for i, (rule, argument) in enumerate(zip(rules, args)):
        if i in lists:
            if not all(_emit_guard(_ENTRY, k, values[k], to, i in changed) for k in lists[i]):
                return False
            to.table(i, lists[i])
        elif not _emit_guard(rule, i, argument, to, i in changed):
            return False
    return True


def _emit_guard(rule: Rule, i: int, argument: Any, to: GuardBuilder, changed: bool) -> bool:
    """Write the guards of one argument, or entry of a list."""
    kind, cupy, torch = type(argument), sys.modules.get("cupy"), sys.modules.get("torch")
    if rule.constant and kind in _NUMBERS and argument == argument:  # no NaN
        to.constant(i, argument)
    elif rule.declared is None and to_dtype(argument) is not None:
        to.object(i, argument)
    elif rule.constant:
        return False
    elif kind is np.ndarray:
        to.numpy(i, argument)
    elif cupy is not None and kind is cupy.ndarray:
        to.cupy(i, argument)
    elif torch is not None and isinstance(argument, torch.Tensor):
        to.tensor(i, argument, changed)
    elif rule.declared is not None:
        return False
    elif kind in _NUMBERS:
        to.number(i, argument)
    elif (describe := arrays.array_describer(argument)) in _INTERFACES:
        to.interface(i, argument, _INTERFACES[describe])
    elif describe is arrays.describe_dlpack:
        to.exported(i, argument)
    else:
        return False
    return True
