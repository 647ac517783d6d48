"""Sharding rules of operators for XLA's partitioners, from the dimensions that their declarations name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from tilewright.ops.dims import Dims, Shape
from tilewright.ops.operator import Operator


def partitioned(op: Operator, outputs: tuple[Shape, ...], local: Callable[..., Any]) -> Callable[..., Any]:
    """``local`` as a function that XLA may run on parts of the arrays.

    ``outputs`` are the dimensions of the results. Sharded dimensions that all results have are split as the arrays
    are, summed ones give partial results that are added, and the others are gathered.
    """
    split = {d for d in op.sharded if all(d in shape for shape in outputs)}
    # Shardy numbers the dimensions as they appear, and wants them listed in that order.
    names = list(dict.fromkeys(d for shape in (*op.dims.inputs, *outputs) for d in shape if isinstance(d, str)))

    def axes_of(arg_shapes: Sequence[Any], result_shapes: Sequence[Any]) -> dict[str, Any]:
        """The axes of the mesh that each dimension is split over."""
        found: dict[str, Any] = {}
        taken: set[str] = set()
        sides = [*zip(outputs, result_shapes), *zip(op.dims.inputs, arg_shapes)]
        for shape, info in sides:
            spec = tuple(getattr(info.sharding, "spec", ()) or ())
            for dim, axes in zip(shape, spec):
                each = (axes,) if isinstance(axes, str) else tuple(axes or ())
                if dim in split | op.summed and dim not in found and each and not taken & set(each):
                    found[str(dim)] = axes
                    taken |= set(each)
        return found

    def shardings(mesh: Any, shapes: Sequence[Shape], axes: dict[str, Any]) -> tuple[NamedSharding, ...]:
        return tuple(NamedSharding(mesh, PartitionSpec(*(axes.get(str(d)) for d in shape))) for shape in shapes)

    def partition(mesh: Any, arg_shapes: Sequence[Any], result_shapes: Sequence[Any]) -> Any:
        axes = axes_of(arg_shapes, result_shapes)
        summed = [axes[d] for d in sorted(op.summed) if d in axes]
        total = [a for each in summed for a in ((each,) if isinstance(each, str) else each)]

        def lower(*arrays: Any) -> Any:
            found = local(*arrays)
            return [jax.lax.psum(a, tuple(total)) for a in found] if total else found

        given = {d: a for d, a in axes.items() if d not in op.summed}
        return mesh, lower, list(shardings(mesh, outputs, given)), shardings(mesh, op.dims.inputs, axes)

    def infer(mesh: Any, arg_shapes: Sequence[Any], result_shapes: Sequence[Any]) -> Any:
        axes = {d: a for d, a in axes_of(arg_shapes, ()).items() if d not in op.summed}
        return list(shardings(mesh, outputs, axes))

    def call(*arrays: Any) -> Any:
        return local(*arrays)

    function = custom_partitioning(call)
    function.def_partition(
        partition=partition,
        infer_sharding_from_operands=infer,
        sharding_rule=_rule(Dims(op.dims.inputs, outputs)),
        reduction_factors=tuple(d for d in names if d in op.summed),
        need_replication_factors=tuple(d for d in names if d not in split | op.summed),
    )
    return function


def _rule(dims: Dims) -> str:
    """The dimensions in the language of Shardy's rules, in which extents that never change are names, too."""
    fixed = iter(range(1 << 16))

    def text(shape: Shape) -> str:
        return " ".join(d if isinstance(d, str) else f"fixed_{next(fixed)}" for d in shape)

    return f"{', '.join(map(text, dims.inputs))} -> {', '.join(map(text, dims.outputs))}"
