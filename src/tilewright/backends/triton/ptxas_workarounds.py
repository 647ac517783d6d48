"""PTX as text in which what ptxas compiles wrongly (12.8 and 12.9) is said in another way.

A descriptor tells the tensor cores where a tile is, in its lower half, and how it is laid out, in its upper half. Where
tiles of two layouts take turns at one address of shared memory, ptxas 12.8 adds the upper half of the second to the
address instead of to zero. There the halves are put together without a sum of 64 bits.

Where two numbers of 16 bits in a register are added to constants and one of the sums is not used, ptxas adds 0 to the
other. They are added one by one.

Two MMA ops of the same operands, such as those of 64 rows each that make one of 128 equal rows, ptxas 12.8 takes for
one, and the second result may be lost. A fence keeps them apart.

It may crash at waits for MMA ops that have all ended. They are left out.

The absolute value of an integer, which LLVM makes of whatever is one, it takes for a number that is not negative; that
of the least integer is. There, the sign is compared. Integers of 16 bits it negates in 32 bits, of which the upper ones
are then wrong for the least integer, and takes the sign from there. They are negated as sums are made.

Whether the least or greatest of two integers of 16 bits is one that it knows, it finds for Hopper and later by an
instruction on two pairs, and takes what that says of the other pair. They are compared and selected.
"""

from __future__ import annotations

import re

_DESCRIPTOR = re.compile(r"\s*(?:or\.b64|add\.s64)\s+(%rd\d+), (%rd\d+), (-?\d+);")
_DEFINED = re.compile(r"\s*([a-z]\S*)\s+(%rd\d+),.*")
_EXTENDED = "cvt.u64.u32"
_MMA = re.compile(  # whose sum starts with it
    r"\s*wgmma\.mma_async\.sync\.aligned\.(\S+)\s+\{[^}]*\}, (\{[^}]*\}|%rd\d+), (%rd\d+), 0((?:, -?\d+)*);"
)
_WAIT = re.compile(r"\s*wgmma\.wait_group\.sync\.aligned\s+(\d+);")
_FENCE, _END = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
_LABEL = re.compile(r"\s*[\w$]+:")
_SUMS = re.compile(r"\tadd\.[us]16x2\s+(%r\d+), (%r\d+), (%r\d+);")
_EXTREME = re.compile(r"^\s*(min|max)\.([su])16(x2)?\s+(%r\w+), ([^,]+), ([^;]+);", re.MULTILINE)
_NEGATION = re.compile(r"^\s*neg\.s16\s+(%rs\d+), (%rs\d+);", re.MULTILINE)
_ABSOLUTE = re.compile(r"^\s*abs\.s(16|32|64)\s+(%r[sd]?\d+), (%r[sd]?\d+);", re.MULTILINE)


def repair(text: str) -> str:
    """``text``, compiled right."""
    for form, right in ((_EXTREME, _selected), (_ABSOLUTE, _by_sign), (_NEGATION, _as_sum), (_SUMS, _one_by_one)):
        text = form.sub(right, text)
    return separate_descriptors(text)


def _selected(found: re.Match[str]) -> str:
    name, sign, both, result, x, y = found.groups()
    compare = f"setp.{'lt' if name == 'min' else 'gt'}.{sign}16 is_kept"
    if not both:
        return f"\t{{\n\t.reg .pred is_kept;\n\t{compare}, {x}, {y};\n\tselp.b16 {result}, {x}, {y}, is_kept;\n\t}}"
    return f"""\t{{
\t.reg .pred is_kept;
\t.reg .b16 low, high, other_low, other_high;
\tmov.b32 {{low, high}}, {x};
\tmov.b32 {{other_low, other_high}}, {y};
\t{compare}, low, other_low;
\tselp.b16 low, low, other_low, is_kept;
\t{compare}, high, other_high;
\tselp.b16 high, high, other_high, is_kept;
\tmov.b32 {result}, {{low, high}};
\t}}"""


def _as_sum(found: re.Match[str]) -> str:
    result, x = found.groups()
    return "\t{\n\t.reg .b16 flipped;\n" + _negate("flipped", x, result) + "\n\t}"


