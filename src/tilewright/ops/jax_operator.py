"""Operators in JAX programs: FFI calls with rules for gradients, batching and sharding. Importing this imports jax."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from tilewright.ir.errors import TileTypeError
from tilewright.ir.printer import print_function
from tilewright.language.dtypes import to_dtype
from tilewright.ops.batching import batched_dim
from tilewright.ops.dims import Shape
from tilewright.ops.jax_sharding import partitioned
from tilewright.ops.operator import Operator, OperatorTypeError, array_dtype
from tilewright.ops.xla_handler import Handler
from tilewright.runtime.abstract import abstract_array, record_launches
from tilewright.runtime.arrays import AbstractAddress

_HANDLERS: dict[tuple[str, str], Handler] = {}  # by platform and name; XLA calls them as long as the process lives
_LOCK = threading.Lock()
_PLATFORMS = {"cpu": ("cpu", "cpu"), "gpu": ("CUDA", "cuda"), "cuda": ("CUDA", "cuda")}  # XLA's name, and ours

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
        key = tuple(_static(op, n.name, n.kind, value) for n, value in zip(op.numbers, numbers))
        function = functions.get(key)
        if function is None:
            function = functions[key] = jax.jit(_differentiable(op, key))
        found = function(*arrays)
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _static(op: Operator, name: str, kind: type, value: Any) -> Any:
    if not isinstance(value, (bool, int, float, np.generic)):
        kind_of = type(value).__name__
        raise TypeError(f"{op.name}: '{name}' is of type {kind_of}; it must be a number, known when traced")
    return kind(value)


def result_shapes(op: Operator) -> tuple[Shape, ...]:
    """The dimensions of all results: the outputs, and the inputs that are changed."""
    return (*op.dims.outputs, *(shape for name, shape in zip(op.inputs, op.dims.inputs) if name in op.mutates))


def _results(op: Operator, arrays: Arrays) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and dtype of each result. ValueError, naming the argument, for inputs that do not fit together, and
    TypeError for a dtype that kernels do not take."""
    for name, array in zip(op.inputs, arrays):
        if to_dtype(array.dtype) is None:
            raise TypeError(f"{op.name}: '{name}' has the dtype {array.dtype}, which kernels do not take")
    extents = op.dims.extents(op.name, op.inputs, [a.shape for a in arrays], _check)
    dtypes = [array_dtype(d, op.inputs, [a.dtype for a in arrays]) for d in op.dtypes]
    changed = [(a.shape, a.dtype) for name, a in zip(op.inputs, arrays) if name in op.mutates]
    return [*zip(op.dims.results(extents), dtypes), *changed]


def _check(condition: Any, message: Callable[[], str]) -> None:
    if not condition:
        raise ValueError(message())


def _differentiable(op: Operator, numbers: tuple[Any, ...]) -> Callable[..., Any]:
    """``op`` with these ``numbers``, and with its gradient."""
    compute = _batched(op, numbers)
    function = jax.custom_vjp(compute)

    def forward(*arrays: Any) -> Any:
        if op.backward is None:
            raise NotImplementedError(op.missing_gradient())
        found = function(*arrays)
        values = dict(zip(op.inputs, arrays)) | dict(zip(op.outputs, found))
        return found, {name: value for name, value in values.items() if name in op.backward.parameters}

    def backward(saved: dict[str, Any], grads: Arrays) -> Any:
        given = {f"grad_{name}": grad for name, grad in zip(op.outputs, grads)}
        found = op.input_gradients(saved | given | dict(zip((n.name for n in op.numbers), numbers)))
        axes = frozenset().union(*map(_varying, grads))
        return tuple(grad if grad is None else _cast_varying(grad, axes) for grad in found)

    function.defvjp(forward, backward)
    # What differs along fewer axes of a mesh is cast outside of the rule: so its gradient is summed along the others.
    return lambda *arrays: function(*_alike_varying(arrays)[0])


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
    alike, kind = _alike_varying(arrays)
    kinds = [jax.ShapeDtypeStruct(shape, dtype, **kind) for shape, dtype in results]
    changed = [i for i, name in enumerate(op.inputs) if name in op.mutates]
    aliases = {i: len(op.outputs) + n for n, i in enumerate(changed)}
    return list(jax.ffi.ffi_call(target, kinds, input_output_aliases=aliases, vmap_method="sequential")(*alike))


