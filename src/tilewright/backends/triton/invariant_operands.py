"""Left operands that a loop does not change are read from shared memory, in TTGIR as text.

ptxas (12.8 and 12.9) keeps the left operands of the MMA ops of a loop in the same registers where they come from
registers. One that the loop does not change is put there before the loop only: from the second iteration on its
MMA op reads what the others left. So, beside another such MMA op, it stays in shared memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.backends.triton.lines import NAME, WAIT, end_of, indent_of, types_in

_MMA = re.compile(
    r"\s*%\w+ = ttng\.warp_group_dot (%[\w#]+), .* : (tensor<(\d+x\d+)x(\w+), #ttg\.dot_op<\{[^}]*\}>>) \* "
)
_LOOP = re.compile(r"\s*(?:%\w+(?::\d+)? = )?scf\.(?:for|while) ")
_BITS = re.compile(r"\d+")


@dataclass(frozen=True)
class _MmaOp:
    """An MMA op in a line, and its left operand: from registers, made in line ``made``."""

    at: int
    left: str
    type: str
    memory: str
    made: int


def keep_in_shared_memory(text: str) -> str:
    """The TTGIR module ``text`` in which no loop keeps operands in registers that others than it set."""
    if "ttng.warp_group_dot " not in text:
        return text
    lines = text.split("\n")
    mmas = [p for at in range(len(lines)) if (p := _mma(lines, at)) is not None]
    loops = [(at, end_of(lines, at)) for at, line in enumerate(lines) if _LOOP.match(line)]
    kept = {
        (p.made, p.left): p
        for first, last in loops
        for p in mmas
        if p.made < first < p.at < last and any(first < q.at < last and q.left != p.left for q in mmas)
    }
    for p in mmas:
        if (p.made, p.left) in kept:
            _replace(lines, p)
    for p in sorted(kept.values(), key=lambda p: -p.made):
        end = p.made if _LOOP.match(lines[p.made]) else end_of(lines, p.made)
        indent = " " * indent_of(lines[end + 1])
        copy = f"{_copy(p)} = ttg.local_alloc {p.left} : ({p.type}) -> {p.memory}"
        seen = "ttng.fence_async_shared {bCluster = false}", "gpu.barrier"
        lines[end + 1 : end + 1] = [indent + op for op in (copy, *seen)]
    return "\n".join(lines)


def _mma(lines: list[str], at: int) -> _MmaOp | None:
    found = _MMA.match(lines[at])
    made = _definition(lines, found[1], at) if found is not None else None
    if found is None or made is None:
        return None
    left, type_, shape, element = found.groups()
    bits = 8 if element.startswith("f8") else int(_BITS.findall(element)[0])
    width = min(128, int(shape.split("x")[1]) * bits // 8)
    layout = f"swizzlingByteWidth = {width}, transposed = false, elementBitWidth = {bits}"
    memory = f"!ttg.memdesc<{shape}x{element}, #ttg.nvmma_shared<{{{layout}}}>, #ttg.shared_memory>"
    return _MmaOp(at, left, type_, memory, made)


def _definition(lines: list[str], name: str, before: int) -> int | None:
    """The line that makes ``name`` as line ``before`` sees it: in the same block, or one around it."""
    indent, name = indent_of(lines[before]), name.split("#")[0]
    for at in range(before - 1, -1, -1):
        line = lines[at]
        if not line.strip() or indent_of(line) > indent:
            continue
        indent = indent_of(line)
        results = line.split(" = ", 1)[0].split(":")[0].strip().split(", ") if " = " in line else []
        if name in results or re.search(rf"[(, ]{name} = ", line):
            return at
    return None


def _replace(lines: list[str], mma: _MmaOp) -> None:
    """Let the MMA op read the copy, and the wait for it, which may be told of what it reads."""
    at, left = mma.at, mma.left
    lines[at] = lines[at].replace(f"dot {left},", f"dot {_copy(mma)},", 1).replace(mma.type, mma.memory, 1)
    result = lines[at].split(" = ", 1)[0].strip()
    for k in range(at + 1, len(lines)):
        if indent_of(lines[k]) < indent_of(lines[at]):
            break
        wait = WAIT.match(lines[k])
        if wait is not None and {result, left} <= set(NAME.findall(wait[2])):
            names = wait[2].split(", ")
            types = types_in(lines[k][wait.end() :])
            pairs = [(_copy(mma), mma.memory) if n == left else (n, t) for n, t in zip(names, types)]
            head = lines[k][: wait.start(2)] + ", ".join(n for n, _ in pairs) + lines[k][wait.end(2) : wait.end()]
            lines[k] = head + ", ".join(t for _, t in pairs)


def _copy(mma: _MmaOp) -> str:
    return f"%kept{mma.made}_{mma.left[1:].replace('#', '_')}"
