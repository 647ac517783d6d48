"""Edits of the host part of a program, as LLVM text: kernels become stubs that ask the runtime for a launch.

A stub hands over what describes its kernel (``kernel`` of ``runtime.h``) and the addresses of its arguments, as
``cudaLaunchKernel`` gets them. The descriptions are registered before ``main`` begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.cpp.host.parameters import by_value, constant, parameter_type
from tilewright.cpp.host.simt import Way, code_of
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction
from tilewright.frontend.cpp.llvm_module import parts_of

_TABLE = '@"tw.kernels"'
# The stub, its key, symbol and name, sizes of parameters, how many these are, whether it is SIMT, its bound, the size
# of its shared variables, its code.
_ROW = "{ ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32, ptr }"
MAX_THREADS = 1024  # in a block, as `max_threads` of the runtime
_BEFORE_OTHERS = 101  # constructors of the program may launch kernels
VARIABLES = "__tw_variables_"  # and the file: the table of its variables of the device


def with_variables(text: str, names: Sequence[str], file: str) -> str:
    """The module ``text`` with a table of the variables ``names``: of each its name and its address, then two nulls."""
    strings = [_string(f"tw.variable.{i}", name) for i, name in enumerate(names)]
    rows = [f'{{ ptr, ptr }} {{ ptr @"tw.variable.{i}", ptr @{_name(name)} }}' for i, name in enumerate(names)]
    rows.append("{ ptr, ptr } zeroinitializer")
    table = f"@{VARIABLES}{file} = constant [{len(rows)} x {{ ptr, ptr }}] [{', '.join(rows)}]"
    return "\n".join([text, *strings, table, ""])


def with_stubs(
    text: str,
    kernels: Mapping[str, tuple[str, str]],
    simt: Mapping[str, Way],
    bounds: Mapping[str, int],
    shared: Mapping[str, str],
    written: str,
) -> str:
    """The module ``text`` with stubs for the functions ``kernels``, whose keys and names these are; those in ``simt``
    have code and run in these ways, those in ``bounds`` with no more threads in a block; in ``shared`` are types of the
    size of their shared variables. ``written`` is the module as the compiler wrote it."""
    noted = (d for d in parts_of(text).declared.values() if d.startswith("declare !dbg "))
    text = _with_lines(text, {line: f"declare {line.split(' ', 3)[3]}" for line in noted})
    count, rows, constants = len(kernels), [], []
    for i, (symbol, (key, name)) in enumerate(kernels.items()):
        halves = _second_halves(written, symbol)
        text, sizes = _with_stub(text, symbol, f"ptr getelementptr ([{count} x {_ROW}], ptr {_TABLE}, i32 0, i32 {i})")
        constants += [
            _string(f"tw.key.{i}", key),
            _string(f"tw.symbol.{i}", symbol),
            _string(f"tw.name.{i}", name),
            f'@"tw.sizes.{i}" = private constant [{len(sizes)} x i32] [{", ".join(f"i32 {s}" for s in sizes)}]',
        ]
        code = "null"
        if symbol in simt:
            code = f'@"tw.code.{i}"'
            constants.append(f"{code} = private constant {code_of(symbol, simt[symbol])}")
        strings = f'ptr @"tw.key.{i}", ptr @"tw.symbol.{i}", ptr @"tw.name.{i}", ptr @"tw.sizes.{i}"'
        numbers = f"i32 {len(sizes)}, i32 {(symbol in simt) + 2 * halves}, i32 {bounds.get(symbol, MAX_THREADS)}, "
        numbers += f"i32 {_size_of(shared.get(symbol, '[0 x i8]'))}"
        rows.append(f"{_ROW} {{ ptr @{_name(symbol)}, {strings}, {numbers}, ptr {code} }}")
    if kernels:
        text = _with_constructor(text)
        constants += [
            f"{_TABLE} = private constant [{count} x {_ROW}] [{', '.join(rows)}]",
            "declare void @__tw_register_kernels(ptr, i32)",
            "declare i32 @__tw_host_launch(ptr, ptr)",
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


def _with_stub(text: str, symbol: str, description: str) -> tuple[str, list[str]]:
    """``text`` with a stub for a function, and the sizes of its parameters in bytes, as constants of LLVM."""
    definition = parts_of(text).functions[symbol]
    parameters = definition.parameters
    lines, sizes = [f"  %tw.slots = alloca ptr, i32 {max(len(parameters), 1)}"], []
    for i, parameter in enumerate(parameters):
        type, value = parameter_type(parameter), parameter.split()[-1]
        passed = by_value(parameter)
        lines += [f"  %tw.slot{i} = getelementptr ptr, ptr %tw.slots, i32 {i}"]
        sizes.append(_size_of(passed or type))
        if passed:
            lines += [f"  store ptr {value}, ptr %tw.slot{i}"]
            continue
        lines += [
            f"  %tw.value{i} = alloca {type}",
            f"  store {type} {value}, ptr %tw.value{i}",
            f"  store ptr %tw.value{i}, ptr %tw.slot{i}",
        ]
    lines += [f"  %tw.error = call i32 @__tw_host_launch({description}, ptr %tw.slots)", "  ret void"]
    stub = "\n".join([definition.head, "tw.entry:", *lines, "}", ""])
    return text.replace(definition.text, stub, 1), sizes


def _second_halves(text: str, symbol: str) -> int:
    """The parameters of a function, a bit each, that are the second eight bytes of the struct before: two may
    stand for one that is passed by value."""
    definition = parts_of(text).functions[symbol]
    found, before = set[str](), Instruction()
    for i in map(instruction, definition.body.split("\n")):
        if i.op == "store" and before.op == "getelementptr" and i.values[1] == before.result:
            found |= {i.values[0]} if before.values[1:] == ("0", "1") and before.type.startswith("{") else set()
        before = i
    return sum(1 << k for k, parameter in enumerate(definition.parameters) if parameter.split()[-1] in found)


def _with_constructor(text: str) -> str:
    """``text`` with a call of ``tw.register`` before its other constructors."""
    entry = f'{{ i32, ptr, ptr }} {{ i32 {_BEFORE_OTHERS}, ptr @"tw.register", ptr null }}'
    found = parts_of(text).variables.get("llvm.global_ctors")
    if found is None:
        return f"{text}\n@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{entry}]\n"
    size, _, others = found.rest.partition(" x { i32, ptr, ptr }] [")
    line = f"@llvm.global_ctors = appending global [{int(size[1:]) + 1} x {{ i32, ptr, ptr }}] [{entry}, {others}"
    return text.replace(found.line, line, 1)
