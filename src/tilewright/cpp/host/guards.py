"""Regions of SIMT kernels in which only the first threads do something, as behind ``if (threadIdx.x < n)``, or only
each n-th, as behind ``if (threadIdx.x % n == 0)``.

The block asks once where such a region ends, and for how many threads it is to run at all, at which distance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.cpp.host.debug_info import Line
from tilewright.cpp.host.uniform import Block, post_dominators, same_value
from tilewright.frontend.cpp.llvm_instruction import LIFETIME, Instruction, instruction
from tilewright.ir.reachable import reachable

IN_PLANE = "%tw.flat"  # threadIdx.y * blockDim.x + threadIdx.x
IN_BLOCK = "%tw.rank"  # (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x
_DISTANCE = "%tw.bound.at"  # where it is stored
_FITS = 1 << 21  # times the threads of a block
_SWAPPED = {"ult": "ugt", "slt": "sgt", "ule": "uge", "sle": "sge", "eq": "eq"}
_SWAPPED |= {other: how for how, other in _SWAPPED.items()} | {"ne": "ne"}
_NOT = {"uge": "ult", "sge": "slt", "ugt": "ule", "sgt": "sle", "ne": "eq"}


@dataclass(frozen=True)
class Guard:
    """A region in two: ``asked`` stores in ``%tw.bound`` how many threads of a row run ``body``, and behind it of which
    distance, ends as all do, and leaves behind what is uniform; ``body`` leaves none of that, and ends anywhere.
    ``number`` is the one of a thread by which these are known. If multiples of it are compared there is a body that
    gets these as ``%tw.product``, for threads that do something."""

    asked: list[Block]
    body: list[Block]
    number: str = ""
    by_product: list[Block] = field(default_factory=list)

    @property
    def only_first(self) -> bool:
        """Whether it is neighbours that do something."""
        return not any(instruction(line).result == _DISTANCE for block in self.asked for line in block.lines)


@dataclass(frozen=True)
class Values:
    """What is known of the values of a kernel: which are ``uniform``, the lines of their ``definitions``, those that
    give variables that each region computes, and which of the numbers of a thread is ``number``, by which regions are
    loops; in ``ranges`` of threads of the grid, sums with the first do not wrap."""

    uniform: Mapping[str, bool]
    definitions: Mapping[str, str]
    recomputed: Mapping[str, Sequence[str]]
    number: str
    ranges: bool = False

    def is_same(self, value: str) -> bool:
        return same_value(value, self.uniform)

    def definition(self, value: str) -> Instruction:
        return _definition(value, self.definitions)


def in_plane(lines: Iterable[str]) -> list[str]:
    """``lines`` with ``IN_PLANE`` and ``IN_BLOCK`` where they compute these."""
    lines = list(lines)
    definitions = definitions_of(lines)

    def plain(value: str) -> str:
        same = _same(value, definitions)
        return value if same is None else plain(same)

    def parts(value: str, op: str) -> list[tuple[str, str]]:
        """The operands of ``value``, in both orders, if ``op`` computes it."""
        i = _definition(value, definitions)
        a, b = map(plain, i.values) if (i.op, i.type) == (op, "i32") else ("", "")
        return [(a, b), (b, a)]

    def row(value: str) -> str:
        """What a thread is known by whose row begins at ``value``."""
        first = next((b for a, b in parts(value, "mul") if a == "%tw.c6"), "")
        rows = next((b for a, b in parts(first, "add") if a == "%tw.c1"), "")
        return IN_PLANE if first == "%tw.c1" else IN_BLOCK if ("%tw.c7", "%tw.c2") in parts(rows, "mul") else ""

    def edited(line: str) -> str:
        i = instruction(line)
        if i.op == "icmp" and i.words <= {"eq", "ne"} and i.type == "i32":  # of a number with 0, as LLVM writes it
            for a, b in (i.values, i.values[::-1]):
                minus = _definition(b, definitions)
                first = row(minus.values[1]) if plain(a) == "%tw.c0" and minus.op == "sub" else ""
                if first and minus.values[0] == "0":
                    return f"  {i.result} = icmp {min(i.words)} i32 {first}, 0{line[i.end :]}"
        number = next((row(b) for a, b in parts(i.result, "add") if a == "%tw.c0" and row(b)), "")
        return f"  {i.result} = add i32 {number}, 0{line[i.end :]}" if number else line

    return [edited(line) for line in lines]


def _definition(value: str, definitions: Mapping[str, str]) -> Instruction:
    return instruction(definitions.get(value, ""))


def _same(value: str, definitions: Mapping[str, str]) -> str | None:
    """The value that ``value``, of 32 bits, is another name for; None if it is none."""
    i = _definition(value, definitions)
    zero = i.op in ("add", "or") and i.values[1] == "0"
    return i.values[0] if i.type == "i32" and (zero or i.op == "bitcast") and i.values[0].startswith("%") else None


def guard(
    region: Sequence[Block],
    values: Values,
    variables: Collection[str],
    private: Collection[str],
    quiet: Collection[int],
) -> Guard | None:
    """The parts of a region, if threads part at one comparison of their number in a row with what is known to be
    uniform, and those on one side of it only go on to where all end, which are barriers of ``quiet``, which count
    nothing, and the same one for all. All may load from ``variables``, and store to ``private`` ones."""
    blocks = {f"%{block.label}": block for block in region}
    start = f"%{region[0].label}"
    skipping: dict[str, tuple[str, str]] = {}  # the block that parts, what those go on with who do something, and not
    bounds: dict[str, _Bound] = {}
    parted: list[str] = []  # blocks where threads part before that, until it

    def after(name: str) -> list[str]:
        block = blocks[name]
        branch = next((i for i in map(instruction, block.lines) if i.op == "br" and i.args), None)
        if branch is None or values.is_same(branch.values[0]):
            return block.successors()
        own = replace(values, definitions={**values.definitions, **_forwarded(block, variables)})
        found = _bound(own.definition(branch.values[0]), own)
        if found is None:
            parted.append(name)
            return block.successors()
        bounds[name] = found
        yes, no = branch.labels
        skipping[name] = (yes, no) if found.holds else (no, yes)
        return [skipping[name][1]]

    prefix = set(reachable([start], after))
    if len(skipping) != 1:
        return None
    ((at, (work, skip)),) = skipping.items()
    joins = post_dominators({name: block.successors() for name, block in blocks.items()}) if parted else {}
    if not all(at in joins[name] for name in parted):
        return None
    behind = set(reachable([work, skip], lambda name: blocks[name].successors()))
    if at in behind or not all(_is_quiet(blocks[name], private) for name in prefix):
        return None
    after_both = post_dominators({name: blocks[name].successors() for name in behind})
    common = after_both[work] & after_both[skip]
    join = max(common, key=lambda name: len(after_both[name] & common), default="")
    ends = {_end(blocks[name]) for name in behind} - {None}
    if (len(ends) != 1 and not join) or not ends <= {0, *quiet}:
        return None
    before = {other: {name for name in prefix if other in blocks[name].successors()} for other in prefix}
    leading = set(reachable(before[at], before.__getitem__))  # to where threads part
    asked = [
        block if name != at else replace(block, lines=_going_to(block, skip, bounds[at].lines))
        for name, block in blocks.items()
        if name in prefix
    ]
    body = _body(blocks, at, [work] if bounds[at].exact else [work, skip], leading, join)
    product = bounds[at].product
    multiples = _body(blocks, at, [work], leading, join) if product else []
    return Guard(asked, body, values.number, [_with_product(block, product) for block in multiples])


def _with_product(block: Block, product: str) -> Block:
    given = Line.of(f"  {product} = add i32 %tw.product, 0")
    return replace(block, lines=[given if instruction(line).result == product else line for line in block.lines])


def _body(
    blocks: Mapping[str, Block], at: str, ways: Sequence[str], leading: Collection[str], join: str
) -> list[Block]:
    """The ``blocks`` of those who do something: from those ``leading`` to the one ``at`` which threads part, along the
    ``ways`` that they go, to where all meet again."""
    of_work = set(reachable(ways, lambda name: blocks[name].successors()))
    body = []
    for name, block in blocks.items():
        if name == at:
            body.append(replace(block, lines=_going_to(block, ways[0], ())) if len(ways) == 1 else block)
        elif name in leading:
            to = [n for n in block.successors() if n in leading or n == at]
            body.append(block if len(to) > 1 else replace(block, lines=_going_to(block, to[0], ())))
        elif name == join:  # behind it there is nothing but what is done once
            body.append(replace(block, lines=["  ret void"], barrier=0))
        elif name in of_work:
            body.append(block)
    return body


def _going_to(block: Block, target: str, before: Sequence[str]) -> list[str]:
    """The lines of ``block`` that end by going to the block ``target``, behind the lines ``before``."""
    kept = [line for line in block.lines if instruction(line).op != "br"]
    return [*kept, *(Line.of(line) for line in before), Line.of(f"  br label {target}")]


def _forwarded(block: Block, variables: Collection[str]) -> dict[str, str]:
    """What is loaded from ``variables`` in a block behind where it is stored, as the value that was."""
    stored, found = dict[str, str](), dict[str, str]()
    for i in map(instruction, block.lines):
        if i.variable not in variables or i.type not in ("i32", "i64"):
            continue
        if i.op == "store":
            stored[i.variable] = i.values[0]
        elif i.variable in stored:
            found[i.result] = f"  {i.result} = bitcast {i.type} {stored[i.variable]} to {i.type}"
    return found


@dataclass(frozen=True)
class _Bound:
    """Lines that store which threads of a row a comparison sets apart, whether it ``holds`` for these, whether for all
    of these, and the ``product`` that it compares, of the number of a thread and what is the same for all."""

    lines: list[str]
    holds: bool
    exact: bool = True
    product: str = ""


def _bound(comparison: Instruction, values: Values) -> _Bound | None:
    """Which threads ``comparison`` sets apart; None if these are not the first ones, nor each n-th."""
    type = comparison.type
    if comparison.op != "icmp" or type not in ("i32", "i64"):
        return None
    (how,), (number, bound) = comparison.words & _SWAPPED.keys(), comparison.values
    rest = values.definition(number)
    remains = how in ("eq", "ne") and bound == "0" and rest.op in ("urem", "srem") and rest.type == "i32"
    if remains and _is_number(rest.values[0], values) and values.is_same(rest.values[1]):
        lines = [f"  %tw.bound.w = {'sext' if rest.op == 'srem' else 'zext'} i32 {rest.values[1]} to i64"]
        lines += ["  %tw.bound.s = call i64 @llvm.abs.i64(i64 %tw.bound.w, i1 false)", "  store i64 -1, ptr %tw.bound"]
        at = f"  {_DISTANCE} = getelementptr i64, ptr %tw.bound, i64 1"
        lines += [at, f"  store i64 %tw.bound.s, ptr {_DISTANCE}"]
        return _Bound(lines, how == "eq")
    if values.is_same(number):
        how, bound, number = _SWAPPED[how], number, bound
    if not values.is_same(bound):
        return None
    factor, before = _factor(number, values), _before(number, how, values)
    if factor is None and not before:
        return None
    first = how not in _NOT
    how = _NOT.get(how, how)
    if how == "eq":
        return _Bound(["  store i64 1, ptr %tw.bound"], first) if (bound, factor) == ("0", "1") else None
    if type == "i64" and how in ("ule", "sle"):
        return None  # one more might not fit
    wide = f"add i64 {bound}, 0" if type == "i64" else f"{'sext' if how[0] == 's' else 'zext'} i32 {bound} to i64"
    lines = [f"  %tw.bound.w = {wide}", f"  %tw.bound.n = add i64 %tw.bound.w, {int(how in ('ule', 'sle'))}"]
    if before:
        lines += [*before, f"  %tw.bound.m = icmp {how[0]}gt i64 %tw.bound.n, %tw.bound.o"]
        lines += ["  %tw.bound.d = sub i64 %tw.bound.n, %tw.bound.o"]
        lines += ["  %tw.bound.s = select i1 %tw.bound.m, i64 %tw.bound.d, i64 0"]
        return _Bound([*lines, "  store i64 %tw.bound.s, ptr %tw.bound"], first)
    least = "call i64 @llvm.smax.i64(i64 %tw.bound.n, i64 0)" if how[0] == "s" else "add i64 %tw.bound.n, 0"
    lines += [f"  %tw.bound.s = {least}"]
    if factor == "1":
        return _Bound([*lines, "  store i64 %tw.bound.s, ptr %tw.bound"], first)
    # Threads whose product is too large for its type may be below the bound, too: then all are asked.
    lines += [f"  %tw.bound.f = {'sext' if how[0] == 's' else 'zext'} i32 {factor} to i64"]
    lines += ["  %tw.bound.p = sub i64 %tw.bound.f, 1", f"  %tw.bound.fits = icmp ult i64 %tw.bound.p, {_FITS}"]
    lines += ["  %tw.bound.d = select i1 %tw.bound.fits, i64 %tw.bound.f, i64 1"]
    lines += ["  %tw.bound.u = add i64 %tw.bound.s, %tw.bound.d", "  %tw.bound.l = sub i64 %tw.bound.u, 1"]
    lines += ["  %tw.bound.c = udiv i64 %tw.bound.l, %tw.bound.d"]
    lines += ["  %tw.bound.a = select i1 %tw.bound.fits, i64 %tw.bound.c, i64 -1"]
    lines += [
        "  %tw.bound.b = select i1 %tw.bound.fits, i64 %tw.bound.f, i64 0",
        "  store i64 %tw.bound.a, ptr %tw.bound",
    ]
    lines += ["  %tw.bound.by = getelementptr i64, ptr %tw.bound, i64 2", "  store i64 %tw.bound.b, ptr %tw.bound.by"]
    return _Bound(lines, first, False, _product(number, values))


def _before(value: str, how: str, values: Values) -> list[str]:
    """Lines that compute, in 64 bits, what ``value``, which is compared as ``how`` says, is for the first thread, if it
    counts those of a range from there on."""
    i = values.definition(value)
    while i.result and i.op == "bitcast":
        i = values.definition(i.values[0])
    wide = i.op in ("sext", "zext") and i.to == "i64"
    add = values.definition(i.values[0]) if wide else i
    while add.result and add.op == "bitcast":
        add = values.definition(add.values[0])
    if not values.ranges or add.op != "add" or add.type not in ("i32", "i64"):
        return []
    first = next((a for a, b in (add.values, add.values[::-1]) if values.is_same(a) and _is_number(b, values)), "")
    extend = i.op if wide else "sext" if how[0] == "s" else "zext"
    if not first:
        return []
    return [f"  %tw.bound.o = {f'add i64 {first}, 0' if add.type == 'i64' else f'{extend} i32 {first} to i64'}"]


def _factor(value: str, values: Values) -> str | None:
    """What ``value`` is a multiple of the number of a thread by, "1" or a uniform value; None if it is no such."""
    if _is_number(value, values):
        return "1"
    if (same := _same(value, values.definitions)) is not None:
        return _factor(same, values)
    i = values.definition(value)
    for number, factor in (i.values, i.values[::-1]) if (i.op, i.type) == ("mul", "i32") else ():
        if _is_number(number, values) and values.is_same(factor):
            return factor
    return None


def _product(value: str, values: Values) -> str:
    """The product of 32 bits that ``value`` is another name for."""
    same = _same(value, values.definitions)
    return value if same is None else _product(same, values)


def _is_number(value: str, values: Values) -> bool:
    """Whether ``value`` is the number of a thread."""
    if value == values.number:
        return True
    i, same = values.definition(value), _same(value, values.definitions)
    if i.op in ("sext", "zext") and (i.type, i.to) == ("i32", "i64"):
        same = i.values[0]
    if same is not None:
        return _is_number(same, values)
    if i.op != "load" or i.type != "i32" or i.variable not in values.recomputed:
        return False
    stored = instruction(values.recomputed[i.variable][-1])
    return stored.type == "i32" and _is_number(stored.values[0], values)


def _is_quiet(block: Block, private: Collection[str]) -> bool:
    """Whether nothing but ``private`` variables changes in a block."""
    for i in map(instruction, block.lines):
        allowed = i.is_pure or i.labels or i.op in ("ret", "unreachable", "]") or i.callee.startswith(LIFETIME)
        reads = i.op == "load" and not i.words
        if not (i.variable in private if i.op == "store" else allowed or reads):
            return False
    return True


def _end(block: Block) -> int | None:
    """The barrier that a block ends at, 0 for the end of the kernel, None if another block follows."""
    if block.barrier:
        return block.barrier
    return 0 if any(instruction(line).op == "ret" for line in block.lines) else None
