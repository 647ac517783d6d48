"""SIMT kernels whose lanes wait for each other, as LLVM text: functions that run a region for lanes of a warp.

One function runs whole warps, one after the other, from one barrier of the block to the next, while the lanes of each
have converged, which is the rule: a region is a loop over the lanes, which LLVM vectorizes. Where one does not stay so,
the runtime goes on, and calls functions that run a region for lanes that are at its start, in turns. What lanes give
each other is an array over them; while it is known which lanes get it, one of the function that LLVM has in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.cpp.host.fission import HALVES, LEAVES, Split
from tilewright.cpp.host.guards import IN_BLOCK
from tilewright.cpp.host.lanes import LANES
from tilewright.cpp.host.liveness import live as variables_live
from tilewright.cpp.host.names import Names
from tilewright.cpp.host.permutations import Reads
from tilewright.cpp.host.regions import (
    even_counts,
    frame_pointers,
    is_parallel,
    kept_by_warps,
    of_blocks,
    region_call,
    simt_lines,
    tables,
)
from tilewright.cpp.host.spins import SPIN
from tilewright.cpp.host.strides import YIELD
from tilewright.frontend.cpp.llvm_instruction import instruction

_COPIED = 8  # lanes at a time, as loops over values of 4 bytes are vectorized


def warp_functions(
    kernel: Split,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    locations: Sequence[tuple[str, str]],
    permuted: Mapping[int, Reads],
    *,
    stores: bool,
) -> str:
    """For each region a function that runs it for the lanes ``%mask`` of those from the thread ``%from`` on. It returns
    the set of where they ended, and notes for each lane where. ``head`` loads ``arguments`` and coordinates, and
    ``locations`` are those of the functions and of their calls, as for ``block_function``, the last ones of the
    function that runs whole warps, in which what regions read of exchanges is ``permuted``."""
    each = range(len(kernel.regions))
    texts = [_region(kernel, k, head, names, arguments, locations[k], stores=stores) for k in each]
    rows = ", ".join(f"ptr @{names.run(k)}" for k in each)
    texts.append(_together(kernel, head, names, arguments, locations[-1], permuted, stores=stores))
    regions = f"@{names.table('regions')} = private constant [{len(each)} x ptr] [{rows}]"
    return "\n".join([*texts, regions, *tables(kernel, names)])


def _region(
    kernel: Split,
    k: int,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    locations: tuple[str, str],
    *,
    stores: bool,
) -> str:
    frame = [f"%f{i}" for i in range(len(kernel.frame))]
    words = ("%given", "%taken")
    call = _call(names.region(k), arguments, "lane", ("%x", "%y", "%z"), words, frame, "%lane.thread")
    parts = any(0 < barrier.fixed_mask < 0xFFFFFFFF for barrier in kernel.barriers if barrier.mask)
    group = f", !llvm.access.group {names.group(k)}" if parts and is_parallel(kernel, k) else ""
    met = simt_lines("met", own="lane", to="%lane.next", **kernel.sets)
    lines = simt_lines(
        "warp",
        run=names.run(k),
        location=locations[0],
        head=[*head],
        frame=frame_pointers(kernel, shared=True),
        notes=[f"  store i32 %{axis}, ptr %p{i}" for i, axis in enumerate("xyz")] if stores else [],
        call=f"{call}{'' if parts else ' noinline'}{locations[1]}",
        ends=simt_lines("ends", own="lane", group=group, met=met),
        **kernel.sets,
        loop=f", !llvm.loop {names.loop(k)}" if group else "",
    )
    return "\n".join(lines)


def _call(
    region: str,
    arguments: Sequence[str],
    own: str,
    coordinates: Sequence[str],
    words: tuple[str, str],
    frame: Sequence[str],
    slot: str,
    *more: str,
    within: str = "0",
) -> str:
    """The call of the function ``region`` for a lane by values whose names begin with ``own``; ``words`` are what lanes
    give, and what they get, ``slot`` is the place of the lane in variables of ``frame`` that may be of its warp
    only, ``within`` is what `lanes.py` says, and ``more`` follows."""
    others = [f"i64 %{own}.wide", *(f"ptr {name}" for name in (*words, "%masks")), f"i64 {slot}", f"i32 {within}"]
    others += [*(f"ptr {name}" for name in frame), *more]
    return region_call(region, arguments, coordinates, f"%{own}.thread", others)


def _together(
    kernel: Split,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    locations: tuple[str, str],
    permuted: Mapping[int, Reads],
    *,
    stores: bool,
) -> str:
    """The function that runs the first ``%warps`` warps from the region ``%at`` on to a barrier of the block, or the
    end. It returns how many have got to the same one, behind which the next one stopped; -1 if it cannot run them."""
    if stores or any(barrier.kind == SPIN for barrier in kernel.barriers):
        return "\n".join(simt_lines("apart", name=names.together))
    rows = any(kernel.knows_rows(k) for k in range(len(kernel.regions)))
    kept = kept_by_warps(kernel)
    even, live = even_counts(kernel), variables_live(kernel.regions, {name: kernel.allocas[name] for name in kept})
    frame = [f"%{'l' if name in kept else 'f'}{i}" for i, name in enumerate(kernel.frame)]
    owned = [(i, name) for i, name in enumerate(kernel.frame) if name in kept]
    finished, stopped, regions, arrays = list[str](), list[str](), list[str](), list[str]()
    for k, region in enumerate(kernel.regions):
        ends = sorted({block.barrier for block in region if block.barrier or any("  ret " in n for n in block.lines)})
        words = f"%r{k}.given", f"%r{k}.taken"
        own = [*frame, *(f"%even{kernel.frame.index(name)}" for name in even.get(k, ()))]
        found = k in permuted and bool(permuted[k].lines)
        few = k in kernel.guards and len(ends) == 1
        whole = names.permuted(k) if found else names.even(k) if k in even else names.region(k)
        name, at = names.some(k) if few else whole, [f"%r{k}.x", "%y", "%z"]
        call = _call(name, arguments, f"r{k}", at, words, own, f"%r{k}.wide", within=f"%r{k}.number")
        asked = _asked(kernel, k, names, arguments, words, own, locations[1]) if few else []
        to = [line for end in ends for line in _goes_on(kernel, k, end, live, permuted, finished)]
        exchange = _Exchange.of(kernel, k, ends, permuted)
        arrays += exchange.arrays()
        regions += _region_together(kernel, k, names, f"{call}{locations[1]}", ends, to, live, exchange, asked)
        stopped.append(f"[ %r{k}.found.wide, %r{k}.stop ]")
    starts, yields, quiet = _starts(kernel)
    if not finished:  # it never ends
        return "\n".join(simt_lines("apart", name=names.together))
    lines = simt_lines(
        "together",
        name=names.together,
        location=locations[0],
        **of_blocks(head),
        frame=frame_pointers(kernel, shared=True),
        bound=["  %bound = alloca [3 x i64]"] if kernel.guards else [],
        kept=[f"  %l{i} = alloca [{LANES} x {kernel.allocas[name]}], align 64" for i, name in owned]
        + [f"  %even{i} = alloca {kernel.allocas[name]}" for i, name in owned]
        + arrays,
        fits="and i1 %whole, true" if kernel.whole_warps else "or i1 %whole, %row",
        width="%c6" if rows else "%plane",
        rows="%c7" if rows else "1",
        cases=" ".join(f"i32 {k}, label %r{k}.enter" for k in starts),
        enters=_enters(kernel, starts, live, even),
        regions=regions,
        places=", ".join(finished),
        yields=" ".join([f"i32 {k}, label %next" for k in yields] + [f"i32 {k}, label %meets" for k in quiet]),
        **kernel.sets,
        found=", ".join([*stopped, *(f"[ 0, %r{k}.uneven ]" for k in starts)]),
    )
    return "\n".join(lines)


def _starts(kernel: Split) -> tuple[list[int], list[int], list[int]]:
    """The numbers of the barriers of a block, with 0 for the beginning; those of them that yield, and those that count
    nothing."""
    starts = [0, *(i for i, barrier in enumerate(kernel.barriers, 1) if not barrier.mask and barrier.kind != LEAVES)]
    yields = [i for i in starts if i and kernel.barriers[i - 1].kind == YIELD]
    read = {name for line in kernel.lines for name in instruction(line).names}
    waits = ((i, kernel.barriers[i - 1]) for i in starts if i and i not in yields)
    quiet = [i for i, barrier in waits if barrier.predicate == "0" and barrier.result not in read]
    return starts, yields, quiet


def _asked(
    kernel: Split,
    k: int,
    names: Names,
    arguments: Sequence[str],
    words: tuple[str, str],
    own: Sequence[str],
    location: str,
) -> list[str]:
    """What asks how many threads of a warp do something in region ``k``, which a guard parts."""
    ask = _call(names.asked(k), arguments, f"r{k}.a", ["%x", "%y", "%z"], words, own, "0", "ptr %bound")
    base = "%from" if kernel.guards[k].number == IN_BLOCK else "%x"
    return simt_lines("together some", r=f"r{k}.", call=f"{ask}{location}", base=base, lanes=LANES)


@dataclass(frozen=True)
class _Exchange:
    """What lanes of a warp give at the ends of region ``k`` and get at its start: the types of the words that they give
    to an array of the function, if what follows knows which lanes get them, and of those that they get from one."""

    k: int
    gives: Sequence[str]
    gets: Reads | None

    @staticmethod
    def of(kernel: Split, k: int, ends: Sequence[int], permuted: Mapping[int, Reads]) -> _Exchange:
        meets = [end for end in ends if end and kernel.barriers[end - 1].mask]
        known = all(end in permuted or kernel.barriers[end - 1].fixed_mask == 0 for end in meets)
        gives = sorted({kernel.barriers[end - 1].word for end in meets}) if known else []
        gets = permuted.get(k)
        return _Exchange(k, gives, gets if gets and gets.lines else None)

    def arrays(self) -> list[str]:
        lines = [f"  %gives{self.k} = alloca [{HALVES + LANES * 4} x i8], align 64"] if self.gives else []
        if self.gets:
            lines.append(f"  %gets{self.k} = alloca [{len(self.gets.lines) * LANES} x {self.gets.word}], align 64")
        return lines

    def words(self) -> list[str]:
        """Lines that give ``%r0.given`` and ``%r0.taken``."""
        given = f"getelementptr i8, ptr %gives{self.k}, i64 0" if self.gives else "load ptr, ptr %g"
        taken = f"getelementptr i8, ptr %gets{self.k}, i64 0" if self.gets else "load ptr, ptr %t"
        return [f"  %r{self.k}.given = {given}", f"  %r{self.k}.taken = {taken}"]

    def kept(self) -> list[str]:
        """Lines that give the words to the runtime, which goes on."""
        lines = [f"  %r{self.k}.kept = load ptr, ptr %g"] if self.gives else []
        for word in self.gives:
            v, at = f"%r{self.k}.kept.{word}", HALVES if word == "i32" else 0
            lines += [
                f"  {v}.{side} = getelementptr i8, ptr {base}, i64 {at}"
                for side, base in (("from", f"%gives{self.k}"), ("to", f"%r{self.k}.kept"))
            ]
            lines += [f"  {v} = load <{LANES} x {word}>, ptr {v}.from, align 1"]
            lines += [f"  store <{LANES} x {word}> {v}, ptr {v}.to, align 1"]
        return lines


def _permutations(k: int, end: int, what: Reads) -> list[str]:
    """Lines that give each lane what region ``end`` reads of what lanes gave in region ``k``."""
    v, vector = f"%r{k}.permuted{end}", f"<{LANES} x {what.word}>"
    lines = [f"  {v}.at = getelementptr i8, ptr %r{k}.given, i64 {HALVES if what.word == 'i32' else 0}"]
    lines += [f"  {v} = load {vector}, ptr {v}.at, align 4"]
    for number, lanes in enumerate(what.lines.values()):
        each = ", ".join(f"i32 {lane}" for lane in lanes)
        lines += [f"  {v}.{number} = shufflevector {vector} {v}, {vector} poison, <{LANES} x i32> <{each}>"]
        lines += [f"  {v}.{number}.to = getelementptr {what.word}, ptr %gets{end}, i64 {number * LANES}"]
        lines += [f"  store {vector} {v}.{number}, ptr {v}.{number}.to, align 4"]
    return lines if what.lines else []


def _region_together(
    kernel: Split,
    k: int,
    names: Names,
    call: str,
    ends: Sequence[int],
    to: Sequence[str],
    live: Sequence[set[str]],
    exchange: _Exchange,
    asked: Sequence[str],
) -> list[str]:
    """Region ``k`` for the first warps: ``call`` runs it, for lanes that are ``asked`` for, or all, and ``to`` goes on
    from its ``ends``."""
    r, several, word = f"r{k}.", len(ends) > 1, kernel.sets["set"]
    group = f", !llvm.access.group {names.group(k)}" if is_parallel(kernel, k) else ""
    if several:
        cases = " ".join(f"{word} {1 << end}, label %{r}to{end}" for end in ends)
        judge = [f"  %{r}found = load {word}, ptr %met", f"  switch {word} %{r}found, label %{r}stop [ {cases} ]"]
    else:
        judge = [f"  %{r}found = add {word} 0, {1 << ends[0] if ends else 0}", f"  br label %{r}{_first(ends)}"]
    met = simt_lines("met", own=r[:-1], to=f"%{r}next", **kernel.sets)
    return simt_lines(
        "together region",
        r=r,
        call=call,
        ends=simt_lines("ends", own=r[:-1], group=group, met=met) if several else [],
        loop=f", !llvm.loop {names.loop(k)}" if group else "",
        asked=list(asked) or [f"  br label %{r}lane"],
        limit=f"%{r}limit" if asked else LANES,
        judge=judge,
        **kernel.sets,
        to=list(to),
        words=exchange.words(),
        kept=[
            *_copies(kernel, f"{r}stop", {name for end in ends if end for name in live[end]}, "l", "f"),
            *exchange.kept(),
        ],
    )


def _copies(kernel: Split, own: str, variables: set[str], source: str, target: str) -> list[str]:
    """Lines that copy ``variables`` of a warp from their arrays ``source`` to those of ``target``: ``l`` are those of
    the warp, and ``f`` those of the block. ``own`` begins the names of values."""
    lines = []
    for i, name in ((i, name) for i, name in enumerate(kernel.frame) if name in variables):
        type, v = kernel.allocas[name], f"%{own}.v{i}"
        ends = (("l", "0"), ("f", "%from"))
        lines += [f"  {v}.{side} = getelementptr {type}, ptr %{side}{i}, i32 {at}" for side, at in ends]
        for part in range(0, LANES, _COPIED):
            p = f"{v}.{part}"
            lines += [f"  {p}.{side} = getelementptr {type}, ptr {v}.{side}, i32 {part}" for side in "lf"]
            lines += [f"  {p} = load <{_COPIED} x {type}>, ptr {p}.{source}, align 1"]
            lines += [f"  store <{_COPIED} x {type}> {p}, ptr {p}.{target}, align 1"]
    return lines


def _enters(
    kernel: Split, starts: Sequence[int], live: Sequence[set[str]], even: Mapping[int, Sequence[str]]
) -> list[str]:
    """Lines at which a warp enters the regions ``starts``, where its lanes have done as many iterations in those of
    ``even``."""
    lines = list[str]()
    for k in starts:
        lines += [f"r{k}.enter:", *(_copies(kernel, f"r{k}.enter", live[k], "f", "l") if k else ())]
        so = "true"
        for name in even.get(k, ()):
            i, type = kernel.frame.index(name), kernel.allocas[name]
            lines += simt_lines("even", v=f"%r{k}.even{i}", i=i, type=type, vector=f"<{LANES} x {type}>", so=so)
            so = f"%r{k}.even{i}.so"
        lines += [f"  br i1 {so}, label %r{k}.start, label %r{k}.uneven", f"r{k}.uneven:", "  br label %stopped"]
    return lines


def _first(ends: Sequence[int]) -> str:
    return f"to{ends[0]}" if ends else "stop"  # it does not come to an end


def _goes_on(
    kernel: Split,
    k: int,
    end: int,
    live: Sequence[set[str]],
    permuted: Mapping[int, Reads],
    finished: list[str],
) -> list[str]:
    """What all lanes of a warp do that ended region ``k`` at the barrier ``end``, where regions have ``live``
    variables. Those that are at a barrier of the block are ``finished``."""
    barrier, r = kernel.barriers[end - 1], f"r{k}."
    start, on = f"{r}to{end}:", f"  br label %r{end}.start"
    if end and barrier.kind == LEAVES:
        return [start, on]
    if not end or not barrier.mask:
        finished.append(f"[ {end}, %{r}to{end} ]")
        kept = _copies(kernel, f"{r}to{end}", live[end], "l", "f") if end else []
        return [start, *kept, "  br label %finish"]
    swap = [f"  %{r}{name}{end} = load ptr, ptr %{name}" for name in "gt"]
    swap += [f"  store ptr %{r}t{end}, ptr %g", f"  store ptr %{r}g{end}, ptr %t"]
    if end in permuted:
        swap = _permutations(k, end, permuted[end])
    if barrier.fixed_mask == 0xFFFFFFFF:
        return [start, *swap, on]
    if barrier.fixed_mask == 0:
        following = (line for block in kernel.regions[end] for line in block.lines)
        used = barrier.result and sum(barrier.result in names_in_line for names_in_line in following) > 1
        to = f"%{r}active{end}"
        fill = [f"  {to} = getelementptr i8, ptr %{r}taken, i64 {HALVES}"]
        fill += [f"  store <{LANES} x i32> splat (i32 -1), ptr {to}, align 4"]
        return [start, *(fill if used else []), on]
    if barrier.fixed_mask > 0:
        return [start, f"  br label %{r}stop"]
    m = f"%{r}mask{end}"
    test = [f"  {m}s = load <{LANES} x i32>, ptr %masks, align 4"]
    test += [f"  {m} = call i32 @llvm.vector.reduce.and.v32i32(<{LANES} x i32> {m}s)"]
    test += [f"  {m}.full = icmp eq i32 {m}, -1", f"  br i1 {m}.full, label %{r}all{end}, label %{r}parts{end}"]
    test += [f"{r}parts{end}:", f"  {m}.parts = call i1 @__tw_simt_parts(ptr %masks, i32 {LANES})"]
    test += [f"  br i1 {m}.parts, label %{r}all{end}, label %{r}stop"]
    return [start, *test, f"{r}all{end}:", *swap, on]
