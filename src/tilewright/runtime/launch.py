"""Launching kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.runtime.arrays import RuntimeValues
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.specialization import Specialization
from tilewright.runtime.versions import note_writes
from tilewright.system.environment import switch

# Frameworks that trace operators: each takes the stream, the grid, the kernel, its arguments and the backend, and says
# whether it has noted the launch, which is then not made.
Tracer = Callable[[Any, tuple[int, ...], Launchable, tuple[Any, ...], str | None], bool]
TRACERS: list[Tracer] = []
_FORGOTTEN: Any = object()  # what a call with fewer than four arguments lacks


def launch(
    stream: Any = _FORGOTTEN,
    grid: tuple[int, ...] = _FORGOTTEN,
    kernel: Any = _FORGOTTEN,
    kernel_args: tuple[Any, ...] = _FORGOTTEN,
    /,
    *surplus: Any,
    programmatic_dependent_launch: bool = False,
    backend: str | None = None,
    check_overlap: bool | None = None,
    **arguments: Any,
) -> None:
    """Run ``kernel`` once for every block of ``grid``.

    On a CPU this returns when all blocks have ended, and ``stream`` is not used. On a GPU the launch is queued on
    ``stream``: one of torch, CuPy or ``cuda.core``, its handle as an integer, or None for the default. ``grid`` holds
    up to three numbers of blocks. ``kernel_args`` is a tuple with one entry for every parameter: arrays (NumPy, torch,
    anything with ``__array_interface__`` or DLPack; they are not copied), numbers, tuples, lists of arrays. Parameters
    at the end may be given by name instead, as ``arguments``, or left out where the kernel has defaults for them.

    ``backend`` names the backend; otherwise ``use_backend``, the environment variable TILEWRIGHT_BACKEND and the device
    of the arrays decide, in this order. With ``check_overlap``, or TILEWRIGHT_CHECK_OVERLAP=1, a written argument that
    shares memory with another one is refused. ``programmatic_dependent_launch`` has no effect on a CPU.

    Everything that is wrong with a launch is said before any block runs: TypeError for wrong kinds of arguments,
    ValueError and OverflowError for wrong values, RuntimeError for unknown keywords, TileError for mistakes in the
    kernel.

    >>> @ct.kernel
    ... def scale(x, factor=2.0):
    ...     i = ct.bid(0)
    ...     ct.store(x, (i,), factor * ct.load(x, (i,), (4,)))
    >>> x = np.ones(6)
    >>> ct.launch(None, (ct.cdiv(6, 4),), scale, (x,), factor=3.0)
    >>> x
    array([3., 3., 3., 3., 3., 3.])
    """
    # First what most launches are. No function inside of this one has its variables: that would cost all launches.
    try:
        cached = kernel.cached_launch
    except AttributeError:
        cached = None
    plain = check_overlap is None and programmatic_dependent_launch is False and not (surplus or arguments)
    if cached is not None and plain:
        if cached(stream, grid, kernel_args, backend):
            return
        plan = kernel.last.repeated.following
        cached = None if plan is None else plan.repeated.cached
        if cached is not None and cached(stream, grid, kernel_args, backend):
            kernel.last, kernel.cached_launch = plan, cached
            return
    if surplus or kernel_args is _FORGOTTEN:
        raise TypeError(_not_four(kernel, (kernel_args, *surplus), arguments))
    if not isinstance(kernel, Launchable):
        if getattr(kernel, "is_autotuned", False) and backend is None and check_overlap is None:
            return kernel.launch(stream, grid, kernel_args)
        raise TypeError(_not_a_kernel(kernel, grid))
    given = kernel_args
    if arguments or kernel.defaults:
        kernel_args = kernel.completed(kernel_args, arguments)
    if type(programmatic_dependent_launch) is not bool:
        raise TypeError(f"programmatic_dependent_launch is {programmatic_dependent_launch!r}; it must be True or False")
    _launch(stream, grid, kernel, kernel_args, backend, check_overlap, asked=plain and kernel_args is given)


def _launch(
    stream: Any,
    grid: tuple[int, ...],
    kernel: Launchable,
    kernel_args: tuple[Any, ...],
    backend: str | None,
    check_overlap: bool | None,
    *,
    asked: bool,
) -> None:
    """``launch``, with all arguments of the kernel, of which machine code that most likely takes them may have been
    ``asked``."""
    record = getattr(stream, "record_launch", None)
    if record is not None:
        record(grid, kernel, kernel_args, backend)
        return
    if stream is not None and isinstance(stream, _NO_STREAMS):
        raise TypeError(
            f"the first argument of ct.launch is the stream, not {stream!r}: ct.launch(None, grid, kernel, (...))"
        )
    if check_overlap is None and kernel.repeats(stream, grid, kernel_args, backend, asked=asked):
        return
    for tracer in TRACERS:
        if tracer(stream, grid, kernel, kernel_args, backend):
            return
    blocks = checked_grid(grid)
    runtime = RuntimeValues()
    plan = kernel.plan_for(kernel_args, backend, runtime)
    cached = plan.cached
    if cached is not None and check_overlap is None and cached(plan.stream_for(stream), grid, kernel_args, backend):
        return  # as launches before the previous one
    check = switch("TILEWRIGHT_CHECK_OVERLAP") if check_overlap is None else check_overlap
    plan.run(blocks, runtime, stream, check=check)
    if plan.written:
        note_writes(kernel_args, plan.written)
    if check_overlap is None:
        kernel.record(plan, kernel_args, backend, runtime)


# what a program must give: defaults and the surplus above only serve the message about another number of arguments
_signature = inspect.signature(launch)
launch.__signature__ = _signature.replace(  # type: ignore[attr-defined]
    parameters=[
        p.replace(default=p.empty) if p.default is _FORGOTTEN else p
        for p in _signature.parameters.values()
        if p.name != "surplus"
    ]
)

_NO_STREAMS = (tuple, list, str, float, np.ndarray, Launchable)


def specialization(kernel: Launchable, kernel_args: tuple[Any, ...], backend: str | None = None) -> Specialization:
    """``kernel`` compiled as a launch with these arguments would compile it."""
    return kernel.plan_for(kernel_args, backend, RuntimeValues()).specialization


def _not_four(kernel: Any, rest: tuple[Any, ...], keywords: Mapping[str, Any]) -> str:
    """What to say about a call with another number of arguments, of which ``rest`` follow the kernel."""
    if isinstance(kernel, Launchable) and len(rest) > 1:
        names = ", ".join(ref.argument for ref, _ in kernel.parameters)
        return (
            f"ct.launch() takes the arguments of {kernel.name} as one tuple: "
            f"ct.launch(stream, grid, {kernel.name}, ({names}))"
        )
    how = " by position" if not keywords.keys().isdisjoint(("stream", "grid", "kernel", "kernel_args")) else ""
    first = "of which the first is the stream: ct.launch(None, grid, kernel, (...))"
    return f"ct.launch() takes four arguments{how}, {first}"


def _not_a_kernel(kernel: Any, grid: Any) -> str:
    if isinstance(grid, Launchable):
        shown = repr(kernel) if isinstance(kernel, tuple) else "grid"
        return f"the grid comes before the kernel: ct.launch(stream, {shown}, {grid.name}, (...))"
    name = getattr(kernel, "__name__", None)
    if name is not None and callable(kernel):
        return f"{name} is not a kernel; decorate it with @ct.kernel"
    return f"the third argument of ct.launch must be a kernel, not {kernel!r}"
