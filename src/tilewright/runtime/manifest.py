"""Manifests: lists of what a program compiled, from which ``tilewright precompile`` fills the disk cache.

``TILEWRIGHT_RECORD=FILE`` appends to FILE a line for everything that this process compiles or finds compiled. A line
is a JSON object that holds the Tile IR with its source locations, so that it says all that a backend needs: neither
the program nor its data are needed to compile it, and the machine may be another one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.ir.core import Function
from tilewright.ir.parser import IRParseError, parse_function
from tilewright.ir.printer import print_function
from tilewright.records import dataclass
from tilewright.version import __version__

RECORD = "TILEWRIGHT_RECORD"


class ManifestError(Exception):
    """A manifest that cannot be read; the message names the file and the line."""


@dataclass(frozen=True)
class ManifestEntry:
    """A kernel to compile: its Tile IR, for which backend, with which options of that backend."""

    function: Function
    backend: str
    options: Mapping[str, Any]


_recorded: set[tuple[str, str]] = set()  # of this process: (file, line)


def wanted() -> bool:
    """Whether the environment asks for a manifest."""
    return bool(os.environ.get(RECORD))


def record(function: Function, backend: str, options: Mapping[str, Any]) -> None:
    """Append ``function`` to the manifest. OSError when its file cannot be written."""
    path = os.environ[RECORD]
    line = json.dumps(
        {
            "tilewright": __version__,
            "kernel": function.name,
            "backend": backend,
            "options": dict(options),
            "ir": print_function(function, locations=True),
        }
    )
    if (path, line) in _recorded:
        return
    _recorded.add((path, line))
    try:
        with open(path, "ab", buffering=0) as file:  # one write a line, so that processes can share the file
            file.write(line.encode() + b"\n")
    except OSError as e:
        raise OSError(e.errno, f"cannot record what is compiled: {e.strerror}", path) from None


def read(path: Path) -> Iterator[ManifestEntry]:
    """The entries of a manifest, each once. ManifestError when it is damaged or of another version; OSError."""
    if path.exists() and not path.is_file():  # a device might never end
        raise ManifestError(f"{path} is no regular file; name what 'tilewright record' has written")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as e:
        raise ManifestError(f"{path} is no manifest: {e}") from None
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if line not in seen:
            seen.add(line)
            yield _entry(line, f"{path}:{number}")


def _entry(line: str, where: str) -> ManifestEntry:
    try:
        found = json.loads(line)
        version, text, backend, options = (found[key] for key in ("tilewright", "ir", "backend", "options"))
    except (ValueError, KeyError, TypeError) as e:
        raise ManifestError(f"{where}: this is no line of a manifest ({e}); record it again") from None
    if not (isinstance(text, str) and isinstance(backend, str) and isinstance(options, dict)):
        raise ManifestError(f"{where}: this is no line of a manifest (its values are of other types); record it again")
    if version != __version__:
        raise ManifestError(f"{where}: recorded by tilewright {version}, but this is {__version__}; record it again")
    try:
        return ManifestEntry(parse_function(text), backend, options)
    except IRParseError as e:
        raise ManifestError(f"{where}: the Tile IR of this entry is damaged: {e}; record it again") from None
