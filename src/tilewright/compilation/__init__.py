"""Compiling kernels ahead of time: signatures, their mangled names, and export."""

from tilewright.compilation.constraints import (
    ArrayConstraint,
    ConstantConstraint,
    ConstantValue,
    ListConstraint,
    ParameterConstraint,
    ScalarConstraint,
    TupleConstraint,
)
from tilewright.compilation.convention import CallingConvention
from tilewright.compilation.export import export_kernel
from tilewright.compilation.signature import KernelSignature, demangle_kernel_name, mangle_kernel_name

__all__ = [
    "ArrayConstraint",
    "CallingConvention",
    "ConstantConstraint",
    "ConstantValue",
    "KernelSignature",
    "ListConstraint",
    "ParameterConstraint",
    "ScalarConstraint",
    "TupleConstraint",
    "demangle_kernel_name",
    "export_kernel",
    "mangle_kernel_name",
]
