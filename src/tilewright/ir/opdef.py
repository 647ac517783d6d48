"""How an op is declared.

A declaration names the operands, attributes and regions of an op, its memory effect, and a type rule.
Construction, verification, printing, parsing, hashing and cloning all derive from it. Fields of base classes that are
no ops themselves come first::

    @define("add", elementwise=True)
    class Add(Op):
        '''What it means, in one paragraph.'''

        lhs: Value = operand()
        rhs: Value = operand()
        rounding: RoundingMode = attribute(RoundingMode, default=RoundingMode.RN)

        def infer(self) -> tuple[Type, ...]:
            return (same_type(self.lhs, self.rhs),)
"""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeVar, cast

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.location import Loc
from tilewright.ir.types import Type
from tilewright.records import dataclass


class IRError(Exception):
    """An op that breaks its declaration. The front ends check first; this reports a defect of the compiler."""


class Effect(enum.Flag):
    """What an op does besides producing its results."""

    NONE = 0
    READ = enum.auto()
    WRITE = enum.auto()
    OUTPUT = enum.auto()  # prints or stops the kernel
    ALLOCATE = enum.auto()  # memory of its own: two equal ops give different memory


class Arity(enum.Enum):
    ONE = "one"
    OPTIONAL = "optional"
    MANY = "many"


@dataclass(frozen=True)
class OperandField:
    name: str
    arity: Arity


REQUIRED = object()


@dataclass(frozen=True)
class AttributeField:
    name: str
    types: tuple[type, ...]
    default: Any = REQUIRED


@dataclass(frozen=True)
class RegionField:
    name: str
    optional: bool = False


