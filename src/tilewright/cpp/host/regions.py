"""Regions of split SIMT kernels as functions, and the function of a block that calls them for all of its threads.

It checks that the threads ended a region at the same barrier, and goes on with the region behind that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.backends.native.templates import filled
from tilewright.cpp.host.control_flow import condition_of, definitions_of, loops
from tilewright.cpp.host.debug_info import DebugInfo, Line, location_of
from tilewright.cpp.host.fission import HALVES, LEAVES, NEXT, SCALARS, Barrier, Split, addressed_names, names_in
from tilewright.cpp.host.guards import IN_BLOCK, IN_PLANE
from tilewright.cpp.host.lanes import WITHIN
from tilewright.cpp.host.liveness import live
from tilewright.cpp.host.names import Names
from tilewright.cpp.host.permutations import Reads
from tilewright.cpp.host.spins import SPIN
from tilewright.cpp.host.strides import COUNTS, YIELD
from tilewright.cpp.host.uniform import Block
from tilewright.frontend.cpp.llvm_instruction import LIFETIME, instruction, renamed

_OF_ALL = ("%tw.votes", "%tw.shared")  # how names in accesses of memory begin that threads share
_SIDES = ("old", "new")  # uniform variables before and after a region
_OWN = ("left", "right")  # the same for a thread that goes on alone
_LONGEST, _MOST_UNROLLED = 64, 4096  # iterations of short loops, and lines that these become
_PADDING = 64  # bytes that arrays of variables are aligned to: the line of a cache, and the widest vector


def _again(kernel: Split, name: str, i: int) -> list[str]:
    """The lines that give a recomputed variable its value, with names of their own."""
    lines = kernel.recomputed[name]
    own = {instruction(line).result: f"%tw.again{i}.{k}" for k, line in enumerate(lines[:-1])}
    return [renamed(line, own) for line in lines]


def _is_of_a_thread(line: str) -> bool:
    """Whether a line accesses memory that no other thread does before the next barrier."""
    i = instruction(line)
    accesses = i.op in ("load", "store") and not i.words & {"atomic", "volatile"}
    return accesses and not any(name.startswith(_OF_ALL) for name in (i.result, *i.names))


def region_functions(
    kernel: Split,
    names: Names,
    parameters: Sequence[str],
    debug: DebugInfo,
    subprogram: int | None,
    permuted: Mapping[int, Reads],
) -> list[str]:
    """The regions as functions with ``parameters`` and, behind them, the number of the thread, the outcome of the
    barrier before, where votes are counted, the variables of ``frame`` (where warps go on for themselves, at
    ``%tw.slot`` of those that may be ``kept_by_warps``), and those of ``uniform`` before and after the
    region: a thread must not see what another one has made of them. Their locations are those of ``subprogram``. Of
    regions that read ``permuted`` words there is another function, which finds these one array behind the other."""
    frame = [f"ptr %tw.f{i}" for i in range(len(kernel.frame))]
    frame += [f"ptr %tw.{side}{i}" for i in range(len(kernel.uniform)) for side in _SIDES]
    frame += [f"ptr %tw.even{kernel.frame.index(name)}" for name in kernel.even]
    own = ["i64 %tw.thread", "i32 %tw.outcome", "ptr %tw.votes"]
    own += ["i64 %tw.lane", "ptr %tw.given", "ptr %tw.taken", "ptr %tw.masks"] if kernel.by_warps else []
    own += ["i64 %tw.slot", f"i32 {WITHIN}"] if kernel.by_warps else []
    given, texts = ", ".join([*parameters, *own, *frame]), []

    def add(
        name: str,
        region: Sequence[Block],
        group: str,
        parameters: str,
        even: Sequence[str] = (),
        words: Reads | None = None,
        leaving: Sequence[str] = kernel.uniform,
    ) -> None:
        location, lines = debug.part(subprogram, _region(kernel, region, even, words, leaving, names.whole))
        lines = [line + group if _is_of_a_thread(line) else line for line in lines]
        texts.append("\n".join([f"define internal i32 @{name}({parameters}) alwaysinline{location} {{", *lines, "}"]))

    even = even_counts(kernel)
    for k, region in enumerate(kernel.regions):
        group = f", !llvm.access.group {names.group(k)}" if is_parallel(kernel, k) else ""
        guard = kernel.guards.get(k)
        if k in even:
            counts = (f"ptr %tw.even{kernel.frame.index(name)}" for name in even[k])
            add(names.even(k), region, group, ", ".join([given, *counts]), even[k])
        if k in permuted and permuted[k].lines and guard is None:
            add(names.permuted(k), region, group, given, words=permuted[k])
        if guard is None or kernel.by_warps:
            add(names.region(k), region, group, given, kernel.even)
        if guard is not None:
            words = permuted.get(k) if kernel.by_warps else None
            add(names.some(k), guard.body, group, given, words=words, leaving=())
            add(names.asked(k), guard.asked, "", f"{given}, ptr %tw.bound")
            if guard.by_product and not kernel.by_warps:
                add(names.dense(k), guard.by_product, group, f"{given}, i32 %tw.product", leaving=())
    return texts


def kept_by_warps(kernel: Split) -> list[str]:
    """The variables of ``frame`` that a warp may have for itself while it runs: no pointer leads to them."""
    if not kernel.by_warps:
        return []
    addressed = kernel.pointed_to.union(*(addressed_names(region) for region in kernel.regions))
    return [name for name in kernel.frame if kernel.allocas[name] in SCALARS and name not in addressed]


def even_counts(kernel: Split) -> dict[int, list[str]]:
    """The variables that count iterations of loops of ``strides``, by the regions behind these: where lanes of a warp
    have done as many there is another function of such a region, which gets each of them once."""
    counts = {name: kernel.allocas[name] for name in kept_by_warps(kernel) if name.startswith(COUNTS)}
    known = live(kernel.regions, counts) if counts else []
    starts = (k for k, barrier in enumerate(kernel.barriers, 1) if barrier.kind == YIELD)
    return {k: sorted(known[k]) for k in starts if counts and known[k]}


def _permuted(words: Reads) -> tuple[list[str], dict[str, str]]:
    """Lines that load, for each of those of ``words``, what a lane gets, and what these lines become. All lanes load
    it, as far as the vectorizer is to know, so that it masks nothing."""
    loads, becomes = list[str](), dict[str, str]()
    for number, (line, lanes) in enumerate(words.lines.items()):
        i, at = instruction(line), f"%tw.permuted{number}"
        whole = i.type.startswith("<")
        loads += [f"  {at}.all = getelementptr {words.word}, ptr %tw.taken, i64 {number * len(lanes)}"]
        loads += [f"  {at}.at = getelementptr {words.word}, ptr {at}.all, i64 {'0' if whole else '%tw.lane'}"]
        loads += [f"  {at} = load {i.type}, ptr {at}.at, align 1"]
        becomes[line] = f"  {i.result} = bitcast {i.type} {at} to {i.type}"
    return loads, becomes


def _unrolled(region: Sequence[Block], whole: str) -> dict[str, str]:
    """The branches that end short loops of a region, of which LLVM is to leave no loop, as its metadata ``whole`` says:
    it vectorizes the loop over the threads only if that has no other one in it."""
    blocks = {f"%{block.label}": block for block in region}
    edges = {name: block.successors() for name, block in blocks.items()}
    definitions = definitions_of(line for block in region for line in block.lines)
    found = {}
    for loop, headers in loops(edges):
        leaving = [condition_of(blocks[name].lines) for name in loop if set(edges[name]) - loop]
        tests = [instruction(definitions.get(value, "")) for value in leaving]
        size = sum(len(blocks[name].lines) for name in loop)
        most = [int(i.values[1]) for i in tests if i.op == "icmp" and i.values[1].isdigit()]
        if len(most) != len(leaving) or max(most, default=_LONGEST + 1) > min(_LONGEST, _MOST_UNROLLED // size):
            continue
        for line in (line for name in loop if headers & set(edges[name]) for line in blocks[name].lines):
            text, at, _ = line.partition(", !llvm.loop ")
            if at:
                found[line] = Line.of(f"{text}{at}{whole}{location_of(line)}")
    return found


def _variables(
    kernel: Split, region: Sequence[Block], used: Collection[str], even: Sequence[str], leaving: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The variables of a thread that ``region`` has ``used``, and what stores those that are ``leaving`` it, or are in
    the frame, at its end."""
    allocas = ((name, type) for name, type in kernel.allocas.items() if name in used and name not in kernel.frame)
    lines = [f"  {name} = alloca {type}{kernel.alignments.get(name, '')}" for name, type in allocas]
    leave = list[str]()
    for i, name in enumerate(kernel.uniform):
        type = kernel.allocas[name]
        if name in used:
            lines += [f"  %tw.s{i} = load {type}, ptr %tw.old{i}", f"  store {type} %tw.s{i}, ptr {name}"]
        if name in used and name in leaving:
            leave += [f"  %tw.t{i} = load {type}, ptr {name}", f"  store {type} %tw.t{i}, ptr %tw.new{i}"]
    scalars = {name for name in kernel.frame if kernel.allocas[name] in SCALARS}
    scalars -= addressed_names(region) | kernel.pointed_to
    slots = kept_by_warps(kernel)
    for i, name in enumerate(kernel.frame):
        type = kernel.allocas[name]
        if name not in used:
            continue
        at = "%tw.slot" if name in slots else "%tw.thread"
        if name not in scalars:
            lines.append(f"  {name} = getelementptr {type}, ptr %tw.f{i}, i64 {at}")
            continue
        # A copy, which becomes a register; the loops of a region would store to memory in each iteration.
        lines += [f"  {name} = alloca {type}", f"  %tw.p{i} = getelementptr {type}, ptr %tw.f{i}, i64 {at}"]
        first = f"%tw.even{i}" if name in even else f"%tw.p{i}"
        lines += [f"  %tw.v{i} = load {type}, ptr {first}", f"  store {type} %tw.v{i}, ptr {name}"]
        if any(i.op == "store" and i.variable == name for b in region for i in map(instruction, b.lines)):
            leave += [f"  %tw.w{i} = load {type}, ptr {name}", f"  store {type} %tw.w{i}, ptr %tw.p{i}"]
    return lines, leave


