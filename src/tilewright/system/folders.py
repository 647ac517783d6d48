"""Folders for caches, which only this user may write: what they hold is run."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

_said: set[str] = set()


def others_may_write(status: os.stat_result) -> str | None:
    """Why what has this status may be changed by other users; None where only this one and root may."""
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to another user ({status.st_uid})"
    if status.st_mode & 0o022:
        return f"may be written by other users (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def private_folder(folder: Path) -> None:
    """Make ``folder`` for this user alone where it is missing. PermissionError where others may write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (fault := others_may_write(os.stat(folder))) is not None:
        raise PermissionError(errno.EPERM, f"it {fault}")


def say_unusable(what: str, why: str) -> None:
    """Say once that the disk cache ``what`` is not used."""
    if what not in _said:
        _said.add(what)
        if sys.stderr is not None:
            with suppress(OSError, ValueError):
                print(f"tilewright: the disk cache {what} is not used: {why}", file=sys.stderr, flush=True)


def user_folder() -> Path:
    """Where caches of this user are. RuntimeError where the user has no home."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "tilewright"
