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
        dual = forward_ad._current_level >= 0 or _C._are_functorch_transforms_active()  # these may enter it elsewhere
        if dual and any(isinstance(a, torch.Tensor) and _unpacked(a)[1] is not None for a in args):
            return _with_tangents(op, overload, args)
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


def _unpacked(array: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The primal and the tangent, of which PyTorch has one level, whichever of its functions has entered it."""
    found: tuple[torch.Tensor, torch.Tensor | None] = torch._VF._unpack_dual(array, level=0)
    return found


def _with_tangents(op: Operator, overload: Any, args: tuple[Any, ...]) -> Any:
    """The outputs as dual tensors, for inputs of which some are."""
    if op.forward is None:
        raise NotImplementedError(op.missing_jvp())
    duals = [_unpacked(a) for a in args[: len(op.inputs)]]
    primals, numbers = [primal for primal, _ in duals], args[len(op.inputs) :]
    found = overload(*primals, *numbers)
    outputs = found if isinstance(found, tuple) else (found,)
    values = dict(zip(op.inputs, primals)) | dict(zip(op.outputs, outputs))
    values |= {n.name: n.default for n in op.numbers} | dict(zip((n.name for n in op.numbers), numbers))
    for name, (primal, tangent) in zip(op.inputs, duals):
        empty = tangent is None and primal.is_floating_point()
        values[f"tangent_{name}"] = torch.zeros_like(primal) if empty else tangent
    tangents = op.output_tangents(values)
    made = tuple(a if t is None else torch._VF._make_dual(a, t, level=0) for a, t in zip(outputs, tangents))
    return made if len(made) > 1 else made[0]


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

    methods = {"forward": record, "backward": gradients}
    kind: Any = _SingleLevelFunction  # the transformations of torch.func go through the dispatcher, one by one
    return type(op.name.replace("::", "_"), (kind,), {name: staticmethod(f) for name, f in methods.items()})
