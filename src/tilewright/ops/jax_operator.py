"""Operators in JAX programs: FFI calls with rules for gradients, batching and sharding. Importing this imports jax."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from tilewright.ir.errors import TileTypeError
from tilewright.language.dtypes import to_dtype
from tilewright.ops.batching import batched_dim
from tilewright.ops.dims import Shape
from tilewright.ops.jax_call import alike_varying, call_handler, register_handler, written_arrays, xla_platform
from tilewright.ops.jax_gradient import differentiable
from tilewright.ops.jax_sharding import partitioned
from tilewright.ops.operator import Operator, OperatorTypeError, array_dtype
from tilewright.runtime.abstract import record_launches
from tilewright.runtime.arrays import abstract_array

Arrays = Sequence[Any]


def front(op: Operator) -> Callable[..., Any]:
    """What computes ``op`` where JAX arrays are given, all arguments in order. Inputs that the operator changes in
    place are not changed: the changed arrays follow the outputs."""
    count = len(op.inputs)
    functions: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def call(*args: Any) -> Any:
        arrays, numbers = args[:count], args[count:]
        for name, array in zip(op.inputs, arrays):
            if not isinstance(array, (jax.Array, jax.core.Tracer, np.ndarray)):
                raise TypeError(f"{op.name}: '{name}' is of type {type(array).__name__}; pass an array of JAX")
        key = tuple(n.value(op.name, _static(value)) for n, value in zip(op.numbers, numbers))
        function = functions.get(key)
        if function is None:
            function = functions[key] = jax.jit(_differentiable(op, key))
        found = function(*arrays)
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _static(value: Any) -> Any:
    """The number that an array without dimensions holds."""
    known = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
    return value.item() if known and value.ndim == 0 else value


def result_shapes(op: Operator) -> tuple[Shape, ...]:
    """The dimensions of all results: the outputs, and the inputs that are changed."""
    return (*op.dims.outputs, *(shape for name, shape in zip(op.inputs, op.dims.inputs) if name in op.mutates))


def _results(op: Operator, arrays: Arrays) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and dtype of each result. ValueError, naming the argument, for inputs that do not fit together, and
    TypeError for a dtype that kernels do not take."""
    for name, array in zip(op.inputs, arrays):
        if to_dtype(array.dtype) is None:
            raise TypeError(f"{op.name}: '{name}' has the dtype {array.dtype}, which kernels do not take")
    extents = op.dims.extents(op.name, op.inputs, [a.shape for a in arrays])
    dtypes = [array_dtype(d, op.inputs, [a.dtype for a in arrays]) for d in op.dtypes]
    changed = [(a.shape, a.dtype) for name, a in zip(op.inputs, arrays) if name in op.mutates]
    return [*zip(op.dims.results(extents), dtypes), *changed]


def _differentiable(op: Operator, numbers: tuple[Any, ...]) -> Callable[..., Any]:
    """``op`` with these ``numbers``, and with its derivatives."""
    function = differentiable(op, numbers, _batched(op, numbers))

    # What differs along fewer axes of a mesh is cast outside of the rule: so its gradient is summed along the others.
    def call(*arrays: Any) -> Any:
        return function(*alike_varying(arrays)[0])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD  # which errors of JAX name
    call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in op.inputs])  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = op.name
    return call


