"""A store of results in a folder, which processes on several machines may share."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, overload

T = TypeVar("T")

_SUFFIX = ".tuned"
_ABSENT = object()


class DirectoryStore(MutableMapping[str, bytes]):
    """A mapping whose entries are files in ``folder``, which is made if need be, for ``Tuner(store=...)``.

    An entry is written under another name and then renamed, so readers see all of one or the one before, whoever else
    writes: of several writers the last one counts. ValueError for names that are no file names. The folder should be
    writable by those only whose results you trust.

    >>> store = ct.tune.DirectoryStore("results")
    >>> store["a"] = b"1"
    >>> dict(store)
    {'a': b'1'}
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        if not re.fullmatch(r"[\w.-]{1,200}", key, re.ASCII) or key.startswith("."):
            raise ValueError(f"{key!r} cannot name an entry: letters, digits, '_', '-' and '.' can")
        return self.folder / f"{key}{_SUFFIX}"

    def __getitem__(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: bytes) -> None:
        path = self._path(key)
        handle, name = tempfile.mkstemp(prefix=".", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(value)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def __delitem__(self, key: str) -> None:
        try:
            self._path(key).unlink()
        except FileNotFoundError:
            raise KeyError(key) from None

    @overload
    def pop(self, key: str, /) -> bytes: ...
    @overload
    def pop(self, key: str, /, default: bytes) -> bytes: ...
    @overload
    def pop(self, key: str, /, default: T) -> bytes | T: ...
    def pop(self, key: str, /, default: object = _ABSENT) -> object:
        """As of every mapping, also where another process takes the entry away between the look and the removal."""
        try:
            value = self[key]
            del self[key]
        except KeyError:
            if default is _ABSENT:
                raise
            return default
        return value

    def __iter__(self) -> Iterator[str]:
        return (p.name.removesuffix(_SUFFIX) for p in sorted(self.folder.glob(f"*{_SUFFIX}")) if p.name[0] != ".")

    def __len__(self) -> int:
        return sum(1 for _ in self)
