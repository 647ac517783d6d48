"""Checks of what SIMT code accesses and computes, for programs under the sanitizer, as LLVM text.

Each load, store and atomic operation asks the runtime for the address that it may use: its own, or one where it does no
harm once the runtime has noted what is wrong. A pointer stands for the object that it was made from, as in tile code: a
variable, or the allocation that it points into. A kernel names its variables in shared memory as it begins. Divisions
and shifts show their operands, and go on with ones for which they are defined.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.cpp.host.locality import INDEX
from tilewright.frontend.cpp.llvm_instruction import DIVISIONS, LABEL, Instruction, Operand, instruction
from tilewright.frontend.cpp.llvm_module import Definition, parts_of, with_functions
from tilewright.frontend.cpp.locations import Locations
from tilewright.frontend.cpp.parameters import by_value, constant, parameter_type, returned
from tilewright.ir.location import Loc

RUNTIME = {  # functions of the runtime that checked code calls
    "__tw_simt_checked": f"declare ptr @__tw_simt_checked(ptr, ptr, i64, i64, i32, ptr{', i32' * 6})",
    "__tw_simt_operands": f"declare i64 @__tw_simt_operands(i32, i32, i64, i64, ptr{', i32' * 6})",
    "__tw_simt_object": "declare void @__tw_simt_object(ptr, i64)",
    "__tw_simt_malloc": "declare ptr @__tw_simt_malloc(i64)",
    "__tw_simt_free": "declare void @__tw_simt_free(ptr)",
    "__tw_simt_free_sized": "declare void @__tw_simt_free_sized(ptr, i64)",
    INDEX: f"declare i32 @{INDEX}(i32)",
}
_HEAP = dict.fromkeys(("malloc", "_Znwm", "_Znam"), "__tw_simt_malloc")
_HEAP |= dict.fromkeys(("free", "_ZdlPv", "_ZdaPv"), "__tw_simt_free")
_HEAP |= dict.fromkeys(("_ZdlPvm", "_ZdaPvm"), "__tw_simt_free_sized")
_UNKNOWN, _OF_LAUNCH = "0", "-1"  # sizes of variables: of none, and of one that a launch sizes
_LOAD, _STORE, _ATOMIC = range(3)  # as the runtime numbers them; an atomic load or store is _ATOMIC more
_VOLATILE = 8  # and a volatile one so much more
_COPIES = ("llvm.memcpy.", "llvm.memmove.", "llvm.memset.")
_ARITHMETIC = (*DIVISIONS, "shl", "lshr", "ashr")  # in the order in which the runtime numbers them
_WIDEST = 64  # bits of the integers whose arithmetic is checked
_UNROLL_COUNT = '!{!"llvm.loop.unroll.count"'


@dataclass
class _Module:
    """What the functions of a module share: ``variables`` are its own, with their sizes; each thread of the machine has
    its own of those in ``shared``."""

    locations: Locations
    variables: Mapping[str, str]
    shared: Sequence[str]
    location_globals: list[str] = field(default_factory=list)  # globals that say where accesses are
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def location_name(self, loc: Loc, alignment: int, number: int) -> str:
        """A global that says where an access is, and of what alignment."""
        self.location_globals += [
            f'@"tw.file.{number}" = private constant {constant(loc.file)}',
            f'@"tw.place.{number}" = private constant {{ ptr, i32, i32, i32 }} '
            f'{{ ptr @"tw.file.{number}", i32 {loc.line}, i32 {loc.column}, i32 {alignment} }}',
        ]
        return f'@"tw.place.{number}"'


def with_checks(text: str, functions: set[str], kernels: Collection[str]) -> str:
    """The module ``text`` in which ``functions`` ask before each access; of these, ``kernels`` begin a thread."""
    parts = parts_of(text)
    variables, shared = {}, []
    for variable in parts.variables.values():
        type, name = parameter_type(variable.rest).rstrip(","), f"@{variable.symbol}"
        variables[name] = _OF_LAUNCH if type.startswith("[0 x ") else _size(type)
        if "thread_local" in variable.how:
            shared.append(name)
    module = _Module(Locations(parts.metadata), variables, shared)
    text = with_functions(text, functions, lambda each: _function(module, each, begins=each.name in kernels))
    # Loops of accesses that ask are long enough; unrolled as programs wish, some take minutes to compile.
    for how in ("enable", "full"):
        text = text.replace(f'!{{!"llvm.loop.unroll.{how}"}}', '!{!"llvm.loop.unroll.disable"}')
    counted = (f"!{number} = {node}" for number, node in parts.metadata.items() if node.startswith(_UNROLL_COUNT))
    for line in counted:
        text = text.replace(line, f'{line.split(" = ")[0]} = !{{!"llvm.loop.unroll.disable"}}')
    declared = [line for name, line in RUNTIME.items() if name not in parts.declared]
    return "\n".join([text, *module.location_globals, *declared, ""])


def _size(type: str) -> str:
    if type[0] == "i":  # memory for seven bytes of a struct takes eight, and an access to them touches seven
        return str(-(-int(type[1:]) // 8))
    return f"ptrtoint (ptr getelementptr ({type}, ptr null, i32 1) to i64)"


def _function(module: _Module, definition: Definition, *, begins: bool) -> str:
    lines = [_with_own_heap(line) for line in definition.body.split("\n")]
    origins, sizes, shared = _objects(module, definition.parameters, lines)
    result = [definition.head]
    if begins:
        first = 1 if LABEL.match(lines[0]) else 0
        named = [f"  call void @__tw_simt_object(ptr {name}, i64 {module.variables[name]})" for name in module.shared]
        lines[first:first] = named
    for line in lines:
        i = instruction(line)
        if _may_be_undefined(i):
            result += _checked_arithmetic(module, line, i)
            continue
        for at, size, alignment, what in reversed(list(_accesses(i))):
            pointer, base = at.value, at.base
            while base in origins:
                base = origins[base]
            whole = base == pointer and i.pointer is not None
            orders = base.startswith("@") and what >= _ATOMIC  # or volatile: for threads of other blocks
            if whole and base not in shared and not orders and sizes.get(base, _UNKNOWN) not in (_UNKNOWN, _OF_LAUNCH):
                continue  # a variable as a whole, of this thread
            number, asked, where = _place(module, i, alignment)
            given = [f"ptr {pointer}", f"ptr {base or pointer}", f"i64 {size}", f"i64 {sizes.get(base, _UNKNOWN)}"]
            call = f"call ptr @__tw_simt_checked({', '.join([*given, f'i32 {what}', *where])})"
            result += [*asked, f"  %tw.at{number} = {call}"]
            line = f"{line[: at.start]}%tw.at{number}{line[at.end :]}"
        result.append(line)
    return "\n".join(result)


def _with_own_heap(line: str) -> str:
    own = _HEAP.get(instruction(line).callee)
    return line if own is None else line.replace(f"@{instruction(line).callee}(", f"@{own}(", 1)


def _place(module: _Module, i: Instruction, alignment: int) -> tuple[int, list[str], list[str]]:
    """A number for a check, the lines that ask for the coordinates of the thread, and the arguments that say where and
    by whom something is done."""
    number = next(module.numbers)
    place = module.location_name(module.locations.loc(i.debug), alignment, number)
    coordinates = [f"%tw.c{number}.{axis}" for axis in range(6)]
    asked = [f"  {c} = call i32 @{INDEX}(i32 {axis})" for axis, c in enumerate(coordinates)]
    return number, asked, [f"ptr {place}", *(f"i32 {c}" for c in coordinates)]


def _may_be_undefined(i: Instruction) -> bool:
    """Whether an operation may have operands that leave its result undefined."""
    if i.op not in _ARITHMETIC or not i.type.startswith("i") or int(i.type[1:]) > _WIDEST:
        return False
    second = i.args[1].value
    return not second.isdigit() or (int(second) == 0 if i.op in DIVISIONS else int(second) >= int(i.type[1:]))


def _checked_arithmetic(module: _Module, line: str, i: Instruction) -> list[str]:
    """An operation whose second operand the runtime gives, which has noted what is wrong with the two."""
    number, asked, where = _place(module, i, 1)
    own, wide = f"%tw.by{number}", f"i{_WIDEST}"
    code, signed = _ARITHMETIC.index(i.op), i.op not in ("udiv", "urem", "lshr")
    lines, given = asked, [f"i32 {code}", f"i32 {i.type[1:]}"]
    for side, operand in zip("ab", i.args):
        if i.type == wide:
            given.append(f"{wide} {operand.value}")
            continue
        extended = "sext" if signed else "zext"
        lines.append(f"  {own}.{side} = {extended} {i.type} {operand.value} to {wide}")
        given.append(f"{wide} {own}.{side}")
    lines.append(f"  {own} = call {wide} @__tw_simt_operands({', '.join([*given, *where])})")
    value, last = own, i.args[1]
    if i.type != wide:
        value = f"{own}.c"
        lines.append(f"  {value} = trunc {wide} {own} to {i.type}")
    return [*lines, f"{line[: last.start]}{value}{line[last.end :]}"]


def _objects(
    module: _Module, parameters: Sequence[str], lines: Sequence[str]
) -> tuple[dict[str, str], dict[str, str], set[str]]:
    """From what each pointer of a function was made, the sizes of its variables, and those in shared memory."""
    origins: dict[str, str] = {}
    shared = set(module.shared)
    sizes = dict(module.variables)
    for parameter in parameters:
        if type := by_value(parameter) or returned(parameter):
            sizes[parameter.split()[-1]] = _size(type)
    for i in map(instruction, lines):
        if i.op == "getelementptr":
            origins[i.result] = i.args[0].base
        elif i.callee.startswith("llvm.threadlocal.address."):
            sizes[i.result] = module.variables.get(i.args[0].value, _UNKNOWN)
            shared.add(i.result)
        elif i.op == "alloca":
            sizes[i.result] = _UNKNOWN if i.args else _size(i.type)
    return origins, sizes, shared


def _accesses(i: Instruction) -> Iterator[tuple[Operand, str, int, int]]:
    """The pointers that an instruction accesses memory at, the bytes from there, their alignment, and what is done to
    them."""
    if i.pointer is not None:
        what = _STORE if i.op == "store" or "xchg" in i.words else _LOAD if i.op == "load" else _ATOMIC
        what += _ATOMIC if "atomic" in i.words or "xchg" in i.words else 0
        what += _VOLATILE if "volatile" in i.words else 0
        type = i.type if i.op == "load" else i.args[i.op in ("atomicrmw", "cmpxchg")].type
        yield i.pointer, _size(type), i.alignment, what
    elif i.callee.startswith(_COPIES):
        for what, operand in zip((_STORE, _LOAD), i.args):
            if operand.type == "ptr":
                yield operand, i.args[2].value, operand.alignment, what
