"""Functions of the host that kernels call, and of the device that the host calls: refused, as nvcc refuses them.

That a function is for devices, too, stands in its declaration, of which a module of LLVM only keeps the line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.frontend.cpp.attributes import mask, opening, without_directives
from tilewright.frontend.cpp.declarations import Declaration, declaration_begin, declarations, spaces_of
from tilewright.frontend.cpp.llvm_instruction import debug_of, instruction
from tilewright.frontend.cpp.llvm_module import Definition, called_from, names_in, parts_of
from tilewright.frontend.cpp.locations import INCLUDE_DIR, Locations
from tilewright.frontend.cpp.names import source_name
from tilewright.ir.errors import TileUnsupportedFeatureError
from tilewright.ir.location import UNKNOWN, Loc
from tilewright.ir.reachable import reachable

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\(?:.|\n))*)", re.MULTILINE)
_COORDINATES = ("__tw_bid", "__tw_num_blocks")  # of tile code, which has handles in the types of its other functions
_OF_HOSTS = re.compile(r"/__(?:algorithm|random)/|/random(?:\.\w+)?$")
_CONSTANT = re.compile(r"(?i:constexpr)(?!_SINCE_CXX2[36])|consteval")
_MOST_FILES = 2048  # of which it is kept what they say: those of a program
_DECLARATORS = r"(?:[\w*&\s\[\]=]*,)*\s*(?:(?:const|volatile|__\w+__(?:\s*\(\d+\))?|[*&])\s*)*"
_BEFORE_NAME = re.compile(_DECLARATORS)
_BEFORE_BRACES = re.compile(rf"{_DECLARATORS}(?:(?!(?:struct|class|union|enum)\b)\w+\s*(?:=\s*)?)?")
_CONFIGURES = "_ZN9__tw_host9configure"
_LAMBDA = re.compile(r"U[lT]|\$_\d")  # in the symbol of its operator(): it is for where it is written


@dataclass(frozen=True)
class Space:
    """A kind of code: what is said of a function, the words that make functions callable there, and the one to add."""

    kind: str
    words: tuple[str, ...]
    advice: str


SIMT = Space("runs on the device", ("__device__", "__global__", "constexpr", "consteval"), "__host__ __device__")
_DEVICE = re.compile(r"\b__device__\b")
_ELSEWHERE = re.compile(r"\b(?:__host__|__global__|__tile__|constexpr|consteval)\b")
# Those that are for SIMT code alone are refused when their bodies, which are left out, would be called.
TILE = Space("is tile code", ("__tile__", "__tile_global__", "__device__", "constexpr", "consteval"), "__tile__")
# What is for neither is the host's.
DEVICES = Space("runs on a device", (*SIMT.words, *TILE.words), SIMT.advice)


def refuse_host_functions(
    llvm: str, kernels: Collection[str], space: Space, texts: Mapping[str, str], defines: Mapping[str, str | int]
) -> None:
    """TileUnsupportedFeatureError, at the call, for a function of the host alone that the ``kernels`` of a module lead
    to. ``texts`` are the files of the user, ``defines`` the compiler's macros."""
    parts, source = parts_of(llvm), Source(llvm, texts, defines)
    constants = {name: names_in(v.rest) for name, v in parts.variables.items() if v.kind == "constant"}
    tables = {name: named & parts.calls.keys() for name, named in constants.items() if not name.startswith("_ZT")}
    calls = {name: named.union(*(tables[t] for t in named & tables.keys())) for name, named in parts.calls.items()}
    called = called_from(calls, kernels) - set(kernels)
    for symbol in sorted(called):
        function = source.function_without(space, symbol)
        if function is None:
            continue
        ways = [*sorted(name for name in tables if symbol in tables[name]), symbol]
        callers = [name for name in sorted(called | set(kernels)) if symbol in calls[name]]
        found = [("calls", source.call(name, symbol), name) for name in callers]
        found += [("has a pointer to", source.use(name, way), name) for name in callers for way in ways]
        verb, at, caller = min((each for each in found if each[1] is not None), key=lambda each: each[1] is UNKNOWN)
        raise TileUnsupportedFeatureError(
            f"{source_name(caller)}() {space.kind} and {verb} {function}(), which is for the host alone; "
            f"declare it {space.advice}, or constexpr",
            source.declaration(symbol) if at is UNKNOWN else at,  # a header of ours calls it
        )


