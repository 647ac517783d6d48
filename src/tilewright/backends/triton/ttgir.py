"""What Triton's pipeline leaves undone in TTGIR, the form with layouts: it is mended as text.

An MMA op whose left operand is in registers runs in steps along K, asynchronously, up to one less than there are steps
at a time. Triton 3.6 loads the registers of all steps before the first, while steps of the last iteration may still
read them. Here each step loads its own part just before it runs: the step that read those registers has ended by then,
and the loads overlap with the steps in flight. Where the operand is computed, the last step of an iteration is waited
for.

Triton has a wait for MMA ops keep the registers that they read, and fails where these hold elements of one byte. Here
such an MMA op ends before the next op, and no wait is told of its registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.backends.triton.lines import indent_of, types_in

_VALUE = r"%[\w#]+"
_DEFINITION = re.compile(r"\s*(%\w+(?:, %\w+)*)(?::\d+)? = (\S+) (.*)")
_STEP = re.compile(rf"(\s*)(%\w+) = ttng\.warp_group_dot ({_VALUE}), ({_VALUE})(.*)")
_SLICE = re.compile(rf"({_VALUE})\[(\d+), 0\] : ")
_LOAD = re.compile(rf"({_VALUE}) : !ttg\.memdesc<(\d+)x(\d+)x(\w+), (#\w+), (#\w+), mutable> -> ")
_TENSOR = re.compile(r"tensor<(\d+)x(\d+)x(\w+), (#ttg\.dot_op<.*?>)>")
_WAIT = re.compile(r"(\s*)(%\w+)(?::\d+)? = ttng\.warp_group_dot_wait (.*?) (\{pendings = \d+ : i32\}) : (.*)")
_BYTES = re.compile(r"tensor<(?:\d+x)+(?:i8|f8\w+), #ttg\.dot_op<")
_BETWEEN = ("ttg.convert_layout", "tt.split", "tt.trans", "tt.reshape", "tt.elementwise_inline_asm")


@dataclass(frozen=True)
class _Line:
    """One op: what it is called, and its operands with all that follows."""

    at: int
    op: str
    rest: str


class _Text:
    """The lines of a module, and where values are defined. Regions that are not nested use the same names again."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.encodings = dict(re.findall(r"^(#\w+) = (#ttg\.\S+<\{.*\}>)$", text, re.MULTILINE))
        self._defined: dict[str, list[_Line]] = {}
        for at, line in enumerate(self.lines):
            found = _DEFINITION.match(line)
            if found is not None:
                for name in found[1].split(", "):
                    self._defined.setdefault(name, []).append(_Line(at, found[2], found[3]))

    def definition(self, name: str, before: int) -> _Line | None:
        """What defines ``name`` where line ``before`` uses it."""
        lines = self._defined.get(name.split("#")[0], [])
        return next((line for line in reversed(lines) if line.at < before), None)


def mended(text: str) -> str:
    """The TTGIR module ``text`` with both done."""
    return end_mma_of_bytes(interleave_loads(text)) if "ttng.warp_group_dot " in text else text


def interleave_loads(text: str) -> str:
    """The TTGIR module ``text`` in which steps of MMA ops load their left operands one by one."""
    module = _Text(text)
    added: dict[int, list[str]] = {}
    gone: set[int] = set()
    steps = {at: step for at, line in enumerate(module.lines) if (step := _STEP.fullmatch(line)) is not None}
    for at, step in steps.items():
        found = _own_load(module, step, at)
        if found is not None:
            added[at], chain = found
            gone |= chain
        elif _is_part(module, step, at) and not any(_continues(module, steps[k], k, at) for k in steps):
            added[at + 1] = [re.sub(r"pendings = \d+", "pendings = 0", module.lines[at + 1])]
    lines = (added.get(at, [line]) for at, line in enumerate(module.lines) if at not in gone)
    return "\n".join(line for group in lines for line in group)


def _own_load(module: _Text, step: re.Match[str], at: int) -> tuple[list[str], set[int]] | None:
    """The lines of ``step`` with a load of its own, and those of the chain that led to its operand. None when the
    operand is not a part of a tile in shared memory."""
    indent, result, left, right, rest = step.groups()
    slice_ = module.definition(right, at)
    part = _SLICE.match(slice_.rest) if slice_ is not None and slice_.op == "ttg.memdesc_subslice" else None
    chain = _chain(module, left, at)
    if part is None or not chain or _count(chain, "tt.split") == 0 or _count(chain, "tt.trans") != 2:
        return None
    load = _LOAD.match(chain[-1].rest)
    tile = _TENSOR.search(chain[0].rest.split(" -> ")[1])
    if load is None or tile is None:
        return None
    (buffer, depth, width, element, encoding, space), (rows, columns, _, layout) = load.groups(), tile.groups()
    shared = module.encodings.get(encoding, "")
    if width != rows or "transposed = false" not in shared:
        return None
    transposed = shared.replace("transposed = false", "transposed = true")
    whole = f"!ttg.memdesc<{depth}x{width}x{element}, {encoding}, {space}, mutable>"
    lying = f"!ttg.memdesc<{columns}x{width}x{element}, {encoding}, {space}, mutable, {depth}x{width}>"
    standing = f"!ttg.memdesc<{width}x{columns}x{element}, {transposed}, {space}, mutable, {width}x{depth}>"
    name = f"%step{at}"
    lines = [
        f"{name}_a = ttg.memdesc_subslice {buffer}[{part[2]}, 0] : {whole} -> {lying}",
        f"{name}_b = ttg.memdesc_trans {name}_a {{order = array<i32: 1, 0>}} : {lying} -> {standing}",
        f"{name}_c = ttg.local_load {name}_b : {standing} -> tensor<{rows}x{columns}x{element}, {layout}>",
        f"{result} = ttng.warp_group_dot {name}_c, {right}{rest}",
    ]
    return [indent + line for line in lines], {op.at for op in chain}


def _is_part(module: _Text, step: re.Match[str], at: int) -> bool:
    """Whether ``step`` is one of several of an MMA op, with a left operand in registers."""
    right = module.definition(step[4], at)
    return right is not None and right.op == "ttg.memdesc_subslice" and " : tensor<" in step[5]


def _continues(module: _Text, step: re.Match[str], at: int, first: int) -> bool:
    """Whether ``step``, in line ``at``, adds to what the one in line ``first`` and the wait after it left."""
    total = re.match(rf", ({_VALUE})", step[5])
    wait = module.definition(total[1], at) if total is not None else None
    return wait is not None and wait.at == first + 1 and wait.op == "ttng.warp_group_dot_wait"


def _chain(module: _Text, name: str, at: int) -> list[_Line]:
    """The ops from the definition of ``name``, as line ``at`` uses it, back to a load from shared memory; none when
    there is another."""
    found: list[_Line] = []
    while (op := module.definition(name, at)) is not None:
        found.append(op)
        if op.op == "ttg.local_load":
            return found
        operand = re.search(rf"({_VALUE})(?: \{{[^}}]*\}})? : ", op.rest)
        if op.op not in _BETWEEN or operand is None or (op.op.endswith("_asm") and '"mov.b32 $0, $1;"' not in op.rest):
            break
        name, at = operand[1], op.at
    return []


def _count(chain: list[_Line], op: str) -> int:
    return sum(line.op == op for line in chain)


def end_mma_of_bytes(text: str) -> str:
    """The TTGIR module ``text`` in which nobody waits for what MMA ops read from registers, where that are bytes."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        step = _STEP.fullmatch(line)
        if step is not None and _BYTES.search(step[5].split(" * ")[0]):
            lines[at] = re.sub(r" \{isAsync = true\}|, isAsync = true|isAsync = true, ", "", line)
        wait = _WAIT.fullmatch(line)
        if wait is not None and _BYTES.search(wait[5]):
            _forget_bytes(lines, at, wait)
    return "\n".join(lines)


def _forget_bytes(lines: list[str], at: int, wait: re.Match[str]) -> None:
    """Take the bytes off the ``wait`` in line ``at``, and its results from what follows."""
    indent, name, values, pendings, types = wait.groups()
    pairs = list(zip(values.split(", "), types_in(types)))
    kept = [(value, type_) for value, type_ in pairs if not _BYTES.search(type_)]
    count = f":{len(kept)}" if len(kept) > 1 else ""
    found: dict[str, str] = {}
    for i, (value, type_) in enumerate(pairs):
        place = len([t for _, t in pairs[:i] if not _BYTES.search(t)])
        found[f"{name}#{i}"] = value if _BYTES.search(type_) else f"{name}#{place}" if count else name
    line = f"{name}{count} = ttng.warp_group_dot_wait {', '.join(v for v, _ in kept)} {pendings} : "
    lines[at] = indent + line + ", ".join(t for _, t in kept)
    for k in range(at + 1, len(lines)):
        if lines[k].strip() and indent_of(lines[k]) < len(indent):
            break
        lines[k] = re.sub(rf"{name}#\d+\b", lambda match: found[match[0]], lines[k])
