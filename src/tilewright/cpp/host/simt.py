"""SIMT kernels in the host part of a program, as LLVM text: functions that run the threads of a block.

The code of a kernel moves to a function that gets the coordinates of its thread as parameters. Two functions call it,
with the arguments that a launch brings: one for a single thread, which ``simt_runtime.h`` runs as a fiber, and one with
a loop over all threads of a block, which LLVM vectorizes.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.cpp.host import bounds
from tilewright.cpp.host.debug_info import DebugInfo
from tilewright.cpp.host.fission import BARRIER, EXCHANGE, RUNTIME, Transform, prepared, split
from tilewright.cpp.host.in_step import in_step, storing
from tilewright.cpp.host.interchange import with_interchange
from tilewright.cpp.host.locality import INDEX
from tilewright.cpp.host.names import Names
from tilewright.cpp.host.permutations import reads
from tilewright.cpp.host.ranges import with_ranges
from tilewright.cpp.host.regions import block_function, region_functions, simt_lines
from tilewright.cpp.host.shared_memory import changing, with_plain_accesses
from tilewright.cpp.host.spins import ENTERS, reading, spinning, with_spins
from tilewright.cpp.host.strides import with_yields, without_yields
from tilewright.cpp.host.warps import warp_functions
from tilewright.frontend.cpp.llvm_instruction import DIVISIONS, instruction, renamed
from tilewright.frontend.cpp.llvm_module import Definition, Parts, called_from, names_in, parts_of, with_functions
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.parameters import alignment_of, by_value, constant, parameter_type
from tilewright.ir.reachable import reachable

_CURRENT, _EXIT = "__tw_simt_current", "__tw_simt_exit"
_WAITS = (BARRIER, EXCHANGE)
_ATOMICS = re.compile(r"_ZNK?(?:4cuda|St3__1)\d+(?:__)?(?:cxx_)?atomic")  # of the library
_HELPERS = "_ZN9__tw_simt"  # functions of `simt.h`, whose accesses to memory are to be seen
_ANY = "*"  # what is called through a pointer
_LIBRARY = ("_ZS", "_ZNS", "_ZKS", "_ZNKS", "_Zn", "_Zd", "_ZT")  # how names begin that are no functions of other files
_RUNTIME = {  # functions of the runtime that only the text that is added here calls
    _CURRENT: f"declare i32 @{_CURRENT}(i32)",
    "llvm.threadlocal.address.p0": "declare ptr @llvm.threadlocal.address.p0(ptr)",
    "__tw_simt_assert": "declare void @__tw_simt_assert(ptr, ptr, i32, ptr) noreturn",
    **RUNTIME,
}
_SHARED = "__tw_simt_shared"  # the shared memory that a launch sizes
_MAX_SHARED = 227 << 10  # bytes
_GUARDS = '"tw.guards"'  # finds the memory around shared variables, which nobody may touch while kernels run
_GUARD_BEFORE = '@"tw.guard.before" = internal thread_local global [65536 x i8] zeroinitializer'
_GUARD_BEFORE += ', section ".tbss.tw.before"'
_UNROLL = ("sroa", "instruction_combine", "simplify_cfg", "loop_simplify", "lcssa", "loop_rotate", "loop_unroll")
_SIMPLIFY = ("simplify_cfg", "instruction_combine", "simplify_cfg")
_MOST_WAITS = 52  # of which loops may need some more, up to the bits of a word: see `fission.py`
_COORDINATES = 12
# The lane, which functions ask for like a coordinate behind the others.
_LANE = (
    "  %tw.c12.rows = mul i32 %tw.c7, %tw.c2",
    "  %tw.c12.row = add i32 %tw.c12.rows, %tw.c1",
    "  %tw.c12.first = mul i32 %tw.c6, %tw.c12.row",
    "  %tw.c12.thread = add i32 %tw.c12.first, %tw.c0",
    "  %tw.c12 = and i32 %tw.c12.thread, 31",
)
_OF_SYMBOLS = re.compile(r"_Z\d+cuda\w*Symbol")  # functions of the runtime that find variables by their names


class Way(enum.IntEnum):
    """How threads run, as ``simt.h`` numbers it: those of a block as loops, as fibers, or warp by warp; or loops over
    ranges of all threads of a grid."""

    LOOPS = 0
    FIBERS = 1
    WARPS = 2
    RANGES = 3


@dataclass(frozen=True)
class SimtModule:
    """The edited text, how its kernels run, and those that wait in loops for what others write."""

    llvm: str
    ways: Mapping[str, Way]
    waiting: Collection[str] = ()


def with_threads(
    text: str,
    kernels: Sequence[str],
    inline: Callable[[str, set[str]], str],
    transform: Transform,
    *,
    checked: bool = False,
) -> SimtModule:
    """The module ``text`` with the functions that run the threads of ``kernels``: see ``entry``. ``inline`` gives the
    module with functions inlined, and ``transform`` with passes run over functions; ``checked`` code asks the runtime
    before each access."""
    calls = _call_graph(text, kernels)
    divisions = _divisions(text, calls, kernels)
    text = _without_null_accesses(text, called_from(calls, kernels))
    own = {name for name in called_from(calls, kernels) if name.startswith(_HELPERS)}
    inlined = (_callers(calls, (INDEX, _EXIT, *_WAITS)) | own) - set(kernels)
    if checked:  # the locations of accesses in helpers are those of the calls
        inlined |= called_from(calls, kernels) - set(kernels)
    else:
        inlined |= (_callers(calls, storing(text)) | storing(text)) - set(kernels)
        inlined |= called_from(calls, filter(_ATOMICS.match, called_from(calls, kernels)))
        inlined |= changing(text) & called_from(calls, kernels) - set(kernels)
        if read := reading(text, called_from(calls, kernels) - set(kernels)):
            waiting_in = spinning(transform(text, read, ("sroa",)), read)
            inlined |= (_callers(calls, waiting_in) | waiting_in) - set(kernels)
    text = inline(text, inlined - {INDEX, _CURRENT, _EXIT, *_WAITS})
    text = re.sub(rf"  call void @{_EXIT}\(\)[^\n]*\n  unreachable", "  ret void", text)
    if not checked:
        text = _declared(in_step(text, kernels, EXCHANGE))
    waits = reading(text, kernels)
    if waits:
        exchanging = set() if checked else changing(text) & waits  # they may do so until nobody came in between
        text = transform(text, reading(text, called_from(calls, kernels)), ("sroa",))
        text = transform(text, exchanging, _SIMPLIFY)
        text, waits = with_spins(text, waits, BARRIER)
        text = _declared(text)
    calls = _call_graph(text, kernels)
    if checked:
        text = bounds.with_checks(text, called_from(calls, kernels), kernels)
        calls = _call_graph(text, kernels)
    meeting = frozenset(_callers(calls, _WAITS, through=set(kernels))) & set(kernels)
    asking = {s for s in kernels if checked or any(INDEX in calls[name] for name in called_from(calls, [s]) - {s})}
    numbered = dict[str, int]()
    if not checked:  # which asks before each access, so that how threads take turns does not matter
        alone = {symbol for symbol in kernels if symbol in calls} - waits
        candidates = alone - meeting - asking - _sharing(text, calls)
        text, numbered = with_ranges(transform(text, alone, ("sroa",)), candidates)
        text = _declared(with_yields(text, alone, BARRIER))
        meeting_lanes = {symbol for symbol in kernels if EXCHANGE in calls.get(symbol, ())}
        text = _declared(with_interchange(text, alone - meeting_lanes, BARRIER, transform))
        text = _unrolled(text, meeting_lanes, transform)
        calls = _call_graph(text, kernels)
    waiting = frozenset(_callers(calls, _WAITS, through=set(kernels))) & set(kernels)
    hidden = _callers(calls, _WAITS, through=set(kernels)) - set(kernels)
    divisible = frozenset(symbol for symbol in waiting | numbered.keys() if not calls[symbol] & hidden)
    if divisible:
        text = prepared(text, divisible, transform)
    plain = set() if checked else divisible - waits
    text, added, ways = _with_functions(text, kernels, divisible, meeting, asking, plain, numbered, checked=checked)
    widths = [f"@{_width(symbol)} = private constant i32 {numbered.get(symbol, 0)}" for symbol in kernels]
    return SimtModule(_completed(text, added, [*divisions, *widths]), ways, waits)


def _completed(text: str, added: Sequence[str], constants: Sequence[str]) -> str:
    """The module ``text`` with the functions ``added`` to it, ``constants``, and what these need: memory that a block
    shares, the index of a thread, and declarations."""
    parts = parts_of(text)
    text = text.replace(f"{parts.declared.get(INDEX, INDEX)}\n", "")
    sized = [v for v in parts.variables.values() if {"external", "thread_local"} <= {*v.how.split()}]
    for each in (v for v in sized if v.rest.startswith("[0 x ")):
        shared = f"internal thread_local alias {parameter_type(each.rest)}, ptr @{_SHARED}"
        text = text.replace(each.line, f"@{each.symbol} = {shared}")
    if sized:
        text += f"\n@{_SHARED} = internal thread_local global [{_MAX_SHARED} x i8] zeroinitializer, align 256\n"
    index = (
        f"define internal i32 @{INDEX}(i32 %which) {{\n"
        f"  %found = call i32 @{_CURRENT}(i32 %which)\n  ret i32 %found\n}}\n"
    )
    if any("thread_local" in v.how for v in parts.variables.values()):
        text = text.replace("\n@", f"\n{_GUARD_BEFORE}\n@", 1)  # variables lie in the order of the text
        added = [*added, *simt_lines("guards")]
    else:
        added = [*added, f"define internal void @{_GUARDS}(ptr %into) {{\n  ret void\n}}"]
    whole = "\n".join([text, *added, index])
    if "@llvm.memcpy.p0.p0.i64(" in whole and "llvm.memcpy.p0.p0.i64" not in parts.declared:
        whole += "\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    missing = [d for name, d in _RUNTIME.items() if name not in parts.declared]
    return "\n".join([whole, *constants, *missing, ""])


def _divisions(text: str, calls: Mapping[str, set[str]], kernels: Iterable[str]) -> list[str]:
    """The constants that name the places of the divisions that each of ``kernels``, and what it calls, may do by zero:
    LLVM forgets where those come from that it takes out of loops."""
    parts = parts_of(text)
    locations = Locations(parts.metadata)
    places: dict[str, list[str]] = {}
    for name in called_from(calls, kernels) & parts.functions.keys():
        code = (line for line in parts.functions[name].body.split("\n") if "div " in line or "rem " in line)
        found = (i for i in map(instruction, code) if i.op in DIVISIONS and i.values[1].startswith("%"))
        locs = [locations.loc(i.debug) for i in found if i.debug is not None]
        places[name] = [f"{loc.file}:{loc.line}" for loc in locs if loc.line]
    lines = []
    for symbol in kernels:
        own = dict.fromkeys(place for name in sorted(called_from(calls, [symbol])) for place in places.get(name, ()))
        lines.append(f"@{_table_of_divisions(symbol)} = private constant {constant(' or '.join(own))}")
    return lines


def _table_of_divisions(symbol: str) -> str:
    return f'"tw.divisions.{symbol}"'


def _width(symbol: str) -> str:
    return f'"tw.width.{symbol}"'


def _with_functions(
    text: str,
    kernels: Sequence[str],
    divisible: frozenset[str],
    meeting: frozenset[str],
    asking: Collection[str],
    plain: Collection[str],
    numbered: Collection[str],
    *,
    checked: bool,
) -> tuple[str, list[str], dict[str, Way]]:
    """The module ``text``, the functions that run the threads of ``kernels``, and the way in which: those in
    ``divisible`` are split at their barriers where they can be, and others in ``meeting`` need fibers. Those in
    ``asking`` call functions that ask for coordinates, those in ``plain`` get plain accesses to shared memory, and
    ``numbered`` are those of ``with_ranges``."""
    added: list[str] = []
    ways = dict.fromkeys(kernels, Way.LOOPS)
    parts = parts_of(text)
    debug = DebugInfo(parts.metadata, parts.free_number())
    for symbol in (symbol for symbol in kernels if symbol in parts.functions):
        own, stores = parts.functions[symbol], symbol in asking
        definition = replace(own, text=with_plain_accesses(own.text)) if symbol in plain else own
        ranges, found = symbol in numbered, None
        if symbol in divisible:
            found = _split_functions(symbol, definition, debug, stores=stores, checked=checked, ranges=ranges)
        if found is None:
            whole = replace(own, text=without_yields(own.text, BARRIER))
            way = Way.FIBERS if symbol in meeting else Way.RANGES if ranges else Way.LOOPS
            found = _functions(symbol, whole, debug, stores=stores), way
        added.append(found[0])
        ways[symbol] = found[1]
    return with_functions(text, kernels, _without_location), added, ways


def _without_location(definition: Definition) -> str:
    number = definition.subprogram
    return definition.text if number is None else definition.text.replace(f" !dbg !{number} ", " ", 1)


def entry(kind: str, symbol: str) -> str:
    """The name of one of the functions of a kernel: ``body``, ``thread`` or ``block``."""
    return f'"tw.{kind}.{symbol}"'


def code_of(symbol: str, way: Way) -> str:
    """The constant that says how a kernel runs: ``simt_code`` of ``simt.h``."""
    tables = ["null"] * 6
    if way is Way.WARPS:
        names = Names(symbol, "", 0)
        tables = [f"@{names.table(name)}" for name in ("regions", "kind", "file", "line", "mask")]
        tables.append(f"@{names.together}")
    tables += [f"@{_table_of_divisions(symbol)}", f"@{_GUARDS}", f"@{_width(symbol)}"]
    fields = [f"ptr @{entry('block', symbol)}", f"ptr @{entry('thread', symbol)}", f"i64 {way:d}"]
    return f"{{ ptr, ptr, i64{', ptr' * 9} }} {{ {', '.join([*fields, *(f'ptr {table}' for table in tables)])} }}"


def variables(text: str, kernels: Iterable[str], *, visible: bool = False) -> list[str]:
    """The variables that ``kernels`` of the module ``text`` may use, of those that it defines in the memory of the
    device, and those with addresses that the host copies by their names, as it does those of functions; ``visible``:
    and all that other files see, of the host, too."""
    parts = parts_of(text)
    calls = parts.calls
    named = {name for symbol in called_from(calls, kernels) for name in calls[symbol]}
    copying = {name for name in calls if _OF_SYMBOLS.match(name)}
    templates = {name for name, each in parts.functions.items() if each.head.startswith("define linkonce_odr ")}
    copying |= _callers(calls, copying) & templates
    users = (each.body.split("\n") for name, each in parts.functions.items() if calls[name] & copying)
    handed = (i for lines in users for i in map(instruction, lines) if i.callee in copying)
    copied = {operand.base[1:].strip('"') for i in handed for operand in i.args if operand.base.startswith("@")}
    found = ((name, v) for name, v in parts.variables.items() if v.kind == "global")
    return [
        name
        for name, v in found
        if not {"external", "thread_local"} & (how := {*v.how.split()})
        if name in named
        or (name in copied and "@" in v.rest)
        or (visible and not {"internal", "private", "linkonce", "linkonce_odr", "weak", "weak_odr", "appending"} & how)
    ]


def missing(text: str, kernels: Iterable[str]) -> set[str]:
    """What the SIMT ``kernels`` of the module ``text`` use of other files: functions and variables."""
    parts = parts_of(text)
    named = {name for symbol in called_from(parts.calls, kernels) for name in parts.calls[symbol]}
    hows = {name: {*v.how.split()} for name, v in parts.variables.items()}
    others = {name for name, how in hows.items() if "external" in how and "thread_local" not in how}
    return named & (others | _elsewhere(parts))


def shared_types(text: str, kernels: Iterable[str]) -> dict[str, str]:
    """A type of the size of the shared variables that each of ``kernels`` of the module ``text`` may use."""
    calls = parts_of(text).calls
    local = {name: v for name, v in parts_of(text).variables.items() if "thread_local" in v.how}
    found = {}
    for symbol in kernels:
        named = {name for each in called_from(calls, [symbol]) for name in calls[each]}
        types = [parameter_type(v.rest) for name, v in local.items() if name in named and "external" not in v.how]
        found[symbol] = f"{{ {', '.join(types)} }}" if types else "[0 x i8]"
    return found


def _sharing(text: str, calls: Mapping[str, set[str]]) -> set[str]:
    """The functions that may use shared variables."""
    return _callers(calls, (name for name, v in parts_of(text).variables.items() if "thread_local" in v.how))


def _call_graph(text: str, kernels: Iterable[str]) -> dict[str, set[str]]:
    """The names that each function, or table of virtual ones, mentions. Of what ``kernels`` lead to, a call through a
    pointer may be of any function of SIMT code whose address is taken, and one of another file may wait."""
    parts = parts_of(text)
    tables = {name: v.rest for name, v in parts.variables.items() if name.startswith("_ZTV")}
    calls = parts.calls | {table: parts.calls.keys() & names_in(rest) for table, rest in tables.items()}
    of_simt = _callers(calls, (INDEX, *_WAITS), through=set(kernels)) - set(kernels)
    pointed = of_simt & parts.addresses
    through = {name for name, each in parts.functions.items() if _calls_pointer(each)} if pointed else set()
    found = calls | {name: {*calls[name], _ANY} for name in through} | {_ANY: pointed}
    reached = called_from(found, kernels)
    elsewhere = {name for each in reached for name in found[each]} & _elsewhere(parts)
    found = {name: found[name] if name in reached else calls.get(name, set()) for name in found}
    return found | {name: {INDEX, *_WAITS} for name in elsewhere}


def _elsewhere(parts: Parts) -> set[str]:
    """The functions of other files that a module declares."""
    return {name for name in parts.declared if name.startswith("_Z") and not name.startswith(_LIBRARY)}


def _calls_pointer(definition: Definition) -> bool:
    lines = (line for line in definition.body.split("\n") if "call " in line or "invoke " in line)
    return any(i.op in ("call", "invoke") and not i.callee for i in map(instruction, lines))


def _unrolled(text: str, kernels: set[str], transform: Transform) -> str:
    """The module ``text`` in which short loops of ``kernels``, whose lanes wait for each other, are unrolled: distances
    of shuffles become constants. Those stay as they are that would wait at too many barriers."""
    found = transform(text, kernels, _UNROLL)
    functions = parts_of(found).functions
    counts = {
        name: sum(functions[name].text.count(f"@{wait}(") for wait in _WAITS) for name in kernels & functions.keys()
    }
    fitting = {symbol for symbol in kernels if counts.get(symbol, 0) <= _MOST_WAITS}
    return found if fitting == kernels else transform(text, fitting, _UNROLL)


def _without_null_accesses(text: str, functions: set[str]) -> str:
    """The module ``text`` whose ``functions`` are optimized as if they accessed no null pointer; host code crashes
    where it does."""
    parts = parts_of(text)
    groups = {number: each for number, each in parts.attributes.items() if " null_pointer_is_valid " in each}
    first = 1 + max(parts.attributes, default=-1)
    own = {number: first + k for k, number in enumerate(groups)}

    def edited(definition: Definition) -> str:
        words = (
            f" #{own[int(w[1:])]}" if w[1:].isdigit() and int(w[1:]) in own and w[0] == "#" else f" {w}"
            for w in definition.head.split(" ")
        )
        return "".join(words)[1:] + "\n" + definition.body

    text = with_functions(text, functions, edited)
    added = [f"attributes #{own[n]} = {v.replace(' null_pointer_is_valid ', ' ')}" for n, v in groups.items()]
    return "\n".join([text, *added, ""])


def _declared(text: str) -> str:
    """The module ``text`` with declarations of what threads wait by, where it calls that."""
    heads = {BARRIER: "i32 @{}(i32, i32, ptr, i32)", EXCHANGE: "ptr @{}(i32, i64, i32, ptr, i32)", ENTERS: "void @{}()"}
    for name, head in heads.items():
        if f"@{name}(" in text and name not in parts_of(text).declared:
            text += f"\ndeclare {head.format(name)}\n"
    return text


def _callers(calls: Mapping[str, set[str]], targets: Iterable[str], through: Iterable[str] = ()) -> set[str]:
    """The functions from which calls lead to ``targets``; what calls kernels launches them, and is none of these."""
    users: dict[str, set[str]] = {}
    for name, called in calls.items():
        for other in called:
            users.setdefault(other, set()).add(name)

    def further(name: str) -> Iterator[str]:
        return (n for n in users.get(name, ()) if n not in through and not n.startswith("tw."))

    return {user for name in reachable(targets, further) for user in users.get(name, ())}


def _functions(symbol: str, definition: Definition, debug: DebugInfo, *, stores: bool) -> str:
    """The code of a kernel under another name, and what calls it; ``stores`` is for functions that ask for coordinates
    and were not inlined."""
    parameters, own_lines = definition.parameters, len(debug.lines)
    words = definition.attributes.split(" ")
    rest = " ".join(word for word in words if not word.startswith(("comdat", "unnamed_addr", "local_unnamed_addr")))
    coordinates = [f"i32 %tw.c{i}" for i in range(_COORDINATES)]
    body = _with_coordinates(_with_copies(definition.body, parameters))
    if "%tw.c12" in body:
        start, code = body.split("\n", 1)
        body = "\n".join([start, *_LANE, code])
    code = f"define internal void @{entry('body', symbol)}({', '.join([*parameters, *coordinates])}) {rest}{{\n{body}"
    loads, values = _arguments(parameters)
    target = f"call void @{entry('body', symbol)}"
    one = ", ".join([*values, *(f"i32 %c{i}" for i in range(_COORDINATES))])
    own = ("%x", "%y", "%z")
    each = ", ".join([*values, *(f"i32 {n}" for n in own), *(f"i32 %c{i}" for i in range(3, _COORDINATES))])
    notes = [f"  store i32 {n}, ptr %p{i}" for i, n in enumerate(own)] if stores else []
    location, call = debug.caller(definition.subprogram)
    thread = [f"define internal void @{entry('thread', symbol)}(ptr %slots, ptr %where){location} {{", *loads]
    thread += [f"  {target}({one}){call}", "  ret void", "}"]
    location, call = debug.caller(definition.subprogram)
    block = [f"define internal void @{entry('block', symbol)}(ptr %slots, ptr %where){location} {{", "entry:", *loads]
    loops = simt_lines(
        "loops",
        r="",
        first="  br label %zs",
        width="%c6",
        rows="%c7",
        limit="%c6",
        body=[*notes, f"  {target}({each}){call}"],
        loop="",
        after="done",
        **{"from": "start"},
    )
    block += ["  br label %start", *loops, "done:", "  ret void", "}"]
    return "\n".join([code, *thread, *block, *debug.lines[own_lines:]])


def _split_functions(
    symbol: str, definition: Definition, debug: DebugInfo, *, stores: bool, checked: bool, ranges: bool
) -> tuple[str, Way] | None:
    """As ``_functions``, for a kernel that is split at its barriers; None if it cannot be."""
    parameters, own_lines = definition.parameters, len(debug.lines)
    kernel = split(_with_coordinates(_with_copies(definition.body, parameters)), stores=stores, ranges=ranges)
    if kernel is None:
        return None
    loads, values = _arguments(parameters)
    names = Names(symbol, entry("block", symbol), debug.next)
    every = [*parameters, *(f"i32 %tw.c{i}" for i in range(_COORDINATES))]
    debug.add_lines(names.metadata(kernel))
    subprogram = definition.subprogram
    permuted = reads(kernel) if kernel.by_warps else {}
    regions = region_functions(kernel, names, every, debug, subprogram, permuted)
    if kernel.by_warps:
        locations = [debug.caller(subprogram) for _ in [*kernel.regions, None]]
        way = Way.WARPS
        block = warp_functions(kernel, loads, names, values, locations, permuted, stores=stores)
        # Neither of these runs: they are there for the description only.
        ends = [f"define internal void @{entry('block', symbol)}(ptr %slots, ptr %where) {{", "  ret void", "}"]
    else:
        block = block_function(kernel, loads, names, values, debug.caller(subprogram), stores=stores, checked=checked)
        way, ends = Way.RANGES if ranges else Way.LOOPS, []
    thread = f"@{entry('thread', symbol)} = internal alias void (ptr, ptr), ptr @{entry('block', symbol)}"
    return "\n".join([*regions, block, *ends, thread, *debug.lines[own_lines:]]), way


def _with_copies(body: str, parameters: Sequence[str]) -> str:
    """``body`` with variables of its own in the place of what is passed by value, which it may change."""
    lines = body.split("\n")
    first = 0 if lines[0].startswith(" ") else 1
    for parameter in (parameter for parameter in parameters if by_value(parameter)):
        name, type = parameter.split()[-1], by_value(parameter)
        copy = f"%tw.copy.{name[1:]}"
        lines = [renamed(line, {name: copy}) for line in lines]
        lines.insert(first, f"  {copy} = alloca {type}, align {alignment_of(parameter)}")
        size = f"i64 ptrtoint (ptr getelementptr ({type}, ptr null, i32 1) to i64)"
        made = f"  call void @llvm.memcpy.p0.p0.i64(ptr {copy}, ptr {name}, {size}, i1 false)"
        lines.insert(next(i for i, line in enumerate(lines[first:], first) if " = alloca " not in line), made)
    return "\n".join(lines)


def _with_coordinates(body: str) -> str:
    lines = body.replace("@__assert_fail(", "@__tw_simt_assert(").split("\n")
    for number, line in enumerate(lines):
        if (i := instruction(line)).callee == INDEX:
            lines[number] = f"  {i.result} = add i32 %tw.c{i.values[0]}, 0{line[i.end :]}"
    return "\n".join(lines)


def _arguments(parameters: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines that load the arguments and coordinates of a launch, and the arguments of a call."""
    loads, values = [], []
    for i, parameter in enumerate(parameters):
        # Attributes stay, as of structs that are passed by value; the name is left out.
        type = parameter.rsplit(" ", 1)[0] if " %" in parameter else parameter
        loads += [f"  %s{i} = getelementptr ptr, ptr %slots, i32 {i}", f"  %a{i} = load ptr, ptr %s{i}"]
        passed = by_value(type)
        plain = parameter_type(type)
        loads += [] if passed else [f"  %v{i} = load {plain}, ptr %a{i}"]
        values.append(f"{type} %{'a' if passed else 'v'}{i}")
    for i in range(_COORDINATES):
        loads += [f"  %p{i} = getelementptr i32, ptr %where, i32 {i}", f"  %c{i} = load i32, ptr %p{i}"]
    return loads, values