def _region(
    kernel: Split,
    region: Sequence[Block],
    even: Sequence[str],
    words: Reads | None,
    leaving: Sequence[str],
    whole: str,
) -> list[str]:
    used = names_in(region)
    loads, becomes = _permuted(words) if words else ([], {})
    becomes.update(_unrolled(region, whole))
    lines = [f"  {IN_BLOCK} = trunc i64 %tw.thread to i32"]
    lines += [f"  %tw.c12 = {'trunc i64 %tw.lane to i32' if kernel.by_warps else f'and i32 {IN_BLOCK}, 31'}"]
    lines += ["  %tw.row = mul i32 %tw.c1, %tw.c6", f"  {IN_PLANE} = add i32 %tw.c0, %tw.row"]
    kept, leave = _variables(kernel, region, used, even, leaving)
    lines += kept
    lines += [line for i, name in enumerate(kernel.recomputed) if name in used for line in _again(kernel, name, i)]
    lines += [*loads, f"  br label %{region[0].label}"]
    ends, given = list[str](), dict[str, str]()
    # One exit, so that what leaves is stored once: stores that LLVM merges are not known to be of one thread only.
    for number, block in enumerate(region):
        lines.append(f"{block.label}:")
        for line in block.lines:
            parsed = instruction(line)
            if parsed.callee.startswith(LIFETIME) and not kernel.allocas.keys().isdisjoint(parsed.names):
                continue
            if parsed.op == "ret":
                ends.append(f"[ 0, %{block.label} ]")
                line = "  br label %tw.exit"
            lines.append(becomes.get(line, line))
        if block.barrier:
            barrier = kernel.barriers[block.barrier - 1]
            ends.append(f"[ {block.barrier}, %{block.label} ]")
            lines += [*_vote(barrier, number), "  br label %tw.exit"]
            if barrier.mask:
                given[f"%{block.label}"] = f"%tw.gives{number}"
    if not ends:
        return lines
    gives = [_gives(kernel, region, word, given, ends) for word in ("i32", "i64")]
    phis = [f"  %tw.end = phi i32 {', '.join(ends)}", *(phi for phi, _ in gives if phi)]
    return [*lines, "tw.exit:", *phis, *(line for _, each in gives for line in each), *leave, "  ret i32 %tw.end"]


