"""What the annotations of a kernel's parameters ask for."""

from __future__ import annotations

import types
import typing
import warnings
from collections.abc import Mapping
from typing import Any

from tilewright.ir.dtypes import DType
from tilewright.ir.types import ElementType
from tilewright.language.annotations import ArrayAnnotation, ConstantAnnotation, ListAnnotation, ScalarAnnotation
from tilewright.records import dataclass


@dataclass(frozen=True)
class Rule:
    """What an annotation says about its argument; the default rule is that of a parameter without annotation.

    ``declared`` is the type of a parameter in a language that declares types, as C++ does; nothing else is said then.
    Where its integers have no sign (``signless``), pointers to them take arrays of signed and of unsigned ones.
    ``items`` are the rules of the entries of a tuple; with ``repeated`` the only one holds for every entry.
    """

    constant: bool = False
    declared: ElementType | None = None
    signless: bool = False
    array: ArrayAnnotation | None = None
    scalar: DType | None = None
    element: ArrayAnnotation | None = None
    items: tuple[Rule, ...] | None = None
    repeated: bool = False

    def item(self, index: int) -> Rule:
        """The rule of entry ``index`` of a tuple."""
        if self.constant or self.items is None:
            return self
        if self.repeated:
            return self.items[0]
        return self.items[index] if index < len(self.items) else DEFAULT


DEFAULT = Rule()


def resolve(function: types.FunctionType, local_names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of ``function``; strings among them are evaluated where that is possible already.

    ``local_names`` are the variables where the function is defined.
    """
    found = dict(getattr(function, "__annotations__", {}))
    for name, annotation in found.items():
        if isinstance(annotation, str):
            try:
                found[name] = eval(annotation, function.__globals__, dict(local_names))
            except NameError:
                continue  # it may name something that the module defines further down
    return found


def rule_of(annotation: Any, where: str, global_names: dict[str, Any]) -> Rule:
    """The rule that ``annotation`` stands for. TypeError when it contradicts itself or cannot be evaluated."""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, global_names)
        except NameError as e:
            raise TypeError(f"the annotation {annotation!r} of {where} cannot be evaluated: {e}") from None
    if isinstance(annotation, _MARKS):
        # As in cuTile Python, where nothing says so.
        warnings.warn(f"the annotation of {where} has no effect; write Annotated[Any, {annotation!r}]", stacklevel=2)
        return Rule()
    marks = [m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, _MARKS)]
    if len(marks) > 1:
        raise TypeError(f"{where} has {len(marks)} annotations that exclude each other: {marks}")
    if marks:
        inner = [rule_of(a, where, global_names) for a in typing.get_args(annotation)[:1]]
        if isinstance(marks[0], ConstantAnnotation) and any(map(_is_typed, inner)):
            raise TypeError(f"{where} is a constant, whose entries cannot be annotated as scalars, arrays or lists")
        return _marked(marks[0])
    if typing.get_origin(annotation) is tuple:
        entries = typing.get_args(annotation)
        repeated = len(entries) == 2 and entries[1] is Ellipsis
        rules = tuple(rule_of(entry, where, global_names) for entry in entries[: 1 if repeated else None])
        return Rule(items=rules, repeated=repeated)
    return DEFAULT


_MARKS = (ConstantAnnotation, ArrayAnnotation, ScalarAnnotation, ListAnnotation)


def _is_typed(rule: Rule) -> bool:
    """Whether ``rule`` says as what an argument or an entry of it is passed at run time."""
    own = rule.array is not None or rule.scalar is not None or rule.element is not None
    return own or any(map(_is_typed, rule.items or ()))


def _marked(mark: Any) -> Rule:
    if isinstance(mark, ArrayAnnotation):
        return Rule(array=mark)
    if isinstance(mark, ScalarAnnotation):
        return Rule(scalar=mark.dtype)
    if isinstance(mark, ListAnnotation):
        return Rule(element=mark.element)
    return Rule(constant=True)
