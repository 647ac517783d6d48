"""Modules of this package that are loaded when they are first used: those that need LLVM, which takes longer to load
than a kernel from the disk cache, and others that the first launch of such a kernel does without."""

from __future__ import annotations

from typing import Any

from tilewright.system.forks import load


def module(name: str) -> Any:
    """The module ``name`` of this package."""
    return load(f"tilewright.backends.cpu.{name}")


def host() -> Any:
    """The processor of this machine."""
    return module("target").host()
