"""LLVM IR to machine code in this process."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import llvmlite.binding as llvm

from tilewright.backends.cpu.target import Processor, machine, new_machine
from tilewright.backends.native.image import can_load
from tilewright.backends.native.jit import MachineCode
from tilewright.ir.errors import TileCompilerExecutionError
from tilewright.system.forks import CODE, fork_aware_lock

_LOCK = fork_aware_lock(CODE)  # target machines and passes are shared


def compile_module(
    text: str, processor: Processor, *, position_independent: bool = False, level: int = 2, exposed: Sequence[str] = ()
) -> bytes:
    """The object code of an LLVM module, whose functions ``exposed`` other objects call; ``level``: how much time LLVM
    takes, 0 for no passes before the code generator. Raises TileCompilerExecutionError when LLVM rejects it."""
    with _LOCK:
        target = machine(processor, position_independent=position_independent, level=level)
        module = _optimized(text, target) if level else _parsed(text)
        for name in exposed:
            module.get_function(name).linkage = "external"
        code: bytes = target.emit_object(module)
        return code


def optimize_module(text: str, processor: Processor) -> str:
    """The LLVM IR that code is generated from."""
    with _LOCK:
        return str(_optimized(text, machine(processor, position_independent=can_load())))


def assemble(text: str, processor: Processor, *, verbose: bool = False) -> str:
    """The assembly text of an LLVM module; ``verbose``: with names of blocks and notes of spilled registers."""
    with _LOCK:
        target = machine(processor, position_independent=can_load())
        target.set_asm_verbosity(verbose)
        found: str = target.emit_assembly(_optimized(text, target))
        return found


def _optimized(text: str, target: llvm.TargetMachine) -> llvm.ModuleRef:
    """Few passes: loops are built vectorized, so what remains is clean-up."""
    _set_options()
    module = _parsed(text)
    passes, builder = _passes(target)
    passes.run(module, builder)
    return module


def _parsed(text: str) -> llvm.ModuleRef:
    try:
        return llvm.parse_assembly(text, llvm.create_context())  # a shared one would keep types and constants
    except RuntimeError as e:
        raise TileCompilerExecutionError(f"LLVM rejects the generated code: {e}") from e


@functools.lru_cache(maxsize=8)
def _passes(target: llvm.TargetMachine) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
    """Made once for a target: llvmlite does not free the passes of a manager."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()  # stack variables to registers
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()  # address arithmetic is emitted anew for each access
    passes.add_simplify_cfg_pass()
    return passes, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))


@functools.cache
def _set_options() -> None:
    """NewGVN is not to turn operations on phis into phis. With that it may find other values when it looks again, as in
    two loops in a row, and where LLVM has been built with assertions, it then ends the process."""
    llvm.set_option("", "--enable-phi-of-ops=false")


def load(code: bytes, processor: Processor) -> MachineCode:
    """An object file loaded into this process; lives as long as what this gives."""
    return MachineCode(f'target triple = "{processor.triple}"', new_machine(processor), (code,))
