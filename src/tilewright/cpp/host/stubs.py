"""Edits of the host part of a program, as LLVM text: kernels become stubs that ask the runtime for a launch.

A stub hands over what describes its kernel (``kernel`` of ``runtime.h``) and the addresses of its arguments, as
``cudaLaunchKernel`` gets them. The descriptions are registered before ``main`` begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewright.cpp.host.parameters import by_value, constant, parameter_type, split_parameters
from tilewright.cpp.host.simt import Way, code_of

_DEFINITION = (
    r"^define [^\n]*@{symbol}\((?P<parameters>[^\n]*?)\)(?: [^()\n]*(?:\([^()\n]*\)[^()\n]*)*)?\{{\n(?P<body>.*?)^\}}\n"
)
_CONSTRUCTORS = re.compile(r"^@llvm\.global_ctors = appending global \[(\d+) x \{ i32, ptr, ptr \}\] \[(.*)\]$", re.M)
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
    text = re.sub(r"^declare !dbg !\d+ ", "declare ", text, flags=re.M)
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
    text = re.sub(r"^declare (?=[^@\n]*@__tw_)", "declare extern_weak ", text, flags=re.M)
    return "\n".join([text, *constants, ""])


def _name(symbol: str) -> str:
    return symbol if re.fullmatch(r"[-\w.]+", symbol) else f'"{symbol}"'


def _size_of(type: str) -> str:
    """The bytes of a type, as a constant of LLVM."""
    return f"ptrtoint (ptr getelementptr ({type}, ptr null, i32 1) to i32)"


def _string(name: str, value: str) -> str:
    return f'@"{name}" = private constant {constant(value)}'


def _with_stub(text: str, symbol: str, description: str) -> tuple[str, list[str]]:
    """``text`` with a stub for a function, and the sizes of its parameters in bytes, as constants of LLVM."""
    pattern = _DEFINITION.format(symbol=re.escape(_name(symbol)))
    match = re.search(pattern, text, re.M | re.S)
    assert match is not None, symbol
    parameters = split_parameters(match["parameters"])
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
    start, end = match.span("body")
    return text[:start] + "tw.entry:\n" + "\n".join(lines) + "\n" + text[end:], sizes


def _second_halves(text: str, symbol: str) -> int:
    """The parameters of a function, a bit each, that are the second eight bytes of the struct before: two may
    stand for one that is passed by value."""
    match = re.search(_DEFINITION.format(symbol=re.escape(_name(symbol))), text, re.M | re.S)
    assert match is not None, symbol
    names = [re.escape(parameter.split()[-1]) for parameter in split_parameters(match["parameters"])]
    stored = (
        r"^ *(%[-\w.$]+) = getelementptr [^\n]*\{{[^\n]*, i32 0, i32 1[^\n]*\n *store [^\n]*? {}, ptr \1(?![-\w.$])"
    )
    return sum(1 << i for i, name in enumerate(names) if re.search(stored.format(name), match["body"], re.M))


def _with_constructor(text: str) -> str:
    """``text`` with a call of ``tw.register`` before its other constructors."""
    entry = f'{{ i32, ptr, ptr }} {{ i32 {_BEFORE_OTHERS}, ptr @"tw.register", ptr null }}'
    match = _CONSTRUCTORS.search(text)
    if match is None:
        return f"{text}\n@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{entry}]\n"
    count = int(match[1]) + 1
    line = f"@llvm.global_ctors = appending global [{count} x {{ i32, ptr, ptr }}] [{entry}, {match[2]}]"
    return text[: match.start()] + line + text[match.end() :]
