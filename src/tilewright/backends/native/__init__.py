"""Functions of Python made of machine code: for what happens at every launch, where each Python operation counts.

They use Python's C interface as compiled extensions do.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from tilewright.backends.native.body import Body
from tilewright.records import NamedTuple
from tilewright.system.forks import load


class LaunchStub(NamedTuple):
    """How machine code starts a launch: by the function ``i32 enter(ptr record, ptr values, i64 x, i64 y, i64 z, i64
    stream)`` of ``code``, which gets this ``record``.

    ``values`` are those of the kernel's parameters, 8 bytes each: an integer, a number of 64 bits for what is floating,
    or for a table the address of its rows; the function may change them. It returns 0 when the launch is done, 2 when a
    signal handler has raised an exception meanwhile, and 1 when it has had no effect: then ``Executable.launch`` does
    it, or says what is wrong.
    """

    code: Any  # with the method ``address``
    record: Any  # of ``ctypes``
    kept: tuple[Any, ...]  # what they need to live

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the function and the record are."""
        return self.code.address("enter"), ctypes.addressof(self.record)


class Embedded(NamedTuple):
    """How machine code runs a launch without Python's interpreter: LLVM IR of the function ``i64 @name(ptr values, i64
    x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``, and what it needs to live.

    It may ask for up to ``threads`` threads by ``i32 schedule(pool, task, data)``, which has ``task(data)`` called by
    another one, or gives something else than 0. The result is 0 when all is done, or queued on the stream of a GPU, and
    otherwise a failure: ``messages`` from 1. ``shared`` is the text of what several such functions have in common.
    """

    text: str
    shared: str
    messages: tuple[str, ...]
    kept: tuple[Any, ...]


def embedded_function(name: str, body: Body, end: str) -> str:
    """The text of the function of an ``Embedded``, with the instructions ``body`` and ``end``."""
    taken = "ptr %values, i64 %x, i64 %y, i64 %z, i64 %stream, i64 %threads, ptr %schedule, ptr %pool"
    return body.function(f"i64 @{name}({taken})", end)


@functools.cache
def has_llvm() -> bool:
    """Whether machine code can be made here at all, such as what ctypes calls."""
    return sys.maxsize > 1 << 32 and importlib.util.find_spec("llvmlite") is not None


@functools.cache
def available() -> bool:
    """Whether such functions can be made: by CPython with its global lock, and LLVM."""
    # ``sysconfig`` says it, too, but is one module more for a first launch to load.
    return sys.implementation.name == "cpython" and "free-threading" not in sys.version and has_llvm()


def loaded() -> bool:
    """Whether LLVM is there, so that making one takes milliseconds only."""
    return "llvmlite.binding" in sys.modules


class NotCompiled(Exception):
    """Machine code that takes LLVM, which is not loaded."""


_keepers: list[Callable[[str, Callable[[], bytes]], bytes]] = []


def set_keeper(keep: Callable[[str, Callable[[], bytes]], bytes]) -> None:
    """Have ``keep(text, make)`` say what ``make`` makes of a text, or made of it in this or another process."""
    _keepers[:] = [keep]


def kept(text: str, make: Callable[[], bytes]) -> bytes:
    """What ``make`` makes of ``text``; from where the last ``set_keeper`` keeps it, if it is there."""
    return _keepers[-1](text, make) if _keepers else make()


def compiler() -> Any:
    """The module that compiles; loading it loads LLVM."""
    return load("tilewright.backends.native.jit")
