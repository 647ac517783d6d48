"""Compiling a file of a C++ program: what is found in the disk cache needs none of this."""

from __future__ import annotations

import json
import re
from typing import Any

from tilewright.cpp.host.simt import SimtModule, with_threads
from tilewright.cpp.host.stubs import with_stubs
from tilewright.cpp.translation import Made, Request
from tilewright.frontend.cpp.launches import launches_as_calls
from tilewright.frontend.cpp.source import needs_expansion, refuse_device_constructs, with_dynamic_shared
from tilewright.frontend.cpp.toolchain import compile_to_llvm, expand, to_object
from tilewright.system.forks import load


def compiled(request: Request) -> Made:
    """The host part of a file, as ``build_unit`` reads it: its tile kernels as JSON in a line, and an object."""
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
    passes = load("tilewright.frontend.cpp.optimize")
    threads = SimtModule(output.llvm, {})
    if simt:
        threads = with_threads(output.llvm, simt, passes.inlined, passes.transformed, checked=request.is_checked)
    described = frontend.described(output.llvm, [*kernels, *simt])
    names = {symbol: name for symbol, name, _ in described}
    module = with_stubs(threads.llvm, names, threads.ways)
    head = json.dumps(described[: len(kernels)])
    binary = to_object(module, fast=bool(simt))
    return f"{head}\n".encode() + binary, output.files if included is None else included


def _annotated(frontend: Any, llvm: str, note: str) -> list[str]:
    """The symbols of the functions that are defined with an annotation."""
    globals = dict(re.findall(r"^@([-\w.$]+) = (.*)$", llvm, re.M))
    found = dict.fromkeys(symbol for symbol, text, _ in frontend.annotations_of(globals) if text == note)
    return [symbol for symbol in found if re.search(rf"^define [^\n]*@\"?{re.escape(symbol)}\"?\(", llvm, re.M)]