def _negate(flipped: str, x: str, result: str) -> str:
    return f"\tnot.b16 {flipped}, {x};\n\tadd.s16 {result}, {flipped}, 1;"


def _by_sign(found: re.Match[str]) -> str:
    bits, result, x = found.groups()
    negate = _negate("negated", x, "negated") if bits == "16" else f"\tneg.s{bits} negated, {x};"
    return f"""\t{{
\t.reg .pred is_negative;
\t.reg .b{bits} negated;
{negate}
\tsetp.lt.s{bits} is_negative, {x}, 0;
\tselp.b{bits} {result}, negated, {x}, is_negative;
\t}}"""


def _one_by_one(found: re.Match[str]) -> str:
    result, x, y = found.groups()
    return f"""\t{{
\t.reg .b16 low, high, more_low, more_high;
\tmov.b32 {{low, high}}, {x};
\tmov.b32 {{more_low, more_high}}, {y};
\tadd.s16 low, low, more_low;
\tadd.s16 high, high, more_high;
\tmov.b32 {result}, {{low, high}};
\t}}"""


def separate_descriptors(text: str) -> str:
    """``text``, in which descriptors of several layouts of one address are made of two halves."""
    if "wgmma.mma_async" not in text:
        return text
    lines = text.split("\n")
    makers: dict[str, set[str]] = {}
    for line in lines:
        if (found := _DEFINED.fullmatch(line)) is not None:
            makers.setdefault(found[2], set()).add(found[1])
    bases = {register for register, instructions in makers.items() if instructions == {_EXTENDED}}
    sums = {at: found for at, line in enumerate(lines) if (found := _DESCRIPTOR.fullmatch(line)) and found[2] in bases}
    layouts: dict[str, set[int]] = {}
    for found in sums.values():
        layouts.setdefault(found[2], set()).add(_halves(found)[1])
    for at, found in sums.items():
        low, high = _halves(found)
        if len(layouts[found[2]] - {0}) > 1 and high and low <= _MOST_OFFSET:
            lines[at] = _joined(found[1], found[2], low, high)
    return "\n".join(lines)


_MOST_OFFSET = (1 << 31) - 1  # with which an address of 14 bits is no longer than 32 bits


def _halves(found: re.Match[str]) -> tuple[int, int]:
    """The lower and the upper half of what is added to an address."""
    high, low = divmod(int(found[3]) % (1 << 64), 1 << 32)
    return low, high


def _joined(descriptor: str, address: str, low: int, high: int) -> str:
    """The address is the one in the register here: LLVM gives it another where it is done with this one."""
    return f"""\t{{
\t.reg .b32 lower;
\tcvt.u32.u64 lower, {address};
\tadd.s32 lower, lower, {low};
\tmov.b64 {descriptor}, {{lower, {high}}};
\t}}"""


def repair_mma(text: str) -> str:
    """``text``, whose MMA ops are compiled right: the last change of all."""
    return separate_equal_wgmmas(without_idle_waits(text)) if "wgmma.mma_async" in text else text


def separate_equal_wgmmas(text: str) -> str:
    """``text``, in which a fence is before each MMA op that starts with the operands of one since the last fence."""
    seen: set[tuple[str, ...]] = set()
    lines = []
    for line in text.split("\n"):
        mma = _MMA.fullmatch(line)
        if line.strip() == _FENCE:
            seen.clear()
        elif mma is not None:
            if mma.groups() in seen:
                lines.append(f"\t{_FENCE}")
                seen.clear()
            seen.add(mma.groups())
        lines.append(line)
    return "\n".join(lines)


def without_idle_waits(text: str) -> str:
    """``text`` without waits, in straight lines, that find no more groups of MMA ops running than they allow."""
    lines = []
    running: int | None = None  # groups, at most; not known where other code may come from
    for line in text.split("\n"):
        wait = _WAIT.fullmatch(line)
        if _LABEL.match(line) is not None:
            running = None
        elif line.strip() == _END and running is not None:
            running += 1
        elif wait is not None:
            if running is not None and int(wait[1]) >= running:
                continue
            running = int(wait[1])
        lines.append(line)
    return "\n".join(lines)
