"""Compiling the host part of a C++ program to a shared object, through the disk cache."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any

from tilewright.cpp.host.cuda_runtime import NAMES
from tilewright.cpp.host.simt import SimtModule, with_threads
from tilewright.cpp.host.stubs import with_stubs
from tilewright.cpp.translation import Request, through_cache
from tilewright.frontend.cpp.launches import launches_as_calls
from tilewright.frontend.cpp.source import needs_expansion, refuse_device_constructs, with_dynamic_shared
from tilewright.frontend.cpp.toolchain import compile_to_llvm, expand, library_is_built, link
from tilewright.system.forks import load


@dataclass(frozen=True)
class HostKernel:
    """A kernel: its symbol, its name in the source, and the codes of its parameter types (tile kernels), or
    whether its threads wait for each other (SIMT kernels)."""

    symbol: str
    name: str
    codes: tuple[int, ...] = ()
    waits: bool = False


@dataclass(frozen=True)
class HostProgram:
    """The bytes of a shared object, and its kernels: tile kernels, and SIMT kernels, which are
    part of it."""

    binary: bytes
    kernels: tuple[HostKernel, ...]
    simt: tuple[HostKernel, ...]


def build(request: Request) -> HostProgram:
    """The host part of a program. TileError for what the compiler refuses."""
    data = through_cache(request, "host program", lambda: _compile(request))
    head, _, binary = data.partition(b"\n")
    kernels, simt = (
        tuple(HostKernel(symbol, name, tuple(codes), waits) for symbol, name, codes, waits in kind)
        for kind in json.loads(head)
    )
    return HostProgram(binary, kernels, simt)


def _compile(request: Request) -> tuple[bytes, tuple[str, ...]]:
    options: dict[str, Any] = {
        "std": request.std,
        "defines": dict(request.defines),
        "include_dirs": request.include_dirs,
        "host": True,
    }
    text, included = request.text, None
    if needs_expansion(text, request.include_dirs):
        text, included = expand(text, request.name, **options)
    refuse_device_constructs(text, request.name)
    text = launches_as_calls(with_dynamic_shared(text), request.name)
    output = compile_to_llvm(text, request.name, **options, expanded=included is not None)
    frontend = load("tilewright.frontend.cpp.module")
    kernels, simt = (_annotated(frontend, output.llvm, note) for note in ("tw.kernel", "tw.simt"))
    inline = load("tilewright.frontend.cpp.optimize").inlined
    threads = with_threads(output.llvm, simt, inline) if simt else SimtModule(output.llvm, frozenset())
    module = with_stubs(threads.llvm, kernels, simt, NAMES)
    if module.needs_library and not library_is_built():
        print("tilewright: building the C++ standard library for this machine, once", file=sys.stderr, flush=True)
    binary = link(module.llvm, library=module.needs_library, fast=bool(simt))
    described = [
        [(*kernel, kernel[0] in threads.waiting) for kernel in frontend.described(output.llvm, symbols)]
        for symbols in (kernels, simt)
    ]
    return f"{json.dumps(described)}\n".encode() + binary, output.files if included is None else included


def _annotated(frontend: Any, llvm: str, note: str) -> list[str]:
    """The symbols of the functions that are defined with an annotation."""
    globals = dict(re.findall(r"^@([-\w.$]+) = (.*)$", llvm, re.M))
    found = dict.fromkeys(symbol for symbol, text, _ in frontend.annotations_of(globals) if text == note)
    return [symbol for symbol in found if re.search(rf"^define [^\n]*@\"?{re.escape(symbol)}\"?\(", llvm, re.M)]
