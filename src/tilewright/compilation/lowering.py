"""From a signature to Tile IR, and to the parameters of the exported function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.backends.export import Export, Parameter
from tilewright.compilation.constraints import (
    ArrayConstraint,
    ConstantConstraint,
    ListConstraint,
    ParameterConstraint,
    ScalarConstraint,
    TupleConstraint,
    alias_groups,
)
from tilewright.compilation.signature import KernelSignature
from tilewright.frontend import signature as signatures
from tilewright.ir.core import Function, Param
from tilewright.ir.dtypes import uint32
from tilewright.ir.types import PointerType, TileType
from tilewright.language.annotations import ArrayAnnotation
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.layout import ArgumentRef
from tilewright.runtime.rules import Rule

_KINDS = {
    ScalarConstraint: "a scalar",
    ArrayConstraint: "an array",
    ListConstraint: "a list",
    TupleConstraint: "a tuple",
    ConstantConstraint: "a constant",
}


def lower(kernel: Launchable, signature: KernelSignature) -> Export:
    """``kernel`` traced for ``signature``.

    TypeError when a constraint contradicts an annotation or allows negative strides, ValueError when it leaves out an
    extent that the annotation makes static; TileError for mistakes in the kernel.
    """
    declared = kernel.parameters
    if len(signature.parameters) != len(declared):
        raise TypeError(
            f"the signature has {len(signature.parameters)} parameters, but {kernel.name}() has {len(declared)}: "
            f"{', '.join(ref.argument for ref, _ in declared)}"
        )
    specs = tuple(_spec(ref, rule, p) for (ref, rule), p in zip(declared, signature.parameters))
    function = kernel.trace(signatures.Signature(specs))
    positions = {param: i for i, param in enumerate(function.params)}
    _let_alias(function, [ref.argument for ref, _ in declared], signature.parameters)
    abi: list[Parameter] = []
    for (ref, _), spec in zip(declared, specs):
        abi += _abi(ref.argument, spec, positions)
    symbol = signature.symbol or signature.with_mangled_symbol(kernel.name).symbol
    assert symbol is not None
    return Export(function, symbol, tuple(abi))


def _let_alias(function: Function, names: Sequence[str], constraints: Sequence[ParameterConstraint]) -> None:
    """Say of ``function`` which arguments may share memory: those with an alias group."""
    shared = {name for name, c in zip(names, constraints) if any(groups for _, groups in alias_groups([c]))}
    if shared:
        function.may_alias = True
        function.params[:] = [
            p if p.argument.partition("[")[0] in shared else replace(p, no_alias=True) for p in function.params
        ]


def _spec(ref: ArgumentRef, rule: Rule, constraint: ParameterConstraint) -> signatures.ArgumentSpec:
    """What the kernel is specialised on for a parameter with this annotation and this constraint."""
    if isinstance(constraint, TupleConstraint):
        return _tuple_spec(ref, rule, constraint)
    constant = isinstance(constraint, ConstantConstraint)  # as any parameter without an annotation may be
    if constant != rule.constant and not (constant and _annotated_kind(rule) is None):
        wanted = "is annotated ct.Constant" if rule.constant else "is not annotated ct.Constant"
        raise TypeError(f"{ref} {wanted}, but its constraint is that of {_KINDS[type(constraint)]}")
    if isinstance(constraint, ConstantConstraint):
        value = constraint.value
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"{ref} is {value}, which does not fit in 64 bits")
        return signatures.ConstantSpec.of(value)
    wanted_kind = _annotated_kind(rule)
    if wanted_kind is not None and not isinstance(constraint, wanted_kind):
        raise TypeError(
            f"{ref} is annotated as {_KINDS[wanted_kind]}, but its constraint is that of {_KINDS[type(constraint)]}"
        )
    if isinstance(constraint, ScalarConstraint):
        if rule.scalar is not None and constraint.dtype is not rule.scalar:
            raise TypeError(f"{ref} is annotated as {rule.scalar}, but its constraint says {constraint.dtype}")
        return signatures.ScalarSpec(constraint.dtype)
    if isinstance(constraint, ListConstraint):
        return signatures.ListSpec(_array_spec(ref, rule.element, constraint.element))
    return _array_spec(ref, rule.array, constraint)


def _annotated_kind(rule: Rule) -> type | None:
    if rule.items is not None:
        return TupleConstraint
    if rule.scalar is not None:
        return ScalarConstraint
    if rule.array is not None:
        return ArrayConstraint
    return ListConstraint if rule.element is not None else None


def _tuple_spec(ref: ArgumentRef, rule: Rule, constraint: TupleConstraint) -> signatures.TupleSpec:
    if not rule.constant and _annotated_kind(rule) not in (None, TupleConstraint):
        raise TypeError(f"{ref} is annotated as no tuple, but its constraint is that of a tuple")
    if rule.items is not None and not rule.repeated and len(rule.items) != len(constraint.items):
        raise TypeError(
            f"{ref} is annotated as a tuple of {len(rule.items)} entries, but its constraint has "
            f"{len(constraint.items)}"
        )
    return signatures.TupleSpec(
        tuple(_spec(ref.item(i), rule.item(i), item) for i, item in enumerate(constraint.items))
    )


def _array_spec(ref: ArgumentRef, annotation: ArrayAnnotation | None, c: ArrayConstraint) -> signatures.ArraySpec:
    annotation = annotation or ArrayAnnotation()  # whose index dtype is for launches
    for axis, (stride, bound) in enumerate(zip(c.stride_constant, c.stride_lower_bound_incl)):
        if stride is None and (bound is None or bound < 0):
            raise TypeError(
                f"the constraint of {ref} allows a negative stride along axis {axis}; say stride_lower_bound_incl=0"
            )
        if stride is not None and stride < 0 and c.index_dtype is uint32:
            raise TypeError(f"the constraint of {ref} has the stride {stride} along axis {axis}, which uint32 lacks")
    static_shape = _static(ref, annotation.static_shape_dims, c.shape_constant, "shape_constant")
    static_strides = _static(ref, annotation.static_stride_dims, c.stride_constant, "stride_constant")
    return signatures.ArraySpec(
        c.dtype,
        c.shape_constant,
        c.stride_constant,
        c.index_dtype,
        static_shape,
        static_strides,
        c.base_addr_divisible_by,
        c.shape_divisible_by,
        c.stride_divisible_by,
    )


def _static(ref: ArgumentRef, dims: tuple[int, ...], known: tuple[int | None, ...], name: str) -> tuple[int, ...]:
    rank = len(known)
    for dim in dims:
        if not -rank <= dim < rank:
            raise TypeError(f"the annotation of {ref} names axis {dim}, but its constraint has rank {rank}")
        if known[dim] is None:
            raise TypeError(f"the annotation of {ref} makes axis {dim} static; give its {name}[{dim % rank}]")
    if len({dim % rank for dim in dims}) < len(dims):
        raise TypeError(f"the annotation of {ref} names an axis twice: {dims}")
    return tuple(sorted(dim % rank for dim in dims))


def _abi(name: str, spec: signatures.ArgumentSpec, positions: dict[Param, int]) -> Iterator[Parameter]:
    """The parameters of the exported function for one argument: pointer, all extents and all strides for an array."""
    if isinstance(spec, signatures.TupleSpec):
        for i, item in enumerate(spec.items):
            yield from _abi(f"{name}[{i}]", item, positions)
    elif isinstance(spec, signatures.ArraySpec):
        base, index = TileType(PointerType(spec.dtype)), TileType(spec.index_dtype)
        yield Parameter(_identifier(name), base, name, positions[Param(name, "base")], divisor=spec.base_divisible)
        for role, axis, known, _, divisor in spec.extents():
            yield Parameter(
                f"{_identifier(name)}_{role}{axis}",
                index,
                f"{name}.{'shape' if role == 'shape' else 'strides'}[{axis}]",
                positions.get(Param(name, role, axis)),
                known=known,
                lower=0,
                divisor=divisor if known is None else 1,
            )
    else:
        for param, type_ in signatures.parameters(name, spec):
            suffix = {"table": "", "scalar": "", "length": "_length"}[param.role]
            yield Parameter(f"{_identifier(name)}{suffix}", type_, f"{name}{suffix}", positions[param])


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name.replace("]", ""))
