"""SIMT kernels whose lanes wait for each other, as LLVM text: functions that run a region for lanes of a warp.

The runtime calls them: a warp goes on until its lanes have ended or wait for other warps. Where all lanes are at one
place, which is the rule, a region is a loop over the lanes, which LLVM vectorizes; where they have parted, those that
are at the place take turns. What lanes give each other is an array over them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cpp.host.fission import Split
from tilewright.cpp.host.regions import Names, frame_pointers, is_parallel, tables

_LANES = 32
_PARAMETERS = (
    "ptr %slots, ptr %where, i32 %from, i32 %lanes, i32 %mask, ptr noalias %given, ptr noalias %taken, "
    "ptr noalias %masks, ptr noalias %ended, i32 %outcome, ptr noalias %sum"
)


def warp_functions(
    kernel: Split,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    places: Sequence[tuple[str, str]],
    *,
    stores: bool,
) -> str:
    """For each region a function that runs it for the lanes ``%mask`` of the ``%lanes`` lanes from the thread ``%from``
    on; all of them are -1. It returns the set of where they ended, and notes for each lane where. ``head`` loads
    ``arguments`` and coordinates, and ``places`` are those of the functions and of their calls, as for
    ``block_function``."""
    texts = [_region(kernel, k, head, names, arguments, places[k], stores=stores) for k in range(len(kernel.regions))]
    rows = ", ".join(f"ptr @{names.run(k)}" for k in range(len(kernel.regions)))
    regions = f"@{names.table('regions')} = private constant [{len(kernel.regions)} x ptr] [{rows}]"
    return "\n".join([*texts, regions, *tables(kernel, names)])


def _region(
    kernel: Split,
    k: int,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    places: tuple[str, str],
    *,
    stores: bool,
) -> str:
    loop = f", !llvm.loop {names.loop(k)}" if is_parallel(kernel, k) else ""
    given = [*arguments, "i32 %{0}.x", "i32 %{0}.y", "i32 %{0}.z", *(f"i32 %c{i}" for i in range(3, 12))]
    given += [
        "i64 %{0}.thread",
        "i32 %outcome",
        "ptr %votes",
        "i64 %{0}.wide",
        "ptr %given",
        "ptr %taken",
        "ptr %masks",
    ]
    given += [f"ptr %f{i}" for i in range(len(kernel.frame))]
    notes = [f"  store i32 %{{0}}.{axis}, ptr %p{i}" for i, axis in enumerate("xyz")] if stores else []
    call = [
        "  %{0}.wide = zext i32 %{0}.lane to i64",
        "  %{0}.number = add nuw nsw i32 %from, %{0}.lane",
        "  %{0}.thread = zext i32 %{0}.number to i64",
        *notes,
        f"  %{{0}}.next = call i32 @{names.region(k)}({', '.join(given)}) {{1}}{places[1]}",
        "  %{0}.end = getelementptr i32, ptr %ended, i64 %{0}.wide",
        "  store i32 %{0}.next, ptr %{0}.end{2}",
        "  %{0}.set = load i32, ptr %met",
        "  %{0}.union = or i32 %{0}.set, %{0}.next",
        "  store i32 %{0}.union, ptr %met",
    ]
    group = f", !llvm.access.group {names.group(k)}" if loop else ""
    lines = [f"define internal i32 @{names.run(k)}({_PARAMETERS}){places[0]} {{", "entry:", *head]
    lines += ["  %votes = alloca i32", "  %met = alloca i32", "  store i32 0, ptr %votes", "  store i32 0, ptr %met"]
    lines += ["  %plane = mul i32 %c6, %c7", "  %count = mul i32 %plane, %c8", "  %threads = zext i32 %count to i64"]
    # The place of the first lane; divisions take long, and most blocks are one row.
    lines += [
        *frame_pointers(kernel, shared=True),
        "  %flat = icmp ult i32 %from, %c6",
        "  br i1 %flat, label %start, label %place",
    ]
    lines += ["place:", "  %p.x = urem i32 %from, %c6", "  %p.row = udiv i32 %from, %c6"]
    lines += ["  %p.y = urem i32 %p.row, %c7", "  %p.z = udiv i32 %p.row, %c7", "  br label %start", "start:"]
    lines += ["  %a.row = phi i32 [ %from, %entry ], [ %p.x, %place ]"]
    lines += [f"  %a.{axis} = phi i32 [ 0, %entry ], [ %p.{axis}, %place ]" for axis in "yz"]
    lines += [f"  %last = add i32 %a.row, {_LANES}"]
    lines += ["  %row = icmp ule i32 %last, %c6", "  %each = icmp eq i32 %mask, -1", "  %whole = and i1 %row, %each"]
    lines += ["  br i1 %whole, label %all, label %some"]
    # All lanes of a warp, which are neighbours along x.
    lines += [
        "all:",
        "  %a.lane = phi i32 [ 0, %start ], [ %a.more, %all ]",
        "  %a.x = add nuw nsw i32 %a.row, %a.lane",
    ]
    lines += [line.format("a", "", group) for line in call]
    lines += ["  %a.more = add nuw nsw i32 %a.lane, 1", f"  %a.go = icmp ult i32 %a.more, {_LANES}"]
    lines += [f"  br i1 %a.go, label %all, label %end{loop}"]
    # Those of a mask, one after the other.
    lines += ["some:", "  %b.lane = phi i32 [ 0, %start ], [ %b.more, %next ]", "  %b.bit = lshr i32 %mask, %b.lane"]
    lines += ["  %b.in = trunc i32 %b.bit to i1", "  br i1 %b.in, label %one, label %next", "one:"]
    lines += [
        "  %b.at = add nuw nsw i32 %from, %b.lane",
        "  %b.x = urem i32 %b.at, %c6",
        "  %b.rest = udiv i32 %b.at, %c6",
    ]
    lines += ["  %b.y = urem i32 %b.rest, %c7", "  %b.z = udiv i32 %b.rest, %c7"]
    lines += [line.format("b", "noinline", "") for line in call]
    lines += ["  br label %next", "next:", "  %b.more = add nuw nsw i32 %b.lane, 1"]
    lines += ["  %b.go = icmp ult i32 %b.more, %lanes", "  br i1 %b.go, label %some, label %end"]
    lines += [
        "end:",
        "  %voted = load i32, ptr %votes",
        "  %before = load i32, ptr %sum",
        "  %after = add i32 %before, %voted",
    ]
    lines += ["  store i32 %after, ptr %sum", "  %found = load i32, ptr %met", "  ret i32 %found", "}"]
    return "\n".join(lines)
