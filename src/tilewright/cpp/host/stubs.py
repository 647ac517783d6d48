"""Edits of the host part of a program, as LLVM text: kernels become stubs that ask for a launch.

A stub hands the addresses of its arguments to ``__tw_host_launch``, as ``cudaLaunchKernel`` gets them. Each function of
the CUDA runtime gets a definition that calls through a pointer, ``__tw_at_NAME``, which the loader fills in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tilewright.cpp.host.simt import entry, parameter_type, split_parameters

POINTER = "__tw_at_"
# A table of addresses, symbols, and for SIMT kernels what runs a block and a thread, which ends with a null address.
KERNELS = "__tw_host_kernels"
COLUMNS = 4

_DEFINITION = (
    r"^define [^\n]*@{symbol}\((?P<parameters>[^\n]*?)\)(?: [^()\n]*(?:\([^()\n]*\)[^()\n]*)*)?\{{\n(?P<body>.*?)^\}}\n"
)
_DECLARATION = re.compile(r"^declare (?P<result>[^@\n]*)@(?P<name>\w+)\((?P<parameters>[^)\n]*)\)[^\n]*$", re.M)
_LAUNCH = "__tw_host_launch"


@dataclass(frozen=True)
class HostModule:
    """The edited text, and whether it needs the C++ standard library."""

    llvm: str
    needs_library: bool


def with_stubs(text: str, kernels: Sequence[str], simt: Sequence[str], provided: Collection[str]) -> HostModule:
    """The module ``text`` with stubs for the functions ``kernels`` and ``simt``, and calls through pointers for
    the functions ``provided``."""
    text = re.sub(r"^declare !dbg !\d+ ", "declare ", text, flags=re.M)
    for symbol in (*kernels, *simt):
        text = _with_stub(text, symbol)
    if re.search(rf"^declare [^\n]*@{_LAUNCH}\(", text, re.M) is None:
        text += f"\ndeclare i32 @{_LAUNCH}(ptr, ptr)\n"
    found = [match for match in _DECLARATION.finditer(text) if match["name"] in provided]
    for match in reversed(found):
        text = text[: match.start()] + _through_pointer(match) + text[match.end() :]
    # What is left of tile code is never called, but the linker wants its names.
    text = re.sub(r"^declare (?=[^@\n]*@__tw_)", "declare extern_weak ", text, flags=re.M)
    needs_library = re.search(r"^declare [^@\n]*@(?:_Z|__cxa_|__gxx_)", text, re.M) is not None
    return HostModule(text + _table(kernels, simt), needs_library)


def _name(symbol: str) -> str:
    return symbol if re.fullmatch(r"[-\w.]+", symbol) else f'"{symbol}"'


def _with_stub(text: str, symbol: str) -> str:
    pattern = _DEFINITION.format(symbol=re.escape(_name(symbol)))
    match = re.search(pattern, text, re.M | re.S)
    if match is None:
        return text
    parameters = split_parameters(match["parameters"])
    lines = [f"  %tw.slots = alloca ptr, i32 {max(len(parameters), 1)}"]
    for i, parameter in enumerate(parameters):
        type, value = parameter_type(parameter), parameter.split()[-1]
        lines += [f"  %tw.slot{i} = getelementptr ptr, ptr %tw.slots, i32 {i}"]
        if "byval(" in parameter:
            lines += [f"  store ptr {value}, ptr %tw.slot{i}"]
            continue
        lines += [
            f"  %tw.value{i} = alloca {type}",
            f"  store {type} {value}, ptr %tw.value{i}",
            f"  store ptr %tw.value{i}, ptr %tw.slot{i}",
        ]
    lines += [f"  %tw.error = call i32 @{_LAUNCH}(ptr @{_name(symbol)}, ptr %tw.slots)", "  ret void"]
    start, end = match.span("body")
    return text[:start] + "tw.entry:\n" + "\n".join(lines) + "\n" + text[end:]


def _through_pointer(declaration: re.Match[str]) -> str:
    result = declaration["result"].split()[-1]
    name = declaration["name"]
    types = [parameter.split()[0] for parameter in split_parameters(declaration["parameters"])]
    parameters = ", ".join(f"{type} %p{i}" for i, type in enumerate(types))
    return (
        f"@{POINTER}{name} = global ptr null\n"
        f"define {result} @{name}({parameters}) {{\nentry:\n"
        f"  %f = load ptr, ptr @{POINTER}{name}\n  %r = call {result} %f({parameters})\n  ret {result} %r\n}}"
    )


def _table(kernels: Sequence[str], simt: Sequence[str]) -> str:
    lines, entries = [], []
    for i, symbol in enumerate((*kernels, *simt)):
        data = symbol.encode()
        lines.append(f'@__tw_host_name{i} = private constant [{len(data) + 1} x i8] c"{symbol}\\00"')
        functions = [f"ptr @{entry(kind, symbol)}" if symbol in simt else "ptr null" for kind in ("block", "thread")]
        entries.append(", ".join([f"ptr @{_name(symbol)}, ptr @__tw_host_name{i}", *functions]))
    entries.append(", ".join(["ptr null"] * COLUMNS))
    count = COLUMNS * len(entries)
    return "\n" + "\n".join([*lines, f"@{KERNELS} = constant [{count} x ptr] [{', '.join(entries)}]"]) + "\n"
