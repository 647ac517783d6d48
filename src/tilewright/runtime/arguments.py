"""Kernel arguments: how each becomes part of a specialisation and numbers for the machine code.

``describe`` runs at every launch and only collects (see ``arrays``); ``bind_argument`` runs for what was not met
before.
"""

from __future__ import annotations

import enum
import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.backends.launch_arguments import Buffer
from tilewright.frontend.signature import (
    ArgumentSpec,
    ArraySpec,
    ConstantSpec,
    ListSpec,
    ScalarSpec,
    TupleSpec,
    shared_spec,
)
from tilewright.ir.dtypes import DType, bool_, float32, int32, int64, with_article
from tilewright.language.annotations import ArrayAnnotation
from tilewright.language.dtypes import to_dtype
from tilewright.records import dataclass
from tilewright.runtime.arrays import LAYOUTS, ArgumentKey, Describe, RuntimeValues, array_describer, is_masked
from tilewright.runtime.declared import describe_declared, pointer_spec
from tilewright.runtime.layout import ArgumentRef, Layout, array_spec
from tilewright.runtime.rules import Rule

MAX_TUPLE_DEPTH = 64
RUNTIME_SLOT = object()  # stands for a number that each launch supplies


@dataclass(frozen=True)
class Region:
    """An array among the arguments.

    Its address is ``numbers[number]`` of the launch or, for an array of a list, entry ``entry`` of that number.
    """

    name: str
    layout: Layout
    number: int
    entry: int | None = None

    def address(self, numbers: list[Any]) -> int:
        found = numbers[self.number]
        return int(found if self.entry is None else found[self.entry])

    def buffer(self, numbers: list[Any]) -> Buffer:
        """Its memory."""
        address, layout = self.address(numbers), self.layout
        low, high = layout.extent()
        where = self.name, address, address + low, address + high
        return Buffer(*where, layout.dtype, layout.writable, layout.shape, layout.strides)


@dataclass(frozen=True)
class Table:
    """The memory form of a list argument: rows of int64 whose first column, the addresses, each launch fills in."""

    name: str
    number: int
    rows: np.ndarray[Any, Any]


@dataclass
class BoundArguments:
    """Arguments in the form that compilation needs, and the recipe for the values of a launch.

    ``values`` holds, for every function parameter, its value or RUNTIME_SLOT; the n-th RUNTIME_SLOT gets ``numbers[n]``
    of the launch.
    """

    values: list[Any]
    regions: list[Region]
    tables: list[Table]
    slots: int = 0
    specs: Sequence[ArgumentSpec | None] = ()  # of the arguments; None where values tell more of one

    def add_slot(self) -> int:
        """Add a RUNTIME_SLOT; returns the index of its number."""
        self.values.append(RUNTIME_SLOT)
        self.slots += 1
        return self.slots - 1


_PLAIN, _PLAIN_ARRAY = Rule(), ArrayAnnotation()
_INT32_MIN, _INT32_MAX, _INT64_MIN, _INT64_MAX = int32.min, int32.max, int64.min, int64.max
_BOOL, _INT, _FLOAT = ("number", bool_), ("number", int32), ("number", float32)
_INT64, _HUGE = ("wide int", int64), ("wide int", None)

# -- describing


def describer(rule: Rule, argument: Any) -> Describe:
    """What gives the key for arguments like this one, and their run-time numbers to ``runtime``.

    It is not asked for the faults of an argument: ``bind_argument`` finds those.
    """
    if rule.constant:
        return _describe_constant
    if rule.declared is not None:
        return functools.partial(describe_declared, rule.declared)
    kind = type(argument)
    known = _DESCRIBERS.get(kind)
    if known is not None:
        return known
    if kind is tuple:
        return functools.partial(_describe_tuple, rule)
    return _describe_list if kind is list else _classify(argument)


def describe(rule: Rule, argument: Any, runtime: RuntimeValues) -> ArgumentKey:
    """The key of ``argument``; its run-time numbers go to ``runtime``."""
    return describer(rule, argument)(argument, runtime)


