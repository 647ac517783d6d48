"""SIMT kernels that know a thread by its number in the grid alone: ``blockIdx.x * blockDim.x + threadIdx.x``.

How such a grid is cut into blocks does not matter, so that the runtime runs ranges of its threads, of any length. The
coordinates of a block become the number of the first thread of a range, and of all threads, in two words each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.cpp.host.strides import INDEX
from tilewright.frontend.cpp.llvm_instruction import instruction
from tilewright.frontend.cpp.llvm_module import parts_of, with_functions

_THREAD, _BLOCK, _WIDTH, _GRID = 0, 3, 6, 9  # the coordinates along x
_FIRST, _ALL = {_BLOCK, _WIDTH}, {_WIDTH, _GRID}  # whose products are the first thread of a block, and all threads


def with_ranges(text: str, kernels: Collection[str]) -> tuple[str, set[str]]:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with those of
    ``kernels`` edited that are such, and these."""
    functions = parts_of(text).functions
    found = {name: _edited(functions[name].text) for name in kernels if name in functions}
    edited = {name: code for name, code in found.items() if code is not None}
    return with_functions(text, edited, lambda each: edited[each.name]), set(edited)


def _edited(function: str) -> str | None:
    lines = function.split("\n")
    definitions = definitions_of(lines)
    users: dict[str, list[str]] = defaultdict(list)
    for line in lines[1:]:
        for name in instruction(line).names:
            users[name].append(line)

    def coordinate(value: str) -> int | None:
        i = instruction(definitions.get(value, ""))
        if i.callee == INDEX:
            return int(i.values[0])
        return coordinate(i.values[0]) if i.op in ("zext", "sext") else None

    def product(value: str) -> set[int | None]:
        i = instruction(definitions.get(value, ""))
        if i.op in ("zext", "sext"):
            return product(i.values[0])
        return {coordinate(each) for each in i.values} if i.op == "mul" else set()

    def fits(value: str, number: bool) -> bool:
        """Whether nothing but the numbers of threads, and how many they are, depends on a coordinate; ``number``: on a
        part of such a number."""
        for line in users[value]:
            i = instruction(line)
            if i.op in ("zext", "sext"):
                fine = fits(i.result, number)
            elif number:
                orders = (i.values, i.values[::-1]) if i.op == "add" else ()
                fine = any(product(a) == _FIRST and coordinate(b) == _THREAD for a, b in orders)
            else:
                made = product(i.result)
                fine = made == _ALL or (made == _FIRST and fits(i.result, number=True))
            if not fine:
                return False
        return True

    calls = [i for i in map(instruction, lines) if i.callee == INDEX]
    if not any(i.values[0] == str(_THREAD) for i in calls):
        return None
    if not all(i.values[0].isdigit() and fits(i.result, i.values[0] == str(_THREAD)) for i in calls):
        return None
    return "\n".join(new for line in lines for new in _with_number(line, product(instruction(line).result)))


def _with_number(line: str, product: set[int | None]) -> list[str]:
    """What computes the first number of a range, or that of all threads, in the place of a product."""
    i = instruction(line)
    if i.op != "mul" or product not in (_FIRST, _ALL):
        return [line]
    low, name, rest = (_BLOCK if product == _FIRST else _GRID), f"%tw.range.{i.result[1:]}", line[i.end :]
    if i.type == "i32":
        return [f"  {i.result} = call i32 @{INDEX}(i32 {low}){rest}"]
    words = [f"  {name}.{k} = call i32 @{INDEX}(i32 {low + k}){rest}" for k in range(2)]
    words += [f"  {name}.{k}.w = zext i32 {name}.{k} to i64{rest}" for k in range(2)]
    words += [f"  {name}.high = shl i64 {name}.1.w, 32{rest}"]
    return [*words, f"  {i.result} = add i64 {name}.0.w, {name}.high{rest}"]
