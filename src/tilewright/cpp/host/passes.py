"""The two passes over a file of a program, as nvcc makes them: code for devices sees ``__CUDA_ARCH__``, code for hosts
does not. Their modules become one, in which functions for both sides have code for each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import llvmlite.binding as llvm

from tilewright.frontend.cpp.llvm_module import parts_of
from tilewright.frontend.cpp.optimize import parsed, without_unused
from tilewright.ir.reachable import reachable

FOR_DEVICES = {"__CUDA_ARCH__": "900"}  # as what programs are told of the device here
_COMDAT = re.compile(r"(?<!=),? comdat(?:\(\$[^)]*\))?(?=[ ,\n{])")
_ONCE = ("llvm.global_ctors", "llvm.global_dtors", "llvm.used", "llvm.compiler.used")
_NOTES = ("llvm.global.annotations",)
_INTERNAL = (llvm.Linkage.internal, llvm.Linkage.private)


def passes_differ(texts: Iterable[str]) -> bool:
    """Whether the files of a program may say something else to devices than to the host."""
    return any("__CUDA_ARCH__" in text or "nv/target" in text for text in texts)


def joined(host: str, device: str, kernels: Collection[str]) -> str:
    """The module ``host`` with the code that the module ``device`` has for ``kernels``, which both define, and for what
    these lead to. Variables are those of the host; what is noted of kernels is what devices see."""
    context = llvm.create_context()
    device = _without_aliases(_COMDAT.sub("", _without(device, _ONCE)))
    graph, own = parts_of(device).mentions, _own_variables(device)
    reached = set(reachable(kernels, lambda name: graph.get(name, ())))
    # A context into which LLVM 22 parses two texts with debug information ends in an invalid free.
    codes = (parsed(text).as_bitcode() for text in (_without(host, _NOTES), device))
    into, other = (llvm.parse_bitcode(code, context) for code in codes)
    linkages = {name: value.linkage for name, value in _values(into).items()}
    for function in other.functions:
        if not function.is_declaration:
            marked = function.linkage is llvm.Linkage.weak_any  # what our headers leave of constructs is found by name
            needed = function.name in reached and not marked
            kept = "internal" if needed else "available_externally"
            function.linkage = "external" if function.name in kernels else kept
    shared = [v for v in other.global_variables if v.name in linkages and v.name not in own and not v.is_declaration]
    for variable in other.global_variables:
        if variable.name in own and not variable.is_declaration:
            variable.linkage = "internal"
    for variable in shared:
        variable.linkage = "available_externally"
    restored = {*kernels, *(v.name for v in shared if linkages[v.name] in _INTERNAL)}
    for name, value in _values(into).items():  # while they are joined, what both have has to be visible
        if name in restored:
            value.linkage = "linkonce_any" if name in kernels else "external"
    into.link_in(other)
    for name, value in _values(into).items():
        if name in restored:
            value.linkage = linkages[name]
    without_unused(into)
    return str(into)


def _own_variables(device: str) -> set[str]:
    """The variables that devices have for themselves: shared memory, constants, and what leads to functions."""
    return {
        name
        for name, v in parts_of(device).variables.items()
        if name.startswith("_ZTV")
        or "thread_local" in v.how
        or (v.kind == "constant" and not {"internal", "private"}.isdisjoint(v.how.split()))
    }


def _without(text: str, names: Iterable[str]) -> str:
    """The module ``text`` without some of its variables."""
    variables = parts_of(text).variables
    for line in (variables[name].line for name in names if name in variables):
        text = text.replace(f"{line}\n", "", 1)
    return text


def _without_aliases(text: str) -> str:
    """The module ``text`` with functions by one name each."""
    parts = parts_of(text)
    aliases = {name: value for name, value in parts.others.items() if name not in parts.variables and "alias" in value}
    for alias, value in reversed(aliases.items()):
        name = value.split(", ptr @")[1].split(",")[0]
        text = re.sub(rf"@{re.escape(alias)}(?![-\w.$])", f"@{name}", text.replace(f"@{alias} = {value}\n", ""))
    return text


def _values(module: llvm.ModuleRef) -> dict[str, llvm.ValueRef]:
    """The functions and variables of a module."""
    return {value.name: value for value in (*module.functions, *module.global_variables)}
