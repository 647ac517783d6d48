"""Rules of operators of PyTorch for ``vmap`` and autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.ops.batching import batched_dim
from tilewright.ops.dims import Shape
from tilewright.ops.operator import Operator


def vmap_rule(op: Operator, overload: Any) -> Callable[..., Any]:
    """The rule that ``torch.library.register_vmap`` takes: one call where a dimension takes the batch, else a loop.

    RuntimeError where an input that is changed in place is the same for the whole batch.
    """
    count = len(op.inputs)

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        arrays, numbers, size = args[:count], args[count:], info.batch_size
        batched = [d is not None for d in in_dims[:count]]
        for name, varies in zip(op.inputs, batched):
            if name in op.mutates and not varies:
                raise RuntimeError(f"{op.name}: '{name}' is changed in place, so it must have the batch of vmap, too")
        alone = op.mutates or any(d is not None for d in in_dims[count:])  # a batch that is merged may be a copy
        dim = None if alone else batched_dim(op.dims, op.sharded, batched)
        if dim is None:
            calls = [
                overload(*[a.select(d, i) if d is not None else a for a, d in zip(args, in_dims)]) for i in range(size)
            ]
            if not op.outputs:
                return None, None
            if len(op.outputs) == 1:
                return torch.stack(calls), 0
            return tuple(map(torch.stack, zip(*calls))), (0,) * len(op.outputs)
        merged = [
            _merged(a, d, shape.index(dim), size) if dim in shape else a
            for a, d, shape in zip(arrays, in_dims, op.dims.inputs)
        ]
        found = overload(*merged, *numbers)
        if len(op.outputs) == 1:
            return _split(found, op.dims.outputs[0], dim, size)
        parts = [_split(array, shape, dim, size) for array, shape in zip(found, op.dims.outputs)]
        return tuple(array for array, _ in parts), tuple(axis for _, axis in parts)

    return rule


def _merged(array: torch.Tensor, batch: int | None, axis: int, size: int) -> torch.Tensor:
    """``array`` with its axis ``batch``, or as many copies where there is none, before the others along ``axis``."""
    if batch is None:
        array = array.unsqueeze(axis).expand(*array.shape[:axis], size, *array.shape[axis:])
    else:
        array = array.movedim(batch, axis)
    return array.flatten(axis, axis + 1)


def _split(array: torch.Tensor, shape: Shape, dim: str, size: int) -> tuple[torch.Tensor, int]:
    axis = shape.index(dim)
    return array.unflatten(axis, (size, array.shape[axis] // size)), axis


def autocast_kernel(op: Operator, overload: Any, device: str) -> Callable[..., Any]:
    """The kernel of an Autocast key: casts floating inputs of 32 bits and less to the dtype that ``op`` asks for."""
    narrow = (torch.float32, torch.float16, torch.bfloat16)

    def kernel(*args: Any) -> Any:
        dtype = torch.float32 if op.autocast == "float32" else torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            cast = [a.to(dtype) if isinstance(a, torch.Tensor) and a.dtype in narrow else a for a in args]
            return overload(*cast)

    return kernel
