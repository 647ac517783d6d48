"""Inlines and simplifies a module until each kernel is one function over scalars and handles.

The passes are chosen so that loops keep the shape they were written in: no vectorization, and unrolling or rotation
only where arrays of tiles need it.
"""

from __future__ import annotations

import functools

import llvmlite.binding as llvm

from tilewright.ir.errors import TileCompilerExecutionError

_SIMPLIFY = ("sroa", "instruction_combine", "simplify_cfg")
# Jump threading is left out: it tangles tests of the same value into each other's branches.
_PASSES = (*_SIMPLIFY, "sccp", *_SIMPLIFY[1:], *_SIMPLIFY)
# A call through a pointer names its function only once the pointer is known.
_INLINE_ROUNDS = 4
# Arrays of tiles that are indexed in loops of constant length become values once those loops are unrolled. Only
# kernels that still have memory of their own pay for it, since the rotation costs their other loops the form of for.
_UNROLL = ("loop_simplify", "lcssa", "loop_rotate", "loop_unroll", *_PASSES)
# Loops with one latch, and values that leave a loop only through phis, are what the restructurer relies on.
_CANONICALIZE = ("unify_function_exit_nodes", "loop_simplify", "lcssa", "dead_code_elimination")


@functools.cache
def _pass_builder() -> llvm.PassBuilder:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine()
    return llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))


def optimize(text: str, kernels: set[str]) -> str:
    """The module ``text`` with everything inlined into the functions called ``kernels``."""
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as e:
        version = ".".join(map(str, llvm.llvm_version_info))
        raise TileCompilerExecutionError(
            f"LLVM {version}, which llvmlite brings, cannot read the code of the C++ compiler; update llvmlite ({e})"
        ) from None
    for function in module.functions:
        if not function.is_declaration and function.name not in kernels:
            function.add_function_attribute("alwaysinline")
    builder = _pass_builder()
    inline = llvm.create_new_module_pass_manager()
    inline.add_always_inliner_pass()
    for _ in range(_INLINE_ROUNDS):
        inline.run(module, builder)
        wanted = [function for function in module.functions if function.name in kernels]
        for function in wanted:
            _run(_PASSES, function, builder)
        defined = {f.name for f in module.functions if not f.is_declaration}
        if not any(_calls_any(function, defined) for function in wanted):
            break
    for function in wanted:
        if _has_memory(function):
            _run(_UNROLL, function, builder)
        _run(_CANONICALIZE, function, builder)
    return str(module)


def _run(passes: tuple[str, ...], function: llvm.ValueRef, builder: llvm.PassBuilder) -> None:
    manager = llvm.create_new_function_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(function, builder)


def _calls_any(function: llvm.ValueRef, names: set[str]) -> bool:
    calls = (i for block in function.blocks for i in block.instructions if i.opcode == "call")
    return any(list(call.operands)[-1].name in names for call in calls)


def _has_memory(function: llvm.ValueRef) -> bool:
    return any(i.opcode == "alloca" for block in function.blocks for i in block.instructions)
