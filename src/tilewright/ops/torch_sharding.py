"""Sharding rules of operators for DTensor, from the dimensions that their declarations name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from tilewright.ops.dims import Shape
from tilewright.ops.operator import Operator


def register(op: Operator) -> None:
    """Let DTensor know how ``op`` may be split over the devices along one dimension of a mesh."""
    register_sharding(op.overload)(strategies(op))
    if op.held is not None:
        register_sharding(op.held)(strategies(op, Replicate()))


def strategies(op: Operator, of_floats: Any = None) -> Callable[..., Any]:
    """Lists the placements of the outputs and the arguments that DTensor may choose from.

    Everything is replicated, or one sharded dimension is split in every array that has it; or else a summed one is,
    and each output is the sum of those of the devices. ``of_floats`` is the placement of floats that are in tensors.
    """
    numbers = [of_floats if number.kind is float else None for number in op.numbers]

    def placements(shapes: tuple[Shape, ...], dim: str | None, otherwise: Any) -> list[Any]:
        return [Shard(shape.index(dim)) if dim in shape else otherwise for shape in shapes]

    def found(*_: Any, **__: Any) -> list[tuple[list[Any], list[Any]]]:
        ways: list[tuple[list[Any], str | None]] = [(placements(op.dims.outputs, None, Replicate()), None)]
        # All outputs have to have the dimension: one that has not would not be known as a whole anywhere.
        split = [dim for dim in sorted(op.sharded) if all(dim in shape for shape in op.dims.outputs)]
        ways += [(placements(op.dims.outputs, dim, Replicate()), dim) for dim in split]
        ways += [(placements(op.dims.outputs, None, Partial()), dim) for dim in sorted(op.summed)]
        return [(outputs, [*placements(op.dims.inputs, dim, Replicate()), *numbers]) for outputs, dim in ways]

    return found