def _gives(
    kernel: Split, region: Sequence[Block], word: str, given: Mapping[str, str], ends: Sequence[str]
) -> tuple[str, list[str]]:
    """A phi and lines that store the words of lanes, by the blocks where they give them. One that ends elsewhere stores
    nothing that anybody reads: masked stores would be slow to load from."""
    own = {f"%{b.label}" for b in region if b.barrier and kernel.barriers[b.barrier - 1].word == word} & given.keys()
    if not own:
        return "", []
    names = [end[2:-2].rpartition(", ")[2] for end in ends]
    phi = ", ".join(f"[ {given[name] if name in own else 'poison'}, {name} ]" for name in names)
    at = f"%tw.word.{word}"
    lines = [f"  {at}.base = getelementptr i8, ptr %tw.given, i64 {HALVES if word == 'i32' else 0}"]
    lines += [f"  {at}.at = getelementptr {word}, ptr {at}.base, i64 %tw.lane", f"  store {word} {at}, ptr {at}.at"]
    return f"  {at} = phi {word} {phi}", lines


def _vote(barrier: Barrier, number: int) -> list[str]:
    """What a thread leaves behind at a barrier; its word, where it gives one, is in a variable."""
    if barrier.mask:
        word, gives = barrier.word, f"%tw.gives{number}"
        lines = [f"  {gives} = lshr i64 {barrier.predicate}, 0"] if word == "i64" else []
        lines += [f"  {gives} = trunc i64 {barrier.predicate} to i32"] if word == "i32" else []
        if barrier.fixed_mask < 0:
            lines += [f"  %tw.wants{number} = getelementptr i32, ptr %tw.masks, i64 %tw.lane"]
            lines += [f"  store i32 {barrier.mask}, ptr %tw.wants{number}"]
        return lines
    if not barrier.result or barrier.predicate == "0":
        return []
    count = f"%tw.count{number}"
    return [
        f"  {count} = load i32, ptr %tw.votes",
        f"  {count}.n = add i32 {count}, {barrier.predicate}",
        f"  store i32 {count}.n, ptr %tw.votes",
    ]


