"""From Tile IR to machine code: ``optimize``, ``loop_form``, ``lower`` to an LLVM module, and what LLVM does.

All of it loads when it is first used: a kernel from the disk cache needs none of it, and LLVM takes longer to load
than such a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.system.forks import load

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen.kernel import lower
    from tilewright.backends.cpu.codegen.pipeline import optimize
    from tilewright.backends.cpu.jit import NativeCode, assemble, compile_native, optimize_module
    from tilewright.backends.cpu.library import write_library, write_program_code
    from tilewright.backends.cpu.loops.pipeline import loop_form
    from tilewright.backends.cpu.performance import performance, total_work
    from tilewright.backends.cpu.target import host

__all__ = [
    "NativeCode",
    "assemble",
    "compile_native",
    "host",
    "loop_form",
    "lower",
    "optimize",
    "optimize_module",
    "performance",
    "total_work",
    "write_library",
    "write_program_code",
]

_MODULES = {
    "loop_form": "tilewright.backends.cpu.loops.pipeline",
    "lower": "tilewright.backends.cpu.codegen.kernel",
    "optimize": "tilewright.backends.cpu.codegen.pipeline",
    "performance": "tilewright.backends.cpu.performance",
    "total_work": "tilewright.backends.cpu.performance",
    "host": "tilewright.backends.cpu.target",
    **dict.fromkeys(("write_library", "write_program_code"), "tilewright.backends.cpu.library"),
    **dict.fromkeys(("NativeCode", "assemble", "compile_native", "optimize_module"), "tilewright.backends.cpu.jit"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(load(_MODULES[name]), name)
    raise AttributeError(name)
