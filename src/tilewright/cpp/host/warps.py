"""SIMT kernels whose lanes wait for each other, as LLVM text: functions that run a region for lanes of a warp.

The runtime calls them: a warp goes on until its lanes have ended or wait for other warps. Where all lanes have
converged, which is the rule, a region is a loop over the lanes, which LLVM vectorizes; where they have diverged, those
that are at its start take turns. What lanes give each other is an array over them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cpp.host.fission import Split
from tilewright.cpp.host.regions import Names, frame_pointers, is_parallel, simt_lines, tables

_LANES = 32


def warp_functions(
    kernel: Split,
    head: Sequence[str],
    names: Names,
    arguments: Sequence[str],
    locations: Sequence[tuple[str, str]],
    *,
    stores: bool,
) -> str:
    """For each region a function that runs it for the lanes ``%mask`` of the ``%lanes`` lanes from the thread ``%from``
    on; all of them are -1. It returns the set of where they ended, and notes for each lane where. ``head`` loads
    ``arguments`` and coordinates, and ``locations`` are those of the functions and of their calls, as for
    ``block_function``."""
    each = range(len(kernel.regions))
    texts = [_region(kernel, k, head, names, arguments, locations[k], stores=stores) for k in each]
    rows = ", ".join(f"ptr @{names.run(k)}" for k in each)
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
    parallel = is_parallel(kernel, k)

    def lane(own: str, attributes: str, group: str) -> list[str]:
        """The call of the region for one lane, by values whose names begin with ``own``."""
        coordinates = [f"%{own}.{axis}" for axis in "xyz"]
        given = [*arguments, *(f"i32 {value}" for value in coordinates), *(f"i32 %c{i}" for i in range(3, 12))]
        given += [f"i64 %{own}.thread", "i32 %outcome", "ptr %votes", f"i64 %{own}.wide"]
        given += ["ptr %given", "ptr %taken", "ptr %masks", *(f"ptr %f{i}" for i in range(len(kernel.frame)))]
        return simt_lines(
            "lane",
            own=own,
            notes=[f"  store i32 {value}, ptr %p{i}" for i, value in enumerate(coordinates)] if stores else [],
            call=f"call i32 @{names.region(k)}({', '.join(given)}) {attributes}{locations[1]}",
            group=group,
        )

    lines = simt_lines(
        "warp",
        run=names.run(k),
        location=locations[0],
        head=[*head],
        frame=frame_pointers(kernel, shared=True),
        lanes=_LANES,
        all=lane("a", "", f", !llvm.access.group {names.group(k)}" if parallel else ""),
        loop=f", !llvm.loop {names.loop(k)}" if parallel else "",
        one=lane("b", "noinline", ""),
    )
    return "\n".join(lines)
