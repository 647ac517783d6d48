"""The Triton that is installed."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import re

OLDEST = (3, 6)


@functools.cache
def version_text() -> str:
    """The version of the installed Triton, which is not loaded for that: it takes a while."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("triton")
    builders = importlib.metadata.packages_distributions().get("triton", ())  # such as pytorch-triton
    return next(map(importlib.metadata.version, builders), "0.0 (of unknown origin)")


def version() -> tuple[int, int]:
    """Its major and minor version."""
    major, minor = re.findall(r"\d+", version_text())[:2]
    return int(major), int(minor)


def compiler_missing() -> str | None:
    """Why kernels cannot be compiled, and what to install; None when they can."""
    if importlib.util.find_spec("triton") is None:
        return "it needs the package triton, which is not installed; pip install 'tilewright[gpu]'"
    if version() < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return f"it needs triton {wanted} or later, and {version_text()} is installed; pip install 'triton>={wanted}'"
    return None
