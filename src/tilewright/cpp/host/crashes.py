"""Where C++ programs crash, from their debug information: see ``crash.cpp`` of the runtime.

A program that a signal ends runs ``tell PROGRAM SIGNAL ADDRESS COUNTER...`` in a process of its own: ``COUNTER`` are
addresses of its code, the innermost first.
"""

from __future__ import annotations

import ctypes
import functools
import re
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tilewright.backends.cpu.executable import CpuExecutable
from tilewright.cpp.module import Kernel
from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.system.line_table import SourceLine, source_lines

LOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char), ctypes.c_int)
TELL_TILE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t)
# Headers of the compiler and of the system, the runtime, and what has no file of the user's.
_LIBRARY = re.compile(r"/ziglang/lib/|/tilewright/cpp/runtime/|^/usr/(?:include|lib)/|/tilewright-\w+/\w+\.\w+$")
_MEMORY = (signal.SIGSEGV, signal.SIGBUS)
_CALLERS = 8  # of which it is told


def command(program: Path) -> list[str]:
    """What a program runs once it crashes, but for the last words."""
    start = f"import sys; sys.path[:] = {sys.path!r}; from tilewright.cpp.host.crashes import tell; tell(*sys.argv[1:])"
    return [sys.executable, "-c", start, str(program)]


def locator(images: Mapping[str, Path]) -> ctypes._CFunctionType:
    """A function for the runtime: it writes the location of an address of the code of one of ``images``, files by the
    names that the loader has for them, "" for the program, and says whether there is one."""

    @functools.partial(LOCATE)
    def locate(image: bytes | None, offset: int, text: ctypes._Pointer[ctypes.c_char], room: int) -> int:
        path = images.get((image or b"").decode())
        written = (location(path, offset) if path else "").encode()[: room - 1] + b"\0"
        ctypes.memmove(text, written, len(written))
        return len(written) > 1

    return locate


def tile_teller(kernels: Collection[Kernel]) -> ctypes._CFunctionType:
    """A function for the runtime that says where one of ``kernels`` was, in a copy of the process that has crashed; it
    returns whether it could."""

    @functools.partial(TELL_TILE)
    def tell_tile(number: int, address: int, counter: int) -> int:
        for kernel in kernels:
            for found in kernel.inspect().specializations:
                if not isinstance(found.executable, CpuExecutable):
                    continue
                line = found.executable.line_at(counter)
                if line is not None:
                    at = SourceLine(found.function.loc.file, line)
                    _say(number, address, [at], f", in the tile kernel {kernel.name}()")
                    return 1
        return 0

    return tell_tile


def location(program: Path, offset: int) -> str:
    """The file and line of an address of the code of ``program``; empty where it is not known."""
    try:
        found = _own([offset], program)[0]
    except (OSError, ValueError, LookupError):
        return ""
    return f"{found.file}:{found.line}"


def _own(counters: Sequence[int], program: Path) -> list[SourceLine]:
    """The locations of the user's code at ``counters``, the innermost first."""
    found = source_lines(program.read_bytes(), counters)
    return [source for each in found for source in each if not _is_library(source.file)]


def _is_library(file: str) -> bool:
    return file in ("", "?") or _LIBRARY.search(file) is not None or file.startswith(str(INCLUDE_DIR))


def tell(program: str, number: str, address: str, *counters: str) -> None:
    """Say where a program was when a signal ended it."""
    try:
        found = _own([int(counter) for counter in counters], Path(program))
    except (OSError, ValueError, LookupError):
        found = []
    _say(int(number), int(address), found)


def _say(number: int, address: int, found: Sequence[SourceLine], kernel: str = "") -> None:
    name = signal.strsignal(number) or f"signal {number}"
    where = f" at address 0x{address:x}" if number in _MEMORY else ""
    head = f"{found[0].file}:{found[0].line}: " if found else ""
    lines = [f"tilewright: {head}the program crashes: {name.lower()}{where}{kernel}"]
    lines += [*_excerpt(found[0])] if found else []
    lines += [f"  called at {source.file}:{source.line}" for source in found[1 : 1 + _CALLERS]]
    print("\n".join(lines), file=sys.stderr, flush=True)


def _excerpt(source: SourceLine) -> list[str]:
    try:
        text = Path(source.file).read_text(errors="replace").splitlines()[source.line - 1]
    except (OSError, IndexError):
        return []
    return [f"{source.line:>5} | {text.rstrip()}"]
