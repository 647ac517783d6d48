"""The C text of an exported library: its header, and the function of each kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.manager import AnalysisManager
from tilewright.backends import deadlock
from tilewright.backends.cpu import context
from tilewright.backends.cpu.codegen.kernel import Lowered
from tilewright.backends.cpu.compiled import WATCH_SUFFIX
from tilewright.backends.cpu.scratch import ALIGNMENT, element_bytes
from tilewright.backends.cpu.target import Processor
from tilewright.backends.export import Export, Parameter
from tilewright.ir.core import Op
from tilewright.ir.formatting import parse_conversion
from tilewright.ir.ops.control import Loop
from tilewright.ir.ops.memory import Assert, Print
from tilewright.ir.types import PointerType, TileType

_ELEMENTS = {
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
    "f32": "float",
    "tf32": "float",
    "f64": "double",
    "i1": "bool",
}
# What ``library_runtime.c`` shares with the launches of Python.
_SHARED = {
    **{name.upper(): word for name, word in context.named_words().items()},
    "FIELDS": len(context.Field),
    "ENDED": context.ENDED,
    "STUCK": context.STUCK,
    "WATCH_FIELDS": len(context.Watch),
    "SHOWN": deadlock.SHOWN,
    "TOO_FEW_THREADS": json.dumps(context.TOO_FEW_THREADS),
    "DEADLOCK": json.dumps(deadlock.TEXT),
    "DEADLOCK_OF_LOOPS": json.dumps(deadlock.OF_LOOPS),
    **{f"{name}_NS": int(getattr(context, name) * 1e9) for name in ("PATIENCE", "SHORTEST_TICK", "LONGEST_TICK")},
    "ALIGNMENT": ALIGNMENT,
    "WORKER_BYTES": context.WORKER_BYTES,
    "CHUNKS_PER_THREAD": context.CHUNKS_PER_THREAD,
}
FIELDS = "".join(f"#define TW_{name} {value}\n" for name, value in _SHARED.items())
# Words that are no names in C or in C++, and macros of the headers that a library includes.
_WORDS = """
alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char class compl complex concept const
const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum errno explicit export extern false float for friend goto if imaginary inline int linux long
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast stderr stdin stdout
struct switch template this thread_local throw true try typedef typeid typename typeof union unix unsigned using
virtual void volatile while xor xor_eq NULL INFINITY NAN I
"""
RESERVED = frozenset(_WORDS.split())
_STATUS = """\
#ifndef TILEWRIGHT_STATUS
#define TILEWRIGHT_STATUS
/* What every kernel returns. */
enum tilewright_status {
  TILEWRIGHT_OK = 0,
  TILEWRIGHT_BAD_ARGUMENT = 1,     /* an argument is not what the kernel was compiled for; no block ran */
  TILEWRIGHT_NO_MEMORY = 2,        /* no memory, or too few threads for blocks that wait for each other */
  TILEWRIGHT_ASSERTION_FAILED = 3, /* an assertion of the kernel failed; some blocks may have run */
  TILEWRIGHT_DEADLOCK = 4          /* blocks wait for each other, and none can progress; some may have run */
};
#endif
"""


# What the runtime of a library expects.
TYPES = f"#include <stdbool.h>\n#include <stdint.h>\n{_STATUS}"


def header(library: str, kernels: Sequence[Export], processor: Processor) -> str:
    """The header of ``library``."""
    guard = f"TILEWRIGHT_{library.upper()}_H"
    declarations = "\n\n".join(f"{_prototype(k)};" for k in kernels)
    return f"""\
/* Kernels compiled by tilewright for {processor.cpu} ({processor.triple}).

   Each runs all blocks of the grid on the processors that TILEWRIGHT_NUM_THREADS (default: all) allows, and returns
   when they have ended. Extents and strides count elements. Arrays of floats narrower than 32 bits are passed as
   arrays of integers of their size, such scalars as float. A list is a table of int64 rows, each the address, the
   extents and the strides of an array, and the number of rows. */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{_STATUS}
/* Why the last call in this thread did not return TILEWRIGHT_OK. */
const char *{library}_last_error(void);

{declarations}

#ifdef __cplusplus
}}
#endif

