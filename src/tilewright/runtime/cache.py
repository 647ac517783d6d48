"""The disk cache of compiled kernels.

``TILEWRIGHT_CACHE_DIR`` names the folder (``0`` or ``off``: no cache; default ``$XDG_CACHE_HOME/tilewright``);
``TILEWRIGHT_CACHE_SIZE`` bounds its bytes, and the entries that were not used for longest go first.
An entry is one file, written under another name and renamed, so that processes never see half of one.

Entries hold machine code. So only files are read that belong to this user, or to root, and that nobody else may write.
A folder that cannot be used switches the cache off; that is said once, and the program goes on.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tilewright.records import dataclass
from tilewright.system.environment import SettingError
from tilewright.system.folders import others_may_write, private_folder, say_unusable, user_folder
from tilewright.system.sizes import parse_size
from tilewright.transforms.instrumentation import passes_are_watched

_SUFFIX = ".kernel"
_UNFINISHED = "tmp"  # how the names of files that are being written begin
_ABANDONED = 600  # seconds without a change after which the writer of such a file is taken to be gone
_DEFAULT_LIMIT = 1 << 30  # bytes: 170,000 kernels of the 6 KB that those of benchmarks/cpu_kernels.py take
_DIGEST_BYTES = 32
# What makes the IR that is part of the names of compiled kernels, or is above: it decides nothing else of their code.
_ABOVE = "cli", "compat", "compilation", "cpp", "eager", "ops", "sanitizer", "tune", "viewer"
BEFORE_IR = frozenset((*_ABOVE, "frontend", "language", "lib"))
# What only code for GPUs is made by: two fifths of what is left, which a launch on a CPU does not look at.
_BACKENDS_OF_GPUS = "backends/gpu", "backends/tileir", "backends/triton"
OF_GPUS = frozenset(("analysis/gpu", *_BACKENDS_OF_GPUS, "gpu_runtime", "tileir", "transforms/gpu"))
SOURCES = (".py", ".h", ".hpp", ".c", ".cpp", ".ll")  # what of this package decides what it makes
# After the digest of the rest: what tells the format, the bytes of the label, the label itself, and the data.
_FORMAT = struct.Struct("<4sH")
_MAGIC = b"twk1"
_MOST_LABEL = 400  # bytes
_SHARE_BETWEEN_SCANS = 16  # the folder is measured again after writing this part of the limit
_OPEN = os.O_RDONLY  # and what there is of these: Windows has the last one only
for _flag in ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):
    _OPEN |= getattr(os, _flag, 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN


@dataclass(frozen=True)
class CacheEntry:
    """A file of the cache. An ``unfinished`` one is being written, or was when its writer was killed."""

    path: Path
    size: int
    last_use: float
    unfinished: bool = False


class DiskCache:
    """Named pieces of data in ``folder``. Failures to read or write it never disturb the program."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._unscanned: int | None = None  # bytes written since the folder was measured; None: never measured
        self._readable = self._writable = True

    def get(self, key: str) -> bytes | None:
        """The data stored under ``key``; None when there is none, or when it is damaged (it is removed then)."""
        if not self._readable:
            return None
        path = self._path(key)
        try:
            if (fault := others_may_write(os.stat(self.folder))) is not None:
                raise PermissionError(errno.EPERM, f"it {fault}")
            content = self._read(path)
        except FileNotFoundError:
            return None
        except OSError as e:
            self._readable = False
            say_unusable(str(self.folder), f"it cannot be read ({e.strerror})")
            return None
        if content is None:
            return None
        digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(rest).digest() != digest or len(rest) < _FORMAT.size:
            self.remove(key)
            return None
        _, label_bytes = _FORMAT.unpack_from(rest)
        data = rest[_FORMAT.size + label_bytes :]
        with suppress(OSError):
            os.utime(path)  # its last use, for the choice of what goes first
        return data

    def _read(self, path: Path) -> bytes | None:
        """What a file holds; None for what is no file of ours, such as a pipe, which nobody may ever write to."""
        try:
            handle = os.open(path, _OPEN)
        except OSError:
            if path.is_symlink() or stat.S_ISSOCK(os.stat(path).st_mode):
                return None
            raise
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > max(self.limit, _DIGEST_BYTES):
                return None
            if (fault := others_may_write(status)) is not None:
                self._readable = False
                say_unusable(str(self.folder), f"{path.name} in it {fault}")
                return None
            return file.read()

    def put(self, key: str, data: bytes, label: str = "") -> None:
        """Store ``data`` under ``key``, and make room when the folder has grown too large.

        ``label`` says to people what it is.
        """
        if not self._writable:
            return
        try:
            private_folder(self.folder)
            # As ``tempfile`` does, which every start would have to load.
            name = self.folder / f"{_UNFINISHED}{os.urandom(8).hex()}"
            handle = os.open(name, _CREATE, 0o600)
        except OSError as e:
            self._give_up_writing(e)
            return
        try:
            with os.fdopen(handle, "wb") as file:
                said = label.encode()[:_MOST_LABEL]
                rest = _FORMAT.pack(_MAGIC, len(said)) + said + data
                file.write(hashlib.sha256(rest).digest())
                file.write(rest)
            os.replace(name, self._path(key))
        except OSError as e:
            with suppress(OSError):
                os.unlink(name)
            if not isinstance(e, FileNotFoundError):  # else someone has cleared the cache meanwhile
                self._give_up_writing(e)
            return
        written = (self._unscanned or 0) + len(rest) + _DIGEST_BYTES
        if self._unscanned is None or written > self.limit // _SHARE_BETWEEN_SCANS:
            self.prune()
            written = 0
        self._unscanned = written

    def _give_up_writing(self, e: OSError) -> None:
        self._writable = False
        say_unusable(str(self.folder), f"it cannot be written ({e.strerror or e})")

    def remove(self, key: str) -> None:
        with suppress(OSError):
            self._path(key).unlink()

    def entries(self) -> Iterator[CacheEntry]:
        """Everything in the cache, in no order."""
        with suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                unfinished = file.name.startswith(_UNFINISHED)
                if unfinished or file.name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):  # another process may remove it meanwhile
                        status = file.stat(follow_symlinks=False)
                        yield CacheEntry(Path(file.path), status.st_size, status.st_mtime, unfinished)

    def label_of(self, entry: CacheEntry) -> str:
        """What the writer of ``entry`` said that it is; nothing for entries of other versions of this package."""
        try:
            head = b"" if entry.unfinished else (self._read(entry.path) or b"")[_DIGEST_BYTES:]
        except OSError:
            return ""
        if len(head) < _FORMAT.size or not head.startswith(_MAGIC):
            return ""
        _, label_bytes = _FORMAT.unpack_from(head)
        return head[_FORMAT.size : _FORMAT.size + label_bytes].decode(errors="replace")

    def prune(self) -> None:
        """Remove what killed writers left, and what was not used for longest until the rest fits the limit."""
        entries = sorted(self.entries(), key=lambda e: e.last_use)
        excess = sum(e.size for e in entries) - self.limit
        abandoned = [e for e in entries if e.unfinished and e.last_use < time.time() - _ABANDONED]
        for entry in abandoned:
            with suppress(OSError):
                entry.path.unlink()
            excess -= entry.size
        for entry in entries:
            if excess <= 0:
                return
            if not entry.unfinished:
                with suppress(OSError):
                    entry.path.unlink()
                excess -= entry.size

    def clear(self) -> list[CacheEntry]:
        """Remove every entry; returns those that were there."""
        removed = []
        for entry in self.entries():
            with suppress(OSError):
                entry.path.unlink()
                removed.append(entry)
        return removed

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"


