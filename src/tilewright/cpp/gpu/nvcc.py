"""SIMT kernels of a program through ``nvcc``, where one is installed: machine code, and what it calls kernels and
variables, as those that other files do not see have names of its own."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.backends.cuda_tools import failure_reason, run_tool, tool, tool_version
from tilewright.cpp.translation import Request
from tilewright.frontend.cpp.names import source_name

NAME = "nvcc"
_FLAGS = ("-x", "cu", "-ptx", "--extended-lambda", "--expt-relaxed-constexpr", "-lineinfo", "-w")
_CONDITION = "cudaGraphSetConditional"
_TILE = (13, 3)  # the first version that has tile code
ERROR = re.compile(r"^(.*(?:error|fatal)\b.*)$", re.MULTILINE)
_ENTRY = re.compile(r"^(?:\.visible |\.weak )*\.entry ([\w$.]+)", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?:\.visible |\.weak |\.extern )*\.(?:global|const) [^\n]*?([\w$.]+)(?:\[\d*\])*(?: =|;)", re.MULTILINE
)
# Parts of mangled names: literals, array bounds, what stands for parts before, and names after their lengths, those of
# internal linkage with an L.
_TOKEN = re.compile(r"L[a-z]n?\d+E|A\d+_|[ST]\d*[A-Z]*_|E\d+_|TnDa|Dpr|L?(?P<length>\d+)")
# What Clang writes before an argument for an `auto` parameter, and of restricted pointers in packs.
_OURS = {"TnDa": "", "Dpr": "Dp"}
_STATIC = re.compile(r"__nv_static_(?P<length>\d+)_")  # of internal linkage, in parts of programs
_NUMBER = re.compile(r"\$_(\d+)|(?<=E)(\d*)_")  # of a closure
_CLOSURE = re.compile(r"Ul(?:[^<>]|<[^<>]*>)*?E\d*_|<\$_\d+>")  # the two number them in different ways


class Refused(Exception):
    """Why nvcc gives no code for the kernels of a file."""


@dataclass(frozen=True)
class Code:
    """Machine code, and what it calls kernels and variables."""

    binary: bytes
    kernels: Mapping[str, str]
    variables: Mapping[str, str]


def available() -> bool:
    """Whether nvcc is installed."""
    return tool("nvcc") is not None


def identity() -> str:
    """What tells the nvcc that is installed from another one, without running it: part of cache keys."""
    return identity_of(tool("nvcc"))


def identity_of(path: Path | None) -> str:
    """What tells a file from another version of it."""
    if path is None:
        return "none"
    status = path.resolve().stat()
    return f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"


def compiled(
    request: Request, kernels: Iterable[str], variables: Sequence[str], target: str, *, part: bool = False
) -> Code:
    """The code of a file's SIMT ``kernels``, which may use ``variables``, for the architecture ``target``; ``part`` of
    that of a program, to be ``linked``. Refused where nvcc does not take the file, or it is not certain what it calls a
    kernel."""
    if _CONDITION in request.text:
        raise Refused(f"the conditions that its {_CONDITION} sets are not those of graphs here")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, ptx, cubin = (Path(folder, f"program.{ending}") for ending in ("cu", "ptx", "cubin"))
        source.write_text(f'#line 1 "{request.name}"\n{request.text}')
        separate = ("-rdc=true",) if part else ()
        flags = [*_FLAGS, *separate, f"-std={request.std}", f"-arch={target}", *_tile_flags(request.text)]
        flags += [f"-D{name}={value}" for name, value in request.defines]
        flags += [f"-I{include}" for include in request.include_dirs]
        _run([*flags, str(source)], ptx)
        # Drivers take machine code of later releases of a toolkit, but not its PTX.
        _run(["-cubin", *separate, f"-arch={target}", "-lineinfo", str(ptx)], cubin)
        return code_of(cubin.read_bytes(), ptx.read_text(), kernels, variables)


def code_of(binary: bytes, ptx: str, kernels: Iterable[str], variables: Iterable[str]) -> Code:
    """The machine code of ``ptx`` with its names. Refused where it is not certain what it calls a kernel."""
    names = paired(kernels, _ENTRY.findall(ptx))
    missing = next((kernel for kernel in kernels if kernel not in names), None)
    if missing is not None:
        raise Refused(f"which of its kernels {source_name(missing)} is, is not certain")
    return Code(binary, names, paired(variables, _VARIABLE.findall(ptx)))


def linked(parts: Sequence[bytes], target: str) -> bytes:
    """The machine code of a program from that of its files. Refused where it cannot be linked."""
    nvcc = tool(NAME)
    assert nvcc is not None
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        paths = [Path(folder, f"{number}.cubin") for number in range(len(parts))]
        for path, part in zip(paths, parts):
            path.write_bytes(part)
        made = Path(folder, "linked.cubin")
        ran = run_tool([str(nvcc.with_name("nvlink")), f"--arch={target}", *map(str, paths), "-o", str(made)])
        if ran.returncode or not made.is_file():
            raise Refused(failure_reason(ran, ERROR))
        return made.read_bytes()


def _tile_flags(text: str) -> Sequence[str]:
    version = tool_version("nvcc")
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) >= _TILE:
        return ("--enable-tile",)
    if "__tile" in text:
        raise Refused(f"nvcc {version} has no tile code, which is in the same file; 13.3 has")
    return ()


def _run(arguments: Sequence[str], made: Path) -> None:
    ran = run_tool([str(tool("nvcc")), *arguments, "-o", str(made)])
    if ran.returncode or not made.is_file():
        raise Refused(failure_reason(ran, ERROR))


def paired(ours: Iterable[str], theirs: Iterable[str]) -> dict[str, str]:
    """The symbols of nvcc for those of Clang, where it is certain which is meant.

    nvcc leaves out the mark of internal linkage, names anonymous namespaces after the file, and numbers closures by
    their types: those of one type are in the order of the source for both.
    """
    found, names = _by_common_name(theirs), dict[str, str]()
    for common, symbols in _by_common_name(ours).items():
        same = found.get(common, [])
        if len(same) == len(symbols) and (len(same) == 1 or len({_NUMBER.sub("", other) for other in same}) == 1):
            names.update(zip(sorted(symbols, key=_numbers), sorted(same, key=_numbers)))
    return names


def _numbers(symbol: str) -> list[int]:
    """The numbers of the closures in a symbol."""
    return [int(ours or theirs or -1) for ours, theirs in _NUMBER.findall(symbol)]


def _by_common_name(symbols: Iterable[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for symbol in symbols:
        found.setdefault(_common(symbol), []).append(symbol)
    return found


def _common(symbol: str) -> str:
    """What the mangled names of both compilers for one thing have in common."""
    if (static := _STATIC.match(symbol)) is not None:
        symbol = symbol[static.end() + int(static["length"]) + 1 :]
    if not symbol.startswith("_Z"):
        return symbol
    parts, position = ["_Z"], 2
    while position < len(symbol):
        token = _TOKEN.match(symbol, position)
        if token is None:
            parts.append(symbol[position])
            position += 1
        elif token["length"] is None:
            position = token.end()
            parts.append(_OURS.get(token.group(), token.group()))
        else:
            position = token.end() + int(token["length"])
            parts.append(_common_part(symbol[token.end() : position]))
    text = _CLOSURE.sub("(closure)", "".join(parts))
    text = re.sub(r"N(<[^<>]*>)E", r"\1", text)  # in no namespace but that of the file
    variable = re.fullmatch(r"_Z<(\w+)>", text)
    return text if variable is None else variable[1]


def _common_part(name: str) -> str:
    if name.startswith("_INTERNAL_"):
        return ""
    return "<(anonymous)>" if name.startswith("_GLOBAL__N_") else f"<{name}>"
