"""Inlines and simplifies a module until each kernel is one function over scalars and handles.

The passes are chosen so that loops keep the shape they were written in: no vectorization, and unrolling or rotation
only where arrays of tiles need it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import llvmlite.binding as llvm

from tilewright.frontend.cpp.llvm_module import parts_of
from tilewright.frontend.cpp.names import decoded
from tilewright.ir.errors import TileCompilerExecutionError
from tilewright.ir.reachable import reachable

_SIMPLIFY = ("sroa", "instruction_combine", "simplify_cfg")
# Jump threading is left out: it tangles tests of the same value into each other's branches.
_PASSES = (*_SIMPLIFY, "sccp", *_SIMPLIFY[1:], *_SIMPLIFY)
# A call through a pointer names its function only once the pointer is known.
_INLINE_ROUNDS = 4
# Arrays of tiles that are indexed in loops of constant length become values once those loops are unrolled. Only
# kernels that still have memory of their own pay for it, since the rotation costs their other loops the form of for.
_UNROLL = ("loop_simplify", "lcssa", "loop_rotate", "loop_unroll", *_PASSES)
# The metadata of every loop of C++, and what has all of a loop unrolled whose length is constant, be it large.
_LOOP, _WHOLE_LOOP = '!{!"llvm.loop.mustprogress"}', '!{!"llvm.loop.unroll.full"}'
_CONSTRUCTION = "br i1 %arrayctor.done"  # the end of a loop that makes an array
# Loops with one latch, and values that leave a loop only through phis, are what the restructurer relies on.
_CANONICALIZE = ("unify_function_exit_nodes", "loop_simplify", "lcssa", "dead_code_elimination")


@functools.cache
def _pass_builder() -> llvm.PassBuilder:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine()
    return llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))


def parsed(text: str) -> llvm.ModuleRef:
    """The module ``text``. TileCompilerExecutionError where LLVM is too old to read it."""
    try:
        return llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as e:
        version = ".".join(map(str, llvm.llvm_version_info))
        raise TileCompilerExecutionError(
            f"LLVM {version}, which llvmlite brings, cannot read the code of the C++ compiler; update llvmlite ({e})"
        ) from None


def inlined(text: str, names: set[str]) -> str:
    """The module ``text`` with the functions ``names`` inlined where they are called, and nothing else changed."""
    module = parsed(text)
    for function in _named(module, names):
        if not function.is_declaration:
            function.add_function_attribute("alwaysinline")
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.run(module, _pass_builder())
    return str(module)


def without_unused(module: llvm.ModuleRef) -> None:
    """Take out of ``module`` what nothing uses and no other module sees."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.run(module, _pass_builder())


def transformed(text: str, names: Collection[str], passes: tuple[str, ...]) -> str:
    """The module ``text`` with ``passes`` run over the functions ``names``."""
    module, builder = parsed(text), _pass_builder()
    for function in _named(module, names):
        _run(passes, function, builder)
    return str(module)


def optimize(text: str, kernels: set[str]) -> str:
    """The module ``text`` with everything inlined into the functions called ``kernels``."""
    module, graph = parsed(text), parts_of(text).mentions
    reached = set(reachable(kernels, lambda name: graph.get(name, ())))
    for function in _named(module, reached - kernels):  # in code of the host, which may be much, nothing is
        if not function.is_declaration:
            function.add_function_attribute("alwaysinline")
    builder = _pass_builder()
    _inline(module, kernels, builder)
    for function in _named(module, kernels):
        if any(i.opcode == "alloca" for block in function.blocks for i in block.instructions):
            _run(_UNROLL, function, builder)
    indexed = {function.name for function in _named(module, kernels) if _needs_constant_indices(function)}
    if indexed:
        module = llvm.parse_assembly(_with_whole_loops(str(module)), llvm.create_context())
        for function in _named(module, indexed):
            _run(_UNROLL, function, builder)
        _inline(module, indexed, builder)
    for function in _named(module, kernels):
        _run(_CANONICALIZE, function, builder)
    return str(module)


def _inline(module: llvm.ModuleRef, kernels: set[str], builder: llvm.PassBuilder) -> None:
    inline = llvm.create_new_module_pass_manager()
    inline.add_always_inliner_pass()
    for _ in range(_INLINE_ROUNDS):
        inline.run(module, builder)
        for function in _named(module, kernels):
            _run(_PASSES, function, builder)
        defined = {f.name for f in module.functions if not f.is_declaration}
        if not any(_calls_any(function, defined) for function in _named(module, kernels)):
            break


def _with_whole_loops(text: str) -> str:
    """The module ``text`` in which loops of constant length are to be unrolled, those that make arrays too."""
    text = text.replace(_LOOP, _WHOLE_LOOP)
    first, names, lines = parts_of(text).free_number(), list[str](), text.split("\n")
    for number, line in enumerate(lines):
        if line.lstrip().startswith(_CONSTRUCTION):
            names.append(f"!{first + len(names)}")
            lines[number] = f"{line}, !llvm.loop {names[-1]}"
    return "\n".join([*lines, *(f"{name} = distinct !{{{name}, {_WHOLE_LOOP}}}" for name in names)])


def _named(module: llvm.ModuleRef, names: Collection[str]) -> list[llvm.ValueRef]:
    wanted = {decoded(name) for name in names}  # of text, where bytes beyond ASCII are numbers
    return [function for function in module.functions if function.name in wanted]


def _run(passes: tuple[str, ...], function: llvm.ValueRef, builder: llvm.PassBuilder) -> None:
    _manager(passes).run(function, builder)


@functools.cache
def _manager(passes: tuple[str, ...]) -> llvm.FunctionPassManager:
    """Made once for a list of passes: llvmlite does not free the passes of a manager."""
    manager = llvm.create_new_function_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    return manager


def _calls_any(function: llvm.ValueRef, names: set[str]) -> bool:
    calls = (i for block in function.blocks for i in block.instructions if i.opcode == "call")
    return any(list(i.operands)[-1].name in names for i in calls)


def _needs_constant_indices(function: llvm.ValueRef) -> bool:
    """Whether tiles are still in memory, where they cannot be indexed at run time."""
    return any(_keeps_handle(i) for block in function.blocks for i in block.instructions)


def _keeps_handle(instruction: llvm.ValueRef) -> bool:
    """Whether ``instruction`` loads or stores a tile."""
    moved = [instruction.type, *(operand.type for operand in instruction.operands)]
    return instruction.opcode in ("load", "store") and any("addrspace" in str(type) for type in moved)
