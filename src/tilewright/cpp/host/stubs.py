"""Edits of the host part of a program, as LLVM text: kernels become stubs that ask the runtime for a launch.

A stub hands over what describes its kernel (``kernel`` of ``runtime.h``) and the addresses of its arguments, as
``cudaLaunchKernel`` gets them. The descriptions are registered before ``main`` begins.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from tilewright.cpp.host.simt import Way, code_of
from tilewright.frontend.cpp.debug_types import Piece
from tilewright.frontend.cpp.llvm_module import Definition, parts_of, with_functions
from tilewright.frontend.cpp.parameters import ArgumentOffset, argument_offsets, by_value, constant, parameter_type

_TABLE = '@"tw.kernels"'
_PART = "{ i32, i32, i32 }"  # of an argument: its bytes, the position of the argument, and the first byte in it
# The stub, its key, symbol and name, the parts of its arguments, how many these are, whether it is SIMT, its bound, the
# size of its shared variables, whether it waits for what others write, its code.
_ROW = "{ ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32, i32, ptr }"
MAX_THREADS = 1024  # in a block, as `max_threads` of the runtime
_BEFORE_OTHERS = 101  # constructors of the program may launch kernels
_HOST = "{ ptr, i32 }"  # a variable of the host, and its bytes
VARIABLES = "__tw_variables_"  # and the file: the table of its variables of the device


def with_variables(text: str, names: Sequence[str], file: str) -> str:
    """The module ``text`` with a table of the variables ``names``: of each its name and its address, then two nulls."""
    strings = [_string(f"tw.variable.{i}", name) for i, name in enumerate(names)]
    rows = [f'{{ ptr, ptr }} {{ ptr @"tw.variable.{i}", ptr @{_name(name)} }}' for i, name in enumerate(names)]
    rows.append("{ ptr, ptr } zeroinitializer")
    table = f"@{VARIABLES}{file} = constant [{len(rows)} x {{ ptr, ptr }}] [{', '.join(rows)}]"
    return "\n".join([text, *strings, table, ""])


def with_hosts(text: str, names: Sequence[str]) -> str:
    """The module ``text``, which tells the runtime of the variables ``names`` of the host, of which a GPU sees none."""
    found = [v for name, v in parts_of(text).variables.items() if name in names]
    rows = [f"{_HOST} {{ ptr @{v.symbol}, i32 {_size_of(parameter_type(v.rest).rstrip(','))} }}" for v in found]
    rows = [f"{_HOST} zeroinitializer", *rows, f"{_HOST} zeroinitializer"]
    table = f'@"tw.hosts" = private global [{len(rows)} x {_HOST}] [{", ".join(rows)}]'
    declared = "declare void @__tw_simt_hosts(ptr)"
    tells = 'define private void @"tw.tell"() {\n  call void @__tw_simt_hosts(ptr @"tw.hosts")\n  ret void\n}'
    return _with_constructor("\n".join([text, table, declared, tells, ""]), "tw.tell")


def with_stubs(
    text: str,
    kernels: Mapping[str, tuple[str, str]],
    pieces: Mapping[str, Sequence[Piece]],
    simt: Mapping[str, Way],
    waiting: Collection[str],
    bounds: Mapping[str, int],
    shared: Mapping[str, str],
    written: str,
) -> str:
    """The module ``text`` with stubs for the functions ``kernels``, whose keys and names these are; of tile kernels
    there are the ``pieces`` of their parameters; those in ``simt`` have code and run in these ways, those in
    ``waiting`` wait for what others write, those in ``bounds`` have no more threads in a block; in ``shared`` are types
    of the size of their shared variables. ``written`` is the module as the compiler wrote it."""
    noted = (d for d in parts_of(text).declared.values() if d.startswith("declare !dbg "))
    text = _with_lines(text, {line: f"declare {line.split(' ', 3)[3]}" for line in noted})
    count, rows, constants = len(kernels), [], []
    stubs, functions = {}, parts_of(text).functions
    for i, (symbol, (key, name)) in enumerate(kernels.items()):
        row = f"ptr getelementptr ([{count} x {_ROW}], ptr {_TABLE}, i32 0, i32 {i})"
        stub, parts = _stub(functions[symbol], row, argument_offsets(written, symbol), pieces.get(symbol))
        stubs[symbol] = stub
        constants += [
            _string(f"tw.key.{i}", key),
            _string(f"tw.symbol.{i}", symbol),
            _string(f"tw.name.{i}", name),
            f'@"tw.parts.{i}" = private constant [{len(parts)} x {_PART}] [{", ".join(parts)}]',
        ]
        code = "null"
        if symbol in simt:
            code = f'@"tw.code.{i}"'
            constants.append(f"{code} = private constant {code_of(symbol, simt[symbol])}")
        strings = f'ptr @"tw.key.{i}", ptr @"tw.symbol.{i}", ptr @"tw.name.{i}", ptr @"tw.parts.{i}"'
        numbers = f"i32 {len(parts)}, i32 {int(symbol in simt)}, i32 {bounds.get(symbol, MAX_THREADS)}, "
        numbers += f"i32 {_size_of(shared.get(symbol, '[0 x i8]'))}, i32 {int(symbol in waiting)}"
        rows.append(f"{_ROW} {{ ptr @{_name(symbol)}, {strings}, {numbers}, ptr {code} }}")
    text = with_functions(text, stubs.keys(), lambda each: stubs[each.name])
    if kernels:
        text = _with_constructor(text, "tw.register")
        constants += [
            f"{_TABLE} = private constant [{count} x {_ROW}] [{', '.join(rows)}]",
            "declare void @__tw_register_kernels(ptr, i32)",
            "declare i32 @__tw_host_launch(ptr, ptr) nomerge",
            f'define internal void @"tw.register"() {{\n  call void @__tw_register_kernels(ptr {_TABLE}, i32 {count})',
            "  ret void\n}",
        ]
    # What is left of tile code is never called, but the linker wants its names.
    left = (line for name, line in parts_of(text).declared.items() if name.startswith("__tw_"))
    text = _with_lines(text, {line: f"declare extern_weak {line[len('declare ') :]}" for line in left})
    return "\n".join([text, *constants, ""])


def _with_lines(text: str, lines: Mapping[str, str]) -> str:
    """``text`` with other lines in the place of some."""
    return "\n".join(lines.get(line, line) for line in text.split("\n")) if lines else text


def _name(symbol: str) -> str:
    return symbol if re.fullmatch(r"[-\w.]+", symbol) else f'"{symbol}"'


def _size_of(type: str) -> str:
    """The bytes of a type, as a constant of LLVM."""
    return f"ptrtoint (ptr getelementptr ({type}, ptr null, i32 1) to i32)"


def _string(name: str, value: str) -> str:
    return f'@"{name}" = private constant {constant(value)}'


def _stub(
    definition: Definition, description: str, where: Sequence[ArgumentOffset], pieces: Sequence[Piece] | None
) -> tuple[str, list[str]]:
    """A stub for a function, and constants of LLVM that say what it hands over: its parameters, which are ``where`` in
    its arguments, or else the ``pieces`` of these."""
    addresses, sizes, lines = [], [], []
    for i, parameter in enumerate(definition.parameters):
        type, value = parameter_type(parameter), parameter.split()[-1]
        passed = by_value(parameter)
        sizes.append(_size_of(passed or type))
        addresses.append(value if passed else f"%tw.value{i}")
        lines += [] if passed else [f"  %tw.value{i} = alloca {type}", f"  store {type} {value}, ptr %tw.value{i}"]
    parts = [(size, place, address, 0) for size, place, address in zip(sizes, where, addresses)]
    if pieces is not None:
        parts = []
        for piece in pieces:
            i = max(k for k, at in enumerate(where) if at.argument == piece.argument and at.offset <= piece.offset)
            place = ArgumentOffset(piece.argument, piece.offset)
            parts.append((str(piece.size), place, addresses[i], piece.offset - where[i].offset))
    lines.append(f"  %tw.slots = alloca ptr, i32 {max(len(parts), 1)}")
    for i, (_, _, address, offset) in enumerate(parts):
        lines += [
            f"  %tw.part{i} = getelementptr i8, ptr {address}, i32 {offset}",
            f"  %tw.slot{i} = getelementptr ptr, ptr %tw.slots, i32 {i}",
            f"  store ptr %tw.part{i}, ptr %tw.slot{i}",
        ]
    lines += [f"  %tw.error = call i32 @__tw_host_launch({description}, ptr %tw.slots)", "  ret void"]
    head = re.sub(r" !dbg !\d+", "", definition.head)  # an inlined launch is where it is called
    stub = "\n".join([head, "tw.entry:", *lines, "}", ""])
    rows = [f"{_PART} {{ i32 {size}, i32 {at.argument}, i32 {at.offset} }}" for size, at, *_ in parts]
    return stub, rows


def _with_constructor(text: str, function: str) -> str:
    """``text`` with a call of ``function`` before its other constructors."""
    entry = f'{{ i32, ptr, ptr }} {{ i32 {_BEFORE_OTHERS}, ptr @"{function}", ptr null }}'
    found = parts_of(text).variables.get("llvm.global_ctors")
    if found is None:
        return f"{text}\n@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{entry}]\n"
    size, _, others = found.rest.partition(" x { i32, ptr, ptr }] [")
    line = f"@llvm.global_ctors = appending global [{int(size[1:]) + 1} x {{ i32, ptr, ptr }}] [{entry}, {others}"
    return text.replace(found.line, line, 1)
