"""Autograd for operators of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import _C
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from tilewright.ops.operator import Operator


def autograd_kernel(op: Operator, overload: Any, kernels: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The kernel of the key Autograd: records the backward function where an input requires a gradient.

    ``kernels`` are those of devices by their dispatch keys; calling them saves a second trip through the dispatcher.
    """
    recorded = _recorder(op, overload)
    after, mutates = _C._after_autograd_keyset, min(op.mutates, default=None)
    plain: dict[int, Callable[..., Any]] = {}  # by the set of keys with which the dispatcher would go on to them

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
        compute = plain.get(keyset.raw_repr())
        if compute is not None:
            return compute(*args)
        below = keyset & after
        known = kernels.get(below.highestPriorityTypeId().name)
        if known is not None:
            plain[keyset.raw_repr()] = known
        with _C._AutoDispatchBelowAutograd():
            return overload.redispatch(below, *args)

    return kernel


def _unpacked(array: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The primal and the tangent, of which PyTorch has one level, whichever of its functions has entered it."""
    return torch._VF._unpack_dual(array, level=0)


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
    for name, array, tangent in zip(op.outputs, outputs, tangents):
        if tangent is not None:
            _check_alike(op, f"the tangent of '{name}'", tangent, array.shape)
    made = tuple(a if t is None else torch._VF._make_dual(a, t, level=0) for a, t in zip(outputs, tangents))
    return made if len(made) > 1 else made[0]


def _check_alike(op: Operator, what: str, found: Any, shape: Any) -> None:
    """RuntimeError where ``found``, which a rule of ``op`` gave, is no tensor of this shape."""
    if not isinstance(found, torch.Tensor):
        raise RuntimeError(f"{op.name}: {what} is of type {type(found).__name__}; it must be a tensor or None")
    if found.shape != shape:
        raise RuntimeError(f"{op.name}: {what} has the shape {tuple(found.shape)}; it must have {tuple(shape)}")


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
        ctx.given, ctx.shapes = len(args), [a.shape for a in args[: len(inputs)]]
        args = (*args, *list(numbers.values())[len(args) - arity :]) if len(args) < arity else args
        values = dict(zip((*inputs, *numbers), args))
        values.update(zip(outputs, result if isinstance(result, tuple) else (result,)))
        wanted = op.backward.parameters if op.backward is not None else ()
        known = {name: values[name] for name in wanted if name in values}
        ctx.numbers = {name: value for name, value in known.items() if not isinstance(value, torch.Tensor)}
        ctx.saved = [name for name in known if name not in ctx.numbers]
        ctx.save_for_backward(*[known[name] for name in ctx.saved])
        return result

    def gradients(ctx: Any, *grads: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(op.missing_gradient())
        values = dict(zip(ctx.saved, ctx.saved_tensors)) | ctx.numbers
        values |= {f"grad_{name}": grad for name, grad in zip(outputs, grads)}
        found = op.input_gradients(values)
        for name, gradient, shape in zip(inputs, found, ctx.shapes):
            if gradient is not None:
                _check_alike(op, f"the gradient of '{name}'", gradient, shape)
        return None, *found, *[None] * (ctx.given - len(inputs))

    methods = {"forward": record, "backward": gradients}
    methods["_compiled_autograd_key"] = torch.autograd.Function._compiled_autograd_key
    kind: Any = _SingleLevelFunction  # the transformations of torch.func go through the dispatcher, one by one
    return type(op.name.replace("::", "_"), (kind,), {name: staticmethod(f) for name, f in methods.items()})
