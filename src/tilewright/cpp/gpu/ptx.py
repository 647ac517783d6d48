"""SIMT kernels of a program as PTX: what they lead to in the LLVM module of the host part, through LLVM's NVPTX target,
as Clang compiles CUDA. Types have the same layout on both sides."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import llvmlite.binding as llvm

from tilewright.backends.cuda_tools import tool
from tilewright.backends.gpu.assemble import INSTALL
from tilewright.backends.gpu.target import TRIPLE, architecture, machine
from tilewright.cpp.host.parameters import split_parameters, with_bytes
from tilewright.frontend.cpp.calls import FUNCTION, GLOBAL, NAME, leading_to
from tilewright.ir.errors import TileCompilerExecutionError, TileUnsupportedFeatureError
from tilewright.ir.reachable import reachable

_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
_LEVEL = 2  # of LLVM's optimizations
_NOT_HERE = re.compile(r'"[^"]*"="[^"]*"|"[^"]*"|\b(?:uwtable|nobuiltin|builtin|nocreateundeforpoison)\b')
_PRINT = re.compile(
    r"^(?P<result> *(?:%[-\w.$]+ = )?)(?:tail |notail )?(?P<how>call|invoke) [^@\n]*@printf\((?P<arguments>[^\n]*)\)",
    re.M,
)
# What LLVM has instructions for; the code of the other functions of mathematics is in NVIDIA's library.
_NATIVE = re.compile(
    "sqrt|fma|fmuladd|fabs|floor|ceil|trunc|rint|nearbyint|roundeven|round|minnum|maxnum|minimum|maximum|copysign"
)
_LIBRARY_HAS = re.compile(
    "(?:acosh?|asinh?|atan[2h]?|cbrt|cosh?|erfc?|exp|exp10|exp2|expm1|fdim|fmod|frexp|hypot|ilogb|j[01n]|ldexp|lgamma|"
    "ll?rint|ll?round|log|log10|log1p|log2|logb|modf|nextafter|pow|powi|remainder|remquo|rint|round|scalbn|sinh?|sincos|"
    "tanh?|tgamma|trunc|y[01n]|fmin|fmax)f?"
)
_MATH = re.compile(r"@llvm\.([a-z]\w*)\.(f32|f64)(?:\.i32)?\(")
_LINKAGE = "linkonce_odr|internal|weak_odr|hidden|dso_local|weak"
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
    text = re.sub(r"(?:, )?![\w.]+ !\d+|^ +#dbg_[^\n]*\n", "", text, flags=re.M)
    # Tables of virtual functions lead to what describes types, which is the host's.
    text = re.sub(r"^@_ZTV[^\n]*", lambda m: re.sub(r"ptr @_ZTI[\w.$]+", "ptr null", m.group()), text, flags=re.M)
    graph = leading_to(text)
    found = {m[1].strip('"'): m for m in GLOBAL.finditer(text)}
    reached = dict.fromkeys(reachable([*kernels, *variables], lambda name: sorted(graph.get(name, ()))))
    used = [name for name in reached if name in found]
    bodies = [m.group() for m in FUNCTION.finditer(text) if m[1].strip('"') in reached]
    shared = [name for name in used if "thread_local" in found[name]["how"]]
    body = "\n".join([*(_variable(found[name], name in shared) for name in used), *bodies])
    for name in shared:
        body = _with_shared(body, found[name][1])
    body = _PRINT.sub(_print, body)
    body = _MATH.sub(lambda m: f"@{_device_name(m)}(", body)
    for name in _math_of(text):
        body = body.replace(f"@{name}(", f"@__nv_{name}(")
    body = re.sub(r" comdat(?:\(\$[^)]*\))?(?=[ ,\n{])| section \"[^\"]*\"| personality ptr @\w+(?= )", "", body)
    body = re.sub(rf"^define (?:(?:{_LINKAGE}) )*", "define internal ", body, flags=re.M)
    for symbol in kernels:
        head = rf'^define internal (?:\w+ )*?void (?=@"?{re.escape(symbol)}"?\()'
        body = re.sub(head, "define ptx_kernel void ", body, flags=re.M)
    body = with_bytes(body)
    types = re.findall(r"^%[^\n]* = type [^\n]*$", text, re.M)
    groups = [
        f"attributes {m[1]} = {{ convergent nounwind {_NOT_HERE.sub('', m[2]).replace('nounwind', '')} }}"
        for m in re.finditer(r"^attributes (#\d+) = \{(.*)\}$", text, re.M)
    ]
    start = [f'target datalayout = "{_LAYOUT}"', f'target triple = "{TRIPLE}"', *types]
    return "\n".join([*start, body, _RUNTIME, *_declarations(text, body), *groups, ""])


def _with_shared(body: str, name: str) -> str:
    """``body`` with the variable ``name`` of each thread as one in shared memory."""
    address, quoted = f"ptr addrspacecast (ptr addrspace(3) @{name} to ptr)", re.escape(name)
    found = rf"call [^\n@]*@llvm\.threadlocal\.address\.p0\(ptr [^@\n]*@{quoted}\)(?: #\d+)?"
    body = re.sub(found, lambda _: f"getelementptr i8, {address}, i64 0", body)
    return re.sub(rf"\bptr (?:align \d+ )?@{quoted}(?![-\w.$])", lambda _: address, body)


def _variable(match: re.Match[str], shared: bool) -> str:
    """A variable of the module, as one of a GPU: in shared memory, or by its name in that of the device."""
    rest = re.sub(r", (?:comdat(?:\(\$[^)]*\))?|section \"[^\"]*\")(?=,|$)", "", match["rest"])
    if not shared:
        external = match["how"].startswith("external")
        linkage = "external " if external else "" if match["kind"] == "global" else "internal "
        return f"@{match[1]} = {linkage}{match['kind']} {rest}"
    if match["how"].startswith("external"):
        return f"@{match[1]} = external addrspace(3) global {re.sub(r', align [0-9]+', '', rest)}, align 256"
    type = re.sub(r" (?:zeroinitializer|undef|poison)(?=,|$)", " undef", rest)
    return f"@{match[1]} = internal addrspace(3) global {type}"


def _print(match: re.Match[str]) -> str:
    """A call of printf as one of the driver's, which wants the numbers in memory."""
    first, *others = split_parameters(match["arguments"])
    attributes = re.compile(r"\b(?:noundef|nonnull|signext|zeroext)\b|\balign \d+")
    types = [attributes.sub("", a.rsplit(" ", 1)[0]).strip() for a in others]
    values = [a.rsplit(" ", 1)[1] for a in others]
    number, record = match.start(), f"{{ {', '.join(types)} }}"
    lines = [f"  %tw.print{number} = alloca {record}"] if others else []
    for i, (type, value) in enumerate(zip(types, values)):
        lines += [
            f"  %tw.print{number}.{i} = getelementptr {record}, ptr %tw.print{number}, i32 0, i32 {i}",
            f"  store {type} {value}, ptr %tw.print{number}.{i}",
        ]
    memory = f"%tw.print{number}" if others else "null"
    text = first.rsplit(" ", 1)[1]
    return "\n".join([*lines, f"{match['result']}{match['how']} i32 @vprintf(ptr {text}, ptr {memory})"])


