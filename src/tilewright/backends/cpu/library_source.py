"""The C text of an exported library: its header, and the function of each kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tilewright.backends.base import Export, Parameter
from tilewright.backends.cpu.compiled import Site
from tilewright.backends.cpu.target import Processor
from tilewright.ir.types import PointerType, TileType
from tilewright.passes.effects import argument_effects

_ELEMENTS = {
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
    "f32": "float",
    "tf32": "float",
    "f64": "double",
    "i1": "bool",
}
_STATUS = """\
#ifndef TILEWRIGHT_STATUS
#define TILEWRIGHT_STATUS
/* What every kernel returns. */
enum tilewright_status {
  TILEWRIGHT_OK = 0,
  TILEWRIGHT_BAD_ARGUMENT = 1,    /* an argument is not what the kernel was compiled for; no block ran */
  TILEWRIGHT_NO_MEMORY = 2,       /* no memory, or too few threads; no block ran */
  TILEWRIGHT_ASSERTION_FAILED = 3 /* an assertion of the kernel failed; some blocks may have run */
};
#endif
"""


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


def definition(kernel: Export, entry: str, sites: Sequence[Site], lowered: tuple[int, bool, int | None]) -> str:
    """The C function of ``kernel``, whose code is the symbol ``entry``; ``lowered`` is scratch, spins and work."""
    scratch, spins, work = lowered
    words = ", ".join(_word(p) for p in sorted(_passed(kernel), key=lambda p: p.position or 0))
    messages = ", ".join(json.dumps(f"{s.loc}: assertion failed: {s.message}") for s in sites)
    checks = "\n".join(f"  {line}" for p in kernel.parameters for line in _checks(p))
    return f"""
extern tw_entry {entry};

{_prototype(kernel)} {{
  static const char *const assertions[] = {{{messages or "0"}}};
  static const tw_kernel kernel = {{
      {entry}, {scratch}, {_boolean(spins)}, {_boolean(work is not None)}, {float(work or 0)}, assertions}};
{checks}
  const tw_word arguments[] = {{{words or "{0}"}}};
  return tw_run(&kernel, grid_x, grid_y, grid_z, arguments);
}}
"""


def _passed(kernel: Export) -> Iterator[Parameter]:
    return (p for p in kernel.parameters if p.position is not None)


def _prototype(kernel: Export) -> str:
    written = argument_effects(kernel.function).written
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
    return f"if ({condition}) return tw_fail(TILEWRIGHT_BAD_ARGUMENT, {json.dumps(message)}, {value});"


def _boolean(value: bool) -> str:
    return str(value).lower()
