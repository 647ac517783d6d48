"""Which backend runs a launch: asked for in the launch, in the context, in the environment; else the arrays decide."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.backends.base import Backend
from tilewright.backends.registry import backend_names, classes_of, default_backend, get_backend
from tilewright.ir.core import Function
from tilewright.runtime.arguments import Region
from tilewright.runtime.layout import ArgumentRef
from tilewright.system.environment import variable

_ONLY_COMPILED = " yet: for AMD GPUs kernels can be compiled, by compile_for() or 'tilewright inspect --target gfx942'"
CURRENT: ContextVar[str | None] = ContextVar("tilewright backend", default=None)
FORCED: list[str] = []  # backends that run every launch of the process, whatever it asks for; the last one counts


@contextmanager
def use_backend(name: str) -> Iterator[None]:
    """A context in which, in this thread, kernels run on the backend ``name``. ValueError for an unknown one.

    >>> @ct.kernel
    ... def fill(x):
    ...     ct.store(x, (ct.bid(0),), ct.ones((4,), ct.float32))
    >>> x = np.zeros(3, np.float32)
    >>> with ct.use_backend("reference"):
    ...     ct.launch(None, (1,), fill, (x,))
    >>> x
    array([1., 1., 1.], dtype=float32)
    """
    if name not in backend_names():
        raise ValueError(f"unknown backend {name!r}; choose one of {', '.join(backend_names())}")
    token = CURRENT.set(name)
    try:
        yield
    finally:
        CURRENT.reset(token)


@contextmanager
def force_backend(name: str) -> Iterator[None]:
    """A context in which every launch of the process runs on the backend ``name``, whatever it asks for."""
    FORCED.append(name)
    try:
        yield
    finally:
        FORCED.remove(name)


def requested(explicit: str | None = None) -> str | None:
    """The name of the backend that was asked for; None leaves the choice to the arrays."""
    if FORCED:
        return FORCED[-1]
    return explicit or CURRENT.get() or variable("TILEWRIGHT_BACKEND") or None


def select(name: str | None, kernel: str, regions: Sequence[Region]) -> Backend:
    """The backend for a launch on the arrays ``regions``, ``name`` being what ``requested`` said.

    ValueError when the arrays are in the memory of different devices, or of one that the backend cannot use;
    RuntimeError when the backend does not work here.
    """
    device = regions[0].layout.device if regions else None
    for region in regions:
        if (here := _device_of(region)) != (first := _device_of(regions[0])):
            raise ValueError(
                f"the arguments of {kernel}() are on different devices: '{regions[0].name}' on {first}, "
                f"'{region.name}' on {here}; copy one of them"
            )
    if name is None:
        name = default_backend(device or "cpu")
        if name is None:
            raise ValueError(
                f"{ArgumentRef(kernel, regions[0].name)} is in the memory of a device ({device}) that no backend can "
                f"use{_ONLY_COMPILED if device == 'rocm' else ''}; copy it to host memory"
            )
    backend = usable(name)
    if device not in (None, backend.device):
        raise ValueError(
            f"{ArgumentRef(kernel, regions[0].name)} is in the memory of a device ({device}) that the backend {name!r} "
            f"cannot use: it runs on {backend.device} arrays"
        )
    devices = backend.capabilities.devices
    if regions and devices is not None:
        return devices.backend_of(regions[0].layout.device_index)
    return backend


def taken_from(
    backend: Backend, function: Callable[[], Function], find: Callable[[str], Backend]
) -> tuple[str, str] | None:
    """The backend that takes a kernel in place of the default one ``backend``, and as which class; None without one.

    ``find`` gives a backend by its name for the device or the target of ``backend``, ValueError or RuntimeError where
    it has no code for that, or does not work.
    """
    for kernels in classes_of(backend.name):
        if not kernels.holds(function(), backend):
            continue
        with contextlib.suppress(ValueError, RuntimeError):
            find(kernels.backend)
            return kernels.backend, kernels.name
    return None


def _device_of(region: Region) -> str:
    """The device whose memory an array is in."""
    found = region.layout
    return found.device if found.device == "cpu" else f"{found.device}:{found.device_index}"


def usable(name: str) -> Backend:
    """The backend ``name``; RuntimeError when it does not work here."""
    try:
        backend = get_backend(name)
    except ImportError as e:
        raise RuntimeError(f"the backend {name!r} cannot be loaded: {e}; try pip install {e.name}") from e
    _require(backend)
    return backend


def compiling_for(target: str | None, name: str | None = None) -> Backend:
    """The backend that compiles for the GPU architecture ``target``, which need not be in this machine; None stands for
    the GPU that is. It is the one called ``name``, or of the backends that can the one asked for, if one was, else the
    default one for NVIDIA GPUs, else one that takes kernels from that.
    ValueError for an unknown architecture; RuntimeError when something is not installed.
    """
    asked = name or requested()
    error: Exception = RuntimeError("no backend compiles for other GPUs than that of this machine")
    default = default_backend("cuda") or ""
    others = (kernels.backend for kernels in classes_of(default))
    for able in (name,) if name is not None else (asked, default, *others):
        for_target = None if not able else get_backend(able).capabilities.for_target
        if for_target is not None:
            try:
                backend = for_target(target)
            except ValueError as e:
                if able == asked:
                    raise
                error = e if isinstance(error, RuntimeError) else error
                continue
            _require(backend)
            return backend
    raise error


def _require(backend: Backend) -> None:
    reason = backend.unavailable()
    if reason is not None:
        raise RuntimeError(f"the backend {backend.name!r} cannot be used here: {reason}")