def disk_cache() -> DiskCache | None:
    """The cache that the environment asks for; None when it is switched off, or passes are to be seen at work."""
    if passes_are_watched():
        return None
    folder = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if folder is not None and folder.strip().lower() in ("", "0", "off", "none", "false", "no"):
        return None
    text = os.environ.get("TILEWRIGHT_CACHE_SIZE") or str(_DEFAULT_LIMIT)
    try:
        limit = parse_size(text)
    except ValueError as e:
        raise SettingError(f"TILEWRIGHT_CACHE_SIZE: {e}") from None
    try:
        source_fingerprint(BEFORE_IR | OF_GPUS)
        return _opened(folder or str(user_folder()), limit)
    except (OSError, RuntimeError) as e:
        say_unusable(folder or "of this user", str(e))
        return None


@functools.cache
def _opened(folder: str, limit: int) -> DiskCache:
    return DiskCache(Path(folder), limit)


@functools.cache
def source_fingerprint(without: frozenset[str] = frozenset()) -> str:
    """Identifies the code of this package ``without`` some folders, so that a changed compiler finds nothing of its
    predecessor."""
    return fingerprint(str(Path(__file__).parents[1]), without)


@functools.cache
def _gpu_fingerprint() -> str:
    root = Path(__file__).parents[1]
    return "".join(fingerprint(str(root / folder)) for folder in sorted(OF_GPUS))


def fingerprint(root: str, without: frozenset[str] = frozenset()) -> str:
    """Identifies the sources below the folder ``root``, but for those in the folders ``without`` in it."""
    lines, folders = [], [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(SOURCES):
                    status = entry.stat()
                    lines.append(f"{entry.path[len(root) :]} {status.st_size} {status.st_mtime_ns}")
                elif entry.name != "__pycache__" and entry.path[len(root) + 1 :] not in without and entry.is_dir():
                    folders.append(entry.path)
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def cache_key(*parts: str) -> str:
    """The name for data that depends on ``parts`` and on the code of this package."""
    return _key(source_fingerprint(), parts)


def code_key(*parts: str, device: str = "cpu") -> str:
    """The name for what is compiled of ``parts``, texts of IR among them: no matter where that comes from."""
    sources = source_fingerprint(BEFORE_IR | OF_GPUS)
    return _key(sources if device == "cpu" else sources + _gpu_fingerprint(), parts)


def _key(fingerprint: str, parts: Sequence[str]) -> str:
    digest = hashlib.sha256(fingerprint.encode())
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()
