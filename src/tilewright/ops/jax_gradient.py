"""Derivatives of operators in JAX programs. Importing this imports jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tilewright.ops.jax_call import cast_varying, varying
from tilewright.ops.operator import Operator

Arrays = Sequence[Any]
_NONE = jax.dtypes.float0  # of tangents and gradients of integers


def differentiable(op: Operator, numbers: tuple[Any, ...], compute: Callable[..., Any]) -> Callable[..., Any]:
    """``compute``, which is ``op`` with these ``numbers``, with its derivatives. One that is not declared is an error
    where it is computed, or transposed."""
    function = jax.custom_jvp(compute)

    def rule(arrays: Arrays, tangents: Arrays) -> Any:
        found = function(*arrays)
        wanted = {name for rule in (op.forward, op.backward) if rule is not None for name in rule.parameters}
        saved = _saved(op, wanted, arrays, found)
        moving = [i for i, t in enumerate(tangents) if t.dtype != _NONE]
        types = tuple(jax.typeof(array).to_tangent_aval() for array in found)
        derivative = _Derivative(op, numbers, tuple(saved), tuple(moving), types)
        made = iter(_bound(derivative, *saved.values(), *[tangents[i] for i in moving]))
        return found, [np.zeros(t.shape, _NONE) if t.dtype == _NONE else next(made) for t in types]

    function.defjvp(rule)
    return function


def _saved(op: Operator, wanted: Any, arrays: Arrays, found: Arrays) -> dict[str, Any]:
    values = dict(zip(op.inputs, arrays)) | dict(zip(op.outputs, found))
    return {name: value for name, value in values.items() if name in wanted}


def _input_gradients(op: Operator, numbers: tuple[Any, ...], saved: dict[str, Any], grads: Arrays) -> tuple[Any, ...]:
    """The gradients of the inputs, said to differ along all axes of a mesh along which ``grads`` do."""
    given = {f"grad_{name}": grad for name, grad in zip(op.outputs, grads)}
    found = op.input_gradients(saved | given | dict(zip((n.name for n in op.numbers), numbers)))
    axes = frozenset().union(*map(varying, grads))
    return tuple(grad if grad is None else cast_varying(grad, axes) for grad in found)


@dataclass(frozen=True)
class _Derivative:
    """The derivative of an operator at certain values, of which ``saved`` has the names: a linear function.

    It takes the tangents of the inputs ``moving``, and gives those of the outputs, which are of ``types``, but for
    integers. ``batches`` are further first dimensions, from the outermost on: which arguments have them.
    """

    op: Operator
    numbers: tuple[Any, ...]
    saved: tuple[str, ...]
    moving: tuple[int, ...]
    types: tuple[Any, ...]
    batches: tuple[tuple[bool, ...], ...] = ()

    def __call__(self, *arguments: Any) -> list[Any]:
        """The tangents of the outputs, from saved values and the tangents of inputs."""
        return self._mapped(self._tangents, self.batches)(*arguments)

    def transposed(self, *arguments: Any) -> list[Any]:
        """The gradients of the inputs ``moving``, from saved values and the gradients of the outputs."""
        outputs = [True] * sum(t.dtype != _NONE for t in self.types)
        batches = tuple((*has[: len(self.saved)], *outputs) for has in self.batches)
        return self._mapped(self._gradients, batches)(*arguments)

    def batched(self, has: Sequence[bool]) -> _Derivative:
        """The derivative of a batch, which the arguments of which ``has`` is true have as first dimension."""
        return replace(self, batches=(tuple(has), *self.batches))

    def _mapped(self, function: Callable[..., Any], batches: tuple[tuple[bool, ...], ...]) -> Callable[..., Any]:
        for has in reversed(batches):
            function = jax.vmap(function, in_axes=tuple(0 if h else None for h in has))
        return function

    def _tangents(self, *arguments: Any) -> list[Any]:
        op, tangents = self.op, dict(zip(self.moving, arguments[len(self.saved) :]))
        if op.forward is None:
            return list(_missing.bind(op=op, types=tuple(t for t in self.types if t.dtype != _NONE)))
        values = dict(zip(self.saved, arguments)) | dict(zip((n.name for n in op.numbers), self.numbers))
        values |= {f"tangent_{name}": tangents.get(i) for i, name in enumerate(op.inputs)}
        found = list(zip(op.outputs, op.output_tangents(values), self.types))
        for name, value, kind in found:
            if value is not None and kind.dtype != _NONE:
                _check_alike(op, f"the tangent of '{name}'", value, kind)
        return [jax.numpy.zeros(t.shape, t.dtype) if v is None else v for _, v, t in found if t.dtype != _NONE]

    def _gradients(self, *arguments: Any) -> list[Any]:
        if self.op.backward is None:
            raise NotImplementedError(self.op.missing_gradient())
        saved, given = dict(zip(self.saved, arguments)), iter(arguments[len(self.saved) :])
        grads = [np.zeros(t.shape, _NONE) if t.dtype == _NONE else next(given) for t in self.types]
        found = _input_gradients(self.op, self.numbers, saved, grads)
        return [found[i] for i in self.moving]


# A primitive, as its transpose is another function of ours. All else is inlined: what XLA and derivatives of higher
# order see are the operators that the rules call.
_linear = Primitive("tilewright_derivative")
_missing = Primitive("tilewright_missing_jvp")  # tangents without a rule: reverse mode traces and never computes them
_linear.multiple_results = _missing.multiple_results = True


def _bound(derivative: _Derivative, *arguments: Any) -> list[Any]:
    """The tangents of the outputs; the derivative is traced here, where manual axes of a mesh are known."""
    return _linear.bind(*arguments, derivative=derivative, traced=jax.make_jaxpr(derivative)(*arguments))


def _evaluated(*arguments: Any, derivative: _Derivative, traced: Any) -> Any:
    return jax.core.eval_jaxpr(traced.jaxpr, traced.consts, *arguments)


def _jvp(arguments: Arrays, tangents: Arrays, *, derivative: _Derivative, traced: Any) -> Any:
    count = len(derivative.saved)
    full = tuple(map(ad.instantiate_zeros, tangents))
    if any(not isinstance(t, ad.Zero) for t in tangents[:count]):
        return jax.jvp(derivative, tuple(arguments), full)
    return _bound(derivative, *arguments), _bound(derivative, *arguments[:count], *full[count:])


def _transposed(grads: Arrays, *arguments: Any, derivative: _Derivative, traced: Any) -> Any:
    count = len(derivative.saved)
    found = derivative.transposed(*arguments[:count], *map(ad.instantiate_zeros, grads))
    for i, gradient, argument in zip(derivative.moving, found, arguments[count:]):
        if gradient is not None:
            _check_alike(derivative.op, f"the gradient of '{derivative.op.inputs[i]}'", gradient, argument.aval)
    return [*[None] * count, *found]


def _check_alike(op: Operator, what: str, found: Any, wanted: Any) -> None:
    """ValueError where ``found``, which a rule of ``op`` gave, has not the shape and the dtype of ``wanted``."""
    kinds = [f"{array.dtype}[{','.join(map(str, array.shape))}]" for array in (found, wanted)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"{op.name}: {what} is {kinds[0]}; it must be {kinds[1]}")


def _batched(arguments: Arrays, dims: Sequence[Any], *, derivative: _Derivative, traced: Any) -> Any:
    size = next(a.shape[d] for a, d in zip(arguments, dims) if d is not None)
    count = len(derivative.saved)
    moved = [a if d is None else jax.numpy.moveaxis(a, d, 0) for a, d in zip(arguments, dims)]
    moved[count:] = [  # so that each gradient has the batch of its tangent
        jax.numpy.broadcast_to(a, (size, *a.shape)) if d is None else a for a, d in zip(moved[count:], dims[count:])
    ]
    found = _bound(derivative.batched([d is not None for d in dims[:count]] + [True] * len(derivative.moving)), *moved)
    return found, [0] * len(found)


def _refused(*_: Any, op: Operator, types: Any) -> Any:
    raise NotImplementedError(op.missing_jvp())


_missing.def_impl(_refused)
_missing.def_abstract_eval(lambda *, op, types: list(types))
mlir.register_lowering(_missing, _refused)
_linear.def_impl(_evaluated)
_linear.def_abstract_eval(lambda *_, derivative, traced: traced.out_avals)
mlir.register_lowering(_linear, mlir.lower_fun(_evaluated, multiple_results=True))
ad.primitive_jvps[_linear] = _jvp
ad.primitive_transposes[_linear] = _transposed
batching.primitive_batchers[_linear] = _batched
