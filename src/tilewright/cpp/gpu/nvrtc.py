"""SIMT kernels of a program through NVRTC, where there is its library and no ``nvcc``.

It compiles code of the device only, so that functions and variables of the host are blanked before. Instances of
templates are asked for by name, as nothing launches them there.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tilewright.cpp.gpu.nvcc import ERROR, Code, Refused, code_of, identity_of
from tilewright.cpp.translation import Request
from tilewright.frontend.cpp.attributes import blank, closing, mask, without_directives
from tilewright.frontend.cpp.locations import INCLUDE_DIR
from tilewright.frontend.cpp.names import source_name
from tilewright.frontend.cpp.toolchain import Options, expanded

NAME = "NVRTC"
_LIBRARY, _BUILTINS = "libnvrtc.so*", "libnvrtc-builtins.so*"
_FLAGS = ("--generate-line-info", "--disable-warnings", "-default-device")
_DEVICE = re.compile(r"\b(?:__global__|__device__|__constant__|__managed__|__shared__|constexpr|consteval)\b")
_TILE = re.compile(r"\b__tile(?:_global|_builtin)?__\b")
_TILE_NAMES = re.compile(r"\bnamespace\s+(\w+)\s*=\s*(?:::)?cuda::tiles\b")
_SCOPE = re.compile(
    r"\s*(?:template\s*<.*>\s*)?(?:(?:inline\s+)?(?P<space>namespace\b|extern\s*\Z)|(?:struct|class|union)\b)",
    re.DOTALL,
)
_FUNCTION = re.compile(r"\)\s*(?:const|noexcept|override|final|try|&|\s|->[^;{}]*|:[^:;{}][^;{}]*)*\Z")
# Declarations in braces of a namespace that code of the device may need, and all of those in a class.
_OUTSIDE = (
    r"\s*\Z|(?!.*\b(?:std::(?!size_t\b|u?int\d+_t\b)|cuda::tiles|{tile}))(?:.*{device}|\s*(?:using|typedef|template|"
    r"struct|class|union|enum|namespace|static_assert|(?:static\s+)?const)\b)"
)
_MEMBER = re.compile("")
_PRELUDE = Path(__file__).with_name("nvrtc_prelude.h").read_text()
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")
_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)[<"]([^">\n]+)[">]', re.MULTILINE)


@functools.cache
def library() -> Path | None:
    """The library: of the toolkit that CUDA_HOME or CUDA_PATH names, or of NVIDIA's wheels."""
    folders = [Path(os.environ[name], "lib64") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        folders += [*sorted(Path(root).glob("cu*/lib"), reverse=True), Path(root, "cuda_nvrtc/lib")]
    found = (path for folder in folders for path in sorted(folder.glob(_LIBRARY)) if ".alt." not in path.name)
    return next(found, None)


def available() -> bool:
    """Whether NVRTC is installed."""
    return library() is not None


def identity() -> str:
    """What tells the NVRTC that is installed from another one: part of cache keys."""
    return identity_of(library())


@functools.cache
def _loaded() -> ctypes.CDLL:
    path = library()
    assert path is not None
    for builtins in path.parent.glob(_BUILTINS):  # which the library looks for by its name only
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path))


