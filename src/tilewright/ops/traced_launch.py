"""``ct.launch`` in functions that PyTorch compiles: a call of an operator that is made on the fly.

Dynamo traces ``traced_launch`` instead of ``launch``, and calls the functions that are marked as constant.
"""

from __future__ import annotations

import ctypes
import operator
import sys
from typing import Any

from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileError
from tilewright.runtime.arrays import abstract_array
from tilewright.runtime.launch import TRACERS, launch
from tilewright.runtime.launchable import Launchable
from tilewright.system.forks import load

KERNELS: dict[int, Launchable] = {}  # by identity; they live as long as compiled functions may launch them
_EXTENT = 64  # of arrays, when it is only asked which of them a kernel writes


def constant_parameters(identity: int) -> tuple[bool, ...]:
    """For each parameter of the kernel whose ``id`` is given, whether it is a constant when compiling."""
    kernel = ctypes.cast(identity, ctypes.py_object).value  # the caller refers to it, so it is alive
    if not isinstance(kernel, Launchable):
        raise TypeError(f"the third argument of ct.launch must be a kernel, not {kernel!r}")
    KERNELS[identity] = kernel
    load("tilewright.ops.torch_launch").register()
    return tuple(rule.constant for _, rule in kernel.parameters)


def argument_sources(identity: int, count: int, keywords: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """Where each argument comes from when ``count`` are given in order and others by name: ``("given", position)``,
    ``("named", name)``, or ``("default", value)``."""
    kernel = KERNELS[identity]
    kernel.completed((None,) * count, dict.fromkeys(keywords))  # says what is wrong
    found: list[tuple[str, Any]] = [("given", i) for i in range(count)]
    for ref, _ in kernel.parameters[count:]:
        name = ref.argument
        found.append(("named", name) if name in keywords else ("default", kernel.defaults[name]))
    return tuple(found)


def written_arguments(identity: int, described: tuple[Any, ...]) -> tuple[bool, ...]:
    """For each argument, whether it is an array that the kernel writes.

    An array is described by ``("array", dtype, rank)``, a constant and a number by its value or an example. Where the
    kernel compiles for certain extents only, every array counts as written.
    """
    kernel, dtypes = KERNELS[identity], load("tilewright.ops.torch_launch").numpy_dtype
    args = tuple(
        abstract_array(i, (_EXTENT,) * entry[2], dtypes(entry[1])) if type(entry) is tuple else entry
        for i, entry in enumerate(described)
    )
    names = [ref.argument for ref, _ in kernel.parameters]
    try:
        signature, _ = kernel.regions(args)
        written = AnalysisManager(kernel.trace(signature)).get(argument_effects).written
    except TileError:
        written = frozenset(names)
    return tuple(type(entry) is tuple and name in written for name, entry in zip(names, described))


constant_parameters._dynamo_marked_constant = True  # type: ignore[attr-defined]
argument_sources._dynamo_marked_constant = True  # type: ignore[attr-defined]
written_arguments._dynamo_marked_constant = True  # type: ignore[attr-defined]


def traced_launch(
    stream: Any,
    grid: tuple[int, ...],
    kernel: Any,
    kernel_args: tuple[Any, ...],
    /,
    *,
    programmatic_dependent_launch: bool = False,
    backend: str | None = None,
    check_overlap: bool | None = None,
    **arguments: Any,
) -> None:
    """What ``launch`` does, on the current stream, in terms that Dynamo can trace."""
    identity = id(kernel)
    constant = constant_parameters(identity)
    if arguments or len(constant) > len(kernel_args):
        filled = []
        for source, value in argument_sources(identity, len(kernel_args), tuple(arguments)):
            if source == "given":
                filled.append(kernel_args[value])
            else:
                filled.append(arguments[value] if source == "named" else value)
        kernel_args = tuple(filled)
    if len(constant) != len(kernel_args):
        raise TypeError(f"the kernel takes {len(constant)} arguments, but {len(kernel_args)} were given")
    described = [_described(value, fixed) for value, fixed in zip(kernel_args, constant)]
    changes = written_arguments(identity, tuple(described))
    layout = ""
    written, read, integers, floats, held, dtypes = [], [], [], [], [], []
    for value, fixed, changed in zip(kernel_args, constant, changes):
        if isinstance(value, DType):
            layout += "d"
            dtypes.append(value.name)
        elif isinstance(value, bool):
            layout += "b"
            integers.append(int(value))
        elif isinstance(value, int):
            layout += "i"
            integers.append(value)
        elif isinstance(value, float) and not fixed and OPERATORS["varies"](value):
            layout += "h"
            held.append(OPERATORS["hold"](value))
        elif isinstance(value, float):
            layout += "f"
            floats.append(value)
        elif changed:
            layout += "w"
            written.append(value)
        else:
            layout += "r"
            read.append(value)
    OPERATORS["launch"](identity, list(grid), layout, written, read, integers, floats, held, dtypes, backend or "")


def _described(value: Any, fixed: bool) -> Any:
    """An argument as ``written_arguments`` takes it; ``fixed``: its parameter is a constant when compiling."""
    if isinstance(value, (bool, DType)):
        return value
    if isinstance(value, (int, float)) and not fixed:
        return 1.0 if isinstance(value, float) else 1
    if isinstance(value, float):
        return float.fromhex(value.hex())  # which Dynamo fixes
    if isinstance(value, int):
        return operator.index(value)
    if isinstance(value, (tuple, list, str)) or value is None:
        raise TypeError("in a compiled function, ct.launch takes arrays, numbers and dtypes only")
    return "array", str(value.dtype), value.dim()


OPERATORS: dict[str, Any] = {}  # of PyTorch, which ``constant_parameters`` registers


def traced_by_torch(
    stream: Any, grid: tuple[int, ...], kernel: Launchable, kernel_args: tuple[Any, ...], backend: str | None
) -> bool:
    """Whether PyTorch, which traces operators here as ``torch.export`` does, has been told of the launch."""
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    if proxies is None:
        return False
    modes = sys.modules.get("torch.utils._python_dispatch")
    if not getattr(modes, "is_in_torch_dispatch_mode", lambda: True)():  # which is soon asked
        return False
    if proxies.get_proxy_mode() is None:
        return False
    traced_launch(None, grid, kernel, kernel_args, backend=backend)
    return True


TRACERS.append(traced_by_torch)
launch._torchdynamo_inline = traced_launch  # type: ignore[attr-defined]
