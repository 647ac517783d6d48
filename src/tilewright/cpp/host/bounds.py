"""Checks of what SIMT code accesses, for programs under the sanitizer, as LLVM text.

Each load, store and atomic operation asks the runtime for the address that it may use: its own, or one where it does no
harm once the runtime has noted what is wrong. A pointer stands for the object that it was made from, as in tile code: a
variable, or the allocation that it points into. A kernel names its variables in shared memory as it begins.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.cpp.host.parameters import by_value, parameter_type, split_parameters
from tilewright.frontend.cpp.locations import Locations
from tilewright.ir.location import Loc

INDEX = "__tw_simt_index"  # gives the coordinates of a thread
RUNTIME = {  # functions of the runtime that checked code calls
    "__tw_simt_checked": f"declare ptr @__tw_simt_checked(ptr, ptr, i64, i64, i32, ptr{', i32' * 6})",
    "__tw_simt_object": "declare void @__tw_simt_object(ptr, i64)",
    "__tw_simt_malloc": "declare ptr @__tw_simt_malloc(i64)",
    "__tw_simt_free": "declare void @__tw_simt_free(ptr)",
    "__tw_simt_free_sized": "declare void @__tw_simt_free_sized(ptr, i64)",
    INDEX: f"declare i32 @{INDEX}(i32)",
}
_HEAP = dict.fromkeys(("malloc", "_Znwm", "_Znam"), "__tw_simt_malloc")
_HEAP |= dict.fromkeys(("free", "_ZdlPv", "_ZdaPv"), "__tw_simt_free")
_HEAP |= dict.fromkeys(("_ZdlPvm", "_ZdaPvm"), "__tw_simt_free_sized")
_HEAP_CALL = re.compile(rf"@({'|'.join(_HEAP)})(?=\()")
_UNKNOWN, _OF_LAUNCH = "0", "-1"  # sizes of variables: of none, and of one that a launch sizes
_LOCAL = r'%(?:"[^"]*"|[-\w.$]+)'
_VALUE = r'[%@](?:"[^"]*"|[-\w.$]+)'
_LOAD, _STORE, _ATOMIC = range(3)  # as the runtime numbers them; an atomic load or store is _ATOMIC more
_ACCESSES = (  # with the type of what is accessed; what is done
    (
        re.compile(rf"^  {_LOCAL} = load (?P<atomic>atomic )?(?:volatile )?(?P<type>.+?), ptr (?P<pointer>{_VALUE})"),
        _LOAD,
    ),
    (re.compile(rf"^  store (?P<atomic>atomic )?(?:volatile )?(?P<type>.+), ptr (?P<pointer>{_VALUE})"), _STORE),
    (
        re.compile(rf"^  {_LOCAL} = (?P<atomic>atomicrmw) (?:volatile )?xchg ptr (?P<pointer>{_VALUE}), (?P<type>.+)"),
        _STORE,
    ),
    (re.compile(rf"^  {_LOCAL} = atomicrmw (?:volatile )?\w+ ptr (?P<pointer>{_VALUE}), (?P<type>.+)"), _ATOMIC),
    (re.compile(rf"^  {_LOCAL} = cmpxchg (?:weak )?(?:volatile )?ptr (?P<pointer>{_VALUE}), (?P<type>.+)"), _ATOMIC),
)
_COPY = re.compile(
    r"^  (?:tail )?call void @llvm\.mem(?:cpy|move|set)[.\w]*\((?P<target>[^,]*), (?P<source>[^,]*), "
    r"i(?:32|64) (?P<length>[^,]+), i1 "
)
_POINTER = re.compile(rf"^ptr .*?(?P<pointer>{_VALUE})$")
_DERIVED = re.compile(rf"^  (?P<name>{_LOCAL}) = getelementptr .*?, ptr (?P<base>{_VALUE})(?:,|$)")
_VARIABLE = re.compile(rf"^  (?P<name>{_LOCAL}) = alloca (?P<type>.+?)(?P<count>, i(?:32|64) .*?)?(?:, align \d+)?$")
_OF_THREAD = re.compile(rf"^  (?P<name>{_LOCAL}) = call [^@]*@llvm\.threadlocal\.address\.p0\(.*?(?P<base>@[^)]+)\)")
_GLOBAL = re.compile(rf"^(?P<name>{_VALUE}) = (?P<how>[^\n]*?)\b(?:global|constant) (?P<type>[^\n]+)$", re.MULTILINE)
_LABEL = re.compile(r'^(?:"[^"]*"|[-\w.$]+):')
# Loops of accesses that ask are long enough; unrolled as programs wish, some take minutes to compile.
_UNROLL = re.compile(r'!\{!"llvm\.loop\.unroll\.(?:enable|full|count)"[^}]*\}')


@dataclass
class _Module:
    """What the functions of a module share: ``variables`` are its own, with their sizes; each thread of the machine has
    its own of those in ``shared``."""

    locations: Locations
    variables: Mapping[str, str]
    shared: Sequence[str]
    location_globals: list[str] = field(default_factory=list)  # globals that say where accesses are
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def location_name(self, loc: Loc, alignment: str, number: int) -> str:
        """A global that says where an access is, and of what alignment."""
        data = loc.file.encode()
        text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in data)
        self.location_globals += [
            f'@"tw.file.{number}" = private constant [{len(data) + 1} x i8] c"{text}\\00"',
            f'@"tw.place.{number}" = private constant {{ ptr, i32, i32, i32 }} '
            f'{{ ptr @"tw.file.{number}", i32 {loc.line}, i32 {loc.column}, i32 {alignment} }}',
        ]
        return f'@"tw.place.{number}"'


def with_checks(text: str, functions: set[str], kernels: Sequence[str], pattern: re.Pattern[str]) -> str:
    """The module ``text`` in which ``functions``, whose definitions ``pattern`` finds, ask before each access; of
    these, ``kernels`` begin a thread."""
    metadata = {int(number): rest for number, rest in re.findall(r"^!(\d+) = (?:distinct )?(.*)$", text, re.MULTILINE)}
    variables, shared = {}, []
    for match in _GLOBAL.finditer(text):
        type = parameter_type(match["type"].rstrip(",")).rstrip(",")
        variables[match["name"]] = _OF_LAUNCH if type.startswith("[0 x ") else _size(type)
        if "thread_local" in match["how"]:
            shared.append(match["name"])
    module = _Module(Locations(metadata), variables, shared)

    def checked(match: re.Match[str]) -> str:
        name = match[1].strip('"')
        return match.group() if name not in functions else _function(module, match.group(), begins=name in kernels)

    text = _UNROLL.sub('!{!"llvm.loop.unroll.disable"}', pattern.sub(checked, text))
    declared = [line for name, line in RUNTIME.items() if not re.search(rf"^declare [^\n]*@{name}\(", text, re.M)]
    return "\n".join([text, *module.location_globals, *declared, ""])


def _size(type: str) -> str:
    return f"ptrtoint (ptr getelementptr ({type}, ptr null, i32 1) to i64)"


def _function(module: _Module, definition: str, *, begins: bool) -> str:
    head, *lines = _HEAP_CALL.sub(lambda m: f"@{_HEAP[m[1]]}", definition).split("\n")
    origins, sizes, shared = _objects(module, head, lines)
    result = [head]
    if begins:
        first = 1 if _LABEL.match(lines[0]) else 0
        named = [f"  call void @__tw_simt_object(ptr {name}, i64 {module.variables[name]})" for name in module.shared]
        lines[first:first] = named
    for line in lines:
        for start, end, size, alignment, what in reversed(list(_accesses(line))):
            pointer = line[start:end]
            base = pointer
            while base in origins:
                base = origins[base]
            whole = base == pointer and not _COPY.match(line)
            if whole and base not in shared and sizes.get(base, _UNKNOWN) not in (_UNKNOWN, _OF_LAUNCH):
                continue  # a variable as a whole, of this thread
            debug = re.search(r"!dbg !(\d+)", line)
            number = next(module.numbers)
            loc = module.locations.loc(None if debug is None else int(debug[1]))
            place = module.location_name(loc, alignment, number)
            coordinates = [f"%tw.c{number}.{i}" for i in range(6)]
            result += [f"  {c} = call i32 @{INDEX}(i32 {i})" for i, c in enumerate(coordinates)]
            given = [f"ptr {pointer}", f"ptr {base}", f"i64 {size}", f"i64 {sizes.get(base, _UNKNOWN)}"]
            given += [f"i32 {what}", f"ptr {place}", *(f"i32 {c}" for c in coordinates)]
            result.append(f"  %tw.at{number} = call ptr @__tw_simt_checked({', '.join(given)})")
            line = f"{line[:start]}%tw.at{number}{line[end:]}"
        result.append(line)
    return "\n".join(result)


def _objects(module: _Module, head: str, lines: Sequence[str]) -> tuple[dict[str, str], dict[str, str], set[str]]:
    """From what each pointer of a function was made, the sizes of its variables, and those in shared memory."""
    origins: dict[str, str] = {}
    shared = set(module.shared)
    sizes = dict(module.variables)
    for parameter in split_parameters(head[head.index("(") + 1 : head.rindex(")")]):
        returned = re.search(r"\bsret\((.*?)\) ", parameter)
        if type := by_value(parameter) or (returned[1] if returned else ""):
            sizes[parameter.split()[-1]] = _size(type)
    for line in lines:
        if (derived := _DERIVED.match(line)) is not None:
            origins[derived["name"]] = derived["base"]
        elif (own := _OF_THREAD.match(line)) is not None:
            sizes[own["name"]] = module.variables.get(own["base"], _UNKNOWN)
            shared.add(own["name"])
        elif (variable := _VARIABLE.match(re.sub(r", !.*", "", line))) is not None:
            sizes[variable["name"]] = _UNKNOWN if variable["count"] else _size(variable["type"])
    return origins, sizes, shared


def _accesses(line: str) -> Iterator[tuple[int, int, str, str, int]]:
    """The pointers that ``line`` accesses memory at: where they are in it, the bytes from there, their alignment, and
    what is done to them."""
    for pattern, what in _ACCESSES:
        found = pattern.match(line)
        if found is not None:
            what += _ATOMIC if found.groupdict().get("atomic") else 0
            size = _size(parameter_type(found["type"]).rstrip(","))
            yield *found.span("pointer"), size, _alignment(line), what
            return
    copy = _COPY.match(line)
    for name in ("target", "source") if copy is not None else ():
        assert copy is not None
        pointer = _POINTER.match(copy[name])
        if pointer is not None:
            start = copy.start(name)
            yield (
                start + pointer.start("pointer"),
                start + pointer.end("pointer"),
                copy["length"],
                _alignment(copy[name]),
                _STORE if name == "target" else _LOAD,
            )


def _alignment(text: str) -> str:
    found = re.search(r"\balign (\d+)", text)
    return found[1] if found else "1"
