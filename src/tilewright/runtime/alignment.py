"""What the alignment of arrays tells kernels whose parameters are typed pointers."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.signature import PointerSpec, Signature
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import AssumeDivisible
from tilewright.ir.rewrite import clone_op, open_block, with_body


def with_alignment(function: Function, signature: Signature) -> Function:
    """``function`` with the alignment of its arrays stated."""
    values: dict[Any, Any] = {}
    body = open_block(function.body, values)
    builder = Builder(body, function.loc)
    for value, spec in zip(function.body.args, signature.arguments):
        if isinstance(spec, PointerSpec) and spec.divisible > 1:
            values[value] = builder.emit(AssumeDivisible, values[value], divisor=spec.divisible)
    for op in function.body.ops:
        builder.insert(clone_op(op, values))
    return with_body(function, body)
