"""Guards of a cached launch: conditions under which arguments differ from those of the earlier launch by addresses and
numbers only.

``emit_guards`` says which there are; builders write them as a function of Python, which is soon made, and as machine
code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.language.dtypes import to_dtype
from tilewright.runtime.arrays import (
    Describe,
    array_describer,
    describe_cuda_interface,
    describe_dlpack,
    describe_interface,
)
from tilewright.runtime.rules import Rule

_MOST = 1024  # arguments and entries of lists
_ENTRY = Rule()
_NUMBERS = (int, bool, float)
_INTERFACES: dict[Describe | None, str] = {
    describe_interface: "__array_interface__",
    describe_cuda_interface: "__cuda_array_interface__",
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

    def tensors(self, check: Callable[..., bool], tensors: Mapping[int, Any]) -> None:
        """Those with the indices of ``tensors`` pass ``check`` together. The first guard."""

    def tensor(self, i: int, tensor: Any) -> None: ...

    def same(self, i: int, other: int) -> None:
        """It is the same object as argument ``other``."""

    def entries(self, i: int, entries: Sequence[int]) -> bool:
        """It is a list of arrays, which have these indices from here on. Comes before other guards; False where lists
        cannot be guarded."""

    def table(self, i: int, entries: Sequence[int]) -> None:
        """What was collected of its entries, the addresses, becomes one: the table."""


def emit_guards(rules: Sequence[Rule], args: Sequence[Any], to: GuardBuilder) -> bool:
    """Write all guards of arguments like ``args``. False when one of these is no number or constant number, no array or
    one of a derived class, and no list of such arrays."""
    values, lists = list(args), {}
    for i, (rule, argument) in enumerate(zip(rules, args)):
        if type(argument) is list and not rule.constant and rule.declared is None:
            lists[i] = range(len(values), len(values) + len(argument))
            values += argument
            if not to.entries(i, lists[i]):
                return False
    if len(values) > _MOST:
        return False
    first = _tensors(values)
    if first:
        unique = {i: values[i] for i in dict.fromkeys(first.values())}  # PyTorch refuses to compare a tensor twice
        check = _agreement(list(unique.values()))
        if check is None:
            return False
        to.tensors(check, unique)
    for i, (rule, argument) in enumerate(zip(rules, args)):
        if i in lists:
            if not all(_emit_guard(_ENTRY, k, values[k], first, to) for k in lists[i]):
                return False
            to.table(i, lists[i])
        elif not _emit_guard(rule, i, argument, first, to):
            return False
    return True


def _emit_guard(rule: Rule, i: int, argument: Any, first: Mapping[int, int], to: GuardBuilder) -> bool:
    """Write the guards of one argument, or entry of a list. ``first`` are the tensors."""
    kind, cupy = type(argument), sys.modules.get("cupy")
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
    elif i in first:
        if first[i] != i:
            to.same(i, first[i])
        to.tensor(i, argument)
    elif rule.declared is not None:
        return False
    elif kind in _NUMBERS:
        to.number(i, argument)
    elif (describe := array_describer(argument)) in _INTERFACES:
        to.interface(i, argument, _INTERFACES[describe])
    elif describe is describe_dlpack:
        to.exported(i, argument)
    else:
        return False
    return True


def _tensors(args: Sequence[Any]) -> dict[int, int]:
    """The places of the tensors of PyTorch -> that of the first argument that is the same one."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    first: dict[int, int] = {}  # by identity
    return {i: first.setdefault(id(v), i) for i, v in enumerate(args) if isinstance(v, torch.Tensor)}


def _agreement(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Whether tensors have the class, dtype, device, shape and strides of ``tensors``, as PyTorch asks before it runs
    compiled code again. That is no public part of PyTorch: None where it is missing.

    The public attributes tell the same, but take too long in a launch: 3.5 us for three tensors instead of 0.6 us
    (PyTorch 2.13, Python 3.11, ``timeit`` of a function that compares them, and of ``check``).
    """
    try:
        guards = sys.modules["torch"]._C._dynamo.guards.TensorGuards
        check: Callable[..., bool] = guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    except (AttributeError, TypeError):
        return None
    return check
