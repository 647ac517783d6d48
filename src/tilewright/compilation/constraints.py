"""What the arguments of a kernel that is compiled ahead are promised to be."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from tilewright.ir.dtypes import DType, int32, int64, uint32
from tilewright.language.suggestions import explains_arguments

ConstantValue = Union[bool, int, float]


@explains_arguments
@dataclass(frozen=True)
class ScalarConstraint:
    """A number of type ``dtype`` that the kernel reads at run time. TypeError for anything but a dtype."""

    dtype: DType

    def __post_init__(self) -> None:
        _check_dtype(self.dtype)


@explains_arguments
@dataclass(frozen=True)
class ArrayConstraint:
    """An array.

    ``index_dtype`` (int32, int64, uint32) is the type of extents and strides. For every axis, as a sequence with None
    where nothing is promised, or as one value for all axes: ``stride_lower_bound_incl``, the smallest stride;
    ``stride_constant`` and ``shape_constant``, the only stride and extent; ``stride_divisible_by`` and
    ``shape_divisible_by``, divisors of them, in elements. ``base_addr_divisible_by`` divides the address, in bytes.
    The array may share memory with arguments that have one of its ``alias_groups``; with ``may_alias_internally`` two
    of its indices may have the same address. A bound or divisor that a constant implies is dropped.

    TypeError for wrong kinds of values; ValueError for wrong lengths, negative extents, divisors below 1, and
    constants that contradict a bound or a divisor.
    """

    dtype: DType
    ndim: int
    index_dtype: DType = field(kw_only=True)
    stride_lower_bound_incl: Any = field(kw_only=True)
    alias_groups: Sequence[str] = field(kw_only=True)
    may_alias_internally: bool = field(kw_only=True)
    stride_constant: Any = field(kw_only=True, default=None)
    shape_constant: Any = field(kw_only=True, default=None)
    stride_divisible_by: Any = field(kw_only=True, default=1)
    shape_divisible_by: Any = field(kw_only=True, default=1)
    base_addr_divisible_by: int = field(kw_only=True, default=1)

    def __post_init__(self) -> None:
        _check_dtype(self.dtype)
        if not _is_int(self.ndim):
            raise TypeError(f"ndim is {self.ndim!r}; it must be an integer")
        if self.ndim < 0:
            raise ValueError(f"ndim is {self.ndim}; it cannot be negative")
        if self.index_dtype not in (int32, int64, uint32):
            raise ValueError(f"index_dtype is {self.index_dtype!r}; it must be int32, int64 or uint32")
        _check_divisor("base_addr_divisible_by", self.base_addr_divisible_by)
        shape = self._per_axis("shape_constant", None, _check_extent)
        strides = self._per_axis("stride_constant", None, _check_number)
        lower = self._per_axis("stride_lower_bound_incl", None, _check_number)
        for axis, (stride, bound) in enumerate(zip(strides, lower)):
            if stride is not None and bound is not None and stride < bound:
                raise ValueError(
                    f"stride_constant[{axis}] is {stride}, less than stride_lower_bound_incl[{axis}], which is {bound}"
                )
        found = {
            "shape_constant": shape,
            "stride_constant": strides,
            "stride_lower_bound_incl": tuple(None if s is not None else b for s, b in zip(strides, lower)),
            "shape_divisible_by": self._divisors("shape", shape),
            "stride_divisible_by": self._divisors("stride", strides),
            "alias_groups": _alias_groups(self.alias_groups),
            "may_alias_internally": bool(self.may_alias_internally),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def _per_axis(self, name: str, default: Any, check: Callable[[str, Any], None]) -> tuple[Any, ...]:
        value = getattr(self, name)
        if value is None:
            return (default,) * self.ndim
        if isinstance(value, int):
            value = (value,) * self.ndim
        elif isinstance(value, str) or not isinstance(value, Sequence):
            raise TypeError(f"{name} is {value!r}; it must be an integer or a sequence with one entry per axis")
        if len(value) != self.ndim:
            raise ValueError(f"{name} has {len(value)} entries, but the array has {self.ndim} axes")
        for axis, entry in enumerate(value):
            check(f"{name}[{axis}]", entry)
        return tuple(value)

    def _divisors(self, what: str, known: tuple[int | None, ...]) -> tuple[int, ...]:
        found = self._per_axis(f"{what}_divisible_by", 1, _check_divisor)
        for axis, (number, divisor) in enumerate(zip(known, found)):
            if number is not None and number % divisor:
                raise ValueError(f"{what}_constant[{axis}] is {number}, which {divisor} does not divide")
        return tuple(1 if number is not None else divisor for number, divisor in zip(known, found))


@explains_arguments
@dataclass(frozen=True)
class ListConstraint:
    """A list of arrays, each as ``element`` says.

    ``alias_groups`` concern the memory of the list itself; ``elements_may_alias`` says that two arrays of the list
    may share memory.
    """

    element: ArrayConstraint
    alias_groups: Sequence[str] = field(kw_only=True)
    elements_may_alias: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.element, ArrayConstraint):
            raise TypeError(f"element is {self.element!r}; a list holds arrays: it must be an ArrayConstraint")
        object.__setattr__(self, "alias_groups", _alias_groups(self.alias_groups))
        object.__setattr__(self, "elements_may_alias", bool(self.elements_may_alias))


@explains_arguments
@dataclass(frozen=True)
class TupleConstraint:
    """A tuple, with a constraint for every entry; plain numbers and tuples stand for constants and tuples."""

    items: tuple[ParameterConstraint, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.items, Sequence):
            raise TypeError(f"items is {self.items!r}; it must be a sequence of constraints")
        object.__setattr__(self, "items", tuple(map(to_constraint, self.items)))


@explains_arguments
@dataclass(frozen=True, eq=False)
class ConstantConstraint:
    """The value of a parameter annotated ``Constant``. 1, 1.0 and True differ; NaN equals NaN."""

    value: ConstantValue

    def __post_init__(self) -> None:
        if type(self.value) not in (bool, int, float):
            raise TypeError(f"value is {self.value!r}; a constant is a bool, an int or a float")

    def _key(self) -> tuple[type, object]:
        return type(self.value), struct.pack("<d", self.value) if isinstance(self.value, float) else self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantConstraint) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


ParameterConstraint = Union[ScalarConstraint, ArrayConstraint, ListConstraint, TupleConstraint, ConstantConstraint]
CONSTRAINTS = (ScalarConstraint, ArrayConstraint, ListConstraint, TupleConstraint, ConstantConstraint)


def to_constraint(value: Any) -> ParameterConstraint:
    """``value``, or the constraint that a plain number or tuple stands for. TypeError for anything else."""
    if isinstance(value, CONSTRAINTS):
        return value
    if type(value) in (bool, int, float):
        return ConstantConstraint(value)
    if type(value) is tuple:
        return TupleConstraint(value)
    raise TypeError(f"{value!r} is no parameter constraint; write ct.compilation.ArrayConstraint(...), a number, ...")


def alias_groups(parameters: Sequence[ParameterConstraint]) -> Iterator[tuple[ParameterConstraint, Sequence[str]]]:
    """Everything that has alias groups, in order, with them."""
    for p in parameters:
        if isinstance(p, ArrayConstraint):
            yield p, p.alias_groups
        elif isinstance(p, ListConstraint):
            yield p, p.alias_groups
            yield p.element, p.element.alias_groups
        elif isinstance(p, TupleConstraint):
            yield from alias_groups(p.items)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_dtype(value: Any) -> None:
    if not isinstance(value, DType):
        raise TypeError(f"dtype is {value!r}; it must be a dtype such as ct.float32")


def _check_number(name: str, value: Any) -> None:
    if value is not None and not _is_int(value):
        raise TypeError(f"{name} is {value!r}; it must be an integer or None")


def _check_extent(name: str, value: Any) -> None:
    _check_number(name, value)
    if value is not None and value < 0:
        raise ValueError(f"{name} is {value}; an extent cannot be negative")


def _check_divisor(name: str, value: Any) -> None:
    if not _is_int(value):
        raise TypeError(f"{name} is {value!r}; it must be an integer")
    if value < 1:
        raise ValueError(f"{name} is {value}; a divisor is at least 1")


def _alias_groups(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"alias_groups is {names!r}; it must be a sequence of strings, such as () or ('a',)")
    return tuple(names)
