"""Regions of SIMT kernels in which only the first threads do something, as behind ``if (threadIdx.x < n)``, or only
each n-th, as behind ``if (threadIdx.x % n == 0)``.

The block asks once where such a region ends, and for how many threads it is to run at all, at which distance.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.cpp.host.debug_info import Line
from tilewright.cpp.host.uniform import ACCESS, LOCAL, PURE, Block, same_value
from tilewright.ir.reachable import reachable

IN_PLANE = "%tw.flat"  # threadIdx.y * blockDim.x + threadIdx.x
_COMPARISON = re.compile(
    rf"^  {LOCAL} = icmp (?:samesign )?(?P<how>[us][lg][te]|eq|ne) (?P<type>i32|i64) (?P<x>[^,]+), (?P<y>[^, ]+)"
)
_BRANCH = re.compile(rf"^  br i1 (?P<value>[^,]+), label (?P<yes>{LOCAL}), label (?P<no>{LOCAL})")
_WIDER = re.compile(rf"^  {LOCAL} = [sz]ext (?:nneg )?i32 (?P<value>{LOCAL}) to i64")
_SAME = re.compile(rf"^  {LOCAL} = (?:add|or|bitcast) i32 (?P<value>{LOCAL})(?:, 0| to i32)(?:,|$)")
_PRODUCT = re.compile(rf"^  {LOCAL} = mul (?:nuw )?(?:nsw )?i32 (?P<x>{LOCAL}), (?P<y>{LOCAL})")
_SCALED = re.compile(rf"^  {LOCAL} = mul (?:nuw )?(?:nsw )?i32 (?P<x>{LOCAL}), (?P<y>\d+)")
_FITS = 1 << 21  # times the threads of a block
_SUM = re.compile(rf"^  (?P<name>{LOCAL}) = add (?:nuw )?(?:nsw )?i32 (?P<x>{LOCAL}), (?P<y>{LOCAL})")
_REMAINDER = re.compile(rf"^  {LOCAL} = (?P<how>[us])rem i32 (?P<x>{LOCAL}), (?P<y>[^, ]+)")
_SWAPPED = {"ult": "ugt", "slt": "sgt", "ule": "uge", "sle": "sge", "eq": "eq"}
_SWAPPED |= {other: how for how, other in _SWAPPED.items()} | {"ne": "ne"}
_NOT = {"uge": "ult", "sge": "slt", "ugt": "ule", "sgt": "sle", "ne": "eq"}


@dataclass(frozen=True)
class Guard:
    """A region in two: ``asked`` stores in ``%tw.bound`` how many threads of a row run ``body``, and behind it of which
    distance, and ends as all do."""

    asked: list[Block]
    body: list[Block]


def in_plane(lines: Iterable[str]) -> list[str]:
    """``lines`` with ``IN_PLANE`` where they compute it."""
    lines = list(lines)
    definitions = {m[1]: line for line in lines if (m := re.match(rf"  ({LOCAL}) = ", line))}

    def plain(value: str) -> str:
        found = _SAME.match(definitions.get(value, ""))
        return value if found is None else plain(found["value"])

    def row(value: str) -> bool:
        found = _PRODUCT.match(definitions.get(value, ""))
        return found is not None and {plain(found["x"]), plain(found["y"])} == {"%tw.c1", "%tw.c6"}

    def edited(line: str) -> str:
        found = _SUM.match(line)
        if found is None or not any(
            plain(a) == "%tw.c0" and row(b) for a, b in ((found["x"], found["y"]), (found["y"], found["x"]))
        ):
            return line
        return line.replace(line[: found.end()], f"  {found['name']} = add i32 {IN_PLANE}, 0", 1)

    return [edited(line) for line in lines]


def guard(
    region: Sequence[Block],
    known: Mapping[str, bool],
    definitions: Mapping[str, str],
    recomputed: Mapping[str, Sequence[str]],
    variables: Collection[str],
    private: Collection[str],
    quiet: Collection[int],
) -> Guard | None:
    """The parts of a region, if threads part at one comparison of their number in a row with what is ``known`` to be
    uniform, and those on one side of it only go on to where all end, one of the barriers ``quiet``, which count
    nothing. All may load from ``variables``, and store to ``private`` ones."""
    blocks = {f"%{block.label}": block for block in region}
    start = f"%{region[0].label}"
    skipping: dict[str, tuple[str, str]] = {}  # the block that parts, what those go on with who do something, and not
    bounds: dict[str, list[str]] = {}
    exact: dict[str, bool] = {}

    def after(name: str) -> list[str]:
        block = blocks[name]
        branch = next((m for line in block.lines if (m := _BRANCH.match(line))), None)
        if branch is None or same_value(branch["value"], known):
            return block.successors()
        own = {**definitions, **_forwarded(block, variables)}
        found = _bound(own.get(branch["value"], ""), own, recomputed, known)
        if found is None:
            return [*block.successors(), ""]
        bounds[name], first, exact[name] = found
        skipping[name] = (branch["yes"], branch["no"]) if first else (branch["no"], branch["yes"])
        return [skipping[name][1]]

    prefix = set(reachable([start], lambda name: after(name) if name else []))
    if len(skipping) != 1 or "" in prefix:
        return None
    ((at, (work, skip)),) = skipping.items()
    behind = set(reachable([work, skip], lambda name: blocks[name].successors()))
    if at in behind or not all(_is_quiet(blocks[name], variables, private) for name in prefix):
        return None
    ends = {_end(blocks[name]) for name in behind} - {None}
    if len(ends) != 1 or not ends & {0, *quiet}:
        return None
    of_work = set(reachable([work] if exact[at] else [work, skip], lambda name: blocks[name].successors()))
    before = {other: {name for name in prefix if other in blocks[name].successors()} for other in prefix}
    leading = set(reachable(before[at], before.__getitem__))  # to where threads part
    asked, body = [], []
    for name, block in blocks.items():
        if name in prefix:
            asked.append(block if name != at else replace(block, lines=_going_to(block, skip, bounds[at])))
        if name == at:
            body.append(replace(block, lines=_going_to(block, work, ())) if exact[at] else block)
        elif name in leading:
            to = [n for n in block.successors() if n in leading or n == at]
            body.append(block if len(to) > 1 else replace(block, lines=_going_to(block, to[0], ())))
        elif name in of_work:
            body.append(block)
    return Guard(asked, body)


def _going_to(block: Block, target: str, before: Sequence[str]) -> list[str]:
    """The lines of ``block`` that end by going to the block ``target``, behind the lines ``before``."""
    kept = [line for line in block.lines if not line.startswith("  br ")]
    return [*kept, *(Line.of(line) for line in before), Line.of(f"  br label {target}")]


def _forwarded(block: Block, variables: Collection[str]) -> dict[str, str]:
    """What is loaded from ``variables`` in a block behind where it is stored, as the value that was."""
    stored, found = dict[str, str](), dict[str, str]()
    for line in block.lines:
        access = ACCESS.match(line)
        if access is None or access["name"] not in variables:
            continue
        if line.startswith("  store i32 "):
            stored[access["name"]] = line.split()[2].rstrip(",")
        elif " = load i32, " in line and access["name"] in stored:
            result = line.split()[0]
            found[result] = f"  {result} = bitcast i32 {stored[access['name']]} to i32"
    return found


def _bound(
    comparison: str,
    definitions: Mapping[str, str],
    recomputed: Mapping[str, Sequence[str]],
    known: Mapping[str, bool],
) -> tuple[list[str], bool, bool] | None:
    """Lines that store which threads of a row ``comparison`` sets apart, and whether it holds for these, and not for
    some of these, too; None if these are not the first ones, nor each n-th."""
    found = _COMPARISON.match(comparison)
    if found is None:
        return None
    how, type, bound = found["how"], found["type"], found["y"]
    rest = _REMAINDER.match(definitions.get(found["x"], "")) if how in ("eq", "ne") and bound == "0" else None
    if rest is not None and _is_number(rest["x"], definitions, recomputed) and same_value(rest["y"], known):
        lines = [f"  %tw.bound.w = {'sext' if rest['how'] == 's' else 'zext'} i32 {rest['y']} to i64"]
        lines += ["  %tw.bound.s = call i64 @llvm.abs.i64(i64 %tw.bound.w, i1 false)", "  store i64 -1, ptr %tw.bound"]
        at = "  %tw.bound.at = getelementptr i64, ptr %tw.bound, i64 1"
        return [*lines, at, "  store i64 %tw.bound.s, ptr %tw.bound.at"], how == "eq", True
    number = found["x"]
    if same_value(number, known):
        how, bound, number = _SWAPPED[how], found["x"], found["y"]
    factor = _factor(number, definitions, recomputed, known)
    if factor is None or not same_value(bound, known):
        return None
    first = how not in _NOT
    how = _NOT.get(how, how)
    if how == "eq":
        return (["  store i64 1, ptr %tw.bound"], first, True) if (bound, factor) == ("0", "1") else None
    if type == "i64" and how in ("ule", "sle"):
        return None  # one more might not fit
    wide = f"add i64 {bound}, 0" if type == "i64" else f"{'sext' if how[0] == 's' else 'zext'} i32 {bound} to i64"
    lines = [f"  %tw.bound.w = {wide}", f"  %tw.bound.n = add i64 %tw.bound.w, {int(how in ('ule', 'sle'))}"]
    least = "call i64 @llvm.smax.i64(i64 %tw.bound.n, i64 0)" if how[0] == "s" else "add i64 %tw.bound.n, 0"
    lines += [f"  %tw.bound.s = {least}"]
    if factor == "1":
        return [*lines, "  store i64 %tw.bound.s, ptr %tw.bound"], first, True
    # Threads whose product is too large for its type may be below the bound, too: then all are asked.
    lines += [f"  %tw.bound.f = {'sext' if how[0] == 's' else 'zext'} i32 {factor} to i64"]
    lines += ["  %tw.bound.p = sub i64 %tw.bound.f, 1", f"  %tw.bound.fits = icmp ult i64 %tw.bound.p, {_FITS}"]
    lines += ["  %tw.bound.d = select i1 %tw.bound.fits, i64 %tw.bound.f, i64 1"]
    lines += ["  %tw.bound.u = add i64 %tw.bound.s, %tw.bound.d", "  %tw.bound.l = sub i64 %tw.bound.u, 1"]
    lines += ["  %tw.bound.c = udiv i64 %tw.bound.l, %tw.bound.d"]
    lines += ["  %tw.bound.a = select i1 %tw.bound.fits, i64 %tw.bound.c, i64 -1"]
    return [*lines, "  store i64 %tw.bound.a, ptr %tw.bound"], first, False


def _factor(
    value: str, definitions: Mapping[str, str], recomputed: Mapping[str, Sequence[str]], known: Mapping[str, bool]
) -> str | None:
    """What ``value`` is a multiple of the number of a thread by, "1" or a uniform value; None if it is no such."""
    if _is_number(value, definitions, recomputed):
        return "1"
    if (same := _SAME.match(definitions.get(value, ""))) is not None:
        return _factor(same["value"], definitions, recomputed, known)
    found = _PRODUCT.match(definitions.get(value, "")) or _SCALED.match(definitions.get(value, ""))
    for number, factor in () if found is None else ((found["x"], found["y"]), (found["y"], found["x"])):
        if _is_number(number, definitions, recomputed) and same_value(factor, known):
            return factor
    return None


def _is_number(value: str, definitions: Mapping[str, str], recomputed: Mapping[str, Sequence[str]]) -> bool:
    """Whether ``value`` counts the threads of a row, or of a plane."""
    if value in ("%tw.c0", IN_PLANE):
        return True
    line = definitions.get(value, "")
    same = _SAME.match(line) or _WIDER.match(line)
    if same is not None:
        return _is_number(same["value"], definitions, recomputed)
    loaded = ACCESS.match(line)
    if loaded is None or loaded["name"] not in recomputed:
        return False
    stored = re.match(rf"  store i32 ({LOCAL}), ", recomputed[loaded["name"]][-1])
    return stored is not None and " = load i32, " in line and _is_number(stored[1], definitions, recomputed)


def _is_quiet(block: Block, variables: Collection[str], private: Collection[str]) -> bool:
    """Whether nothing but ``private`` variables changes in a block, which depends on no memory but ``variables``."""
    for line in block.lines:
        access = ACCESS.match(line)
        allowed = PURE.match(line) or re.match(r"  (?:br|ret) ", line) or "@llvm.lifetime." in line
        if access is not None:
            allowed = access["name"] in (private if line.startswith("  store ") else variables)
        if not allowed:
            return False
    return True


def _end(block: Block) -> int | None:
    """The barrier that a block ends at, 0 for the end of the kernel, None if another block follows."""
    if block.barrier:
        return block.barrier
    return 0 if any(line.startswith("  ret ") for line in block.lines) else None
