"""From LLVM IR to machine code in this process, and to object code. Importing this module loads LLVM."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import llvmlite.binding as llvm

from tilewright.backends.native.image import Image
from tilewright.backends.native.object_file import link
from tilewright.system.forks import CODE, fork_aware_lock

_LOCK = fork_aware_lock(CODE)  # LLVM's global context is not thread-safe


def _dispose_with(owner: object, engine: llvm.ExecutionEngine, context: llvm.ContextRef) -> None:
    """Keep ``engine`` and the context of its modules as long as ``owner``. Collected with it, they would be disposed of
    in any order, and the engine has to be the first one."""
    weakref.finalize(owner, _dispose, engine, context).atexit = False


def _dispose(engine: llvm.ExecutionEngine, context: llvm.ContextRef) -> None:
    engine.close()
    context.close()


class MachineCode:
    """The machine code of the LLVM module ``text``, and of object files, for the processor ``target``; with
    ``forever``, until the process ends, for threads that never leave it."""

    def __init__(
        self,
        text: str,
        target: llvm.TargetMachine | None = None,
        objects: Sequence[bytes] = (),
        *,
        forever: bool = False,
    ) -> None:
        with _LOCK:
            context = llvm.create_context()
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text, context), target or _target())
            for code in objects:
                self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            if forever:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object((self._engine, context)))
            else:
                _dispose_with(self, self._engine, context)
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function."""
        return self._engine.get_function_address(name)


def image(symbols: Sequence[str], text: str) -> Image:
    """The LLVM module ``text`` compiled for every processor of the architecture; its functions ``symbols`` are
    called."""
    with _LOCK:
        module = llvm.parse_assembly(text, llvm.create_context())
        return link((_target(reloc="pic", codemodel="small").emit_object(module),), symbols)


def _target(**how: str) -> llvm.TargetMachine:
    """The time goes into calls, which optimizing makes no faster."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=0, jit=not how, **how)
