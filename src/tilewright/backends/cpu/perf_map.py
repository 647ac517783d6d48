"""The map of machine code that ``perf`` reads: where each kernel lies, and what it is called."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.backends.native.image import LoadedImage
from tilewright.ir.core import Function

FOLDER = Path("/tmp")  # where perf looks, whatever TMPDIR says


def map_path() -> Path:
    """The file for this process."""
    return FOLDER / f"perf-{os.getpid()}.map"


def note(function: Function, image: LoadedImage) -> None:
    """Add the entry points of a loaded kernel to the map of this process.

    OSError when the file is a link, another user's, or cannot be written.
    """
    lines = [f"{address:x} {size:x} {title(function)} {symbol}\n" for symbol, address, size in image.symbol_ranges()]
    descriptor = create(map_path(), os.O_WRONLY)
    try:
        os.write(descriptor, "".join(lines).encode())
    finally:
        os.close(descriptor)


def title(function: Function) -> str:
    """What profilers call a kernel."""
    return f"{function.name} ({os.path.basename(function.loc.file)}:{function.loc.line})"


def create(path: Path, mode: int) -> int:
    """A file of this process that others read, opened to be added to. OSError when it is a link or another user's."""
    descriptor = os.open(path, mode | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.fstat(descriptor).st_uid != os.getuid():
        os.close(descriptor)
        raise PermissionError(f"{path} belongs to another user")
    return descriptor
