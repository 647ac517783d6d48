"""Autograd for operators of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _C
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from tilewright.ops.operator import Operator


def autograd_kernel(op: Operator, overload: Any, compute: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of the key Autograd: records the backward function where an input requires a gradient.

    ``compute`` is the kernel for CPUs; calling it saves a second trip through the dispatcher.
    """
    recorded = _recorder(op, overload)
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
            if not _C._are_functorch_transforms_active():
                return recorded.apply(keyset, *args)
            with enable_single_level_autograd_function():
                return recorded.apply(keyset, *args)
        if keyset.raw_repr() in plain:
            return compute(*args)
        below = keyset & after
        if below.highestPriorityTypeId() == _C.DispatchKey.CPU:
            plain.add(keyset.raw_repr())
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(below, *args)

    return kernel


def _has_tangent(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None


def _no_jvp(op: Operator) -> str:
    return (
        f"{op.name} has no forward-mode derivative, which torch.func.jvp, jacfwd and hessian and dual tensors ask for; "
        "use reverse mode: torch.func.vjp, jacrev, or backward()"
    )


def _recorder(op: Operator, overload: Any) -> Any:
    """A ``torch.autograd.Function`` whose first argument is the set of dispatch keys.

    Its backward pass raises RuntimeError where none is declared.
    """
    inputs, outputs, arity = op.inputs, op.outputs, op.arity
    numbers, active = {n.name: n.default for n in op.numbers}, _C._are_functorch_transforms_active

    def below(keyset: Any, args: tuple[Any, ...]) -> Any:
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & _C._after_autograd_keyset, *args)

    def record(ctx: Any, keyset: Any, *args: Any) -> Any:
        if active():  # transformations around this one record as well, which is switched off here
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                result = below(keyset, args)
        else:
            result = below(keyset, args)
        ctx.given = len(args)
        args = (*args, *list(numbers.values())[len(args) - arity :]) if len(args) < arity else args
        arrays = dict(zip(inputs, args)) | dict(zip(outputs, result if isinstance(result, tuple) else (result,)))
        ctx.numbers = dict(zip(numbers, args[len(inputs) :]))
        wanted = op.backward.parameters if op.backward is not None else ()
        ctx.saved = [name for name in wanted if name in arrays]
        ctx.save_for_backward(*[arrays[name] for name in ctx.saved])
        return result

    def gradients(ctx: Any, *grads: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(op.missing_gradient())
        values = dict(zip(ctx.saved, ctx.saved_tensors)) | ctx.numbers
        values |= {f"grad_{name}": grad for name, grad in zip(outputs, grads)}
        return None, *op.input_gradients(values), *[None] * (ctx.given - len(inputs))

    def forward_mode(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(_no_jvp(op))

    methods = {"forward": record, "backward": gradients, "jvp": forward_mode}
    kind: Any = _SingleLevelFunction  # the transformations of torch.func go through the dispatcher, one by one
    return type(op.name.replace("::", "_"), (kind,), {name: staticmethod(f) for name, f in methods.items()})
