"""Loops of SIMT kernels that stride by the threads of a block or grid: the threads of a block go through them together.

One thread after another would touch memory at every so many elements, each line of a cache once for each of its
elements. So such a loop gets a barrier that nobody needs, before each iteration, at which the kernel is split. Its
variable becomes what it was at first, and the number of the iteration times the stride, which is next to that of the
next thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.cpp.host.control_flow import blocks_of, definitions_of, successors
from tilewright.frontend.cpp.llvm_instruction import Instruction, instruction, renamed
from tilewright.frontend.cpp.llvm_module import with_functions
from tilewright.ir.reachable import reachable

YIELD = 5  # the kind of such a barrier
COUNTS = "%tw.stride."  # how the names begin of what counts iterations
_STEPS = ("add", "sub", "mul", "shl", "zext", "sext", "trunc")
INDEX = "__tw_simt_index"  # gives the coordinates of a thread
_OF_BLOCKS = {*map(str, range(6, 12))}  # blockDim and gridDim
_LONGEST = 12  # instructions that compute a stride


def with_yields(text: str, kernels: Collection[str], barrier: str) -> str:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``."""
    return with_functions(text, kernels, lambda each: _yielding(each.text, barrier))


def without_yields(text: str, barrier: str) -> str:
    """``text`` without the calls that ``with_yields`` made."""
    lines = []
    for line in text.split("\n"):
        i = instruction(line)
        yields = i.callee == barrier and i.values[0] == str(YIELD)
        lines.append(f"  {i.result} = add i32 0, 0" if yields else line)
    return "\n".join(lines)


def _yielding(function: str, barrier: str) -> str:
    head, *lines = function.split("\n")
    blocks, definitions = blocks_of(lines), definitions_of(lines)
    for header in list(blocks):
        for line in list(blocks[header]):
            phi = instruction(line)
            counts = phi.op == "phi" and phi.type in ("i32", "i64") and len(phi.args) == 2
            steps = _stride(phi, definitions) if counts else []
            body = _body(blocks, header, phi.incoming[1][1]) if steps else set()
            if body and not any(instruction(other).callee == barrier for name in body for other in blocks[name]):
                _yield_in(blocks, header, body, line, steps, barrier)
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


def _stride(phi: Instruction, definitions: Mapping[str, str]) -> list[str]:
    """The lines that compute what a loop adds to its variable, the last of which gives it, if that is the same for all
    threads and depends on how many there are."""
    add = instruction(definitions.get(phi.incoming[1][0], ""))
    if add.op != "add" or phi.result not in add.values:
        return []
    lines: list[str] = []
    x, y = add.values
    pending = [y if x == phi.result else x]
    while pending:
        line = definitions.get(pending.pop())
        if line is None:  # a parameter or a constant
            continue
        i = instruction(line)
        if len(lines) > _LONGEST or (i.values[0] not in _OF_BLOCKS if i.callee == INDEX else i.op not in _STEPS):
            return []
        lines = [line, *(other for other in lines if other != line)]
        pending += i.names
    return lines if any(instruction(line).callee == INDEX for line in lines) else []


def _yield_in(
    blocks: dict[str, list[str]], header: str, body: set[str], line: str, steps: Sequence[str], barrier: str
) -> None:
    """Let the loop of the variable that ``line`` defines yield before each iteration. The numbers of values without a
    name stay."""
    phi = instruction(line)
    type, location = phi.type, "" if phi.debug is None else f", !dbg !{phi.debug}"
    (first, before), (_, latch) = phi.incoming
    own = f"{COUNTS}{header[1:].strip(chr(34))}"
    count, again = f"{own}.count", f"{own}.again"

    def at(name: str, kind: str) -> list[str]:
        """Lines that give ``name`` the value of the variable in the iteration."""
        names = {instruction(step).result: f"{own}.{kind}{i}" for i, step in enumerate(steps)}
        lines = [renamed(step, names) for step in steps]
        lines += [f"  {own}.{kind} = mul {type} {count}, {list(names.values())[-1]}{location}"]
        return [*lines, f"  {name} = add {type} {first}, {own}.{kind}{location}"]

    numbered = f"  {count} = phi {type} [ 0, {before} ], [ {count}.next, {latch} ]{location}"
    lines = [numbered if other == line else other for other in blocks[header]]
    after = successors(lines)
    last = max(i for i, line in enumerate(lines) if instruction(line).op == "phi")
    blocks[header] = [*lines[: last + 1], *at(phi.result, "first"), *lines[last + 1 :]]
    for name in body:
        blocks[name] = [renamed(line, {phi.result: again}) for line in blocks[name]]
        if name in after:
            call = f"  {own}.yield = call i32 @{barrier}(i32 {YIELD}, i32 0, ptr @{barrier}, i32 0){location}"
            added = [call, f"  {count}.next = add {type} {count}, 1{location}", *at(again, "body")]
            blocks[name][1:1] = added