def _describe_constant(value: Any, runtime: RuntimeValues) -> ArgumentKey:
    return "constant", _constant_facts(value)


def _describe_tuple(rule: Rule, entries: tuple[Any, ...], runtime: RuntimeValues) -> ArgumentKey:
    return "tuple", *(describe(rule.item(i), entry, runtime) for i, entry in enumerate(entries))


def _describe_list(arrays: list[Any], runtime: RuntimeValues) -> ArgumentKey:
    addresses = RuntimeValues()
    keys = [describe(_PLAIN, entry, addresses) for entry in arrays]
    runtime.numbers.append(addresses.numbers)
    runtime.owners.extend(addresses.owners)
    return "list", *keys


def _describe_bool(value: Any, runtime: RuntimeValues) -> ArgumentKey:
    runtime.numbers.append(bool(value))
    return _BOOL


def _describe_int(value: int, runtime: RuntimeValues) -> ArgumentKey:
    runtime.numbers.append(value)
    if _INT32_MIN <= value <= _INT32_MAX:
        return _INT
    return _INT64 if _INT64_MIN <= value <= _INT64_MAX else _HUGE


def _describe_float(value: float, runtime: RuntimeValues) -> ArgumentKey:
    runtime.numbers.append(value)
    return _FLOAT


def _describe_numpy_scalar(value: np.generic, runtime: RuntimeValues) -> ArgumentKey:
    runtime.numbers.append(value.item())
    return "typed", value.dtype


def _describe_unsupported(value: Any, runtime: RuntimeValues) -> ArgumentKey:
    return "refused", TypeError, _advice(value)


def _classify(argument: Any) -> Describe:
    """How to describe arguments of the type of ``argument``; found once per type."""
    describer: Describe = _describe_unsupported
    if isinstance(argument, DType) or to_dtype(argument) is not None:
        describer = _describe_constant
    elif isinstance(argument, bool):
        describer = _describe_bool
    elif isinstance(argument, int):
        describer = _describe_int
    elif isinstance(argument, float):  # np.float64 is one
        describer = _describe_float
    elif isinstance(argument, np.generic):
        describer = _describe_numpy_scalar
    else:
        describer = array_describer(argument) or _describe_unsupported
    if describer is not _describe_unsupported and not isinstance(argument, type):
        _DESCRIBERS[type(argument)] = describer
    return describer


_DESCRIBERS: dict[type, Describe] = {bool: _describe_bool, int: _describe_int, float: _describe_float}


def _advice(value: Any) -> str:
    """What to write instead of an argument that kernels cannot take."""
    if value is None:
        return (
            "None: tile code cannot test for it at run time. Leave the parameter out of the kernel, or pass a flag "
            "annotated ct.Constant[bool] and an array that is not used"
        )
    if isinstance(value, str):
        return (
            "a string: kernels take arrays and numbers. To choose between variants, pass a number or bool annotated "
            "ct.Constant, or define the kernel in a function that takes the string"
        )
    if isinstance(value, enum.Enum):
        return f"the enum member {value}; pass its value, {value!r}.value, annotated ct.Constant"
    if is_masked(value):
        return "a masked array, whose mask would be ignored; pass x.filled(...) or x.data"
    if isinstance(value, complex):
        return "a complex number; pass its real and imaginary parts"
    if isinstance(value, tuple):
        return f"a {type(value).__name__}; pass a plain tuple"
    if isinstance(value, dict):
        return "a dict; pass a tuple of its values"
    if getattr(value, "is_tile_kernel", False):
        return "a kernel, which ct.launch starts; have both call the function that they need, by its name"
    if isinstance(value, types.FunctionType):
        return "a function; refer to it in the body of the kernel instead of passing it"
    return (
        f"of type {type(value).__name__}; pass an array (NumPy, torch, anything with __array_interface__ or DLPack), a "
        "number, a tuple or a list of arrays"
    )