def refuse_direct_calls(llvm: str, kernels: Collection[str]) -> None:
    """TileUnsupportedFeatureError, at the call, for one of ``kernels`` that is called like a function: launches take
    note of their configuration first."""
    parts = parts_of(llvm)
    for caller in sorted(name for name, called in parts.calls.items() if called & set(kernels)):
        lines, configured = parts.functions[caller].body.split("\n"), False
        for number, callee in enumerate(instruction(line).callee for line in lines):
            if callee in kernels and not configured:
                at = next(filter(None, map(debug_of, lines[number:])), None)  # that of an invoke is on its next line
                raise TileUnsupportedFeatureError(
                    f"the kernel {source_name(callee)} is called like a function; kernels are launched, by the host: "
                    f"{source_name(callee)}<<<grid, block>>>(...)",
                    UNKNOWN if at is None else Locations(parts.metadata).loc(at),
                )
            configured = callee.startswith(_CONFIGURES) or (configured and callee not in kernels)


def refuse_device_functions(llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> None:
    """TileUnsupportedFeatureError, at the call, for a function of the device alone that one of the host calls."""
    source, calls = Source(llvm, texts, defines), parts_of(llvm).calls
    only = {symbol for symbol in calls if source.is_for_device_alone(symbol)}
    for caller in sorted(calls):
        for symbol in sorted(calls[caller] & only):
            at = source.call(caller, symbol)
            if at is not None and source.function_without(DEVICES, caller) is not None:
                raise TileUnsupportedFeatureError(
                    f"{source_name(caller)}() is for the host and calls {source.name(symbol)}(), which is for the "
                    "device alone; declare it __host__ __device__, or launch a kernel that calls it",
                    at,
                )


def refuse_kernels_of_hosts(llvm: str, kernels: Collection[str], texts: Mapping[str, str]) -> None:
    """TileUnsupportedFeatureError for one of ``kernels``, which the module has and the pass for devices has not."""
    for symbol in sorted(kernels):
        raise TileUnsupportedFeatureError(
            f"{source_name(symbol)}() has no code for devices, where __CUDA_ARCH__ is defined; define or instantiate a "
            "kernel for both sides",
            Source(llvm, texts, {}).declaration(symbol),
        )


def device_functions(llvm: str, texts: Mapping[str, str]) -> list[str]:
    """The functions of the user for devices that other files may call, or with variables that these may use."""
    source = Source(llvm, texts, {})
    inside = {"linkonce_odr", "internal", "available_externally"}
    seen = (s for s, each in source.functions.items() if inside.isdisjoint(each.head.partition("@")[0].split()))
    return [s for s in seen if source.is_for_devices(s)]


def refuse_tile_functions(
    llvm: str, kernels: Collection[str], texts: Mapping[str, str], defines: Mapping[str, str | int]
) -> None:
    """TileUnsupportedFeatureError, at the call, for tile code that other code calls, be it by way of our headers. The
    tile ``kernels`` of the module are launched."""
    declared = ((name, line) for name, line in parts_of(llvm).declared.items() if name.startswith("__tw_"))
    intrinsics = {name for name, line in declared if name in _COORDINATES or "addrspace(100)" in line}
    if not intrinsics:
        return
    calls = parts_of(llvm).calls
    callers = {name: set[str]() for called in calls.values() for name in called}
    for caller in calls.keys() - set(kernels):
        for name in calls[caller]:
            callers[name].add(caller)
    tile = set(reachable(intrinsics & callers.keys(), lambda name: callers.get(name, set())))
    source = Source(llvm, texts, defines)
    for caller in sorted(tile - intrinsics):
        if source.function_without(TILE, caller) is None:
            continue
        for symbol in sorted(calls[caller] & tile):
            at = source.call(caller, symbol)
            if at is not None:
                own = f"{source_name(symbol)}(), which is tile code"
                called = "a function of tile code" if symbol in intrinsics else own
                raise TileUnsupportedFeatureError(
                    f"{source_name(caller)}() is not tile code and calls {called}; launch a tile kernel that calls it",
                    source.declaration(caller) if at is UNKNOWN else at,
                )


class Source:
    """What the user's files say of the functions and variables of a module."""

    def __init__(self, llvm: str, texts: Mapping[str, str], defines: Mapping[str, str | int]) -> None:
        given = tuple((macro, str(value)) for macro, value in defines.items())
        self._texts = texts
        self._words: dict[str, re.Pattern[str]] = {}  # by what is said of a space
        self._locations = Locations(parts_of(llvm).metadata)
        self.functions = parts_of(llvm).functions
        self._masked = {file: _masked(each) for file, each in texts.items()}
        self._defines = [*(pair for each in texts.values() for pair in _defines_of(each)), *given]
        self._spaces = spaces_of(self._masked.values())
        self._macros: dict[str, set[str]] = {}  # what each stands for, in any of the files
        for name, value in self._defines:
            if not name.startswith("__"):  # the toolkit's
                self._macros.setdefault(name, set()).add(value)

    def _subprogram(self, symbol: str) -> int | None:
        """The number of its metadata."""
        return self.functions[symbol].subprogram

    def name(self, symbol: str) -> str:
        """What a function is called in the source, without its class and its template arguments."""
        number = self._subprogram(symbol)
        fields = {} if number is None else self._locations.fields(number)
        return re.sub(r"(?<!operator)<.*", "", fields.get("name", ""))

    def declaration(self, symbol: str) -> Loc | None:
        """Where a function is defined."""
        number = self._subprogram(symbol)
        return None if number is None else self._locations.function(number)

    def function_without(self, space: Space, symbol: str) -> str | None:
        """The name of a function of the user that is not declared to be of ``space``; None for all others."""
        number = self._subprogram(symbol)
        fields = {} if number is None else self._locations.fields(number)
        loc = self.declaration(symbol)
        artificial = "DIFlagArtificial" in fields.get("flags", "") or loc is None or not loc.line
        function = self.name(symbol)
        if artificial or loc is None or loc.file not in self._texts or not function:
            return None
        if self.is_lambda(symbol):
            return None
        if space.kind not in self._words:
            self._words[space.kind] = re.compile(rf"\b(?:{'|'.join(_words(space, self._defines))})\b")
        words, declared, own = self._words[space.kind], False, self._definitions(symbol)
        for each in (self._masked[loc.file], *self._masked.values()):  # most say it where they are defined
            for found in declarations(each, function) if function in each else ():
                says = words.search(found.head) or re.search(r"=\s*default\b", found.head)
                if says and not found.is_in_body and self._may_be_of(found, own):
                    return None  # a body can say nothing new of a function
                declared = True
        return function if declared and not words.search(self._head_at(loc)) else None

    def _may_be_of(self, found: Declaration, own: Collection[Declaration]) -> bool:
        """Whether a declaration may be of a function that is defined by one of ``own``."""
        if not own or any("namespace" in value for _, value in self._defines):  # macros have made it, or where it is
            return True
        return any(found.may_be_of(each, *self._spaces) for each in own)

    def is_lambda(self, symbol: str) -> bool:
        """Whether a function is the body of a lambda of the user."""
        loc = self.declaration(symbol)
        ours = loc is not None and loc.file in self._texts
        return ours and self.name(symbol) == "operator()" and _LAMBDA.search(symbol) is not None

    def _head_at(self, loc: Loc) -> str:
        """What stands at a place of a file up to a body, of which a macro may have made a declaration."""
        text = self._masked[loc.file]
        start = self._start_of(loc)
        begin, body = declaration_begin(text, start), re.compile(r"[;{]").search(text, start)
        return text[begin : body.start() if body is not None else len(text)]

    def _start_of(self, loc: Loc) -> int:
        """Where the line of a place begins in the text of its file."""
        return sum(map(len, self._masked[loc.file].splitlines(keepends=True)[: loc.line - 1]))

    def is_for_devices(self, symbol: str) -> bool:
        """Whether a function of the user is defined with ``__device__``."""
        return any(_DEVICE.search(self._expanded(each.head)) for each in self._definitions(symbol))

    def is_for_device_alone(self, symbol: str) -> bool:
        """Whether a function of the user is defined with ``__device__``, and no word makes it callable elsewhere."""
        heads = (self._expanded(each.head) for each in self._definitions(symbol))
        return any(_DEVICE.search(head) and not _ELSEWHERE.search(head) for head in heads)

    def _definitions(self, symbol: str) -> list[Declaration]:
        """What is declared by the name of a function of the user in the line that defines it, of what other functions
        have in their names if there are several."""
        loc, name = self.declaration(symbol), self.name(symbol)
        if not name or loc is None or not loc.line or loc.file not in self._masked:
            return []
        end = self._start_of(replace(loc, line=loc.line + 1))
        found = list(declarations(self._masked[loc.file], name, self._start_of(loc), end))
        told = [each for each in found if all(f"{len(space)}{space}" in symbol for space in each.path)]
        longest = max((len(each.path) for each in told), default=0)
        return [each for each in told if len(each.path) == longest] or found

    def is_for_hosts_alone(self, symbol: str) -> bool:
        """Whether a function of the C++ library is an algorithm, or makes random numbers, and is not constexpr."""
        loc = self.declaration(symbol)
        if loc is None or _OF_HOSTS.search(loc.file) is None:
            return False
        lines = Path(loc.file).read_text(errors="replace").splitlines()
        before = re.split("[;{}]", "\n".join(lines[max(loc.line - 5, 0) : loc.line - 1]))[-1]
        return _CONSTANT.search(before + lines[loc.line - 1]) is None

    def _expanded(self, head: str) -> str:
        """``head`` with all that its macros, and theirs, may stand for behind it."""
        known: set[str] = set()
        while names := (set(re.findall(r"\w+", head)) & self._macros.keys()) - known:
            known |= names
            values = [self._macros[name] for name in sorted(names)]
            # what a macro is in one case and not in the other is not known
            head += "".join(f" {v}{' __host__' * (len(each) > 1)}" for each in values for v in each)
        return head

    def is_of_a_library(self, symbol: str) -> bool:
        """Whether a function is defined in a file that is neither the user's nor a header of ours."""
        loc = self.declaration(symbol)
        if loc is None or not loc.line:
            return False
        return loc.file not in self._texts and not Path(loc.file).is_relative_to(INCLUDE_DIR)

    def is_variable_of_the_host(self, number: int) -> bool:
        """Whether a variable of the user, by the number of its metadata, is declared for no device."""
        head = self._declared(number)
        return head is not None and re.search(r"\b__(?:device|constant|managed|shared|tile)__\b", head) is None

    def is_variable_of_the_device(self, number: int) -> bool:
        """Whether a variable of the user, by the number of its metadata, is declared for the device alone."""
        return self.is_variable_of_a_device(number) and "__managed__" not in (self._declared(number) or "")

    def is_variable_of_a_device(self, number: int) -> bool:
        """Whether a variable of the user, by the number of its metadata, is declared for devices."""
        return bool(re.search(r"\b__(?:device|constant|managed)__\b", self._declared(number) or ""))

    def is_shared(self, number: int) -> bool:
        """Whether a variable of the user, by the number of its metadata, is declared to be in shared memory."""
        return bool(re.search(r"\b__shared__\b", self._declared(number) or ""))

    def is_constant(self, number: int) -> bool:
        """Whether a variable of the user, by the number of its metadata, is declared to be in constant memory."""
        return bool(re.search(r"\b__constant__\b", self._declared(number) or ""))

    def variable(self, number: int) -> Loc | None:
        """Where a variable of the user is declared, by the number of its metadata; None for others."""
        fields = self._variable(number)
        loc = self._locations.variable(fields)
        if loc is None or loc.file not in self._masked:
            return None
        named = re.search(rf"\b{re.escape(fields['name'])}\b", self._line(loc))
        return loc if named is None else replace(loc, column=named.start(), end_line=loc.line, end_column=named.end())

    def variable_name(self, number: int) -> str:
        """The name of a variable, by the number of its metadata."""
        return self._variable(number).get("name", "")

    def initialized(self, number: int) -> bool:
        """Whether the line that declares a variable of shared memory, by the number of its metadata, has a value."""
        loc, name = self.variable(number), self.variable_name(number)
        # The line of what a macro declares may mention it, and assign it.
        declarator = rf"\b__shared__\b[^;{{}}]*?\b{re.escape(name)}\b\s*(?:\[[^][]*\]\s*)*([={{(])?"
        found = None if loc is None else re.search(declarator, self._line(loc))
        return found is not None and found[1] is not None

    def _line(self, loc: Loc) -> str:
        return self._masked[loc.file][self._start_of(loc) : self._start_of(replace(loc, line=loc.line + 1))]

    def _variable(self, number: int) -> dict[str, str]:
        return self._locations.fields(int(self._locations.fields(number).get("var", "!-1")[1:]))

    def place(self, number: int) -> Loc:
        """The location with this number in the metadata."""
        return self._locations.loc(number)

    def _declared(self, number: int) -> str | None:
        """The declaration of a variable of the user, by the number of its metadata; None for others."""
        fields = self._variable(number)
        loc = self._locations.variable(fields)
        if loc is None or loc.file not in self._masked or "declaration" in fields:
            return None
        text = self._masked[loc.file]
        start = self._start_of(loc)
        # Others may be declared in the line; what a macro makes of a name is not found there.
        named = re.compile(rf"\b{re.escape(fields['name'])}\b|$", re.M).search(text, start)
        at = start if named is None else named.start()
        end, begin, before, form = re.compile(r"[;{}]").search(text, at), declaration_begin(text, at), at, _BEFORE_NAME
        while text[begin - 1 : begin] == "}" and form.fullmatch(text, begin, before):  # of a value, or a class
            before, form = opening(text, begin - 1), _BEFORE_BRACES
            begin = declaration_begin(text, before)
        return self._expanded(text[begin : end.start() if end is not None else len(text)])

    def use(self, user: str, name: str) -> Loc:
        """Where ``user`` mentions ``name`` first."""
        return next(self._places(self.functions[user], name), UNKNOWN)

    def call(self, caller: str, symbol: str) -> Loc | None:
        """Where ``caller`` calls ``symbol``."""
        found = self.functions.get(caller)
        return None if found is None else next(self._places(found, symbol, called=True), None)

    def _places(self, function: Definition, name: str, *, called: bool = False) -> Iterator[Loc]:
        """Where a function mentions ``name``, or calls it."""
        lines = function.body.split("\n")
        for number, line in enumerate(lines):
            if name not in line or name not in names_in(line):
                continue
            i = instruction(line)
            debug = instruction(lines[number + 1]).debug if i.op == "invoke" else i.debug
            if debug is not None and (i.callee == name or not called):
                yield self._locations.loc(debug)


def texts_of(name: str, text: str, included: Iterable[str]) -> dict[str, str]:
    """The file ``name`` of a program and those that it includes."""
    paths = {file: Path(file) for file in included}
    return {name: text} | {f: p.read_text(errors="replace") if p.is_file() else "" for f, p in paths.items()}


@functools.lru_cache(_MOST_FILES)
def _masked(text: str) -> str:
    """A file without comments, strings and directives."""
    return mask(without_directives(text))


@functools.lru_cache(_MOST_FILES)
def _defines_of(text: str) -> tuple[tuple[str, str], ...]:
    """The macros of a file, with what they stand for."""
    return tuple((m[1], m[2]) for m in _DEFINE.finditer(text))


def _words(space: Space, defines: Sequence[tuple[str, str]]) -> list[str]:
    """What says that a function is for devices: keywords, and macros that have them."""
    found = list(space.words)
    for _ in range(3):  # macros of macros of macros
        known = re.compile(rf"\b(?:{'|'.join(found)})\b")
        found += [name for name, value in defines if known.search(value) and name not in found]
    return found
