"""What the runtime of a program finds wrong in the threads of SIMT kernels, for the sanitizer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.ir.location import Loc

_MESSAGE = 256  # bytes
_BY_THREAD = 2  # what is known of where a finding was: the block and the thread, or only the block, or neither


@dataclass(frozen=True)
class Finding:
    """A location in the source where something was wrong, ``count`` times in a launch, or, where ``kernel`` is empty,
    in host code. ``category`` is one of the sanitizer's; ``block`` and ``thread`` are the first ones seen there, None
    where these do not matter."""

    category: str
    message: str
    kernel: str
    loc: Loc
    block: tuple[int, int, int] | None
    thread: tuple[int, int, int] | None
    count: int


# Gets what a launch found, after each of them; raises to make the launch fail.
Reporter = Callable[[Sequence[Finding]], None]


class Row(ctypes.Structure):
    """``finding`` of ``checks.cpp``."""

    _fields_ = (
        ("kernel", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
        ("category", ctypes.c_char_p),
        ("line", ctypes.c_int),
        ("column", ctypes.c_int),
        ("placed", ctypes.c_int),
        ("coordinates", ctypes.c_uint * 6),
        ("count", ctypes.c_ulonglong),
        ("message", ctypes.c_char * _MESSAGE),
    )


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Row), ctypes.c_uint)


def read(rows: ctypes._Pointer[Row], count: int) -> list[Finding]:
    """The findings in a table of the runtime."""
    found = []
    for row in rows[:count]:
        x, y, z, *block = row.coordinates
        kernel, file = row.kernel.decode(), row.file.decode()
        found.append(
            Finding(
                row.category.decode(),
                row.message.decode(errors="replace"),
                kernel,
                Loc(file, row.line, row.column, function=kernel.split("<")[0]),
                (block[0], block[1], block[2]) if row.placed else None,
                (x, y, z) if row.placed == _BY_THREAD else None,
                row.count,
            )
        )
    return found
