"""SIMT kernels of a program as PTX: what they lead to in the LLVM module of the host part, through LLVM's NVPTX target,
as Clang compiles CUDA. Types have the same layout on both sides."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

from tilewright.backends.cuda_tools import tool
from tilewright.backends.gpu.assemble import INSTALL
from tilewright.backends.gpu.target import TRIPLE, architecture, machine
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction, renamed
from tilewright.frontend.cpp.llvm_module import Definition, Parts, Variable, names_in, parts_of
from tilewright.frontend.cpp.parameters import with_bytes
from tilewright.ir.errors import TileCompilerExecutionError, TileUnsupportedFeatureError
from tilewright.ir.reachable import reachable

_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
_LEVEL = 2  # of LLVM's optimizations
_NOT_HERE = ("uwtable", "nobuiltin", "builtin", "nocreateundeforpoison")  # attributes that this LLVM does not know
# What LLVM has instructions for; the code of the other functions of mathematics is in NVIDIA's library.
_NATIVE = re.compile(
    "sqrt|fma|fmuladd|fabs|floor|ceil|trunc|rint|nearbyint|roundeven|round|minnum|maxnum|minimum|maximum|copysign"
)
_LIBRARY_HAS = re.compile(
    "(?:acosh?|asinh?|atan[2h]?|cbrt|cosh?|erfc?|exp|exp10|exp2|expm1|fdim|fmod|frexp|hypot|ilogb|j[01n]|ldexp|lgamma|"
    "ll?rint|ll?round|log|log10|log1p|log2|logb|modf|nextafter|pow|powi|remainder|remquo|rint|round|scalbn|sinh?|sincos|"
    "tanh?|tgamma|trunc|y[01n]|fmin|fmax)f?"
)
_LINKAGE = {"linkonce_odr", "internal", "weak_odr", "hidden", "dso_local", "weak"}
_LIBRARY, _PACKAGES = "libdevice.10.bc", (("nvidia", "*"), ("triton", "backends/nvidia"))
_PROVIDED = ("vprintf", "__assertfail", "malloc", "free")  # by the driver
_RUNTIME = Path(__file__).with_name("runtime.ll").read_text()


def to_ptx(text: str, kernels: Sequence[str], variables: Sequence[str], target: str) -> str:
    """The PTX of the functions ``kernels`` of the module ``text``, and of its ``variables``, for the architecture
    ``target``.

    TileUnsupportedFeatureError for functions that a GPU does not have, and where NVIDIA's library of mathematics is
    needed and not installed.
    """
    chosen = machine(architecture(target), _LEVEL)
    try:
        module = llvm.parse_assembly(_for_device(text, kernels, variables), llvm.create_context())
    except RuntimeError as e:
        raise TileCompilerExecutionError(f"LLVM cannot read the code of SIMT kernels: {e}") from None
    builder = llvm.create_pass_builder(chosen, llvm.create_pipeline_tuning_options(speed_level=_LEVEL))
    clean = llvm.create_new_module_pass_manager()
    clean.add_lower_invoke_pass()
    clean.add_simplify_cfg_pass()
    clean.add_global_dead_code_eliminate_pass()
    clean.run(module, builder)
    missing = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    if any(name.startswith("__nv_") for name in missing):
        module = llvm.parse_assembly(str(module), context := llvm.create_context())
        library = llvm.parse_bitcode(_library().read_bytes(), context)
        library.triple, library.data_layout = TRIPLE, module.data_layout
        module.link_in(library)
        for function in module.functions:
            if not function.is_declaration and function.name not in kernels:
                function.linkage = "internal"
        missing = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    unknown = sorted(name for name in missing if name not in _PROVIDED and not name.startswith("__nvvm"))
    if unknown:
        raise TileUnsupportedFeatureError(f"SIMT code calls {unknown[0]}(), which a GPU does not have")
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    return str(chosen.emit_assembly(module))


@functools.cache
def _library() -> Path:
    """NVIDIA's code of mathematical functions: of a toolkit, of its wheels, or of Triton's."""
    compiler = tool("nvcc") or tool("ptxas")
    roots = [] if compiler is None else [compiler.resolve().parents[1]]
    for package, folder in _PACKAGES:
        spec = importlib.util.find_spec(package)
        for parent in (spec.submodule_search_locations or ()) if spec is not None else ():
            roots += sorted(Path(parent).glob(folder), reverse=True)
    for root in roots:
        for path in (root / "nvvm" / "libdevice" / _LIBRARY, root / "lib" / _LIBRARY):
            if path.is_file():
                return path
    raise TileUnsupportedFeatureError(
        f"mathematical functions of SIMT kernels on a GPU need {_LIBRARY}, which is part of nvcc: {INSTALL}"
    )


def _for_device(text: str, kernels: Sequence[str], variables: Sequence[str]) -> str:
    """The part of ``text`` that ``kernels`` and ``variables`` lead to, as code for GPUs."""
    parts = parts_of(text)
    # Tables of virtual functions lead to what describes types, which is the host's.
    mentions = parts.mentions
    described = {name for name in mentions if name.startswith("_ZTI")}
    graph = {n: sorted(each - described if n.startswith("_ZTV") else each) for n, each in mentions.items()}
    reached = dict.fromkeys(reachable([*kernels, *variables], lambda name: graph.get(name, ())))
    used = [parts.variables[name] for name in reached if name in parts.variables]
    shared = [f"@{v.symbol}" for v in used if "thread_local" in v.how]
    names = _Names(
        {*kernels},
        {name: f"addrspacecast (ptr addrspace(3) {name} to ptr)" for name in shared},
        {name: new for name in parts.declared if (new := _device_name(name)) != name},
    )
    code = [_function(each, names) for name, each in parts.functions.items() if name in reached]
    body = "\n".join([*(_variable(each) for each in used), *code])
    types = [f"{name} = type {what}" for name, what in parts.types.items()]
    groups = [
        f"attributes #{number} = {{ convergent nounwind {_known(each)} }}" for number, each in parts.attributes.items()
    ]
    start = [f'target datalayout = "{_LAYOUT}"', f'target triple = "{TRIPLE}"', *types]
    return "\n".join([*start, body, _RUNTIME, *_declarations(parts, body), *groups, ""])


@dataclass(frozen=True)
class _Names:
    """What is something else on a GPU: ``kernels``, the addresses of variables in shared memory, other functions."""

    kernels: set[str]
    shared: Mapping[str, str]
    functions: Mapping[str, str]


def _known(attributes: str) -> str:
    """The attributes of a group that mean the same there."""
    words = attributes.strip("{ }").split()
    return " ".join(word for word in words if '"' not in word and word not in (*_NOT_HERE, "nounwind"))


def _variable(variable: Variable) -> str:
    """A variable of the module, as one of a GPU: in shared memory, or by its name in that of the device."""
    value, last, alignment = variable.rest, "", ""
    while True:
        before, _, last = value.rpartition(", ")
        if not last.startswith(("align ", "comdat", "section ", "!")):
            break
        value, alignment = before, f", {last}" if last.startswith("align ") else alignment
    value = renamed(value, {f"@{name}": "null" for name in names_in(value) if name.startswith("_ZTI")})
    external = variable.how.startswith("external")
    if "thread_local" not in variable.how:
        linkage = "external " if external else "" if variable.kind == "global" else "internal "
        return f"@{variable.symbol} = {linkage}{variable.kind} {value}{alignment}"
    if external:
        return f"@{variable.symbol} = external addrspace(3) global {value}, align 256"
    return f"@{variable.symbol} = internal addrspace(3) global {value.rpartition(' ')[0]} undef{alignment}"


def _function(definition: Definition, names: _Names) -> str:
    """A function with what it mentions as it is on a GPU, and nothing of the debugger's."""
    before = (word for word in definition.head.partition("@")[0].split()[1:] if word not in _LINKAGE)
    kind = "ptx_kernel void" if definition.name in names.kernels else " ".join(["internal", *before])
    words = definition.attributes.split()
    for word, count in (("personality", 3), ("!dbg", 2), ("section", 2)):
        if word in words:
            del words[words.index(word) : words.index(word) + count]
    attributes = " ".join(word for word in words if not word.startswith("comdat"))
    parameters = with_bytes(", ".join(definition.parameters))
    lines = [f"define {kind} @{definition.symbol}({parameters}) {attributes} {{"]
    for number, line in enumerate(definition.body.split("\n")):
        i = instruction(line)
        if line.startswith("    #dbg_"):
            continue
        line = renamed(line[: i.end] if i.op else line, names.shared)
        if i.callee.startswith("llvm.threadlocal.address."):
            line = f"  {i.result} = getelementptr i8, ptr {names.shared[i.values[0]]}, i64 0"
        elif i.callee == "printf":
            line = _print(i, number)
        elif i.callee in names.functions:
            line = line.replace(f"@{i.callee}(", f"@{names.functions[i.callee]}(", 1)
        lines.append(line)
    return "\n".join(lines)


