"""MMA ops run beside what follows them, in TTGIR as text.

Where Triton does not pipeline a loop it waits for each MMA op at once, though the tensor cores could start the next
one first, and work while what does not need the result is computed. It also takes a left operand that a loop carries
through shared memory, though the registers of a result are laid out like those of an operand of 16 bits. And of loops
that it does pipeline it waits at once for MMA ops of integers, which are no different from others.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tilewright.backends.triton.lines import NAME, WAIT, Loop, carried_by, end_of, innermost_loops, names_in, renamed
from tilewright.backends.triton.tma_prefetch import has_load_at_once

_COPY = re.compile(
    r"(\s*)(%\w+) = ttg\.local_alloc (%[\w#]+) : \(tensor<(\d+)x(\d+)x(\w+), (#\w+)>\) -> (!ttg\.memdesc<[^>]*>)"
)
_INTEGERS = re.compile(
    r"\s*%\w+ = ttng\.warp_group_dot (%\w+), (%\w+), (%\w+) \{isAsync = true\} : "
    r"!ttg\.memdesc<.* -> (tensor<\d+x\d+xi32, #\w+>)"
)
_VIEWED = re.compile(r" = ttg\.memdesc_(?:trans|subslice|reshape) (%\w+)")
_MMA = re.compile(r"\s*(%\w+) = ttng\.warp_group_dot (%[\w#]+), .*isAsync = true.* : (.*?) \* ")


def sink_waits(text: str) -> str:
    """The TTGIR module ``text`` in which loops wait for their MMA ops as late as they can."""
    if "ttng.warp_group_dot_wait " not in text:
        return text
    lines = _from_registers(text.split("\n"))
    for loop in reversed(innermost_loops(lines)):
        lines = _in_flight(lines, loop)
    for loop in reversed(innermost_loops(lines)):
        if not has_load_at_once(lines, loop):  # beside one, ptxas 12.8 has used registers before they are set
            lines[loop.head + 1 : loop.end] = _delayed(lines, loop)
    return "\n".join(lines)


def _from_registers(lines: list[str]) -> list[str]:
    """``lines`` in which MMA ops read their left operands from registers when those are laid out like results."""
    for at, line in enumerate(lines):
        copy = _COPY.match(line)
        if copy is None or copy[6] not in ("f16", "bf16"):
            continue
        indent, name, value, rows, columns, element, layout, memory = copy.groups()
        users = [i for i, other in enumerate(lines) if i > at and name in names_in([other])]
        mma = _MMA.match(lines[users[0]]) if users else None
        local = [i for i in users if lines[i].startswith(indent)]
        if mma is None or mma[2] != name or f", {layout}>" not in lines[users[0]].split(" -> ")[1]:
            continue
        end = next(i for i in range(at, len(lines)) if not lines[i].startswith(indent))
        waits = [i for i in local[1:] if i < end]
        if any(WAIT.match(lines[i]) is None for i in waits) or len(waits) > 1:
            continue
        operand = f"tensor<{rows}x{columns}x{element}, #ttg.dot_op<{{opIdx = 0, parent = {layout}, kWidth = 2}}>>"
        tensor = f"tensor<{rows}x{columns}x{element}, {layout}>"
        lines[at] = f"{indent}{name} = ttg.convert_layout {value} : {tensor} -> {operand}"
        for i in (users[0], *waits):
            lines[i] = lines[i].replace(memory, operand, 1)
    return lines


def _in_flight(lines: list[str], loop: Loop) -> list[str]:
    """``lines`` in which the one MMA op of integers in ``loop``, which adds to a sum that nothing else in it sees,
    runs beside what follows it up to that of the next iteration. Its operands must be tiles of a pipeline, which keeps
    each until then."""
    body = range(loop.head + 1, loop.end)
    mmas = [at for at in body if "= ttng.warp_group_dot " in lines[at]]
    found = _INTEGERS.match(lines[mmas[0]]) if len(mmas) == 1 else None
    if found is None or not _waits_at_once(lines[mmas[0]], lines[mmas[0] + 1]):
        return lines
    left, right, total, type_ = found.groups()
    at, yielded = mmas[0], NAME.findall(lines[loop.end - 1])
    name: str = WAIT.match(lines[at + 1])[1]  # type: ignore[index] # it has matched in _waits_at_once
    accumulators = [(i, own) for i, own in enumerate(carried_by(lines[loop.head])) if yielded[i] == f"{name}#0"]
    users = [i for i in body if i != at + 1 and {name, total} & names_in([lines[i]])]
    if [own for _, own in accumulators] != [total] or users != [at, loop.end - 1]:
        return lines
    if not (_is_kept(lines, loop, left) and _is_kept(lines, loop, right)):
        return lines
    whole = NAME.findall(lines[loop.head])[0]  # the loop has a result, since it carries a sum
    last, waited = f"{whole}#{accumulators[0][0]}" if len(yielded) > 1 else whole, f"%sum_{whole[1:]}"
    wait = f"{loop.indent}{waited} = ttng.warp_group_dot_wait {last} {{pendings = 0 : i32}} : {type_}"
    return [
        *lines[: at + 1],
        lines[at + 1].replace("pendings = 0", "pendings = 1"),
        *lines[at + 2 : loop.end + 1],
        wait,
        *(renamed(line, {last: waited}) for line in lines[loop.end + 1 :]),
    ]


def _is_kept(lines: list[str], loop: Loop, tile: str) -> bool:
    """Whether ``tile`` is one of several in shared memory, or made before ``loop``."""
    inside = {m[0]: lines[at] for at in range(loop.head + 1, loop.end) for m in [NAME.match(lines[at].strip())] if m}
    while tile in inside and (view := _VIEWED.search(inside[tile])) is not None:
        tile = view[1]
    return tile not in inside or " = ttg.memdesc_index " in inside[tile]


def _delayed(lines: list[str], loop: Loop) -> list[str]:
    """The body of ``loop`` with its waits before the first uses of what they wait for."""
    starts = [loop.head + 1]
    while starts[-1] < loop.end:
        starts.append(end_of(lines, starts[-1]) + 1)
    ops = [lines[a:b] for a, b in pairwise(starts)]
    mmas = [i for i, op in enumerate(ops) if _MMA.match(op[0])]
    waits = [i + 1 for i in mmas if i + 1 < len(ops) and _waits_at_once(ops[i][0], ops[i + 1][0])]
    body = [line for op in ops for line in op]
    if len(waits) < 2 or len(waits) != sum("ttng.warp_group_dot" in line for line in body) - len(mmas):
        return body
    moved: dict[int, list[str]] = {}
    for at in waits:
        name = WAIT.match(ops[at][0])[1]  # type: ignore[index]
        use = next(i for i in range(at + 1, len(ops)) if name in names_in(ops[i]))
        pending = sum(at < i < use for i in mmas)
        wait = ops[at][0].replace("pendings = 0", f"pendings = {pending}")
        moved.setdefault(use, []).append(_kept(wait, _left(ops[at - 1][0])))
    return [line for i, op in enumerate(ops) for line in (*moved.get(i, ()), *(() if i in waits else op))]


def _waits_at_once(mma: str, wait: str) -> bool:
    """Whether ``wait`` is for ``mma`` and all others, and gives more than its result."""
    found = WAIT.match(wait)
    result, *others = found[2].split(", ") if found is not None and found[3] == "0" else [""]
    return bool(others) and result == _MMA.match(mma)[1]  # type: ignore[index]


def _left(mma: str) -> list[tuple[str, str]]:
    """The left operand of ``mma`` and its type, if it is in registers: they must stay until the wait."""
    left, type_ = _MMA.match(mma).groups()[1:]  # type: ignore[union-attr]
    return [(left, type_)] if type_.startswith("tensor<") else []


def _kept(wait: str, more: list[tuple[str, str]]) -> str:
    """``wait``, which also takes the values ``more`` of these types."""
    name, operands, _ = WAIT.match(wait).groups()  # type: ignore[union-attr]
    more = [(value, type_) for value, type_ in more if value not in names_in([operands])]
    location = re.search(r" loc\(.*\)$", wait)
    end = location.start() if location is not None else len(wait)
    kept = wait[:end] + "".join(f", {type_}" for _, type_ in more) + wait[end:]
    count = len(NAME.findall(operands)) + len(more)
    kept = re.sub(r"%\w+(?::\d+)? = ", f"{name}:{count} = ", kept, count=1)
    return kept.replace(f" {operands} {{", f" {', '.join([operands, *(value for value, _ in more)])} {{")
