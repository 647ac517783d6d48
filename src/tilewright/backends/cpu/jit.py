"""LLVM IR to machine code in this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import llvmlite.binding as llvm

from tilewright.backends.cpu.target import Processor, machine
from tilewright.ir.errors import TileCompilerExecutionError


@dataclass(frozen=True)
class ObjectCode:
    """An object file, and the optimized LLVM IR that it was made from."""

    data: bytes
    optimized: str


_LOCK = threading.Lock()  # LLVM's global context is not thread-safe


def compile_module(text: str, processor: Processor) -> ObjectCode:
    """Optimize and assemble LLVM IR. Raises TileCompilerExecutionError when LLVM rejects it."""
    with _LOCK:
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as e:
            raise TileCompilerExecutionError(f"LLVM rejects the generated code: {e}") from e
        target = machine(processor)
        _optimize(module, target)
        return ObjectCode(target.emit_object(module), str(module))


def assembly(optimized: str, processor: Processor) -> str:
    """Optimized LLVM IR as assembly text."""
    with _LOCK:
        text: str = machine(processor).emit_assembly(llvm.parse_assembly(optimized))
        return text


def _optimize(module: llvm.ModuleRef, target: llvm.TargetMachine) -> None:
    """Few passes: loops are built vectorized, so what remains is clean-up."""
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)


class NativeCode:
    """An object file loaded into this process; lives as long as this object."""

    def __init__(self, data: bytes, processor: Processor) -> None:
        with _LOCK:
            empty = llvm.parse_assembly("")
            empty.triple = processor.triple
            self._engine = llvm.create_mcjit_compiler(empty, machine(processor))
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
            self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        address: int = self._engine.get_function_address(symbol)
        return address