def _device_name(match: re.Match[str]) -> str:
    """The function for an intrinsic of LLVM: itself, or one of NVIDIA's library."""
    name, type = match[1], match[2]
    return match[0][1:-1] if _NATIVE.fullmatch(name) else f"__nv_{name}{'f' if type == 'f32' else ''}"


def _math_of(text: str) -> set[str]:
    """Functions of the C library that the module declares and whose code NVIDIA's library has."""
    return {name for name in re.findall(r"^declare [^@\n]*@(\w+)\(", text, re.M) if _LIBRARY_HAS.fullmatch(name)}


def _declarations(text: str, body: str) -> Iterator[str]:
    """Declarations of the functions that ``body`` calls and nothing here defines."""
    named = {name.strip('"') for name in re.findall(NAME, body)}
    own = set(re.findall(r"@([\w.]+)\(", _RUNTIME))
    mathematics = _math_of(text)
    for match in re.finditer(rf"^declare [^@\n]*{NAME}\([^\n]*$", text, re.M):
        name, intrinsic = match[1].strip('"'), _MATH.search(match.group())
        new = _device_name(intrinsic) if intrinsic is not None else f"__nv_{name}" if name in mathematics else name
        if new in named and new not in own:
            yield match.group().replace(f"@{match[1]}(", f"@{new}(") if new != name else match.group()