#endif
"""


class Code(NamedTuple):
    """The code of a kernel, which is the symbol ``entry``, and what it is made of."""

    entry: str
    lowered: Lowered


def definition(kernel: Export, code: Code) -> str:
    """The C function of ``kernel``."""
    words = ", ".join(_word(p) for p in sorted(_passed(kernel), key=lambda p: p.position or 0))
    checks = "\n".join(f"  {line}" for p in kernel.parameters for line in _checks(p))
    return f"""
{_described(code)}
{_prototype(kernel)} {{
{checks}
  const tw_word tw_arguments[] = {{{words or "{0}"}}};
  return tw_run(&{code.entry}_kernel, grid_x, grid_y, grid_z, tw_arguments);
}}
"""


def _described(code: Code) -> str:
    """The ``tw_kernel`` of ``code``."""
    entry, lowered = code
    polls = lowered.polls if lowered.may_spin else ()
    places = ", ".join(f"{{{_text(f'{op.loc} ({op.name})')}, {_boolean(isinstance(op, Loop))}}}" for op in polls)
    watch = f"{entry}{WATCH_SUFFIX}" if lowered.may_spin else "NULL"
    messages = ", ".join(
        _text(f"{op.loc}: assertion failed: {op.message if isinstance(op, Assert) else ''}") for op in lowered.sites
    )
    printer = f"{entry}_print" if any(isinstance(op, Print) for op in lowered.sites) else "NULL"
    return f"""\
extern tw_entry {entry};
{f"extern tw_watch {watch};" if lowered.may_spin else ""}
{_print_function(printer, lowered.sites) if printer != "NULL" else ""}
static const char *const {entry}_assertions[] = {{{messages or "0"}}};
static const tw_place {entry}_places[] = {{{places or "{0}"}}};
static const tw_kernel {entry}_kernel = {{
    {entry}, {lowered.scratch_bytes}, {watch}, {float(context.blocks_alone(lowered.block_work))},
    {entry}_assertions, {entry}_places, {printer}}};
"""


def program_definitions(kernels: Sequence[tuple[tuple[str, Sequence[int]], Code, Code]]) -> str:
    """What registers kernels with the runtime of a C++ program: of each the symbol and the codes of the types of its
    parameters, its code, and that for launches with null pointers."""
    texts: list[str] = []
    rows = []
    for (symbol, codes), *both in kernels:
        texts += map(_runner, both)
        usual, null = (f"{code.entry}_run" for code in both)
        types = ", ".join(map(str, codes)) or "0"
        rows.append(f"  {{{_text(symbol)}, {{{usual}, {null}}}, tw_last_error, (const unsigned char[]){{{types}}}}},")
    table = "\n".join(rows)
    return f"""{"".join(texts)}
typedef struct {{
  const char *symbol;
  int (*run[2])(unsigned, unsigned, unsigned, const tw_word *);
  const char *(*message)(void);
  const unsigned char *codes;
}} tw_code;
static const tw_code tw_codes[] = {{
{table}
}};
void __tw_register_tile_code(const tw_code *, unsigned);
__attribute__((constructor(101))) static void tw_register(void) {{ __tw_register_tile_code(tw_codes, {len(rows)}); }}
"""


def _runner(code: Code) -> str:
    """A function that runs ``code``."""
    return f"""{_described(code)}
