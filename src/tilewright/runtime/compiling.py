"""From the IR of a kernel to an executable, by a backend or from the disk cache."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.backends import native
from tilewright.backends.base import Backend, Executable, Serialization
from tilewright.ir.core import Function
from tilewright.ir.opdef import Effect
from tilewright.ir.printer import print_function, print_loc
from tilewright.runtime import manifest
from tilewright.runtime.cache import code_key, disk_cache
from tilewright.runtime.timeout import within_timeout
from tilewright.system.environment import switch
from tilewright.system.forks import KERNEL, fork_aware_lock
from tilewright.version import __version__

# One compilation at a time: front ends raise Python's recursion limit, which belongs to the process.
COMPILATION_LOCK = fork_aware_lock(KERNEL)


def checked(backend: Backend) -> bool:
    """Whether kernels that ``backend`` compiles are to check what they do: TILEWRIGHT_CHECK=1, on a CPU.

    Backends that look for undefined behaviour themselves need no such help.
    """
    return switch("TILEWRIGHT_CHECK") and backend.device == "cpu" and not backend.capabilities.finds_undefined_behavior


def compiled(
    function: Function, backend: Backend, options: Mapping[str, Any], variant: Any = None
) -> tuple[Executable, str]:
    """``function`` compiled by ``backend``, or found in the disk cache; and which of the two."""
    serialization = backend.capabilities.serialization
    cache = disk_cache()  # which also says what is wrong with the environment
    cache = None if serialization is None else cache
    key = "" if cache is None else _key(function, backend, options, variant)
    executable = None
    if cache is not None and serialization is not None and (stored := cache.get(key)) is not None:
        executable = _loaded(serialization, stored, function, options, variant)
    how = () if variant is None else (variant,)  # which only backends with variants take
    origin = "compiled" if executable is None else "disk cache"
    if executable is None:
        with COMPILATION_LOCK:
            executable = within_timeout(lambda: backend.compile(function, options, *how), function.name)
        if cache is not None and serialization is not None:
            cache.put(key, serialization.to_bytes(executable), _label(function, backend))
    if manifest.wanted() and serialization is not None and variant is None:  # others need no manifest
        manifest.record(function, backend.name, options)
    return executable, origin


def _kept(text: str, make: Callable[[], bytes]) -> bytes:
    """What ``make`` makes of ``text``, or the disk cache has."""
    cache = disk_cache()
    if cache is None:
        return make()
    key = code_key(text)
    found = cache.get(key)
    if found is None:
        found = make()
        cache.put(key, found, "how launches begin")
    return found


native.set_keeper(_kept)


def cache_entry(
    function: Function, backend: Backend, options: Mapping[str, Any], variant: Any = None
) -> tuple[str, bytes, str] | None:
    """The entry of the disk cache for ``function``, which was compiled before; None where there is none."""
    cache, key = disk_cache(), _key(function, backend, options, variant)
    data = None if cache is None else cache.get(key)
    return None if data is None else (key, data, _label(function, backend))


def _label(function: Function, backend: Backend) -> str:
    """The kernel, where it is written, and what runs it."""
    file = next((op.loc.file for op in function.walk() if op.loc.line), "")
    return f"{function.name}{f' of {os.path.basename(file)}' if file else ''} for {backend.name}"


def _loaded(
    serialization: Serialization, stored: bytes, function: Function, options: Mapping[str, Any], variant: Any
) -> Executable | None:
    """What a file of the cache holds; None where that is no executable of this kernel."""
    try:
        return serialization.from_bytes(function, stored, options, variant)
    except (ValueError, TypeError, LookupError, AttributeError, struct.error):
        return None


def _key(function: Function, backend: Backend, options: Mapping[str, Any], variant: Any) -> str:
    chosen = repr(sorted(options.items())) if variant is None else f"{sorted(options.items())} {variant!r}"
    text = print_function(function)
    # Locations that the program may print when it runs are part of what was compiled.
    shown = (print_loc(op.loc) for op in function.walk() if op.spec.effect & Effect.OUTPUT)
    return code_key(__version__, backend.name, backend.target(), chosen, text, *shown, device=backend.device)
