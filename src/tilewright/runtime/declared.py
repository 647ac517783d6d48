"""Arguments for parameters whose type the source declares: arrays for pointers, Python and NumPy numbers for numbers.

The describing functions also check the values of numbers, which no key of remembered launches holds.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.frontend.signature import PointerSpec, ScalarSpec
from tilewright.ir.dtypes import SIGNED_INTEGERS, UNSIGNED_INTEGERS, DType, with_article
from tilewright.ir.types import ElementType, PointerType
from tilewright.language.dtypes import to_dtype
from tilewright.runtime.arrays import ArgumentKey, Describe, RuntimeValues, array_describer, is_masked
from tilewright.runtime.layout import ALIGNMENT, ArgumentRef, Layout

_UNSIGNED = dict(zip(SIGNED_INTEGERS, UNSIGNED_INTEGERS))
_ARRAYS: dict[type, Describe] = {}  # how to describe arrays of types met before


def describe_declared(declared: ElementType, argument: Any, runtime: RuntimeValues) -> ArgumentKey:
    """The key of ``argument``, given to a parameter of type ``declared``."""
    if isinstance(declared, PointerType):
        return _describe_pointer(declared, argument, runtime)
    value = _converted(declared, argument)
    if isinstance(value, tuple):
        return "refused", *value
    runtime.numbers.append(value)
    return "declared", ScalarSpec(declared)


def _describe_pointer(declared: PointerType, argument: Any, runtime: RuntimeValues) -> ArgumentKey:
    describe = _ARRAYS.get(type(argument))
    if describe is None:
        if argument is None:
            runtime.numbers.append(0)
            return "declared", PointerSpec(declared.pointee, null=True)
        describe = array_describer(argument)
        if describe is None:
            return "refused", TypeError, f"{_what(argument)}, but its parameter is {_pointer(declared)}: pass an array"
        _ARRAYS[type(argument)] = describe
    return describe(argument, runtime)


def pointer_spec(ref: ArgumentRef, declared: ElementType, layout: Layout, *, signless: bool = False) -> PointerSpec:
    """What a kernel is specialised on for an array given to a parameter of type ``declared``. TypeError if no pointer
    to its elements may be; ``signless`` integers may be unsigned in the array."""
    if not isinstance(declared, PointerType):
        raise TypeError(f"{ref} is an array, but its parameter is a number of type {declared}")
    wanted = declared.pointee
    if signless and wanted in _UNSIGNED and _UNSIGNED[wanted] is layout.dtype:
        wanted = layout.dtype
    if wanted is not None and wanted.storage != layout.dtype.storage:
        advice = f"; pass {wanted.storage.name} elements"
        raise TypeError(
            f"{ref} is {with_article(layout.dtype)} array, but its parameter is {_pointer(declared)}{advice}"
        )
    return PointerSpec(wanted, 1 if layout.misalignment else ALIGNMENT)


def _converted(dtype: DType, argument: Any) -> Any:
    """``argument`` as a value for a parameter of type ``dtype``, or the error and the text that refuse it."""
    if isinstance(argument, np.generic):
        known = to_dtype(argument.dtype)
        value = None if known is None else float(argument) if known.is_floating else argument.item()
    else:
        value = argument
    if isinstance(value, bool):
        return float(value) if dtype.is_floating else value
    if isinstance(value, int) and not dtype.is_bool:
        if dtype.is_floating:
            return _as_float(dtype, value)
        if dtype.min <= value <= dtype.max:
            return int(value)
        return OverflowError, f"{value}, which does not fit in {dtype}"
    if isinstance(value, float) and dtype.is_floating:
        return _as_float(dtype, value)
    wanted = "True or False" if dtype.is_bool else "a number" if dtype.is_floating else "an integer"
    return TypeError, f"{_what(argument)}, but its parameter is {dtype}: pass {wanted}"


def _as_float(dtype: DType, value: int | float) -> Any:
    """``value`` rounded to ``dtype``, or the refusal of a finite number beyond its range."""
    if math.isfinite(value) and abs(value) > _largest(dtype):
        return OverflowError, f"{value!r}, which does not fit in {dtype}"
    return float(dtype.storage.type(value))


@functools.cache
def _largest(dtype: DType) -> float:
    limits: Any = ml_dtypes.finfo
    return float(limits(dtype.storage).max)


def _what(argument: Any) -> str:
    if isinstance(argument, bool):
        return repr(argument)
    if isinstance(argument, (int, float, np.number)):
        return f"the number {argument}"
    if is_masked(argument):
        return "a masked array, whose mask would be ignored"
    return "None" if argument is None else f"of type {type(argument).__name__}"


def _pointer(declared: PointerType) -> str:
    return f"a pointer to {declared.pointee or 'void'}"