# -- binding


def bind_argument(rule: Rule, ref: ArgumentRef, key: ArgumentKey, into: BoundArguments) -> ArgumentSpec:
    """What the kernel is specialised on for the argument that ``key`` describes.

    TypeError, ValueError or OverflowError, naming the argument, when a kernel cannot take it.
    """
    kind, *facts = key
    if kind not in LAYOUTS:
        return _BINDERS[kind](rule, ref, into, *facts)
    _require(rule, ref, "an array", "array")
    layout = LAYOUTS[kind](ref, *facts)
    if rule.declared is not None:
        into.regions.append(Region(ref.argument, layout, into.add_slot()))
        return pointer_spec(ref, rule.declared, layout, signless=rule.signless)
    spec = array_spec(ref, layout, rule.array or _PLAIN_ARRAY)
    into.regions.append(Region(ref.argument, layout, into.add_slot()))
    found = zip((*layout.shape, *layout.strides), spec.extents())
    into.values += [n for n, extent in found if extent.known is None]
    return spec


_FORMS = {"array": "as an array", "scalar": "as an {} number", "element": "as a list of arrays", "items": "as a tuple"}


def _require(rule: Rule, ref: ArgumentRef, what: str, form: str) -> None:
    """TypeError where the annotation of the parameter of ``ref``, which is ``what``, asks for another form."""
    for name, text in _FORMS.items():
        wanted = getattr(rule, name)
        if wanted is not None and name != form:
            raise TypeError(f"{ref} is {what}, but its parameter is annotated {text.format(wanted)}")


def _number(rule: Rule, ref: ArgumentRef, into: BoundArguments, dtype: DType) -> ArgumentSpec:
    _require(rule, ref, "a number", "scalar")
    if dtype is not int32:
        _require(rule, ref, f"{with_article(dtype)} number", "")
    into.add_slot()
    return ScalarSpec(rule.scalar or dtype)


def _wide_int(rule: Rule, ref: ArgumentRef, into: BoundArguments, fits: DType | None) -> ArgumentSpec:
    if rule.scalar is None or rule.scalar is not fits:
        advice = "; annotate the parameter with ct.ScalarInt64" if rule.scalar is None and fits is not None else ""
        raise OverflowError(f"{ref} is an integer that does not fit in {rule.scalar or int32}{advice}")
    return _number(rule, ref, into, int32)


def _typed(rule: Rule, ref: ArgumentRef, into: BoundArguments, dtype: np.dtype[Any]) -> ArgumentSpec:
    known = to_dtype(dtype)
    if known is None:
        raise TypeError(f"{ref} is a NumPy {dtype} scalar, which tile code does not have")
    if rule.scalar is not None and known.is_integer and known.max <= rule.scalar.max:
        known = int32  # it fits, so that it counts as any integer does
    return _number(rule, ref, into, known)


def _tuple(rule: Rule, ref: ArgumentRef, into: BoundArguments, *keys: ArgumentKey) -> ArgumentSpec:
    _require(rule, ref, "a tuple", "items")
    if rule.items is not None and not rule.repeated and len(rule.items) != len(keys):
        raise TypeError(f"{ref} has {len(keys)} entries, but its annotation has {len(rule.items)}")
    if ref.argument.count("[") >= MAX_TUPLE_DEPTH:
        raise TypeError(f"{ref.kernel}() got tuples nested more than {MAX_TUPLE_DEPTH} deep")
    return TupleSpec(tuple(bind_argument(rule.item(i), ref.item(i), key, into) for i, key in enumerate(keys)))


