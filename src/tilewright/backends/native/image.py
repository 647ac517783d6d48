"""Machine code that lies ready to be copied into memory and run, and its way there: without LLVM, in microseconds."""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import os
import struct
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.records import NamedTuple

_WORD = struct.Struct("<Q")
_HEAD = 8  # bytes that hold the size of the text
_NOTHING: Mapping[str, int] = MappingProxyType({})


class Image(NamedTuple):
    """Code and constants of a kernel, which may lie at any address that is a multiple of a page.

    ``symbols`` are its entry points. The 8 bytes at each offset of ``relative`` are an offset in the image, to become
    an address; those at an offset of ``imports`` are to become the address that has a name: of a function of the C
    library, unless the image is loaded with addresses of its own.
    """

    content: bytes
    symbols: dict[str, int]
    relative: tuple[int, ...]
    imports: tuple[tuple[int, str], ...]

    def to_bytes(self) -> bytes:
        """A text with all but the content, then that."""
        return with_text({"image": (self.symbols, self.relative, self.imports)}, self.content)

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """What ``to_bytes`` wrote. ValueError for other bytes."""
        facts, content = text_and_content(data)
        return cls.checked(content, *facts["image"])

    @classmethod
    def checked(cls, content: bytes, symbols: dict[str, int], relative: list[int], imports: list[Any]) -> Image:
        """An image with these fields. ValueError for offsets outside of it."""
        starts = {name: _within(offset, content) for name, offset in symbols.items()}
        words = tuple(_within(offset, content, 8) for offset in relative)
        return cls(content, starts, words, tuple((_within(offset, content, 8), str(name)) for offset, name in imports))


def _within(offset: Any, content: bytes, size: int = 1) -> int:
    if type(offset) is not int or not 0 <= offset <= len(content) - size:
        raise ValueError(f"{offset} lies outside of the machine code")
    return offset


def with_text(facts: dict[str, Any], content: bytes) -> bytes:
    """The size of ``facts`` as a text in JSON, that text, and ``content``."""
    text = json.dumps(facts).encode()
    return len(text).to_bytes(_HEAD, "little") + text + content


def text_and_content(data: bytes) -> tuple[Any, bytes]:
    """What ``with_text`` was given. ValueError for other bytes."""
    end = _HEAD + int.from_bytes(data[:_HEAD], "little")
    return json.loads(data[_HEAD:end]), data[end:]


class LoadedImage:
    """An image in the memory of this process, for as long as this object lives."""

    def __init__(self, image: Image, addresses: Mapping[str, int] = _NOTHING) -> None:
        self._symbols = image.symbols
        # Private memory that is written first and executed later, never both at once.
        self._memory = mmap.mmap(-1, len(image.content), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.write(image.content)
        view = ctypes.c_char.from_buffer(self._memory)  # keeps the memory mapped
        self._view, self._base = view, ctypes.addressof(view)
        for at in image.relative:
            _WORD.pack_into(self._memory, at, self._base + _WORD.unpack_from(self._memory, at)[0])
        for at, name in image.imports:
            address = addresses.get(name)
            _WORD.pack_into(self._memory, at, _function(name) if address is None else address)
        if _library().mprotect(self._base, len(image.content), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "the system does not let this process run generated code")

    def address(self, symbol: str) -> int:
        return self._base + self._symbols[symbol]

    def symbol_ranges(self) -> list[tuple[str, int, int]]:
        """Names of functions with addresses and sizes; each goes up to the next one, or to the end."""
        ordered = sorted(self._symbols.items(), key=lambda item: item[1])
        ends = [*(offset for _, offset in ordered[1:]), len(self._memory)]
        return [(name, self._base + start, end - start) for (name, start), end in zip(ordered, ends)]


def can_load() -> bool:
    """Whether images can be made and loaded here."""
    return sys.platform == "linux" and _machine() == "x86_64"


def _machine() -> str:
    return os.uname().machine


@functools.cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return library


def _function(name: str) -> int:
    """The address of a function of the C library."""
    address = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    assert address is not None
    return address
