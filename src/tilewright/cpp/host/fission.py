"""Splits SIMT kernels at their barriers, as LLVM text, so that each part is a loop over the threads of a block.

A region is what a thread runs from the start, or from a barrier, to the next barrier or its end; it is a function that
returns, as a bit, the barrier it ended at. The function of a block calls one region for all threads, checks that they
ended at the same barrier, and goes on with the region behind that one, whatever loops and branches of the kernel the
barrier is in. Variables that live across barriers have an array over the threads each.

At a barrier that only stands for an iteration (``strides``) threads need not meet: where they do not, each of those
that are left goes on alone until it ends, or is at a barrier that all have to reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.cpp.host.control_flow import components, definitions_of, loops
from tilewright.cpp.host.debug_info import Line
from tilewright.cpp.host.guards import IN_BLOCK, IN_PLANE, Guard, Values, guard, in_plane
from tilewright.cpp.host.lanes import by_lanes
from tilewright.cpp.host.liveness import carried, live
from tilewright.cpp.host.spins import SPIN
from tilewright.cpp.host.strides import YIELD
from tilewright.cpp.host.uniform import Block, uniform, uniform_values
from tilewright.frontend.cpp.llvm_instruction import LABEL, LIFETIME, Instruction, instruction, renamed
from tilewright.frontend.cpp.llvm_module import Definition, with_functions
from tilewright.ir.reachable import reachable

BARRIER = "__tw_simt_barrier"
EXCHANGE = "__tw_simt_exchange"  # of values among lanes of a warp
RUNTIME = {  # functions of the runtime that split kernels call
    "__tw_simt_frames": "declare ptr @__tw_simt_frames(i64)",
    "llvm.ctlz.i32": "declare i32 @llvm.ctlz.i32(i32, i1)",
    "llvm.ctlz.i64": "declare i64 @llvm.ctlz.i64(i64, i1)",
    "llvm.vector.reduce.and.v32i32": "declare i32 @llvm.vector.reduce.and.v32i32(<32 x i32>)",
    "llvm.cttz.i32": "declare i32 @llvm.cttz.i32(i32, i1)",
    "llvm.abs.i64": "declare i64 @llvm.abs.i64(i64, i1)",
    "llvm.umin.i32": "declare i32 @llvm.umin.i32(i32, i32)",
    "llvm.usub.sat.i64": "declare i64 @llvm.usub.sat.i64(i64, i64)",
    "llvm.umin.i64": "declare i64 @llvm.umin.i64(i64, i64)",
    "llvm.smax.i64": "declare i64 @llvm.smax.i64(i64, i64)",
    "__tw_simt_next": "declare i1 @__tw_simt_next(ptr)",
    "__tw_simt_parts": "declare i1 @__tw_simt_parts(ptr, i32)",
    "__tw_simt_passed": "declare void @__tw_simt_passed(i32)",
    "__tw_simt_diverged": "declare void @__tw_simt_diverged(ptr, i32, i32)",
}
# A transformation of functions of a module: the module, the names of the functions, the passes.
Transform = Callable[[str, Collection[str], tuple[str, ...]], str]

_DEMOTE = ("register_to_memory", "instruction_namer")  # what is used in other blocks goes through memory
SCALARS = frozenset({"i8", "i16", "i32", "i64", "half", "bfloat", "float", "double", "ptr"})
_REFUSED = ("phi", "invoke", "indirectbr", "callbr", "resume", "catchswitch", "landingpad")
_MOST, _FEW = 63, 31  # barriers of a kernel, so that a set of them fits 64 bits, and 32
_CHEAP_STEPS = "add sub mul shl lshr ashr and or xor zext sext trunc icmp select getelementptr load"
_RECOMPUTED = frozenset(_CHEAP_STEPS.split())
_CHEAP = 16  # instructions that compute a variable once more
LEAVES = 3  # the kind of a barrier that stands for the end of a loop
HALVES = 640  # bytes from the words of 8 bytes that lanes give to those of 4
_MEETS = {"8": 4, "4": 7}  # those of lanes of a warp, by the bytes that each of them gives
NEXT = "%tw.next"  # where each thread ended


@dataclass(frozen=True)
class Barrier:
    """Where threads wait: ``kind`` says how their predicates combine. Lanes of a warp wait for those of ``mask``, and
    get what each of them gives as its ``predicate``."""

    result: str
    kind: int
    predicate: str
    file: str
    line: int
    mask: str = ""

    @property
    def word(self) -> str:
        """The type of what lanes give."""
        return "i64" if self.kind == _MEETS["8"] else "i32"

    @property
    def fixed_mask(self) -> int:
        """The mask, if it is a constant, and -1 otherwise."""
        return int(self.mask) & 0xFFFFFFFF if self.mask.lstrip("-").isdigit() else -1

    def outcome(self) -> list[str]:
        """The line that a thread goes on with behind it."""
        if not self.result:
            return []
        given = f"getelementptr i8, ptr %tw.taken, i64 {HALVES if self.word == 'i32' else 0}"
        what = given if self.mask else "add i32 %tw.outcome, 0"
        return [f"  {self.result} = {what}"]


@dataclass
class Split:
    """A kernel in regions: region 0 begins it, region k follows ``barriers[k - 1]``. Of the variables that live across
    barriers, those in ``uniform`` are kept once for a block, those in ``frame`` for each of its threads; regions find
    those of ``pointed_to`` through pointers that others made."""

    barriers: list[Barrier]
    regions: list[list[Block]]
    allocas: dict[str, str]
    alignments: dict[str, str]
    frame: list[str] = field(default_factory=list)
    uniform: list[str] = field(default_factory=list)
    pointed_to: set[str] = field(default_factory=set)
    recomputed: dict[str, list[str]] = field(default_factory=dict)  # variables that each region computes, and how
    guards: dict[int, Guard] = field(default_factory=dict)  # regions that few threads need
    even: list[str] = field(default_factory=list)  # of ``frame``, the same for all threads that meet at a barrier
    ranges: bool = False  # of threads of the grid: it is one of ``with_ranges``
    whole_warps: bool = False  # warps run together only where rows consist of these

    @property
    def lines(self) -> list[str]:
        """What its regions consist of, each line once."""
        return list(dict.fromkeys(line for region in self.regions for block in region for line in block.lines))

    @property
    def sets(self) -> dict[str, str]:
        """What templates say of sets of barriers: the type, and what makes other integers of one, and one of these."""
        if len(self.barriers) <= _FEW:
            narrow = {"widen32": "add i32", "widened32": ", 0"}
            return {"set": "i32", "last": "31", "widen": "zext i32", "widened": " to i64", **narrow}
        narrow = {"widen32": "zext i32", "widened32": " to i64"}
        return {"set": "i64", "last": "63", "widen": "add i64", "widened": ", 0", **narrow}

    def knows_rows(self, k: int) -> bool:
        """Whether region ``k`` knows a thread by more than its number in a plane of the block, which is its ``%tw.c0``
        and its row 0 otherwise."""
        used = names_in(self.regions[k])
        lines = [line for name, lines in self.recomputed.items() if name in used for line in lines]
        return bool(used.union(*(instruction(line).names for line in lines)) & {"%tw.c0", "%tw.c1"})

    @property
    def yields(self) -> list[int]:
        """The regions that begin where threads need not meet. Warps go on for themselves anyway."""
        return [] if self.by_warps else [k for k, barrier in enumerate(self.barriers, 1) if barrier.kind == YIELD]

    @property
    def by_warps(self) -> bool:
        """Whether lanes wait for each other, so that warps go on for themselves."""
        return any(barrier.mask or barrier.kind == SPIN for barrier in self.barriers)


def prepared(text: str, kernels: Collection[str], transform: Transform) -> str:
    """The module ``text`` in which barriers of ``kernels`` are alone in their blocks, and what these functions keep
    from one block to another is in memory."""

    def separated(definition: Definition) -> str:
        count, lines = 0, []
        for line in definition.text.split("\n"):
            if (i := instruction(line)).op == "call" and i.callee in (BARRIER, EXCHANGE):
                lines += [f"  br label %tw.wait{count}", f"tw.wait{count}:", line, f"  br label %tw.go{count}"]
                line = f"tw.go{count}:"
                count += 1
            lines.append(line)
        return "\n".join(lines)

    text = transform(text, kernels, ("sroa", *_DEMOTE))  # no phis, whose blocks change
    return transform(with_functions(text, kernels, separated), kernels, _DEMOTE)


def split(body: str, *, stores: bool = False, ranges: bool = False) -> Split | None:
    """The regions of a kernel that ``prepared`` made ready, from the text between its braces; None for one whose
    threads must be fibers, as it has barriers with numbers that are not known before it runs, or exceptions. The
    coordinates of threads are in memory if ``stores``; it is one of ``with_ranges`` if ``ranges``."""
    lines = [line for line in body.split("\n") if not line.startswith("    #dbg_")]
    if any(i.op in _REFUSED or i.callee.startswith("llvm.stacksave") for i in map(instruction, lines)):
        return None
    lines, whole_warps = (lines if stores else in_plane(lines)), False
    if any(instruction(line).callee == EXCHANGE for line in lines):
        lines, whole_warps = by_lanes(lines)
    blocks = _blocks(lines)
    allocas: dict[str, str] = {}
    alignments: dict[str, str] = {}
    for number, block in enumerate(blocks):
        for line in [line for line in block.lines if instruction(line).op == "alloca"]:
            i = instruction(line)
            if number or i.args:
                return None
            allocas[i.result], alignments[i.result] = i.type, f", align {i.alignment}"
            block.lines.remove(line)
    barriers, whole = [], {}
    for block in blocks:
        found = [line for line in block.lines if instruction(line).callee in (BARRIER, EXCHANGE)]
        if not found:
            whole[f"%{block.label}"] = block
            continue
        barrier = _barrier(found[0])
        if barrier is None or len(found) != 1:
            return None
        at = block.lines.index(found[0])
        barriers.append(barrier)
        # The barrier ends its block; what follows it begins a region, and is reached in no other way.
        whole[f"%{block.label}"] = Block(block.label, block.lines[:at], len(barriers))
        after = f"tw.after{len(barriers)}"
        whole[f"%{after}"] = Block(after, [*barrier.outcome(), *block.lines[at + 1 :]])
    starts = [f"%{blocks[0].label}", *(f"%tw.after{i + 1}" for i in range(len(barriers)))]
    for header, target, inner in _exits(whole):
        # All threads leave such a loop together. A region that ends there leaves no code behind the loop in the regions
        # within it, whose loops over the threads are vectorized only if all that they contain can be.
        kind = YIELD if barriers[inner - 1].kind == YIELD else LEAVES
        barriers.append(replace(barriers[inner - 1], result="", kind=kind, predicate="0", mask=""))
        label = f"tw.leave{len(barriers)}"
        for name in header:
            whole[name].lines[:] = [renamed(line, {target: f"%{label}"}) for line in whole[name].lines]
        whole[f"%{label}"] = Block(label, [], len(barriers))
        starts.append(target)
    if len(barriers) > _MOST:
        return None
    regions = [[whole[name] for name in reachable([start], lambda n: whole[n].successors())] for start in starts]
    return _with_frame(Split(barriers, regions, allocas, alignments, ranges=ranges, whole_warps=whole_warps))


def _barrier(line: str) -> Barrier | None:
    """The barrier that a call is; None if where it is, or its kind, is not known."""
    i = instruction(line)
    *first, given, file, at = i.values
    if not (at.isdigit() and file.startswith("@") and (i.callee == EXCHANGE or first[0].isdigit())):
        return None
    if i.callee == BARRIER:
        return Barrier(i.result, int(first[0]), given, file, int(at))
    mask, value, given = *first, given
    return Barrier(i.result, _MEETS[given], value, file, int(at), mask) if given in _MEETS else None


def _blocks(lines: Iterable[str]) -> list[Block]:
    blocks: list[Block] = []
    for line in lines:
        label = LABEL.match(line)
        if label:
            blocks.append(Block(label[1], []))
        elif line.strip() and line != "}":
            blocks[-1].lines.append(Line.of(line))
    return blocks


def _exits(blocks: dict[str, Block]) -> list[tuple[list[str], str, int]]:
    """The loops with a barrier in each iteration that are left to one block only: the blocks that leave it, that block,
    and one of its barriers."""
    # The block of a barrier is followed, in loops, by what follows the barrier.
    edges = {
        name: [f"%tw.after{block.barrier}"] if block.barrier else block.successors() for name, block in blocks.items()
    }
    found = []
    for loop, _ in loops(edges):
        waits = {name for name in loop if blocks[name].barrier}
        targets = {n for name in loop for n in edges[name]} - loop
        if not waits or len(targets) != 1 or components(loop - waits, edges):
            continue
        (target,) = targets
        leaving = sorted(name for name in loop if target in edges[name])
        if not waits & set(leaving):
            found.append((leaving, target, min(blocks[name].barrier for name in waits)))
    return found


def _with_frame(kernel: Split) -> Split:
    """``kernel`` with what of its variables lives across barriers: those of several regions, or of one that is entered
    again, in a loop."""
    follow = [{block.barrier for block in region if block.barrier} for region in kernel.regions]
    for _ in follow:
        follow = [after.union(*(follow[i] for i in after)) for after in follow]
    uses = [names_in(region) for region in kernel.regions]
    addressed = {name for region in kernel.regions for name in addressed_names(region)}
    kernel.recomputed.update(_recomputed(kernel, addressed))
    for name in [name for name in kernel.allocas if name not in kernel.recomputed]:
        users = [i for i, names in enumerate(uses) if name in names]
        if len(users) > 1 or any(i in follow[i] for i in users):
            kernel.frame.append(name)
    plain = {name: type for name, type in kernel.allocas.items() if type in SCALARS and name not in addressed}
    moved = carried(kernel.regions, plain)
    kernel.frame[:] = [name for name in kernel.frame if name in moved or name not in plain]
    same = set() if kernel.by_warps else uniform(kernel.regions, set(plain), kernel.allocas)
    apart = _apart(kernel, plain)
    same -= apart
    kernel.guards.update(_guards(kernel, same, plain))
    kernel.uniform.extend(name for name in kernel.frame if name in same)
    kernel.frame[:] = [name for name in kernel.frame if name not in same]
    if kernel.yields:
        met = uniform([_meeting(region) for region in kernel.regions], set(plain), kernel.allocas) - apart
        kernel.even.extend(name for name in kernel.frame if name in met)
    if kernel.barriers:
        kernel.pointed_to.update(_pointed_to(kernel, plain))
        kernel.frame.extend(name for name in kernel.allocas if name in kernel.pointed_to and name not in kernel.frame)
    if kernel.yields:
        kernel.allocas[NEXT] = "i32"
        kernel.frame.append(NEXT)
    return kernel


def _meeting(region: Sequence[Block]) -> list[Block]:
    """The blocks of a region that lead to a barrier."""
    before: defaultdict[str, set[str]] = defaultdict(set)
    for block in region:
        for other in block.successors():
            before[other].add(f"%{block.label}")
    kept = set(reachable((f"%{block.label}" for block in region if block.barrier), lambda name: before[name]))
    gone = {f"%{block.label}" for block in region} - kept
    return [replace(block, gone=frozenset(gone)) for block in region if f"%{block.label}" in kept]


def _guards(kernel: Split, same: set[str], plain: Collection[str]) -> dict[int, Guard]:
    """The guards of regions, where the variables ``same`` are uniform and ``plain`` ones are loaded and stored only."""
    definitions = definitions_of(kernel.lines)
    known = uniform_values({**definitions, **{name: f"  {name} = alloca i8" for name in kernel.allocas}}, same)
    waits = (i for i, barrier in enumerate(kernel.barriers, 1) if not barrier.mask and barrier.predicate == "0")
    quiet = {*waits} - {*kernel.yields}  # where it is asked of each thread where it is
    own = {name for name in plain if name not in kernel.frame or name in same}
    found = dict[int, Guard]()
    rows = [kernel.knows_rows(k) for k in range(len(kernel.regions))]
    for k, region in ((k, region) for k, region in enumerate(kernel.regions) if k not in kernel.yields):
        # Warps are loops over threads of a row where any region knows rows, or of the whole block.
        numbers = ["%tw.c0" if rows[k] or (kernel.by_warps and any(rows)) else IN_PLANE]
        for number in [*numbers, *([IN_BLOCK] if kernel.by_warps else [])]:
            values = Values(known, definitions, kernel.recomputed, number, kernel.ranges)
            each = guard(region, values, plain, own, quiet)
            if each is not None and (each.only_first or not kernel.by_warps):
                found[k] = each
    return found


def _pointed_to(kernel: Split, plain: Collection[str]) -> set[str]:
    """The variables that a region may find through pointers which another region made: their addresses get into
    ``plain`` variables of the frame, into other memory, or to functions."""
    elsewhere = "elsewhere"
    goes: defaultdict[str, set[str]] = defaultdict(set)
    for i in map(instruction, kernel.lines):
        stores, values = i.op == "store", i.names
        variable = i.variable if i.variable in plain else elsewhere
        targets = {variable if stores else i.result}
        if i.variable:
            values = (i.values[0],) if stores else (variable,)
        elif i.op == "call" and not i.callee.startswith("llvm."):
            targets.add(elsewhere)
        for value in values:
            goes[value] |= targets
    goes.pop(elsewhere, None)
    ends = {elsewhere, *kernel.frame} & {elsewhere, *plain}
    others = kernel.allocas.keys() - set(plain)
    return {name for name in others if any(found in ends for found in reachable([name], goes.__getitem__))}


def _apart(kernel: Split, variables: Mapping[str, str]) -> set[str]:
    """The ``variables``, given with their types, that change in iterations, of which threads may do different numbers,
    and live on at a barrier that all have to reach."""
    known = live(kernel.regions, variables)
    regions = [block for k in kernel.yields for block in kernel.regions[k]]
    changed = {i.variable for block in regions for i in map(instruction, block.lines) if i.op == "store"}
    behind = set[str]().union(*(known[k] for k in range(1, len(known)) if k not in kernel.yields))
    return changed & behind


def _recomputed(kernel: Split, addressed: set[str]) -> dict[str, list[str]]:
    """The variables not ``addressed`` that are set once, to what depends on parameters and coordinates only, with the
    lines that compute their values; vectorized loops would have to load, say, the number of a thread from memory."""
    definitions = definitions_of(kernel.lines)
    stores: dict[str, list[Instruction]] = {}
    for i in map(instruction, kernel.lines):
        if i.op == "store" and i.variable:
            stores.setdefault(i.variable, []).append(i)
    once = {
        n: found[0] for n, found in stores.items() if len(found) == 1 and n in kernel.allocas and n not in addressed
    }
    known: dict[str, list[str] | None] = {}

    def computed(value: str) -> list[str] | None:
        """The lines that compute ``value``; None if memory or a barrier is among what it comes from."""
        if value not in definitions:
            return None if value in kernel.allocas or value == "%tw.outcome" else []
        if value not in known:
            known[value] = None  # what depends on itself is not recomputed
            known[value] = lines_of(value, definitions[value])
        return known[value]

    def lines_of(value: str, line: str) -> list[str] | None:
        i = instruction(line)
        if i.op not in _RECOMPUTED and not i.callee.startswith("llvm.threadlocal.address."):
            return None
        uses = i.names
        if i.op == "load":
            stored = once.get(i.variable)
            if stored is None or not stored.is_plain or stored.type != i.type or i.words:
                return None
            uses = stored.values[:1]
            line = f"  {value} = bitcast {i.type} {uses[0]} to {i.type}"
        found: list[str] = []
        for operand in uses:
            before = computed(operand)
            if before is None:
                return None
            found += before
        found = list(dict.fromkeys([*found, line]))
        return found if len(found) <= _CHEAP else None

    result = {}
    for name, stored in once.items():
        before = computed(stored.values[0]) if stored.is_plain and stored.type in SCALARS else None
        if before is not None:
            result[name] = [*before, f"  store {stored.type} {stored.values[0]}, ptr {name}"]
    return result


def names_in(region: Sequence[Block]) -> set[str]:
    lines = (i for block in region for i in map(instruction, block.lines) if not i.callee.startswith(LIFETIME))
    return {name for i in lines for name in (i.result, *i.names)}


def addressed_names(region: Sequence[Block]) -> set[str]:
    """The names that lines other than plain loads from them, and stores to them, mention."""
    found: set[str] = set()
    for i in (i for block in region for i in map(instruction, block.lines)):
        if i.op == "store" and i.variable:
            found.update(name for name in i.names[:-1])
        elif not i.variable and not i.callee.startswith(LIFETIME):
            found.update(i.names)
    return found
