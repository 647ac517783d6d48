"""Compiling a file of a C++ program: what is found in the disk cache needs none of this."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from tilewright.cpp.host.passes import FOR_DEVICES, joined, passes_differ
from tilewright.cpp.host.simt import SimtModule, missing, shared_types, variables, with_threads
from tilewright.cpp.host.spins import polling
from tilewright.cpp.host.stubs import MAX_THREADS, with_hosts, with_stubs, with_variables
from tilewright.cpp.translation import Made, Request, file_number, kernel_key
from tilewright.frontend.cpp import module, optimize
from tilewright.frontend.cpp.assembly import without_assembly
from tilewright.frontend.cpp.device_limits import (
    host_accesses,
    host_variables,
    refuse_host_constructs,
    refuse_long_double,
    refuse_shared_of_hosts,
    refuse_values,
    refuse_writes,
    without_constructors,
)
from tilewright.frontend.cpp.launches import launches_as_calls
from tilewright.frontend.cpp.llvm_module import parts_of
from tilewright.frontend.cpp.llvm_text import parse_constant
from tilewright.frontend.cpp.parameters import with_objects
from tilewright.frontend.cpp.source import refuse_device_constructs, with_dynamic_shared
from tilewright.frontend.cpp.spaces import (
    SIMT,
    device_functions,
    refuse_device_functions,
    refuse_direct_calls,
    refuse_host_functions,
    refuse_kernels_of_hosts,
    refuse_tile_functions,
    texts_of,
)
from tilewright.frontend.cpp.toolchain import Options, Output, compile_to_llvm, expanded, to_object
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.system.forks import load

_FOR_GPUS = {"TW_SIMT_GPU": "1", **FOR_DEVICES}


def compiled(request: Request) -> Made:
    """The host part of a file, as ``build_unit`` reads it: its kernels, its number and warnings as JSON in a line, and
    an object."""
    host = _host_llvm(request, {})
    llvm, files = host.llvm, host.files
    kernels, simt = (_annotated(llvm, note) for note in ("tw.kernel", "tw.simt"))
    texts = texts_of(request.name, request.text, files)
    if simt and passes_differ(texts.values()):
        device = _host_llvm(request, FOR_DEVICES)
        refuse_kernels_of_hosts(llvm, set(simt) - {*_annotated(device.llvm, "tw.simt")}, texts)
        llvm, files = joined(llvm, device.llvm, simt), tuple(dict.fromkeys((*files, *device.files)))
    threads = SimtModule(llvm, {})
    refuse_tile_functions(llvm, kernels, texts, dict(request.defines))
    refuse_device_functions(llvm, texts, dict(request.defines))
    refuse_direct_calls(host.llvm, [*kernels, *simt])
    refuse_shared_of_hosts(host.llvm, texts, dict(request.defines))
    if simt or "@__tw_simt_" in llvm:
        refuse_host_functions(llvm, simt, SIMT, texts, dict(request.defines))
        refuse_host_constructs(llvm, simt, texts, dict(request.defines))
        refuse_long_double(llvm, simt, texts)
        threads = with_threads(llvm, simt, optimize.inlined, optimize.transformed, checked=request.is_checked)
    if simt or _shares(texts):
        refuse_values(llvm, texts, dict(request.defines))
        refuse_writes(llvm, texts, dict(request.defines))
    described = module.described(host.llvm, [*kernels, *simt])
    pieces = {symbol: found for symbol, _, found in described[: len(kernels)]}
    number = file_number(request, llvm)
    names = {symbol: (kernel_key(number, symbol), name) for symbol, name, _ in described}
    ways, shared = (threads.ways, {*threads.waiting, *polling(llvm, kernels)}), shared_types(llvm, simt)
    made = with_stubs(threads.llvm, names, pieces, *ways, _bounds(llvm), shared, host.llvm)
    if simt or _shares(texts):
        known = variables(llvm, [*simt, *device_functions(llvm, texts)], visible=_shares(texts))
        made = with_variables(made, known, number)
    if request.is_checked:
        made = with_hosts(made, host_variables(llvm, simt, texts, dict(request.defines)))
    tile = [(symbol, name, [astuple(piece) for piece in found]) for symbol, name, found in described[: len(kernels)]]
    warnings = host_accesses(host.llvm, texts, dict(request.defines)) if _shares(texts) else []
    head = json.dumps([tile, [names[:2] for names in described[len(kernels) :]], number, warnings])
    return f"{head}\n".encode() + to_object(made, fast=bool(simt)), files


def needs_others(request: Request) -> Made:
    """Whether the SIMT kernels of a file use functions or variables of other files, as JSON."""
    host = _host_llvm(request, _FOR_GPUS)
    return json.dumps(bool(missing(host.llvm, _annotated(host.llvm, "tw.simt")))).encode(), host.files


def device_code(request: Request, target: str, *, part: bool = False) -> Made:
    """The SIMT kernels of a file for GPUs: the names that their code has for them and for variables as JSON in a line,
    and their code: of nvcc, or else NVRTC, where it is installed and takes the file, and otherwise of Clang. ``part``
    of a program's, of nvcc alone, which links it."""
    host = _host_llvm(request, {**_FOR_GPUS, "__CUDA_ARCH__": re.sub(r"\D", "", target) + "0"})
    llvm, files = host.llvm, host.files
    kernels = _annotated(llvm, "tw.simt")
    texts = texts_of(request.name, request.text, files)
    shares = part and _shares(texts) and not request.name.endswith((".cpp", ".cc", ".cxx"))
    known = variables(llvm, [*kernels, *(device_functions(llvm, texts) if shares else ())], visible=shares)
    if not (kernels or shares):
        return f"{json.dumps([{}, {}])}\n".encode(), files
    compilers = [load(f"tilewright.cpp.gpu.{name}") for name in ("nvcc", "nvrtc")]
    compiler = next((each for each in compilers if each.available()), None)
    if part:
        return _part(request, compilers[0], module.described(llvm, kernels), known, target), files
    if compiler is not None:
        named = {symbol: name for symbol, name, _ in module.described(llvm, kernels)}
        try:
            code = compiler.compiled(request, named, known, target)
            return f"{json.dumps([code.kernels, code.variables])}\n".encode() + code.binary, files
        except load("tilewright.cpp.gpu.nvcc").Refused as e:
            said = f"the SIMT kernels of {request.name} are compiled by Clang, as {compiler.NAME} does not do it: {e}"
            print(f"tilewright: {said}", file=sys.stderr, flush=True)
    head = json.dumps([{name: name for name in kernels}, {name: name for name in known}])
    ptx = load("tilewright.cpp.gpu.ptx").to_ptx(llvm, kernels, known, target) + "\0" if kernels else ""
    return f"{head}\n{ptx}".encode(), files