def block_function(
    kernel: Split,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    locations: tuple[str, str],
    *,
    stores: bool,
    checked: bool,
) -> str:
    """The function that runs a block: ``head`` loads ``arguments`` of the kernel and ``%c0`` to ``%c11``, its
    coordinates; ``locations`` are those of the function and of its calls of regions; ``stores`` is for functions that
    ask for coordinates and were not inlined; ``checked`` code tells the runtime of barriers that all threads have
    passed."""
    uniform = []
    for i, name in enumerate(kernel.uniform):
        type = kernel.allocas[name]
        uniform += [f"  %{side}{i} = alloca {type}" for side in (*_SIDES, *(_OWN if kernel.yields else ()))]
        uniform += [f"  store {type} zeroinitializer, ptr %{side}{i}" for side in _SIDES]
    uniform += [f"  %even{kernel.frame.index(name)} = alloca {kernel.allocas[name]}" for name in kernel.even]
    count, where = len(kernel.regions), locations[1]
    loops = [line for k in range(count) for line in _loops(kernel, k, names, arguments, where, stores=stores)]
    if kernel.yields:
        loops += _stragglers(kernel, names, arguments, where, stores=stores)
    block = simt_lines(
        "block",
        block=names.block,
        location=locations[0],
        **of_blocks(head),
        frame=frame_pointers(kernel),
        uniform=[*uniform, *(["  %bound = alloca [3 x i64]"] if kernel.guards else [])],
        cases=" ".join(f"i32 {k}, label %r{k}.start" for k in range(count)),
        loops=loops,
        kept=_copies(kernel, "kept", "new", "old"),
        passed=["  call void @__tw_simt_passed(i32 %kind)"] if checked else [],
        yields=sum(1 << k for k in kernel.yields),
        apart="stragglers" if kernel.yields else "wrong",
        leaves=LEAVES,
        **kernel.sets,
        **{name: names.table(name) for name in ("file", "line", "kind")},
    )
    return "\n".join([*block, *tables(kernel, names)])


def of_blocks(head: Sequence[str]) -> dict[str, list[str]]:
    """The lines of ``head``, and those among them that load the coordinates of a block, as templates have them."""
    own = [line for line in head if line.startswith(("  %c3 ", "  %c4 ", "  %c5 "))]
    return {"head": [line for line in head if line not in own], "coordinates": own}


def simt_lines(section: str, **values: object) -> list[str]:
    """The lines of a section of ``simt.ll`` with these values."""
    return filled(__file__, "simt.ll", section, **values).split("\n")


def region_call(
    name: str,
    arguments: Sequence[str],
    coordinates: Sequence[str],
    thread: str,
    others: Sequence[str],
    *,
    outcome: str = "%outcome",
) -> str:
    """The call of the function ``name`` of a region for one thread: ``arguments`` of the kernel, then what
    ``region_functions`` says, with ``others`` behind the votes."""
    given = [*arguments, *(f"i32 {value}" for value in coordinates), *(f"i32 %c{i}" for i in range(3, 12))]
    return f"call i32 @{name}({', '.join([*given, f'i64 {thread}', f'i32 {outcome}', 'ptr %votes', *others])})"


