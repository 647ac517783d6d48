"""Operators of PyTorch, registered through ``torch.library``. Importing this module imports torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilewright.ir.diagnostics import raised_on_purpose
from tilewright.ir.errors import TileTypeError
from tilewright.language.dtypes import to_dtype
from tilewright.ops import torch_floats, torch_gradient, torch_transforms
from tilewright.ops.in_place import Memory, overlaps
from tilewright.ops.operator import NO_DEFAULT, KernelLauncher, Operator
from tilewright.runtime.launch import launch
from tilewright.sanitizer.session import SESSIONS
from tilewright.system.forks import load

_MOST_PLANS = 1024  # shapes that an operator remembers; programs with more start over
_SCHEMA_TYPES = {int: "SymInt", float: "float", bool: "bool"}
_WITHOUT_MEMORY = [  # dispatch keys
    *(f"{kind}{device}" for kind in ("Sparse", "SparseCsr", "Quantized", "NestedTensor") for device in ("CPU", "CUDA")),
    "MkldnnCPU",
]
_REGISTERED: dict[str, tuple[Operator, torch.library.Library]] = {}
_SHARDED: set[str] = set()  # the names of the operators whose sharding rules DTensor knows

Plan = list[tuple[Any, torch.dtype, int]]  # shape and dtype of each output, and an input with the same ones, or -1
_Prepared = tuple[Plan, tuple[int, ...], bool]  # with the grid where one kernel is launched; whether nothing is to do


class TorchTypeError(TileTypeError, RuntimeError):
    """Kernels do not take tensors of these dtypes, in the class of PyTorch."""


def front(op: Operator) -> Callable[..., Any]:
    """What computes ``op`` where tensors are given, all arguments in order."""
    register(op)
    return op.overload if op.held is None else torch_floats.front(op)


def register(op: Operator) -> None:
    """Register the operator of PyTorch for ``op`` where that has not been done: ``op.overload``."""
    found = _REGISTERED.get(op.name)
    if found is None or found[0] is not op:  # there was none, or another declaration of that name
        if found is not None:
            found[1]._destroy()
            _SHARDED.discard(op.name)
        library = torch.library.Library(op.name.partition("::")[0], "FRAGMENT")
        stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a build for CPUs has none
        kernels = _runner(op, None), _runner(op, stream_of)
        op.overload = _overload(op, library, "", *kernels)
        if torch_floats.float_positions(op):
            op.held = _overload(op, library, "held", *[torch_floats.reading(op, kernel) for kernel in kernels])
        op.traced = torch_floats.traced_call
        _REGISTERED[op.name] = op, library
    if op.name not in _SHARDED and "torch.distributed.tensor" in sys.modules:
        _SHARDED.add(op.name)
        load("tilewright.ops.torch_sharding").register(op)


def _overload(
    op: Operator, library: torch.library.Library, overload: str, cpu: Callable[..., Any], cuda: Callable[..., Any]
) -> Any:
    """The new ``overload`` of the operator of PyTorch, which these kernels compute. ``held`` has floats in tensors."""
    library.define(schema(op, overload), tags=torch_floats.TAGS if overload else ())
    namespace, _, name = op.name.partition("::")
    made = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    name, full = (f"{n}.{overload}".rstrip(".") for n in (name, op.name))
    library.impl(name, cpu, "CPU")
    library.impl(name, cuda, "CUDA")
    for kind in _WITHOUT_MEMORY:
        library.impl(name, _refusing(op), kind)
    torch.library.register_fake(full, _fake(op), lib=library)
    library.impl(
        name, torch_gradient.autograd_kernel(op, made, {"CPU": cpu, "CUDA": cuda}), "Autograd", with_keyset=True
    )
    torch.library.register_vmap(full, torch_transforms.vmap_rule(op, made), lib=library)
    if op.autocast is not None:
        for device in ("cpu", "cuda"):
            library.impl(name, torch_transforms.autocast_kernel(op, made, device), f"Autocast{device.upper()}")
    return made


def schema(op: Operator, overload: str = "") -> str:
    """The operator in PyTorch's language of schemas."""
    kinds = _SCHEMA_TYPES | ({float: "Tensor"} if overload else {})
    marks = (f"({chr(ord('a') + i)}!)" if name in op.mutates else "" for i, name in enumerate(op.inputs))
    arrays = [f"Tensor{mark} {name}" for mark, name in zip(marks, op.inputs)]
    defaults = ("" if overload or n.default is NO_DEFAULT else f"={n.kind(n.default)!r}" for n in op.numbers)
    numbers = [f"{kinds[n.kind]} {n.name}{default}" for n, default in zip(op.numbers, defaults)]
    results = "Tensor" if len(op.outputs) == 1 else f"({', '.join(['Tensor'] * len(op.outputs))})"
    name = f"{op.name.partition('::')[2]}.{overload}".rstrip(".")
    return f"{name}({', '.join(arrays + numbers)}) -> {results}"


