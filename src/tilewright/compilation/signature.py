"""``KernelSignature``: the parameters, calling convention and symbol of a kernel compiled ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from tilewright.compilation import constraints
from tilewright.compilation.convention import CallingConvention
from tilewright.compilation.mangling import demangle, mangle
from tilewright.frontend.signature import (
    ArgumentSpec,
    ArraySpec,
    ConstantSpec,
    ListSpec,
    PointerSpec,
    ScalarSpec,
    TupleSpec,
)
from tilewright.language.suggestions import explains_arguments
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.layout import ALIGNMENT


@explains_arguments
@dataclass(frozen=True)
class KernelSignature:
    """What a kernel is compiled for.

    ``parameters`` has a constraint for every parameter of the kernel; a plain number stands for a ConstantConstraint,
    a plain tuple for a TupleConstraint. Without a ``symbol`` the exported name is the mangled one.

    TypeError for wrong kinds of values; ValueError for what the calling convention lacks (tuples and static shapes
    need version 2) and for alias groups that are used once, twice by one argument, or by arrays and lists.

    >>> from tilewright.compilation import CallingConvention, KernelSignature, ScalarConstraint
    >>> signature = KernelSignature([ScalarConstraint(ct.float32), 128], CallingConvention.cutile_python_v2())
    >>> signature.with_mangled_symbol("scale").symbol
    'scale_Kt2_Sf32_I128'
    """

    parameters: Sequence[Any]
    calling_convention: CallingConvention
    symbol: str | None = None

    def __post_init__(self) -> None:
        if self.symbol is not None and not isinstance(self.symbol, str):
            raise TypeError(f"symbol is {self.symbol!r}; it must be a string or None")
        if not isinstance(self.calling_convention, CallingConvention):
            raise TypeError(
                f"calling_convention is {self.calling_convention!r}; write CallingConvention.cutile_python_v2()"
            )
        if isinstance(self.parameters, str) or not isinstance(self.parameters, Sequence):
            raise TypeError(f"parameters is {self.parameters!r}; it must be a sequence of constraints")
        object.__setattr__(self, "parameters", tuple(map(constraints.to_constraint, self.parameters)))
        _check_alias_groups(self.parameters)
        for parameter in self.parameters:
            _check_convention(parameter, self.calling_convention)

    def with_symbol(self, symbol: str | None) -> KernelSignature:
        """This signature with another symbol; None stands for the mangled name."""
        return replace(self, symbol=symbol)

    def with_mangled_symbol(self, function_name: str) -> KernelSignature:
        """This signature with the mangled name of ``function_name`` as its symbol."""
        return self.with_symbol(mangle(function_name, self.calling_convention, self.parameters))

    @staticmethod
    @explains_arguments
    def from_kernel_args(
        kernel: Launchable,
        kernel_args: Sequence[Any],
        calling_convention: CallingConvention,
        *,
        symbol: str | None = None,
    ) -> KernelSignature:
        """The signature that a launch with these arguments would compile for.

        It promises all that happens to hold for them, such as an address divisible by 16: look at it before use.
        The errors are those of ``launch``.
        """
        if not isinstance(kernel, Launchable):
            raise TypeError(f"the first argument of from_kernel_args must be a kernel, not {kernel!r}")
        found, regions = kernel.regions(tuple(kernel_args))
        shapes = isinstance(calling_convention, CallingConvention) and calling_convention.version >= 2
        overlapping = {region.name for region in regions if region.layout.may_overlap_itself()}
        parameters = tuple(
            _constraint(ref.argument, spec, shapes, overlapping)
            for (ref, _), spec in zip(kernel.parameters, found.arguments)
        )
        signature = KernelSignature(parameters, calling_convention, symbol)
        return signature.with_mangled_symbol(kernel.name) if symbol is None else signature


def _constraint(name: str, spec: ArgumentSpec, shapes: bool, overlapping: Set[str]) -> constraints.ParameterConstraint:
    """The constraint that promises what ``spec`` relies on; without ``shapes`` only what annotations ask for.

    ``overlapping`` names the arrays whose own elements may share memory.
    """
    if isinstance(spec, ScalarSpec):
        return constraints.ScalarConstraint(spec.dtype)
    if isinstance(spec, ConstantSpec):
        return constraints.ConstantConstraint(spec.value)  # type: ignore[arg-type]  # it says what is wrong with another type
    if isinstance(spec, TupleSpec):
        return constraints.TupleConstraint(
            tuple(_constraint(f"{name}[{i}]", item, shapes, overlapping) for i, item in enumerate(spec.items))
        )
    if isinstance(spec, ListSpec):
        element = _array_constraint(spec.element, shapes, any(n.startswith(f"{name}[") for n in overlapping))
        return constraints.ListConstraint(element, alias_groups=(), elements_may_alias=True)
    if isinstance(spec, PointerSpec):
        raise TypeError("a kernel of Tile C++ declares its types: only Python kernels take a signature")
    return _array_constraint(spec, shapes, name in overlapping)


def _array_constraint(spec: ArraySpec, shapes: bool, overlaps_itself: bool) -> constraints.ArrayConstraint:
    unit = max(1, ALIGNMENT // spec.dtype.bytes)
    return constraints.ArrayConstraint(
        spec.dtype,
        spec.ndim,
        index_dtype=spec.index_dtype,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=overlaps_itself,
        stride_constant=spec.strides,
        shape_constant=[n if shapes or axis in spec.constant_shape else None for axis, n in enumerate(spec.shape)],
        stride_divisible_by=[
            1 if n is not None or d % unit else unit for n, d in zip(spec.strides, spec.strides_divisible)
        ],
        shape_divisible_by=[
            ALIGNMENT if n is None and d == ALIGNMENT else 1 for n, d in zip(spec.shape, spec.shape_divisible)
        ],
        base_addr_divisible_by=spec.base_divisible,
    )


def _check_alias_groups(parameters: Sequence[constraints.ParameterConstraint]) -> None:
    uses: Counter[str] = Counter()
    kinds: dict[str, type] = {}
    for constraint, names in constraints.alias_groups(parameters):
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the alias group {name!r} occurs twice in {list(names)}")
            if kinds.setdefault(name, type(constraint)) is not type(constraint):
                raise ValueError(
                    f"the alias group {name!r} has an array and a list; a list shares memory with no array"
                )
            uses[name] += 1
    for name, count in uses.items():
        if count == 1:
            raise ValueError(
                f"the alias group {name!r} has one member only; for memory that is not shared write alias_groups=()"
            )


def _check_convention(constraint: constraints.ParameterConstraint, convention: CallingConvention) -> None:
    if convention.version >= 2:
        return
    if isinstance(constraint, constraints.TupleConstraint):
        raise ValueError(f"{convention.name} has no tuple parameters; use CallingConvention.cutile_python_v2()")
    if isinstance(constraint, constraints.ListConstraint):
        _check_convention(constraint.element, convention)
    if isinstance(constraint, constraints.ArrayConstraint) and any(n is not None for n in constraint.shape_constant):
        raise ValueError(f"{convention.name} has no static shapes; use CallingConvention.cutile_python_v2()")


def mangle_kernel_name(function_name: str, kernel_signature: KernelSignature) -> str:
    """The name of ``function_name`` compiled for ``kernel_signature``. ``demangle_kernel_name`` is the inverse."""
    if not isinstance(kernel_signature, KernelSignature):
        raise TypeError(f"kernel_signature is {kernel_signature!r}; it must be a KernelSignature")
    return mangle(function_name, kernel_signature.calling_convention, kernel_signature.parameters)


def demangle_kernel_name(symbol: str) -> tuple[str, KernelSignature]:
    """The function name and the signature that a mangled name spells. Alias groups are called group0, group1, ...

    ValueError for a name that ``mangle_kernel_name`` does not make.
    """
    function_name, convention, parameters = demangle(symbol)
    return function_name, KernelSignature(tuple(parameters), convention, symbol)
