"""The file from which ``perf inject --jit`` takes machine code with its names and lines (perf's jitdump format)."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
import threading
import time
from pathlib import Path

from tilewright.backends.cpu import perf_map
from tilewright.ir.core import Function
from tilewright.system.elf import sections, symbols
from tilewright.system.line_table import rows

_MAGIC, _VERSION = 0x4A695444, 1
_HEADER, _PREFIX, _ENTRY = struct.Struct("<6I2Q"), struct.Struct("<2IQ"), struct.Struct("<Q2I")
_LOAD, _DEBUG_INFO = 0, 2  # kinds of records
_LOADED, _LINES = struct.Struct("<2I4Q"), struct.Struct("<2Q")
_FUNCTION = 2
_MACHINE = slice(18, 20)  # of an ELF file: for which processors it is


def dump_path() -> Path:
    """The file for this process."""
    return perf_map.FOLDER / f"jit-{os.getpid()}.dump"


def note(function: Function, code: bytes, symbol: str, address: int) -> None:
    """Add the functions of the loaded object file ``code``, whose ``symbol`` lies at
    ``address``, to the file of this process, with their lines where it has any.

    OSError when the file is a link, another user's, or cannot be written.
    """
    if sys.platform != "linux":
        return
    parts = sections(code)
    known = symbols(parts)
    section, value = next((s.section, s.value) for s in known if s.name == symbol)
    lines = rows({s.name: s.content for s in parts})
    file = os.path.abspath(function.loc.file).encode() + b"\0"
    records = []
    for name, kind, where, start, size in known:
        if kind != _FUNCTION or where != section:
            continue
        loaded_at = address - value + start
        entries = [
            _ENTRY.pack(address - value + at, line, 0) + file
            for at, line in lines
            if line and start <= at < start + size
        ]
        if entries:
            records.append(_record(_DEBUG_INFO, _LINES.pack(loaded_at, len(entries)) + b"".join(entries)))
        loaded = _LOADED.pack(os.getpid(), threading.get_native_id(), loaded_at, loaded_at, size, loaded_at)
        named = f"{perf_map.title(function)} {name}".encode() + b"\0"
        records.append(_record(_LOAD, loaded + named + ctypes.string_at(loaded_at, size)))
    os.write(_opened(os.getpid(), int.from_bytes(code[_MACHINE], "little"))[0], b"".join(records))


def _record(kind: int, content: bytes) -> bytes:
    return _PREFIX.pack(kind, _PREFIX.size + len(content), time.monotonic_ns()) + content


@functools.cache
def _opened(process: int, machine: int) -> tuple[int, mmap.mmap]:
    """The file with its header, and the mapping from which ``perf record`` learns of it."""
    descriptor = perf_map.create(dump_path(), os.O_RDWR | os.O_TRUNC)
    header = _HEADER.pack(_MAGIC, _VERSION, _HEADER.size, machine, 0, process, time.monotonic_ns(), 0)
    os.write(descriptor, header)
    return descriptor, mmap.mmap(descriptor, _HEADER.size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