def _batched(op: Operator, numbers: tuple[Any, ...]) -> Callable[..., Any]:
    """``op`` with these ``numbers``, and with its batching rule."""
    local = functools.partial(_ffi_call, op, numbers)
    sharded = partitioned(op, result_shapes(op), local)

    def compute(*arrays: Any) -> Any:
        _results(op, arrays)  # says what is wrong in terms of the operator
        manual = jax.sharding.get_abstract_mesh().manual_axes  # in shard_map nothing is left to partition
        return local(*arrays) if manual else sharded(*arrays)

    function = jax.custom_batching.custom_vmap(compute)
    outputs = result_shapes(op)

    def rule(size: int, batched: Sequence[bool], *arrays: Any) -> Any:
        dim = None if op.mutates else batched_dim(op.dims, op.sharded, batched)
        if dim is None:
            return _one_by_one(function, batched, arrays), [True] * len(outputs)
        merged = [
            _merged(a, b, shape.index(dim), size) if dim in shape else a
            for a, b, shape in zip(arrays, batched, op.dims.inputs)
        ]
        found = [_split(a, shape.index(dim), size) for a, shape in zip(function(*merged), outputs)]
        return found, [True] * len(outputs)

    function.def_vmap(rule)
    return function


def _one_by_one(function: Callable[..., Any], batched: Sequence[bool], arrays: Arrays) -> Any:
    moving = [a for a, b in zip(arrays, batched) if b]

    def one(entries: Arrays) -> Any:
        left = iter(entries)
        return function(*[next(left) if b else a for a, b in zip(arrays, batched)])

    return list(jax.lax.map(one, moving))


def _merged(array: Any, batched: bool, axis: int, size: int) -> Any:
    """``array`` with its first axis, or as many copies where it is not batched, before the others along ``axis``."""
    if batched:
        array = jax.numpy.moveaxis(array, 0, axis)
    else:
        array = jax.numpy.broadcast_to(
            jax.numpy.expand_dims(array, axis), (*array.shape[:axis], size, *array.shape[axis:])
        )
    return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])


def _split(array: Any, axis: int, size: int) -> Any:
    shape = (*array.shape[:axis], size, array.shape[axis] // size, *array.shape[axis + 1 :])
    return jax.numpy.moveaxis(array.reshape(shape), axis, 0)


def _ffi_call(op: Operator, numbers: tuple[Any, ...], *arrays: Any) -> Any:
    """The results, from the handler for arrays of these shapes."""
    results = _results(op, arrays)
    if op.is_idle([a.shape for a in arrays], [shape for shape, _ in results]):
        return [jax.numpy.zeros(shape, dtype) for shape, dtype in results]
    target = _target(op, numbers, tuple((a.shape, np.dtype(a.dtype)) for a in arrays), tuple(results))
    changed = [i for i, name in enumerate(op.inputs) if name in op.mutates]
    return call_handler(target, arrays, results, {i: len(op.outputs) + n for n, i in enumerate(changed)})


@functools.lru_cache(maxsize=4096)
def _target(op: Operator, numbers: tuple[Any, ...], inputs: tuple[Any, ...], results: tuple[Any, ...]) -> str:
    """The name under which XLA knows the handler for inputs and results of these shapes and dtypes."""
    platform = xla_platform(op.name)
    arrays = [abstract_array(i, shape, dtype, platform.device) for i, (shape, dtype) in enumerate((*inputs, *results))]
    given, outputs = arrays[: len(inputs)], arrays[len(inputs) : len(inputs) + len(op.outputs)]
    try:
        launches = record_launches(lambda stream: op.function(stream, *given, *outputs, *numbers))
    except TileTypeError as e:
        raise op.refusal(e, given, OperatorTypeError) from None
    _check_writes(op, launches)
    changed = [i for i, name in enumerate(op.inputs) if name in op.mutates]
    mutated = {i: len(inputs) + len(op.outputs) + n for n, i in enumerate(changed)}
    return register_handler(platform, op.name, launches, len(inputs), mutated, (inputs, results))


def _check_writes(op: Operator, launches: Sequence[Any]) -> None:
    """ValueError where a launch stores to an input that is not declared to be changed."""
    for launch in launches:
        for number in written_arrays(launch):
            if number < len(op.inputs) and op.inputs[number] not in op.mutates:
                raise ValueError(
                    f"{op.name}: {launch.kernel.name}() stores to '{op.inputs[number]}'; declare that with mutates="
                )
