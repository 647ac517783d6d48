"""MMA ops of one left operand with tiles side by side are one wider MMA op in PTX.

The tensor cores read the left operand again for each MMA op. Where an iteration multiplies it by several tiles of 32
or 64 columns, as in a kernel with tiles of 96 or 192 columns, whose sizes are powers of two in the language, one
instruction of up to 256 columns does the same. Its descriptor says how far apart in shared memory the parts are, so
they have to be equally far.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tilewright.backends.triton.ptx import Statement, statements

_MMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(32|64)k16\.f32\.(f16\.f16|bf16\.bf16)\s+"
    r"\{(.*?)\}, (%rd\d+), (%rd\d+), (%p\d+), 1, 1, ([01]), 1"
)
_DESCRIPTOR = re.compile(r"(?:or\.b64|add\.s64)\s+%rd\d+, (%rd\d+), (-?\d+)")
_EXTENDED = re.compile(r"cvt\.u64\.u32\s+%rd\d+, (%r\d+)")
_ADDRESS = re.compile(r"bfe\.u32\s+%r\d+, (%r\d+), 4, 1[45]")  # in units of 16 bytes
_SUM = re.compile(r"add\.s32\s+%r\d+, (%r\d+), (\d+)")
_REGISTERS = re.compile(r"add|and|bfe|cvt|mov|or|shl|shr")  # what changes nothing but the registers it names first
_FIRST = re.compile(r"\S+\s+(\{[^}]*\}|[^,\[]*)")
_FENCE, _COMMIT = "wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned"
_WAIT = re.compile(r"(\s*wgmma\.wait_group\.sync\.aligned )(\d+);")
_WIDEST = 256  # columns
# The columns of 16 bits that are as wide as a row of a layout, and the upper half of the descriptors of its tiles.
_LAYOUTS = {64: 0x40000040, 32: 0x80000020}
_UNIT = 16  # bytes


@dataclass(frozen=True)
class _MmaOp:
    at: int  # the statement
    columns: int
    types: str
    accumulators: tuple[str, ...]
    left: str
    right: str
    adds: str
    transposed: str

    @property
    def common(self) -> tuple[str, ...]:
        """What MMA ops must have in common to be merged."""
        return str(self.columns), self.types, self.left, self.adds, self.transposed


@dataclass(frozen=True)
class _Group:
    """The MMA ops between a fence and the end of their group, and the statements between which they are."""

    start: int
    end: int
    mmas: list[_MmaOp] = field(default_factory=list)


@dataclass(frozen=True)
class _OperandAddress:
    """``offset`` bytes from where a register says, whose value comes from the statement ``source``, and so many steps
    along K, of 16 bytes, from there."""

    steps: int
    register: str
    source: int
    offset: int


@dataclass(frozen=True)
class _Merge:
    groups: list[_Group]
    distance: int  # bytes between the right operands of a group and the next one


def merge(text: str) -> str:
    """``text``, in which MMA ops of one left operand with tiles side by side are merged."""
    if not any(f"m64n{columns}k16" in text for columns in _LAYOUTS):
        return text
    lines = text.split("\n")
    body = statements(lines)
    merges = _agreeing(list(_merges(body)), text)
    for found in merges:
        for mmas in zip(*(g.mmas for g in found.groups)):
            _merge_mma(lines, body, mmas, found.distance)
    _count_groups(lines, body, merges)
    return "\n".join(lines)


def _merges(body: Sequence[Statement]) -> Iterator[_Merge]:
    groups = _groups(body)
    while groups:
        count, distance = 1, 0
        for n in range(2, min(len(groups), _WIDEST // groups[0].mmas[0].columns) + 1):
            found = _distance(groups[:n], body)
            if found is None:
                break
            count, distance = n, found
        if count > 1:
            yield _Merge(groups[:count], distance)
        groups = groups[count:]


def _groups(body: Sequence[Statement]) -> list[_Group]:
    """All groups of MMA ops of this form, between whose fence and end there is nothing else that matters."""
    found = []
    group: _Group | None = None
    for at, s in enumerate(body):
        mma = _MMA.fullmatch(s.text)
        if s.text == _FENCE:
            group = _Group(at, at)
        elif group is not None and s.text == _COMMIT and group.mmas:
            found.append(_Group(group.start, at, group.mmas))
            group = None
        elif group is not None and mma is not None and not s.guard:
            columns, types, accumulators, *others = mma.groups()
            group.mmas.append(_MmaOp(at, int(columns), types, tuple(accumulators.split(",")), *others))
        elif not _is_quiet(s):
            group = None
    return found


def _is_quiet(s: Statement) -> bool:
    """Whether a statement changes registers, and nothing else."""
    return not s.guard and _REGISTERS.fullmatch(s.opcode) is not None


def _agreeing(merges: list[_Merge], text: str) -> list[_Merge]:
    """Those of ``merges`` whose first right operands nothing else sees, but others of them with the same distance."""
    while True:
        seen = Counter((p.right, found.distance) for found in merges for p in found.groups[0].mmas)
        alone = {right: len(re.findall(rf"{right}\b", text)) == 1 + count for (right, _), count in seen.items()}
        agreeing = [found for found in merges if all(alone[p.right] for p in found.groups[0].mmas)]
        if len(agreeing) == len(merges):
            return merges
        merges = agreeing


def _distance(groups: Sequence[_Group], body: Sequence[Statement]) -> int | None:
    """How far apart the right operands of the MMA ops of ``groups`` are, one after the other; None where the MMA ops
    cannot be merged."""
    between = (body[k] for g, h in pairwise(groups) for k in range(g.end + 1, h.start))
    alike = len({len(g.mmas) for g in groups}) == 1
    accumulators = [{register for p in g.mmas for register in p.accumulators} for g in groups]
    others = len(set().union(*accumulators)) == sum(map(len, accumulators))  # each group has its own
    if not alike or not others or not all(_is_quiet(s) for s in between):
        return None
    start = groups[0].start
    distances = {d for parts in zip(*(g.mmas for g in groups)) for d in _distances(parts, start, body)}
    distance = distances.pop() if len(distances) == 1 else None
    fits = distance is not None and distance % _UNIT == 0 and 0 < distance // _UNIT < 1 << 14
    return distance if fits else None


def _distances(parts: Sequence[_MmaOp], start: int, body: Sequence[Statement]) -> Iterator[int | None]:
    """The bytes between the right operands of ``parts``, one after the other; None where that is not known, and where
    the MMA ops differ otherwise, or do with the fence at ``start``, after which no sum may change."""
    if len({p.common for p in parts}) > 1:
        yield None
    places = [_operand_address(p, body) for p in parts]
    for x, y in pairwise(places):
        known = x is not None and y is not None and replace(x, offset=y.offset) == y
        yield y.offset - x.offset if x is not None and y is not None and known else None
    for p in parts[1:]:
        if _changed(body[start : p.at]) & {*p.accumulators} or _changed(body[parts[0].at : p.at]) & {p.left, p.adds}:
            yield None


def _changed(statements: Sequence[Statement]) -> set[str]:
    """The registers that quiet ones of these change."""
    return {register for s in statements if _is_quiet(s) for register in _targets(s)}


def _operand_address(mma: _MmaOp, body: Sequence[Statement]) -> _OperandAddress | None:
    """Where the right operand of ``mma`` is; None where its rows are not as wide as those of the layout."""
    made, at = _made(_DESCRIPTOR, mma.right, mma.at, body)
    extended, at = _made(_EXTENDED, made[1], at, body) if made is not None else (None, at)
    if made is None or extended is None:
        return None
    high, low = divmod(int(made[2]) % (1 << 64), 1 << 32)
    number, steps, at = _without_sums(extended[1], at, body)
    place, at = _made(_ADDRESS, number, at, body)
    if place is None or high != _LAYOUTS[mma.columns] or low + steps >= 1 << 14:
        return None
    number, offset, at = _without_sums(place[1], at, body)
    source = _defined(number, at, body)
    return _OperandAddress(low + steps, number, -1 if source is None else source, offset)


def _without_sums(number: str, at: int, body: Sequence[Statement]) -> tuple[str, int, int]:
    """What ``number`` is the sum of: a register, and a constant; and a statement where the register has this value."""
    total = 0
    found, at = _made(_SUM, number, at, body)
    while found is not None:
        number, total = found[1], total + int(found[2])
        found, at = _made(_SUM, number, at, body)
    return number, total, at


def _made(
    form: re.Pattern[str], register: str, before: int, body: Sequence[Statement]
) -> tuple[re.Match[str] | None, int]:
    """The statement of this form that gives ``register`` the value it has before another one, and where it is."""
    at = _defined(register, before, body)
    found = form.fullmatch(body[at].text) if at is not None else None
    return (found, at) if found is not None and at is not None else (None, before)


def _defined(register: str, before: int, body: Sequence[Statement]) -> int | None:
    """Where ``register`` gets the value that it has before a statement; None when that is not in the same straight
    line."""
    for at in range(before - 1, -1, -1):
        s = body[at]
        if s.text.endswith(":") or s.target is not None:
            return None
        if register in _targets(s):
            return at if not s.guard else None
    return None


def _targets(s: Statement) -> list[str]:
    """The registers that a statement names first, in braces or with a bar where it changes several."""
    first = _FIRST.match(s.text)
    return re.findall(r"%\w+", first[1]) if first is not None else []


def _merge_mma(lines: list[str], body: Sequence[Statement], parts: Sequence[_MmaOp], distance: int) -> None:
    """Make the first of ``parts`` do what all do."""
    first = parts[0]
    made = _defined(first.right, first.at, body)
    assert made is not None
    line = body[made].line
    old = _DESCRIPTOR.search(lines[line])
    assert old is not None
    stride = distance // _UNIT << 16
    if (int(old[2]) >> 16 & 0x3FFF) == 0:  # two MMA ops may have the descriptor in common
        lines[line] = f"\tadd.s64 \t{first.right}, {old[1]}, {int(old[2]) + stride};"
    accumulators = ",".join(register for p in parts for register in p.accumulators)
    lines[body[first.at].line] = (
        f"\twgmma.mma_async.sync.aligned.m64n{len(parts) * first.columns}k16.f32.{first.types} {{{accumulators}}}, "
        f"{first.left}, {first.right}, {first.adds}, 1, 1, {first.transposed}, 1;"
    )
    for p in parts[1:]:
        lines[body[p.at].line] = ""


def _count_groups(lines: list[str], body: Sequence[Statement], merges: Sequence[_Merge]) -> None:
    """Leave out the groups that are empty now, where waits still count the same ones without them."""
    counts = {len(found.groups) for found in merges}
    waits = {at: wait for at, line in enumerate(lines) if (wait := _WAIT.fullmatch(line)) is not None}
    all_groups = sum(s.text == _COMMIT for s in body)
    if len(counts) != 1 or all_groups != sum(len(found.groups) for found in merges):
        return
    (count,) = counts
    if any(int(wait[2]) % count for wait in waits.values()):
        return
    for at, wait in waits.items():
        lines[at] = f"{wait[1]}{int(wait[2]) // count};"
    for found in merges:
        for group in found.groups[1:]:
            lines[body[group.start].line] = lines[body[group.end].line] = ""
