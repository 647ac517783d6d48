"""Autograd for operators of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad

from tilewright.ops import torch_transforms
from tilewright.ops.operator import Operator


def autograd_kernel(op: Operator, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of the key Autograd: records the backward function where an input requires a gradient.

    ``compute`` is the kernel for CPUs; calling it saves a second trip through the dispatcher.
    """
    recorded, _ = _functions(op, overload)
    after, mutates = _C._after_autograd_keyset, min(op.mutates, default=None)
    plain: set[int] = set()  # sets of keys with which the dispatcher would go on to ``compute``

    def kernel(keyset: Any, *args: Any) -> Any:
        if forward_ad._current_level >= 0 and any(map(_has_tangent, args)):
            raise NotImplementedError(_no_jvp(op))
        if _C.is_grad_enabled() and _C._any_requires_grad(*args):
            if mutates is not None:
                raise RuntimeError(
                    f"{op.name} changes '{mutates}' in place and has no gradient, but an input requires one; "
                    "call it under torch.no_grad(), or pass x.detach()"
                )
            return recorded.apply(keyset, *args)
        if keyset.raw_repr() in plain:
            return compute(*args)
        below = keyset & after
        if below.highestPriorityTypeId() == _C.DispatchKey.CPU:
            plain.add(keyset.raw_repr())
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(below, *args)

    return kernel


def _functionalizing() -> bool:
    """Whether the innermost transformation of ``torch.func`` is ``functionalize``, which has no rule for functions."""
    innermost = _C._functorch.peek_interpreter_stack()
    return innermost is not None and innermost.key() == _C._functorch.TransformType.Functionalize


def _has_tangent(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None


def _no_jvp(op: Operator) -> str:
    return (
        f"{op.name} has no forward-mode derivative, which torch.func.jvp, jacfwd and hessian and dual tensors ask for; "
        "use reverse mode: torch.func.vjp, jacrev, or backward()"
    )


def transformable(op: Operator, overload: Any) -> Callable[..., Any]:
    """``overload`` as a function that ``torch.func`` can transform, where ``op`` has a gradient."""
    if op.backward is None:
        return overload
    _, transformed = _functions(op, overload)
    active = _C._are_functorch_transforms_active

    def call(*args: Any) -> Any:
        return transformed.apply(*args) if active() and not _functionalizing() else overload(*args)

    return call


def _functions(op: Operator, overload: Any) -> tuple[Any, Any]:
    """Two ``torch.autograd.Function``: one whose first argument is the set of dispatch keys, and one for the
    transformations of ``torch.func``. The backward pass raises RuntimeError when none is declared."""
    inputs, outputs, arity = op.inputs, op.outputs, op.arity
    numbers = {n.name: n.default for n in op.numbers}

    def keep(ctx: Any, args: tuple[Any, ...], result: Any) -> None:
        ctx.given = len(args)
        args = (*args, *list(numbers.values())[len(args) - arity :]) if len(args) < arity else args
        arrays = dict(zip(inputs, args)) | dict(zip(outputs, result if isinstance(result, tuple) else (result,)))
        ctx.numbers = dict(zip(numbers, args[len(inputs) :]))
        wanted = op.backward.parameters if op.backward is not None else ()
        ctx.saved = [name for name in wanted if name in arrays]
        ctx.save_for_backward(*[arrays[name] for name in ctx.saved])

    def record(ctx: Any, keyset: Any, *args: Any) -> Any:
        with _C._AutoDispatchBelowAutograd():
            result = overload.redispatch(keyset & _C._after_autograd_keyset, *args)
        keep(ctx, args, result)
        return result

    def gradients(ctx: Any, *grads: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(op.missing_gradient())
        values = dict(zip(ctx.saved, ctx.saved_tensors)) | ctx.numbers
        values |= {f"grad_{name}": grad for name, grad in zip(outputs, grads)}
        return *op.input_gradients(values), *[None] * (ctx.given - len(inputs))

    def forward_mode(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(_no_jvp(op))

    name = op.name.replace("::", "_")
    return (
        _function(name, forward=record, backward=lambda ctx, *grads: (None, *gradients(ctx, *grads)),
                  jvp=forward_mode),
        _function(
            f"{name}_transformed", forward=lambda *args: overload(*args), setup_context=keep, backward=gradients,
            jvp=forward_mode,
            vmap=torch_transforms.vmap_rule(op, overload),
        ),
    )  # fmt: skip


def _function(name: str, **methods: Any) -> Any:
    return type(name, (torch.autograd.Function,), {key: staticmethod(value) for key, value in methods.items()})
