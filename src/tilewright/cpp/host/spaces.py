"""Functions that SIMT kernels call: those for the host alone are refused, as nvcc refuses them.

That a function is for devices, too, stands in its declaration, of which a module of LLVM only keeps the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tilewright.cpp.host.simt import FUNCTION, call_graph, called_from
from tilewright.frontend.cpp.attributes import mask
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.names import source_name
from tilewright.ir.errors import TileUnsupportedFeatureError

_FOR_DEVICES = ("__device__", "__global__", "constexpr", "consteval")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\(?:.|\n))*)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\(?:.|\n))*", re.MULTILINE)
_CALL = r'(?:call|invoke) [^\n]*@"?{}"?\([^\n]*(?:\n[^\n]*)?!dbg !(\d+)'
_LAMBDA = re.compile(r"U[lT]")  # in the symbol of its operator(): it is for where it is written


def refuse_host_functions(llvm: str, kernels: Sequence[str], name: str, text: str, included: Iterable[str]) -> None:
    """TileUnsupportedFeatureError, at the call, for a function of the host alone that the SIMT ``kernels`` of a module
    lead to. ``text`` is the file ``name``, and ``included`` are those that it includes."""
    calls = call_graph(llvm)
    called = called_from(calls, kernels) - set(kernels)
    if not called:
        return
    texts = {name: text}
    for file in included:
        path = Path(file)
        texts[file] = path.read_text(errors="replace") if path.is_file() else ""
    words = re.compile(rf"\b(?:{'|'.join(_words(texts.values()))})\b")
    locations = Locations({int(n): line for n, line in re.findall(r"^!(\d+) = (.*)$", llvm, re.M)})
    heads = {m[1].strip('"'): m.group() for m in FUNCTION.finditer(llvm)}
    masked = [mask(_DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), each)) for each in texts.values()]
    for symbol in sorted(called):
        found = re.search(r"!dbg !(\d+) \{", heads[symbol].split("\n", 1)[0] + "\n")
        fields = locations.fields(int(found[1])) if found is not None else {}
        loc = locations.function(int(found[1])) if found is not None else None
        artificial = "DIFlagArtificial" in fields.get("flags", "") or loc is None or not loc.line
        function = re.sub(r"(?<!operator)<.*", "", fields.get("name", ""))
        if artificial or loc is None or loc.file not in texts or not function:
            continue
        if function == "operator()" and _LAMBDA.search(symbol):
            continue
        declared = [head for each in masked for head in _heads(each, function)]
        if not declared or any(words.search(head) or re.search(r"=\s*default\b", head) for head in declared):
            continue
        for caller in sorted(called | set(kernels)):
            call = re.search(_CALL.format(re.escape(symbol)), heads.get(caller, ""))
            if call is not None:
                raise TileUnsupportedFeatureError(
                    f"{source_name(caller)}() runs on the device and calls {function}(), which is for the host alone; "
                    "declare it __host__ __device__, or constexpr",
                    locations.loc(int(call[1])),
                )


def _words(texts: Iterable[str]) -> list[str]:
    """What says that a function is for devices: keywords, and macros that have them."""
    found, defines = list(_FOR_DEVICES), [m.groups() for text in texts for m in _DEFINE.finditer(text)]
    for _ in range(3):  # macros of macros of macros
        known = re.compile(rf"\b(?:{'|'.join(found)})\b")
        found += [name for name, value in defines if known.search(value) and name not in found]
    return found


def _heads(masked: str, function: str) -> Iterable[str]:
    """The declarations of ``function`` in a text, up to their bodies; its calls are like them and say nothing."""
    for match in re.finditer(rf"(?<![\w.]){re.escape(function)}\s*(?:<[^<>;{{}}]*>\s*)?\(", masked):
        start = max(masked.rfind(c, 0, match.start()) for c in ";{}") + 1
        end = re.compile(r"[;{]").search(masked, match.end())
        yield masked[start : end.start() if end is not None else len(masked)]