def _plan(op: Operator, arrays: Sequence[torch.Tensor]) -> Plan:
    """The outputs for such inputs. RuntimeError, naming the argument, for inputs that do not fit together."""
    for name, array in zip(op.inputs, arrays):
        if array is None:
            raise RuntimeError(f"{op.name}: '{name}' is None; pass a tensor")
        if array.device != arrays[0].device:
            raise RuntimeError(
                f"{op.name}: '{name}' is on {array.device}, but '{op.inputs[0]}' on {arrays[0].device}; move one of "
                "them"
            )
        if to_dtype(array.dtype) is None:
            raise RuntimeError(f"{op.name}: '{name}' has the dtype {array.dtype}, which kernels do not take")
    extents = op.dims.extents(op.name, op.inputs, [a.shape for a in arrays], _check)
    names = [a.dtype for a in arrays]
    dtypes = [names[op.inputs.index(d)] if d in op.inputs else getattr(torch, d) for d in op.dtypes]
    shapes = [tuple(shape) for shape in op.dims.inputs]
    alike = [
        next((i for i, (other, n) in enumerate(zip(shapes, names)) if (other, n) == (shape, dtype)), -1)
        for shape, dtype in zip(op.dims.outputs, dtypes)
    ]
    return list(zip(op.dims.results(extents), dtypes, alike))


def _check(condition: Any, message: Callable[[], str]) -> None:
    if condition is False:  # raised here, so that tracebacks end in the program
        raise RuntimeError(message())
    torch._check(condition, message)  # extents may be symbols, about which PyTorch then notes it


def _runner(op: Operator, stream_of: Callable[[int | None], Any] | None) -> Callable[..., Any]:
    """Computes the outputs: of tensors on the CPU, or on GPUs, maybe several, whose streams ``stream_of`` gives."""
    plans: dict[Any, _Prepared] = {}
    count, arity, function, empty = len(op.inputs), op.arity, op.function, torch.empty
    kernel, constants = (function.kernel, function.constants) if isinstance(function, KernelLauncher) else (None, ())
    defaults = [n.default for n in op.numbers]  # the dispatcher leaves out arguments that have their defaults
    single, like, contiguous = len(op.outputs) == 1, torch.empty_like, torch.contiguous_format
    mutates = bool(op.mutates)

    def run(*args: Any) -> Any:
        if len(args) < arity:
            args = (*args, *defaults[len(args) - arity :])
        arrays = args[:count]
        key: tuple[Any, ...]
        try:
            if stream_of is None:
                stream, key = None, tuple([(a.shape, a.dtype) for a in arrays])
            else:
                stream, key = stream_of(arrays[0].device.index), tuple([(a.shape, a.dtype, a.device) for a in arrays])
        except AttributeError:  # there is a None among them
            _plan(op, arrays)
            raise
        known = plans.get(key)
        if known is None:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            known = plans[key] = _prepared(op, arrays)
        plan, grid, idle = known
        if mutates:
            _check_changed(op, arrays)
        results = [  # the first takes half the time
            like(arrays[i], memory_format=contiguous) if i >= 0 else empty(shape, dtype=dtype, device=arrays[0].device)
            for shape, dtype, i in plan
        ]
        if idle:
            pass
        elif SESSIONS:
            op.compute(stream, arrays, results, args[count:])
        else:
            try:
                if kernel is not None:
                    launch(stream, grid, kernel, (*arrays, *results, *constants))
                else:
                    function(stream, *arrays, *results, *args[count:])
            except TileTypeError as e:
                raise op.refusal(e, arrays, TorchTypeError) from None
            except (TypeError, ValueError) as e:
                if not raised_on_purpose(e.__traceback__):
                    raise
                raise RuntimeError(f"{op.name}: {e}") from None
        return results[0] if single else tuple(results) if results else None

    return run


def _prepared(op: Operator, arrays: Sequence[torch.Tensor]) -> _Prepared:
    plan = _plan(op, arrays)
    results = [torch.empty(shape, device="meta") for shape, *_ in plan]
    grid = op.function.grid((*arrays, *results)) if isinstance(op.function, KernelLauncher) else ()
    return plan, grid, op.is_idle([a.shape for a in arrays], [a.shape for a in results])


def _refusing(op: Operator) -> Callable[..., Any]:
    """Raises RuntimeError, naming the argument, for tensors whose elements are not in memory with strides."""

    def refuse(*args: Any) -> Any:
        for name, array in zip(op.inputs, args):
            if array.is_nested:
                raise RuntimeError(f"{op.name}: '{name}' is a nested tensor; pass its parts, x.unbind()")
            if array.is_quantized:
                raise RuntimeError(f"{op.name}: '{name}' is quantized; pass x.dequantize()")
            if array.layout != torch.strided:
                raise RuntimeError(f"{op.name}: '{name}' has the layout {array.layout}; pass x.to_dense()")
        raise RuntimeError(f"{op.name}: no kernel takes these tensors")

    return refuse


def _check_changed(op: Operator, arrays: Sequence[torch.Tensor]) -> None:
    """RuntimeError where an input that is changed must not be, or shares memory with itself or another."""
    for name, array in zip(op.inputs, arrays):
        if name in op.mutates and array.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(
                f"{op.name}: '{name}' was made in inference mode, outside of which it cannot be changed in place; pass "
                "x.clone()"
            )
    for message in overlaps(op.name, op.inputs, op.mutates, [_memory(a) for a in arrays]):
        raise RuntimeError(message)


def _memory(array: torch.Tensor) -> Memory:
    size = array.element_size()
    return Memory(array.data_ptr(), array.shape, [stride * size for stride in array.stride()], size)


def _fake(op: Operator) -> Callable[..., Any]:
    count = len(op.inputs)

    def fake(*args: Any) -> Any:
        results = [args[0].new_empty(shape, dtype=dtype) for shape, dtype, _ in _plan(op, args[:count])]
        return results[0] if len(results) == 1 else tuple(results) if results else None

    return fake