@dataclass(frozen=True)
class OpSpec:
    """The declaration of an op class, and the table that everything generic works from."""

    name: str
    doc: str
    operands: tuple[OperandField, ...]
    attributes: tuple[AttributeField, ...]
    regions: tuple[RegionField, ...]
    effect: Effect
    elementwise: bool
    terminator: bool

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of attributes that are not given."""
        return {a.name: a.default for a in self.attributes}

    @functools.cached_property
    def ones(self) -> tuple[int, ...] | None:
        """How many operands each field has, if that is always one."""
        return (1,) * len(self.operands) if all(f.arity is Arity.ONE for f in self.operands) else None


OPS: dict[str, type[Op]] = {}  # of Tile IR
LOOP_OPS: dict[str, type[Op]] = {}  # what the loop-level form of the CPU has beside them: see ``ir.ops.loops``
GPU_OPS: dict[str, type[Op]] = {}  # the gpu dialect, whose names begin with ``gpu.``: see ``ir.ops.gpu``
TABLES = (OPS, LOOP_OPS, GPU_OPS)


@dataclass(frozen=True)
class _Field:
    make: Callable[[str], OperandField | AttributeField | RegionField]


def operand() -> Any:
    """Exactly one operand."""
    return _Field(lambda name: OperandField(name, Arity.ONE))


def optional_operand() -> Any:
    """An operand that may be absent (None)."""
    return _Field(lambda name: OperandField(name, Arity.OPTIONAL))


def operands() -> Any:
    """Any number of operands."""
    return _Field(lambda name: OperandField(name, Arity.MANY))


def attribute(*types: type, default: Any = REQUIRED) -> Any:
    """A compile-time attribute whose value is an instance of one of ``types``."""
    return _Field(lambda name: AttributeField(name, types, default))


def region(*, optional: bool = False) -> Any:
    """A nested block; one that may be absent (None) is the last."""
    return _Field(lambda name: RegionField(name, optional))


_OpT = TypeVar("_OpT", bound="type[Op]")


def define(
    name: str,
    *,
    effect: Effect = Effect.NONE,
    elementwise: bool = False,
    terminator: bool = False,
    table: dict[str, type[Op]] = OPS,
) -> Callable[[_OpT], _OpT]:
    """Class decorator: registers the op ``name`` in ``table`` and turns its fields into properties."""

    def decorate(cls: _OpT) -> _OpT:
        declared = {key: f for base in reversed(cls.__mro__) for key, f in vars(base).items() if isinstance(f, _Field)}
        fields = [f.make(key) for key, f in declared.items()]
        ops = tuple(f for f in fields if isinstance(f, OperandField))
        attributes = tuple(f for f in fields if isinstance(f, AttributeField))
        regions = tuple(f for f in fields if isinstance(f, RegionField))
        for i, operand_field in enumerate(ops):
            setattr(cls, operand_field.name, _operand_property(operand_field, i, ops))
        for attribute_field in attributes:
            setattr(cls, attribute_field.name, _attribute_property(attribute_field.name))
        for i, region_field in enumerate(regions):
            setattr(cls, region_field.name, _region_property(i))
        if not cls.__doc__ and sys.flags.optimize < 2:  # which strips docstrings
            raise TypeError(f"op {name} needs a docstring that says what it means")
        if any(name in known for known in TABLES):
            raise TypeError(f"op {name} is declared twice")
        cls.spec = OpSpec(name, cls.__doc__ or name, ops, attributes, regions, effect, elementwise, terminator)
        table[name] = cls
        return cls

    return decorate


def _operand_property(field: OperandField, i: int, ops: tuple[OperandField, ...]) -> property:
    fixed_before = all(f.arity is Arity.ONE for f in ops[:i])

    if field.arity is Arity.ONE and fixed_before:
        return property(lambda self: self.operands[i])
    if field.arity is Arity.ONE:
        return property(lambda self: self.operands[sum(self.segments[:i])])
    if field.arity is Arity.OPTIONAL:
        return property(lambda self: self.operands[sum(self.segments[:i])] if self.segments[i] else None)

    if fixed_before:
        return property(lambda self: self.operands[i : i + self.segments[i]])

    def many(self: Op) -> Sequence[Value]:
        start = sum(self.segments[:i])
        return self.operands[start : start + self.segments[i]]

    return property(many)


def _attribute_property(name: str) -> property:
    def change(self: Op, value: Any) -> None:
        self.attributes[name] = value

    return property(lambda self: self.attributes[name], change)


def _region_property(i: int) -> property:
    return property(lambda self: self.regions[i] if i < len(self.regions) else None)


def create(cls: type[Op], operand_groups: Sequence[Any], keywords: dict[str, Any], loc: Loc) -> Op:
    """Build an op: one entry of ``operand_groups`` per operand field, attributes and regions in ``keywords``.

    Absent optional operands are None, variadic ones sequences. Raises IRError when the declaration is violated.
    """
    spec = cls.spec
    if len(operand_groups) != len(spec.operands):
        raise IRError(f"{spec.name}: {len(operand_groups)} operand groups, expected {len(spec.operands)}")
    flat, segments = list(operand_groups), spec.ones
    if segments is None:
        each = [
            list(group) if f.arity is Arity.MANY else [] if group is None and f.arity is Arity.OPTIONAL else [group]
            for f, group in zip(spec.operands, operand_groups)
        ]
        flat, segments = list(chain.from_iterable(each)), tuple(map(len, each))
    regions: Sequence[Block] = ()
    if spec.regions:
        found = (keywords.pop(r.name, None) if r.optional else keywords.pop(r.name) for r in spec.regions)
        regions = [cast(Block, block) for block in found if block is not None]
    attributes = {**spec.defaults, **keywords}
    if len(attributes) > len(spec.defaults):
        raise IRError(f"{spec.name}: unknown {', '.join(k for k in keywords if k not in spec.defaults)}")
    op = cls(flat, segments, attributes, regions, (), loc)
    check_fields(op)
    return _with_results(op)


def with_operands(op: Op, operands: list[Value], regions: Sequence[Block] = ()) -> Op:
    """What ``op`` is with other operands, as many of each field, of which its result types follow."""
    return _with_results(type(op)(operands, op.segments, op.attributes.copy(), regions, (), op.loc))


def _with_results(op: Op) -> Op:
    types = infer(op)
    op.results = [Value(types[0], op, 0)] if len(types) == 1 else [Value(t, op, i) for i, t in enumerate(types)]
    return op


def check_fields(op: Op) -> None:
    """Raise IRError unless every operand and attribute has a type that the declaration allows."""
    for v in op.operands:
        if not isinstance(v, Value):
            raise IRError(f"{op.name}: operand {v!r} is not an IR value")
    for a in op.spec.attributes:
        value = op.attributes[a.name]
        if type(value) in a.types:  # as most are
            continue
        if value is REQUIRED:
            raise IRError(f"{op.name}: attribute {a.name} is missing")
        wrong = a.types and not isinstance(value, a.types)
        if wrong or (isinstance(value, bool) and a.types == (int,)):
            wanted = " or ".join(t.__name__ for t in a.types)
            raise IRError(f"{op.name}: attribute {a.name} = {value!r} is not {wanted}")


def infer(op: Op) -> tuple[Type, ...]:
    """The result types that the type rule of ``op`` gives; IRError when its operands break the rule."""
    rule = getattr(op, "infer", None)
    try:
        return cast("tuple[Type, ...]", rule()) if rule is not None else ()
    except TypeError as e:  # a view or a pointer where the rule needs numbers
        raise IRError(f"{op.name}: {e}") from None