def compiled(request: Request, kernels: Mapping[str, str], variables: Sequence[str], target: str) -> Code:
    """The code of the SIMT ``kernels``, symbols and names, of a file, as ``nvcc.compiled`` gives it."""
    api, program, folders = _loaded(), ctypes.c_void_p(), _header_folders()
    host = Options(request.std, dict(request.defines), request.include_dirs, host=True)
    text, _ = expanded(request.text, request.name, host)
    source = device_text(text, folders).encode()
    api.nvrtcCreateProgram(ctypes.byref(program), source, request.name.encode(), 0, None, None)
    try:
        for symbol, name in kernels.items():
            if "(lambda" in name or "lambda at" in name:
                raise Refused(
                    f"{source_name(symbol)} is instantiated with a lambda of the host, which has no name there"
                )
            if "<" in name:
                expression = source_name(symbol) + name[name.index("<") :]
                api.nvrtcAddNameExpression(program, expression.encode())
        options = [*_FLAGS, f"--std={request.std}", f"--gpu-architecture={target}"]
        options += [f"-D{name}={value}" for name, value in request.defines]
        options += [f"-I{folder}" for folder in (*request.include_dirs, *folders)]
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if api.nvrtcCompileProgram(program, len(options), given):
            log = _read(api, program, "ProgramLog").decode(errors="replace").rstrip("\0")
            found = ERROR.search(log)
            raise Refused(found[1].strip() if found is not None else log.strip() or "it does not say why")
        return code_of(_read(api, program, "CUBIN"), _read(api, program, "PTX").decode(), kernels, variables)
    finally:
        api.nvrtcDestroyProgram(ctypes.byref(program))


def _read(api: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    api[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    api[f"nvrtcGet{what}"](program, data)
    return data.raw


def _header_folders() -> list[Path]:
    """The folders of the toolkit's headers, which are beside the library or in wheels beside its own."""
    path = library()
    assert path is not None
    roots = (path.parent.parent, path.parent.parent.parent / "cuda_runtime")
    found = [root / "include" for root in roots] + [root / "include/cccl" for root in roots]
    return [folder for folder in found if folder.is_dir()]


def device_text(text: str, folders: Sequence[Path]) -> str:
    """``text`` without what only the host has. Lines stay where they are. Headers of the standard library are those of
    libcu++ where it is in ``folders``, and otherwise none."""

    def include(match: re.Match[str]) -> str:
        known = match[2] != "cuda_tile.h" and any((folder / match[2]).is_file() for folder in folders)
        if known or ('"' in match[0] and not (INCLUDE_DIR / match[2]).is_file()):
            return match[0]
        ours = any((folder / "cuda/std" / match[2]).is_file() for folder in folders)
        return f"{match[1]}<cuda/std/{match[2]}>" if ours else ""

    text = _INCLUDE.sub(include, text)
    masked = without_directives(mask(text))
    tile = "".join(f"|{name}::" for name in _TILE_NAMES.findall(masked))
    outside = re.compile(
        _OUTSIDE.format(tile=tile.removeprefix("|") or "cuda::tiles", device=_DEVICE.pattern), re.DOTALL
    )
    for start, end in reversed(list(_of_host(masked, 0, len(masked), outside, outside))):
        text = f"{text[:start]}{blank(text[start:end])}{text[end:]}"
    return f"{_PRELUDE}#line 1\n{text}"


def _of_host(
    masked: str, start: int, end: int, kept: re.Pattern[str], outside: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    """The functions between two positions that only the host has, and declarations that are not ``kept``; in namespaces
    there those that are not of ``outside``."""
    while (found := re.compile(r"[;{]").search(masked, start, end)) is not None:
        labels = _ACCESS.match(masked, start)
        start, stop = labels.end() if labels is not None else start, found.start()
        head = masked[start:stop].lstrip()
        start = stop - len(head)
        if masked[stop] == ";":
            if not kept.match(head):
                yield start, stop + 1
            start = stop + 1
            continue
        last = closing(masked, stop)
        if _FUNCTION.search(head):
            if _TILE.search(head) or not _DEVICE.search(head):
                yield start, last + 1
            start = last + 1
        elif (scope := _SCOPE.match(head)) is not None:
            yield from _of_host(masked, stop + 1, last, outside if scope["space"] else _MEMBER, outside)
            # What follows the members is theirs, too: a semicolon, or variables of the type.
            start = last + 1 if scope["space"] else masked.find(";", last) + 1 or end
        else:  # a value in braces, or an enumeration
            begin, start = start, masked.find(";", last) + 1 or end
            if not kept.match(head):
                yield begin, start
