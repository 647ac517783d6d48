"""What needs LLVM, loaded when it is first used: it takes longer to load than a kernel from the disk cache."""

from __future__ import annotations

from typing import Any

from tilewright.system.forks import load


def compiler() -> Any:
    """The module ``compiler``."""
    return load("tilewright.backends.cpu.compiler")


def host() -> Any:
    """The processor of this machine."""
    return load("tilewright.backends.cpu.target").host()


def load_native(code: bytes) -> Any:
    """Object code in this process, a ``jit.NativeCode``."""
    return load("tilewright.backends.cpu.jit").NativeCode(code, host())
