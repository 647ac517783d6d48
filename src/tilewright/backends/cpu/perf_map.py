"""The map of machine code that ``perf`` reads: where each kernel lies, and what it is called."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.backends.cpu.image import LoadedImage
from tilewright.ir.core import Function
from tilewright.system.environment import switch

_FOLDER = Path("/tmp")  # where perf looks, whatever TMPDIR says


def map_path() -> Path:
    """The file for this process."""
    return _FOLDER / f"perf-{os.getpid()}.map"


def note(function: Function, image: LoadedImage) -> None:
    """With TILEWRIGHT_PERF_MAP=1, add the entry points of a loaded kernel to the map of this process.

    OSError when the file is a link, another user's, or cannot be written.
    """
    if not switch("TILEWRIGHT_PERF_MAP"):
        return
    place = f"{os.path.basename(function.loc.file)}:{function.loc.line}"
    lines = [
        f"{address:x} {size:x} {function.name} ({place}) {symbol}\n" for symbol, address, size in image.symbol_ranges()
    ]
    path = map_path()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user")
        os.write(descriptor, "".join(lines).encode())
    finally:
        os.close(descriptor)