def _print(i: Instruction, number: int) -> str:
    """A call of printf as one of the driver's, which wants the numbers in memory."""
    text, *others = i.args
    record, own = f"{{ {', '.join(other.type for other in others)} }}", f"%tw.print{number}"
    lines = [f"  {own} = alloca {record}"] if others else []
    for k, other in enumerate(others):
        lines += [f"  {own}.{k} = getelementptr {record}, ptr {own}, i32 0, i32 {k}"]
        lines += [f"  store {other.type} {other.value}, ptr {own}.{k}"]
    result = f"{i.result} = " if i.result else ""
    return "\n".join([*lines, f"  {result}{i.op} i32 @vprintf(ptr {text.value}, ptr {own if others else 'null'})"])


def _device_name(name: str) -> str:
    """What a function that the host has is called: itself, or one of NVIDIA's library."""
    words = name.split(".")
    if words[0] == "llvm" and words[2:] in (["f32"], ["f64"], ["f32", "i32"], ["f64", "i32"]):
        return name if _NATIVE.fullmatch(words[1]) else f"__nv_{words[1]}{'f' if words[2] == 'f32' else ''}"
    return f"__nv_{name}" if _LIBRARY_HAS.fullmatch(name) else name


def _declarations(parts: Parts, body: str) -> Iterator[str]:
    """Declarations of the functions that ``body`` calls and nothing here defines."""
    named, own = names_in(body), names_in(_RUNTIME)
    for name, line in parts.declared.items():
        new = _device_name(name)
        if new in named and new not in own:
            line = f"declare {line.split(' ', 3)[3]}" if line.startswith("declare !dbg ") else line
            yield line.replace(f"@{name}(", f"@{new}(", 1)