def _frame(kernel: Split, sides: Sequence[str]) -> list[str]:
    """The variables of ``frame``, and those of ``uniform`` before and after a region, as arguments of a call."""
    uniform = [f"ptr %{side}{i}" for i in range(len(kernel.uniform)) for side in sides]
    even = [f"ptr %even{kernel.frame.index(name)}" for name in kernel.even]
    return [*(f"ptr %f{i}" for i in range(len(kernel.frame))), *uniform, *even]


def _evens(kernel: Split, own: str, thread: str) -> list[str]:
    """Lines that get what is the same for all threads, or for one that goes on alone, from ``thread``."""
    lines = []
    for i, name in ((kernel.frame.index(name), name) for name in kernel.even):
        type, v = kernel.allocas[name], f"%{own}even{i}"
        lines += [f"  {v}.at = getelementptr {type}, ptr %f{i}, i64 {thread}", f"  {v} = load {type}, ptr {v}.at"]
        lines += [f"  store {type} {v}, ptr %even{i}"]
    return lines


def _copies(kernel: Split, own: str, source: str, target: str) -> list[str]:
    """Lines that copy each uniform variable from ``source`` to ``target``; ``own`` begins the names of values."""
    lines = []
    for i, name in enumerate(kernel.uniform):
        type = kernel.allocas[name]
        lines += [f"  %{own}{i} = load {type}, ptr %{source}{i}", f"  store {type} %{own}{i}, ptr %{target}{i}"]
    return lines


def frame_pointers(kernel: Split, *, shared: bool = False) -> list[str]:
    """Lines that give ``%f0`` and so on, the arrays of the variables of ``frame`` over ``%threads``, which are
    ``shared`` if other functions find there what this one stores."""
    total, lines = "0", []
    for i, name in enumerate(kernel.frame):
        size = f"ptrtoint (ptr getelementptr ({kernel.allocas[name]}, ptr null, i32 1) to i64)"
        lines += [f"  %o{i}.b = mul i64 %threads, {size}", f"  %o{i}.p = add i64 %o{i}.b, {_PADDING - 1}"]
        lines += [f"  %o{i}.r = and i64 %o{i}.p, -{_PADDING}", f"  %o{i + 1}.s = add i64 {total}, %o{i}.r"]
        total = f"%o{i + 1}.s"
    if kernel.frame:
        lines += [f"  %frames = call {'' if shared else 'noalias '}ptr @__tw_simt_frames(i64 {total})"]
    offsets = ["0", *(f"%o{i}.s" for i in range(1, len(kernel.frame)))]
    return lines + [f"  %f{i} = getelementptr i8, ptr %frames, i64 {offsets[i]}" for i in range(len(kernel.frame))]