static int {code.entry}_run(unsigned x, unsigned y, unsigned z, const tw_word *arguments) {{
  return tw_run(&{code.entry}_kernel, x, y, z, arguments);
}}
"""


def with_c_names(kernel: Export) -> Export:
    """``kernel`` with parameters whose names are different, and have no other use in C, C++ or this file."""
    taken = {"grid_x", "grid_y", "grid_z"}
    parameters = []
    for p in kernel.parameters:
        name = re.sub(r"\W", "_", p.name, flags=re.ASCII)
        if name.lower().startswith(("tw_", "tilewright_", "_")):
            name = f"arg_{name}"
        while name in taken or name in RESERVED or name.endswith("_t"):
            name += "_"
        taken.add(name)
        parameters.append(replace(p, name=name))
    return replace(kernel, parameters=tuple(parameters))


def _passed(kernel: Export) -> Iterator[Parameter]:
    return (p for p in kernel.parameters if p.position is not None)


def _prototype(kernel: Export) -> str:
    written = AnalysisManager(kernel.function).get(argument_effects).written
    parameters = ["uint32_t grid_x, uint32_t grid_y, uint32_t grid_z"]
    parameters += [_declaration(p, p.argument in written) for p in kernel.parameters]
    separator = ",\n    "
    return f"int32_t {kernel.symbol}(\n    {separator.join(parameters)})"


def _declaration(p: Parameter, written: bool) -> str:
    t = p.type
    if not isinstance(t.dtype, PointerType):
        return f"{_scalar(t)} {p.name}"
    element = _ELEMENTS.get(t.pointee.short, f"uint{8 * t.pointee.bytes}_t")
    return f"{'' if written else 'const '}{element} *{p.name}"


def _scalar(t: TileType) -> str:
    return _ELEMENTS.get(t.element.short, "float")


def _word(p: Parameter) -> str:
    if p.type.is_pointer:
        return f"{{.address = {p.name}}}"
    return f"{{.number = {p.name}}}" if p.type.element.is_floating else f"{{.integer = (int64_t){p.name}}}"


def _checks(p: Parameter) -> Iterator[str]:
    """Statements that refuse what the code does not expect."""
    value = f"(uintptr_t){p.name}" if p.type.is_pointer else p.name
    subject = f"the address of {p.argument}" if p.type.is_pointer else p.argument
    shown = f"(long long){value}"
    if p.known is not None:
        yield _refusal(f"{value} != {p.known}", f"{subject} is %lld, but the kernel is compiled for {p.known}", shown)
    elif p.lower is not None:
        yield _refusal(f"{value} < {p.lower}", f"{subject} is %lld, but it must be at least {p.lower}", shown)
    if p.divisor != 1:
        words = f"{subject} is %lld, but the kernel is compiled for multiples of {p.divisor}"
        yield _refusal(f"{value} % {p.divisor} != 0", words, shown)


def _refusal(condition: str, message: str, value: str) -> str:
    return f"if ({condition}) return tw_fail(TILEWRIGHT_BAD_ARGUMENT, {_text(message)}, {value});"


def _print_function(name: str, sites: Sequence[Op]) -> str:
    """What the code calls to print: a function that knows the print ops of the kernel."""
    lines, rows = [], []
    for number, op in enumerate(sites):
        if not isinstance(op, Print):
            rows.append("{0}")  # an assert
            continue
        prefix = f"{name}_{number}"
        types = [value.tile for value in op.values]
        for i, t in enumerate(types):
            lines.append(f"static const int {prefix}_shape{i}[] = {{{', '.join(map(str, t.shape)) or '0'}}};")
        values = [_value(t, form, f"{prefix}_shape{i}") for i, (t, form) in enumerate(zip(types, op.formats))]
        parts = ["0" if part is None else _text(part) for part in op.parts]
        lines.append(f"static const tw_value {prefix}_values[] = {{{', '.join(values) or '{0}'}}};")
        lines.append(f"static const char *const {prefix}_parts[] = {{{', '.join(parts)}}};")
        rows.append(f"{{{len(parts)}, {prefix}_parts, {prefix}_values}}")
    return "\n".join(
        [
            *lines,
            f"static const tw_site {name}_sites[] = {{{', '.join(rows)}}};",
            f"static void {name}(int64_t site, const int64_t *values) {{ tw_print(&{name}_sites[site], values); }}",
        ]
    )


def _value(t: TileType, conversion: str, shape: str) -> str:
    """The description of a printed value: see ``tw_value``."""
    flags, width, digits, kind = parse_conversion(conversion, t.dtype)
    center = width if "^" in flags and "-" not in flags else 0
    field = f"{'' if center or not width else width}{'' if digits is None else f'.{digits}'}"
    flags = flags.replace("^", "")
    if kind == "p":
        form, family = f"{'-' * ('-' in flags)}{field}#llx", "u"
    elif kind in "eEfFgGaA":
        form, family = f"{flags}{field}{kind}", "a" if kind in "aA" else "f"
    elif kind == "c":
        form, family = f"{flags}{field}c", "c"
    elif kind in "di":
        form, family = f"{flags}{field}lld", "d" if not t.is_pointer and t.element.is_signed else "u"
    else:
        form, family = f"{flags.replace('+', '').replace(' ', '')}{field}ll{kind}", "u"
    return f"{{{_text('%' + form)}, '{family}', {element_bytes(t.dtype)}, {center}, {t.rank}, {shape}}}"


def _text(text: str) -> str:
    """A C string literal."""
    plain = [c if c.isascii() and c.isprintable() and c not in '"\\?' else None for c in text]
    octal = ["".join(f"\\{b:03o}" for b in c.encode()) for c in text]
    return '"' + "".join(octal[i] if c is None else c for i, c in enumerate(plain)) + '"'


def _boolean(value: bool) -> str:
    return str(value).lower()
