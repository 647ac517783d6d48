"""The disk cache of compiled kernels.

``TILEWRIGHT_CACHE_DIR`` names the folder (``0`` or ``off``: no cache; default ``$XDG_CACHE_HOME/tilewright``);
``TILEWRIGHT_CACHE_SIZE`` bounds its bytes, and the entries that were not used for longest go first.
An entry is one file, written under another name and renamed, so that processes never see half of one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SUFFIX = ".kernel"
_DEFAULT_LIMIT = 1 << 30
_DIGEST_BYTES = 32
_SHARE_BETWEEN_SCANS = 16  # the folder is measured again after writing this part of the limit


@dataclass(frozen=True)
class Entry:
    """A file of the cache."""

    path: Path
    size: int
    last_use: float


class DiskCache:
    """Named pieces of data in ``folder``. Failures to read or write it never disturb the program."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._unscanned: int | None = None  # bytes written since the folder was measured; None: never measured

    def get(self, key: str) -> bytes | None:
        """The data stored under ``key``; None when there is none, or when it is damaged (it is removed then)."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(data).digest() != digest:
            self.remove(key)
            return None
        with suppress(OSError):
            os.utime(path)  # its last use, for the choice of what goes first
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store ``data`` under ``key``, and make room when the folder has grown too large."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder)
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest())
                file.write(data)
            os.replace(name, self._path(key))
        except OSError:
            with suppress(OSError):
                os.unlink(name)
            return
        written = (self._unscanned or 0) + len(data) + _DIGEST_BYTES
        if self._unscanned is None or written > self.limit // _SHARE_BETWEEN_SCANS:
            self.prune()
            written = 0
        self._unscanned = written

    def remove(self, key: str) -> None:
        with suppress(OSError):
            self._path(key).unlink()

    def entries(self) -> Iterator[Entry]:
        """Everything in the cache, in no order."""
        with suppress(FileNotFoundError), os.scandir(self.folder) as files:
            for file in files:
                if file.name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):  # another process may remove it meanwhile
                        status = file.stat()
                        yield Entry(Path(file.path), status.st_size, status.st_mtime)

    def prune(self) -> None:
        """Remove what was not used for longest until the rest fits the limit."""
        entries = sorted(self.entries(), key=lambda e: e.last_use)
        excess = sum(e.size for e in entries) - self.limit
        for entry in entries:
            if excess <= 0:
                return
            with suppress(OSError):
                entry.path.unlink()
            excess -= entry.size

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        entries = list(self.entries())
        for entry in entries:
            with suppress(OSError):
                entry.path.unlink()
        return len(entries)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"


def disk_cache() -> DiskCache | None:
    """The cache that the environment asks for; None when it is switched off."""
    folder = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME")
        folder = str((Path(base) if base else Path.home() / ".cache") / "tilewright")
    elif folder.lower() in ("", "0", "off", "none"):
        return None
    text = os.environ.get("TILEWRIGHT_CACHE_SIZE", str(_DEFAULT_LIMIT))
    if not text.isdigit():
        raise ValueError(f"TILEWRIGHT_CACHE_SIZE={text!r} is not a number of bytes")
    return _opened(folder, int(text))


@functools.cache
def _opened(folder: str, limit: int) -> DiskCache:
    return DiskCache(Path(folder), limit)


@functools.cache
def source_fingerprint() -> str:
    """Identifies the code of this package, so that a changed compiler finds nothing of its predecessor."""
    root = str(Path(__file__).parents[1])
    lines = [
        f"{entry.path[len(root) :]} {status.st_size} {status.st_mtime_ns}"
        for entry in _files_below(root)
        if entry.name.endswith((".py", ".h")) and (status := entry.stat())
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                yield from _files_below(entry.path)
            elif entry.is_file():
                yield entry


@dataclass(frozen=True)
class Compartment:
    """What belongs to the entry ``key`` of a cache, under names of its own."""

    cache: DiskCache
    key: str

    def get(self, key: str) -> bytes | None:
        return self.cache.get(cache_key(self.key, key))

    def put(self, key: str, data: bytes) -> None:
        self.cache.put(cache_key(self.key, key), data)


def cache_key(*parts: str) -> str:
    """The name for data that depends on ``parts`` and on the code of this package."""
    digest = hashlib.sha256(source_fingerprint().encode())
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()