def _loops(kernel: Split, k: int, names: Names, arguments: Sequence[str], location: str, *, stores: bool) -> list[str]:
    """Region ``k`` for all threads of the block that do something in it; it is called at ``location``."""
    r, few, frame = f"r{k}.", kernel.guards.get(k), _frame(kernel, _SIDES)
    width, rows = ("%c6", "%c7") if stores or kernel.knows_rows(k) else ("%plane", "1")
    name = names.some(k) if few else names.region(k)
    group = f", !llvm.access.group {names.group(k)}" if is_parallel(kernel, k) else ""

    def each(
        r: str, x: str, first: Sequence[str], before: Sequence[str], behind: Sequence[str], limit: str
    ) -> list[str]:
        own = (x, f"%{r}y", f"%{r}z")
        by_product = few is not None and few.by_product and x == f"%{r}own"
        called, more = (names.dense(k), [f"i32 %{r}x"]) if by_product else (name, [])
        body = [*before, *(f"  store i32 {value}, ptr %p{i}" for i, value in enumerate(own) if stores)]
        body += [f"  %{r}xw = zext i32 {x} to i64", f"  %{r}thread = add nuw nsw i64 %{r}base, %{r}xw"]
        call = region_call(called, arguments, own, f"%{r}thread", [*frame, *more])
        body += [f"  %{r}next = {call}{location}", *behind]
        loop = f", !llvm.loop {names.loop(k)}" if group else ""
        places = {"width": width, "rows": rows, "limit": limit, "after": "join"}
        places["from"] = "choose" if f"{r}choose:" in first else "start"
        return simt_lines("loops", r=r, first=[*first], body=body, loop=loop, **places)

    if few is None:
        behind = list[str]()
        if kernel.yields:
            behind += [f"  %{r}at = getelementptr i32, ptr %f{kernel.frame.index(NEXT)}, i64 %{r}thread"]
            behind += [f"  store i32 %{r}next, ptr %{r}at{group}"]
        behind += simt_lines("met", own=r[:-1], to=f"%{r}next", **kernel.sets)
        return each(r, f"%{r}x", [*(_evens(kernel, r, "0") if k else ()), f"  br label %{r}zs"], [], behind, width)
    asked = region_call(names.asked(k), arguments, ("0", "0", "0"), "0", [*frame, "ptr %bound"]) + location
    ends, spread = simt_lines("met", own=f"{r}met", to=f"%{r}all", **kernel.sets), bool(few.by_product)
    begin = "zs" if few.only_first and not spread else "choose"
    first = simt_lines("guarded", r=r, asked=asked, ends=ends, width=width, begin=begin, after="join")
    shift = f"%{r}shift" if spread else "0"
    first += simt_lines("dense", r=r, by=2 if spread else 1, shift=shift) if begin == "choose" else []
    far = [f"  %{r}far = mul nuw nsw i32 %{r}x, %{r}step"]
    lines = each(r, f"%{r}far", first, far, [], f"%{r}limit")
    if begin == "zs":
        return lines
    own, asks = f"{r}d.", simt_lines("of dense", r=f"{r}d.", mask=f"{r}mask", shift=shift)
    return [*lines, *each(own, f"%{own}own", [f"  br label %{own}zs"], asks, [], f"%{own}limit")]


def _stragglers(kernel: Split, names: Names, arguments: Sequence[str], location: str, *, stores: bool) -> list[str]:
    """What follows a region behind which some threads go on with other iterations: they do so one after another."""
    own = [f"%g.{axis}" for axis in "xyz"]
    uniform = []
    for i, name in enumerate(kernel.uniform):
        uniform += [f"  %g.u{i} = load {kernel.allocas[name]}, ptr %old{i}"]
        uniform += [f"  store {kernel.allocas[name]} %g.u{i}, ptr %{side}{i}" for side in _OWN]
    regions, frame = [], _frame(kernel, _OWN)
    for k in kernel.yields:
        call = region_call(names.region(k), arguments, own, "%g.t", frame, outcome="0")
        regions += [f"g.r{k}:", *_evens(kernel, f"g.r{k}.", "%g.t"), f"  %g.n{k} = {call}{location}"]
        regions += [*_copies(kernel, f"g.v{k}.", _OWN[1], _OWN[0]), "  br label %g.go"]
    return simt_lines(
        "stragglers",
        notes=[f"  store i32 {value}, ptr %p{i}" for i, value in enumerate(own)] if stores else [],
        uniform=uniform,
        next=f"%f{kernel.frame.index(NEXT)}",
        ways="".join(f", [ %g.n{k}, %g.r{k} ]" for k in kernel.yields),
        cases=" ".join(f"i32 {k}, label %g.r{k}" for k in kernel.yields),
        regions=regions,
        ends=simt_lines("met", own="g.met", to="%g.s", **kernel.sets),
        **kernel.sets,
    )


def tables(kernel: Split, names: Names) -> list[str]:
    """The constants that say of each barrier where it is, its kind, and the lanes that wait there."""
    count, barriers = len(kernel.barriers), kernel.barriers
    rows = {
        "file": ("ptr", [f"ptr {b.file}" for b in barriers]),
        "line": ("i32", [f"i32 {b.line}" for b in barriers]),
        "kind": ("i32", [f"i32 {b.kind}" for b in barriers]),
        **({"mask": ("i64", [f"i64 {b.fixed_mask}" for b in barriers])} if kernel.by_warps else {}),
    }
    return [
        f"@{names.table(name)} = private constant [{count} x {type}] [{', '.join(values)}]"
        for name, (type, values) in rows.items()
    ]


def is_parallel(kernel: Split, k: int) -> bool:
    """Whether the iterations of the loop over region ``k`` share no memory but that of the block, which no two threads
    use between barriers without being wrong: its own variables are registers."""
    local = set(kernel.allocas) - set(kernel.frame)
    waits = any(barrier.kind == SPIN for barrier in kernel.barriers)  # by memory that threads share
    return not waits and not local & addressed_names(kernel.regions[k])
