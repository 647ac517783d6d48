"""What is done to the text of a program before the compiler sees it. Line numbers stay as they are.

SIMT kernels, the functions that they call and kernel launches are CUDA syntax or need SIMT's own built-in variables:
they are blanked where tile code is compiled. The host part of a program has the SIMT code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tilewright.frontend.cpp.attributes import blank, closing, location_at, mask, rewrite_hints
from tilewright.frontend.cpp.launches import launches_as_calls, without_launches
from tilewright.frontend.cpp.locations import INCLUDE_DIR, as_written
from tilewright.ir.errors import TileUnsupportedFeatureError

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\(?:.|\n))*", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
# What CUDA's keywords stand for, which some programs write themselves.
_ATTRIBUTE = re.compile(
    r"\b__attribute__\s*\(\(\s*(global|device|host|shared|constant|managed|tile|tile_global)\s*\)\s*\)"
)
_SIMT = re.compile(r"\b__(?:global|device)__\b")
DEVICE = re.compile(r"\b__(?:global|device|tile_global|tile)__\b")
# With these, a function is for other code too.
_SHARED = re.compile(r"\b(?:__host__|__tile__|constexpr|consteval)\b")


def prepare(text: str, name: str, *, launches: bool = False) -> str:
    """``text`` with hints made visible to the compiler, SIMT kernels emptied, and launches removed or, to instantiate
    what is launched, made calls."""
    text = without_simt_bodies(text)
    text = launches_as_calls(text, name, marked=True) if launches else without_launches(text, name)
    return rewrite_hints(text, name)


def with_keywords(text: str) -> str:
    """``text`` with ``__shared__`` for ``__attribute__((shared))``, and so on, at its place."""
    return _ATTRIBUTE.sub(lambda m: f"__{m[1]}__" + blank(m.group()[len(m[1]) + 4 :]), text)


def needs_expansion(text: str, include_dirs: Iterable[str | os.PathLike[str]]) -> bool:
    """Whether what is rewritten may be in macros, or in files of the user that ``text`` includes."""
    words = ("cutile", "__global__", "__device__", "asm", "<<<", *(["__tile_global__"] if "cutile" in text else []))
    defines = [define.group() for define in _DEFINE.finditer(text)]
    if any(word in define for define in defines for word in words):
        return True
    names = _INCLUDE.findall(text)
    return any((Path(directory) / name).is_file() for directory in include_dirs for name in names)


def headers_first(
    text: str, defines: Mapping[str, str | int], include_dirs: Sequence[str | os.PathLike[str]]
) -> tuple[str, dict[str, str | int]]:
    """What goes before ``text``, and the definitions that are left for the command line.

    Names such as N and M stand for template parameters in our headers, and are what programs like to define.
    So where there are definitions, the headers are read before them.
    """
    texts = [text]
    for name in _INCLUDE.findall(text):
        files = (Path(directory) / name for directory in include_dirs)
        texts += [file.read_text(errors="replace") for file in files if file.is_file()][:1]
    headers = [name for t in texts for name in _INCLUDE.findall(t) if (INCLUDE_DIR / name).is_file()]
    own = {key: value for key, value in defines.items() if key.startswith(("TW_", "__CUDA_", "CUDA_API_"))}
    if len(own) == len(defines) and not any(map(_DEFINE.search, texts)):
        return "", own
    lines = [f'#include "{name}"' for name in dict.fromkeys(headers)]
    lines += [f"#define {key} {value}" for key, value in defines.items() if key not in own]
    return "".join(f"{line}\n" for line in lines), own


_START = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|#[ \t]*include[ \t]*(?:<([\w./]+)>|"([\w./]+)")', re.DOTALL)


def first_headers(text: str, include_dirs: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The headers of the C++ standard library that ``text`` includes before anything else but other headers of the
    system and ours: what they declare does not depend on ``text``."""
    found, at = set(), 0
    while (match := _START.match(text, at)) is not None:
        at, name = match.end(), match[1] or match[2]
        if name is None or (INCLUDE_DIR / name).is_file():
            continue
        if match[2] or any(Path(folder, name).is_file() for folder in include_dirs):
            break
        if "." not in name:
            found.add(name)
    return sorted(found)