def _alike_varying(arrays: Arrays) -> tuple[Arrays, dict[str, Any]]:
    """``arrays`` that all differ along the same manual axes of a mesh, as shard_map checks, and what says so of the
    results."""
    every = frozenset().union(*map(_varying, arrays))
    if not every:
        return arrays, {}
    cast = [_cast_varying(a, every) for a in arrays]
    kind = jax.typeof(cast[0])
    if not hasattr(kind, "mat"):
        return cast, {"vma": every}
    whole = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec())
    return cast, {"manual_axis_type": kind.mat, "sharding": whole}


def _varying(array: Any) -> frozenset[str]:
    """The manual axes of a mesh along which ``array`` differs."""
    kind = jax.typeof(array)
    found: frozenset[str] = kind.mat.varying if hasattr(kind, "mat") else getattr(kind, "vma", frozenset())
    return found


def _cast_varying(array: Any, axes: frozenset[str]) -> Any:
    """``array``, said to differ along ``axes`` as well."""
    missing = axes - _varying(array)
    return jax.lax.pcast(array, tuple(sorted(missing)), to="varying") if missing else array


@functools.lru_cache(maxsize=4096)
def _target(op: Operator, numbers: tuple[Any, ...], inputs: tuple[Any, ...], results: tuple[Any, ...]) -> str:
    """The name under which XLA knows the handler for inputs and results of these shapes and dtypes."""
    found = _PLATFORMS.get(jax.default_backend())
    if found is None:
        raise NotImplementedError(f"{op.name}: kernels run on CPUs and NVIDIA's GPUs, not on {jax.default_backend()}")
    platform, device = found
    arrays = [abstract_array(i, shape, dtype, device) for i, (shape, dtype) in enumerate((*inputs, *results))]
    given, outputs = arrays[: len(inputs)], arrays[len(inputs) : len(inputs) + len(op.outputs)]
    try:
        launches = record_launches(lambda stream: op.function(stream, *given, *outputs, *numbers))
    except TileTypeError as e:
        raise op.refusal(e, given, OperatorTypeError) from e
    _check_writes(op, launches)
    changed = [i for i, name in enumerate(op.inputs) if name in op.mutates]
    mutated = {i: len(inputs) + len(op.outputs) + n for n, i in enumerate(changed)}
    text = [f"{launch.grid}{list(launch.values)}{print_function(launch.function)}" for launch in launches]
    digest = hashlib.sha256(repr((op.name, inputs, results, mutated, text)).encode()).hexdigest()
    name = f"tilewright.{op.name.replace('::', '.')}.{digest[:24]}"
    with _LOCK:
        if (platform, name) not in _HANDLERS:
            handler = Handler(op.name, launches, len(inputs), mutated, device != "cpu")
            jax.ffi.register_ffi_target(name, handler.capsule(), platform=platform)
            _HANDLERS[platform, name] = handler
    return name


def _check_writes(op: Operator, launches: Sequence[Any]) -> None:
    """ValueError where a launch stores to an input that is not declared to be changed."""
    for launch in launches:
        pointers = [p.argument for p, v in zip(launch.function.params, launch.values) if _is_address(v)]
        numbers = [int(v) for v in launch.values if _is_address(v)]
        for argument, number in zip(pointers, numbers):
            if argument in launch.written and number < len(op.inputs) and op.inputs[number] not in op.mutates:
                raise ValueError(
                    f"{op.name}: {launch.kernel.name}() stores to '{op.inputs[number]}'; declare that with mutates="
                )


def _is_address(value: Any) -> bool:
    return isinstance(value, AbstractAddress)
