"""Floats of operators in tensors, so that PyTorch compiles a function once for all values: it fixes those of numbers.

An operator with floats has an overload ``held``, which takes tensors without dimensions in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tilewright.ops.operator import Operator

# CUDA graphs would repeat the launch with the float of the time when they were captured
TAGS = tuple(filter(None, [getattr(torch.Tag, "cudagraph_unsafe", None)]))


def float_positions(op: Operator) -> tuple[int, ...]:
    """Which arguments are floats."""
    return tuple(i for i, n in enumerate(op.numbers, len(op.inputs)) if n.kind is float)


def front(op: Operator) -> Callable[..., Any]:
    """What computes ``op`` for all arguments in order, of which floats may be tensors."""
    plain, held, floats = op.overload, op.held, float_positions(op)

    def call(*args: Any) -> Any:
        for i in floats:
            if isinstance(args[i], torch.Tensor):
                _check_number(op, i, args[i])
                return held(*[in_tensor(a) if i in floats else a for i, a in enumerate(args)])
        return plain(*args)

    return call


def _check_number(op: Operator, position: int, value: torch.Tensor) -> None:
    name = op.numbers[position - len(op.inputs)].name
    if value.numel() != 1:
        raise RuntimeError(f"{op.name}: '{name}' has the shape {tuple(value.shape)}; it must be a number")
    if value.requires_grad:
        raise RuntimeError(f"{op.name}: '{name}' requires a gradient, which numbers have not; pass x.detach()")


def in_tensor(value: Any) -> torch.Tensor:
    """A float, or a tensor of one element, as a tensor without dimensions."""
    if isinstance(value, torch.Tensor):
        return value.reshape(())
    return torch.ones((), dtype=torch.float64) * value  # a product, in which the compiler takes floats that vary


def reading(op: Operator, compute: Callable[..., Any]) -> Callable[..., Any]:
    """``compute`` for arguments of which floats are in tensors."""
    floats = float_positions(op)
    return lambda *args: compute(*[float(a) if i in floats else a for i, a in enumerate(args)])


def traced_call(op: Operator, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """What a call of ``op`` does, in terms that Dynamo can trace: floats that vary go in tensors."""
    if op.held is not None:
        names = [*op.inputs, *[n.name for n in op.numbers]][len(args) :]
        values = [*args, *[named[name] for name in names if name in named]]
        if len(values) == len(args) + len(named) and len(values) > len(op.inputs):
            values += [n.default for n in op.numbers[len(values) - len(op.inputs) :]]
            if any(isinstance(values[i], torch.Tensor) or varies(values[i]) for i in float_positions(op)):
                return op.held(*[in_tensor(a) if i in float_positions(op) else a for i, a in enumerate(values)])
    return op.overload(*args, **named)


def varies(value: Any) -> bool:
    """Whether Dynamo traces a float of which it does not know the value, which is equal to no number then."""
    return (
        isinstance(value, float) and not statically_known_true(value == 0.0) and not statically_known_true(value != 0.0)
    )