def without_simt_bodies(text: str) -> str:
    """``text`` with the bodies of SIMT kernels emptied, and a mark in those of functions that only SIMT code calls."""
    masked = mask(text)
    for match, start, end in reversed(list(bodies(masked, _SIMT))):
        mark = ""
        if match.group() == "__device__":
            head = re.split(r"[;{}]", masked[:start])[-1]
            is_function = re.search(r"\)\s*(?:const|noexcept|override|final|&|\s|->[\w\s:<>,*&]+)*\Z", head)
            if is_function is None or _SHARED.search(head) or "__global__" in head:
                continue
            mark = " ::__tw_no_simt_function();"
        text = f"{text[: start + 1]}{mark}{blank(text[start + 1 : end])}{text[end:]}"
    return text


def bodies(masked: str, words: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int, int]]:
    """The ``words`` that begin definitions in a text without comments and strings, with the positions of the braces
    around their bodies."""
    for match in words.finditer(masked):
        start = re.compile(r"[;{]").search(masked, match.end())
        end = closing(masked, start.start()) if start is not None and start.group() == "{" else len(masked)
        if start is not None and end < len(masked):  # the compiler says which brace is missing
            yield match, start.start(), end


# What device code may not hold, and what to do instead; the compiler names the rest of what tile code may not hold.
_LAUNCH = (r"<<<", "a kernel that launches a kernel is not available on a CPU; launch it from the host")
_NOT_OF_A_KERNEL = (
    (
        r"\b__cluster_dims__\b(?!\s*\((?:\s*1\s*,?)+\))",
        "clusters of blocks are not available on a CPU; launch blocks that need no others",
    ),
)
# The same of functions that are for devices only: those for hosts, too, may have parts that no device sees.
_NOT_ON_A_DEVICE = ((r"\b(?:throw|try)\b", "SIMT code has no exceptions; return an error, or call __trap()"),)


def refuse_device_constructs(text: str, name: str) -> None:
    """TileUnsupportedFeatureError for what device code can say and a CPU cannot do."""
    masked = mask(text)
    for match, start, end in bodies(masked, DEVICE):
        begin = max(masked.rfind(c, 0, match.start()) for c in ";{}") + 1
        of_simt = (_LAUNCH, *(() if "__host__" in masked[begin:start] else _NOT_ON_A_DEVICE))
        in_body = (_LAUNCH,) if "tile" in match.group() else of_simt
        for (pattern, message), first, last in [
            *((refused, begin, start) for refused in _NOT_OF_A_KERNEL),
            *((refused, start, end) for refused in in_body),
        ]:
            found = re.compile(pattern).search(masked, first, last)
            if found is not None:
                raise TileUnsupportedFeatureError(
                    message, as_written(location_at(text, found.start(), name), text, name)
                )


# A type and an alignment may stand between.
_STORAGE = re.compile(r"\b(extern|static)(\s(?:[\w\s:<>,*]|\([^()]*\))*?)__shared__\b")


# Which C++ has at the beginning of a declaration only, where `__shared__` is more than an attribute.
_ALIGNED = re.compile(r"(?<=\b__shared__)([\w\s:<>,*]*?\b)alignas(?=\s*\()")


def with_dynamic_shared(text: str) -> str:
    """``text`` with the storage of ``__shared__`` variables that are declared ``extern`` or ``static``, and what says
    how they are aligned, as for a CPU."""
    text = _ALIGNED.sub(r"\1_Alignas", text)
    masked = mask(text)
    for match in reversed(list(_STORAGE.finditer(masked))):
        words = "extern __thread" if match[1] == "extern" else "__shared__"
        text = f"{text[: match.start()]}{words}{text[match.start(2) : match.end(2)]}{text[match.end() :]}"
    return text


def declared_kernels(text: str) -> list[str]:
    """The names of the tile kernels that ``text`` itself declares, templates among them, in source order."""
    heads = re.findall(r"\b__tile_global__\b([^;{}]*)", mask(text))
    found = (re.search(r"(\w+)\s*\(", re.sub(r"\b__\w+__\s*\([^()]*\)", "", head)) for head in heads)
    return list(dict.fromkeys(match.group(1) for match in found if match is not None))


def defines_main(text: str) -> bool:
    """Whether ``text`` is a program: one with host code of its own."""
    return re.search(r"\bmain\s*\([^;{]*\)\s*(?:noexcept\s*)?(?:->\s*int\s*)?(?:try\s*)?\{", mask(text)) is not None