def _list(rule: Rule, ref: ArgumentRef, into: BoundArguments, *keys: ArgumentKey) -> ArgumentSpec:
    _require(rule, ref, "a list", "element")
    if not keys:
        raise TypeError(f"{ref} is an empty list; a list argument needs at least one array")
    for i, (kind, *_) in enumerate(keys):
        if kind not in LAYOUTS:
            raise TypeError(
                f"{ref.item(i)} is not an array; a list argument holds arrays. Pass numbers as a tuple or an array"
            )
    layouts = [LAYOUTS[kind](ref.item(i), *facts) for i, (kind, *facts) in enumerate(keys)]
    annotation = rule.element or _PLAIN_ARRAY
    element = _common(ref, [array_spec(ref.item(i), a, annotation) for i, a in enumerate(layouts)])
    number = into.add_slot()
    into.values.append(len(keys))
    rows = np.array([[0, *a.shape, *a.strides] for a in layouts], np.int64)
    into.tables.append(Table(ref.argument, number, rows))
    into.regions += [Region(ref.item(i).argument, a, number, i) for i, a in enumerate(layouts)]
    return ListSpec(element)


def _common(ref: ArgumentRef, specs: list[ArraySpec]) -> ArraySpec:
    """The descriptor that holds for every array of a list."""
    first = specs[0]
    for i, spec in enumerate(specs):
        if (spec.dtype, spec.ndim) != (first.dtype, first.ndim):
            raise TypeError(
                f"{ref.item(i)} is {with_article(spec.dtype)} array of rank {spec.ndim}, but {ref.item(0)} "
                f"{with_article(first.dtype)} array of rank {first.ndim}; the arrays of a list have one dtype "
                "and one rank"
            )
        for what, axes, mine, others in (
            ("extent", first.constant_shape, spec.shape, first.shape),
            ("stride", first.constant_strides, spec.strides, first.strides),
        ):
            for axis in axes:
                if mine[axis] != others[axis]:
                    raise ValueError(
                        f"{ref.item(i)} has the {what} {mine[axis]} along axis {axis}, which is static, but "
                        f"{ref.item(0)} has {others[axis]}"
                    )

    found = shared_spec(specs)
    assert found is not None  # one annotation gives one index dtype
    return found


def _declared(rule: Rule, ref: ArgumentRef, into: BoundArguments, spec: ArgumentSpec) -> ArgumentSpec:
    into.add_slot()
    return spec


def _refused(rule: Rule, ref: ArgumentRef, into: BoundArguments, error: type[Exception], text: str) -> ArgumentSpec:
    raise error(f"{ref} is {text}")


# -- constants


def _constant_facts(value: Any) -> Any:
    """``value`` in a form that is hashable and keeps apart what compares equal: 1, 1.0 and True, 0.0 and -0.0."""
    kind = type(value)
    if kind is int or kind is bool:
        return kind, value
    if kind is tuple:
        return kind, tuple(map(_constant_facts, value))
    if isinstance(value, float):
        return float, float(value).hex()
    if isinstance(value, int):
        return int, int(value)
    if isinstance(value, np.generic):
        plain = value.item()
        return _constant_facts(plain) if isinstance(plain, (bool, int, float)) else (None, _advice(plain))
    dtype = to_dtype(value)
    if dtype is not None:
        return DType, dtype
    if array_describer(value) is not None:
        return None, "an array, but its parameter is annotated ct.Constant"
    return None, _advice(value)


def _constant(rule: Rule, ref: ArgumentRef, into: BoundArguments, facts: Any) -> ArgumentSpec:
    kind, value = facts
    if kind is None:
        raise TypeError(f"{ref} is {value}")
    if kind is tuple:
        return TupleSpec(tuple(_constant(rule, ref.item(i), into, entry) for i, entry in enumerate(value)))
    if kind is float:
        value = math.nan if value == "nan" else float.fromhex(value)  # one NaN, so that specialisations compare equal
    elif kind is int and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"{ref} is {value}, which does not fit in 64 bits")
    return ConstantSpec.of(value)


_BINDERS: dict[str, Callable[..., ArgumentSpec]] = {
    "constant": _constant,
    "tuple": _tuple,
    "list": _list,
    "number": _number,
    "typed": _typed,
    "wide int": _wide_int,
    "declared": _declared,
    "refused": _refused,
}