def _shares(texts: Mapping[str, str]) -> bool:
    """Whether a file may have functions or variables for devices that other files use."""
    return any(re.search(r"\b__(?:device|constant|managed)__\b", text) for text in texts.values())


def _part(request: Request, nvcc: Any, described: Any, known: Sequence[str], target: str) -> bytes:
    """``device_code`` of a file that is linked with others. TileUnsupportedFeatureError where nvcc does not do it."""
    needs = f"SIMT code of {request.name} and of other files call each other, which nvcc links"
    if not nvcc.available():
        raise TileUnsupportedFeatureError(f"{needs}: install the CUDA toolkit, or write them in one file")
    try:
        code = nvcc.compiled(request, [symbol for symbol, *_ in described], known, target, part=True)
    except nvcc.Refused as e:
        raise TileUnsupportedFeatureError(f"{needs}; write them in one file, as nvcc does not do it: {e}") from None
    return f"{json.dumps([code.kernels, code.variables])}\n".encode() + code.binary


def _host_llvm(request: Request, defines: Mapping[str, str]) -> Output:
    """The LLVM module of the host part of a file, and the files that it includes."""
    options = Options(request.std, {**dict(request.defines), **defines}, request.include_dirs, host=True)
    text, included = expanded(request.text, request.name, options)
    refuse_device_constructs(text, request.name)
    text = launches_as_calls(with_dynamic_shared(without_assembly(text)), request.name)
    made = compile_to_llvm(text, request.name, options, included)
    kernels = [symbol for note in ("tw.simt", "tw.kernel") for symbol in _annotated(made.llvm, note)]
    llvm = made.llvm
    if "@_ZGVZ" in llvm:
        llvm = without_constructors(llvm, texts_of(request.name, request.text, made.files), dict(request.defines))
    return replace(made, llvm=with_objects(llvm, kernels))


def _bounds(llvm: str) -> dict[str, int]:
    """The functions with ``__launch_bounds__``, and the threads that these allow."""
    notes = (each for each in module.function_notes(llvm) if each[1] == "tw.bounds")
    found = ((symbol, parse_constant(value)) for symbol, _, value in notes)
    bounds = {symbol: int(constant[1].value[0].value) for symbol, constant in found if constant is not None}
    return {symbol: min(bound, MAX_THREADS) for symbol, bound in bounds.items() if bound > 0}


def _annotated(llvm: str, note: str) -> list[str]:
    """The symbols of the functions that are defined with an annotation."""
    found = dict.fromkeys(symbol for symbol, text, _ in module.function_notes(llvm) if text == note)
    return [symbol for symbol in found if symbol in parts_of(llvm).functions]
