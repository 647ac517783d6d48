"""Loops of SIMT kernels that stride by the threads of a block or grid: the threads of a block go through them together.

One thread after another would touch memory at every so many elements, each line of a cache once for each of its
elements. So such a loop gets a barrier that nobody needs, before each iteration, at which the kernel is split. Its
variable becomes what it was at first, and the number of the iteration times the stride, which is next to that of the
next thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tilewright.cpp.host.control_flow import blocks_of, definitions_of, successors
from tilewright.cpp.host.uniform import LOCAL
from tilewright.frontend.cpp.calls import FUNCTION
from tilewright.ir.reachable import reachable

YIELD = 5  # the kind of such a barrier
_PHI_LINE = re.compile(rf"^  {LOCAL} = phi ")
_PHI = re.compile(
    rf"^  (?P<name>{LOCAL}) = phi (?P<type>i32|i64) \[ (?P<first>[^,]+), (?P<before>{LOCAL}) \], "
    rf"\[ (?P<next>[^,]+), (?P<latch>{LOCAL}) \]"
)
_ADD = re.compile(rf"^  {LOCAL} = add (?:nuw )?(?:nsw )?(?:i32|i64) (?P<x>[^,]+), (?P<y>[^, ]+)")
_STEP = re.compile(rf"^  {LOCAL} = (?:add|sub|mul|shl|zext|sext|trunc) ")
_INDEX = re.compile(r"@__tw_simt_index\(i32 (?:noundef )?(\d+)\)")
_OF_BLOCKS = range(6, 12)  # blockDim and gridDim
_LONGEST = 12  # instructions that compute a stride


def with_yields(text: str, kernels: Iterable[str], barrier: str) -> str:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``."""
    wanted = set(kernels)
    return FUNCTION.sub(lambda m: _yielding(m.group(), barrier) if m[1].strip('"') in wanted else m.group(), text)


def without_yields(text: str, barrier: str) -> str:
    """``text`` without the calls that ``with_yields`` made."""
    return re.sub(rf"^(  {LOCAL} = )call i32 @{barrier}\(i32 {YIELD}, [^\n]*$", r"\1add i32 0, 0", text, flags=re.M)


def _yielding(function: str, barrier: str) -> str:
    head, *lines = function.split("\n")
    blocks, definitions = blocks_of(lines), definitions_of(lines)
    for header in list(blocks):
        for line in list(blocks[header]):
            phi = _PHI.match(line)
            steps = _stride(phi, definitions) if phi is not None else []
            body = _body(blocks, header, phi["latch"]) if phi is not None and steps else set()
            if phi is not None and body:
                _yield_in(blocks, header, body, phi, steps, barrier)
                break
    return "\n".join([head, *(line for block in blocks.values() for line in block)])


def _body(blocks: Mapping[str, Sequence[str]], header: str, latch: str) -> set[str]:
    """The blocks of a loop but for its ``header``, if this goes to one of them, which nothing else does, or leaves."""
    before: dict[str, set[str]] = {}
    for name, lines in blocks.items():
        for other in successors(lines):
            before.setdefault(other, set()).add(name)
    found = set(reachable({latch} - {header}, lambda name: before.get(name, set()) - {header}))
    entries = [name for name in found if header in before.get(name, ())]
    return found if len(entries) == 1 and before[entries[0]] == {header} and len(before[header]) == 2 else set()


def _stride(phi: re.Match[str], definitions: Mapping[str, str]) -> list[str]:
    """The lines that compute what a loop adds to its variable, the last of which gives it, if that is the same for all
    threads and depends on how many there are."""
    add = _ADD.match(definitions.get(phi["next"], ""))
    if add is None or phi["name"] not in (add["x"], add["y"]):
        return []
    lines: list[str] = []
    pending = [add["y"] if add["x"] == phi["name"] else add["x"]]
    while pending:
        line = definitions.get(pending.pop())
        if line is None:  # a parameter or a constant
            continue
        index = _INDEX.search(line)
        if len(lines) > _LONGEST or (int(index[1]) not in _OF_BLOCKS if index else not _STEP.match(line)):
            return []
        lines = [line, *(other for other in lines if other != line)]
        pending += [] if index else re.findall(LOCAL, line.split(" = ", 1)[1])
    return lines if any(_INDEX.search(line) for line in lines) else []


def _yield_in(
    blocks: dict[str, list[str]], header: str, body: set[str], phi: re.Match[str], steps: Sequence[str], barrier: str
) -> None:
    """Let the loop of the variable ``phi`` yield before each iteration. The numbers of values without a name stay."""
    type, location = phi["type"], (re.search(r", !dbg !\d+", phi.string) or [""])[0]
    own = f"%tw.stride.{header[1:].strip(chr(34))}"
    count, again = f"{own}.count", f"{own}.again"

    def at(name: str, kind: str) -> list[str]:
        """Lines that give ``name`` the value of the variable in the iteration."""
        renamed = {step.split(" = ")[0].strip(): f"{own}.{kind}{i}" for i, step in enumerate(steps)}
        lines = [re.sub(LOCAL, lambda m: renamed.get(m[0], m[0]), step) for step in steps]
        lines += [f"  {own}.{kind} = mul {type} {count}, {list(renamed.values())[-1]}{location}"]
        return [*lines, f"  {name} = add {type} {phi['first']}, {own}.{kind}{location}"]

    numbered = f"  {count} = phi {type} [ 0, {phi['before']} ], [ {count}.next, {phi['latch']} ]{location}"
    lines = [numbered if line == phi.string else line for line in blocks[header]]
    after = successors(lines)
    last = max(i for i, line in enumerate(lines) if _PHI_LINE.match(line))
    blocks[header] = [*lines[: last + 1], *at(phi["name"], "first"), *lines[last + 1 :]]
    variable = re.compile(rf"{re.escape(phi['name'])}(?![-\w.$])")
    for name in body:
        blocks[name] = [variable.sub(again, line) for line in blocks[name]]
        if name in after:
            call = f"  {own}.yield = call i32 @{barrier}(i32 {YIELD}, i32 0, ptr @{barrier}, i32 0){location}"
            added = [call, f"  {count}.next = add {type} {count}, 1{location}", *at(again, "body")]
            blocks[name][1:1] = added
