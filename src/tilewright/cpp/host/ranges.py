"""SIMT kernels that know a thread by its number in the grid alone: ``blockIdx.x * blockDim.x + threadIdx.x``.

How such a grid is cut into blocks does not matter, so that the runtime runs ranges of its threads, of any length. The
coordinates of a block become the number of the first thread of a range, and of all threads, in two words each. A
constant may stand for ``blockDim.x``, of which the runtime is told, as blocks of a launch may be of another width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from tilewright.cpp.host.control_flow import definitions_of
from tilewright.cpp.host.locality import INDEX
from tilewright.frontend.cpp.llvm_instruction import instruction
from tilewright.frontend.cpp.llvm_module import parts_of, with_functions

_THREAD, _BLOCK, _WIDTH, _GRID = 0, 3, 6, 9  # the coordinates along x
_BITS = 11  # of a constant that blocks may have as their width


def with_ranges(text: str, kernels: Collection[str]) -> tuple[str, dict[str, int]]:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with those of
    ``kernels`` edited that are such; and these, with the constant that each has for the width of a block, or 0."""
    functions = parts_of(text).functions
    found = {name: _edited(functions[name].text) for name in kernels if name in functions}
    edited = {name: code for name, code in found.items() if code is not None}
    widths = {name: width for name, (_, width) in edited.items()}
    return with_functions(text, edited, lambda each: edited[each.name][0]), widths


def _edited(function: str) -> tuple[str, int] | None:
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

    def product(value: str) -> tuple[int, int] | None:
        """The coordinate, that of blocks or how many these are, which ``value`` is a multiple of, and the constant that
        it is multiplied by, 0 for the width of blocks."""
        i = instruction(definitions.get(value, ""))
        if i.op in ("zext", "sext"):
            return product(i.values[0])
        if i.op not in ("mul", "shl"):
            return None
        for a, b in (i.values, i.values[::-1]) if i.op == "mul" else (i.values,):
            of, by = coordinate(a), int(b) if b.isdigit() else 0
            if of in (_BLOCK, _GRID) and of is not None:
                if i.op == "mul":
                    return (of, by) if by or coordinate(b) == _WIDTH else None
                return (of, 1 << by) if b.isdigit() and by < _BITS else None
        return None

    def fits(value: str, number: bool) -> bool:
        """Whether nothing but the numbers of threads, and how many they are, depends on a coordinate; ``number``: on a
        part of such a number."""
        for line in users[value]:
            i = instruction(line)
            if i.op in ("zext", "sext"):
                fine = fits(i.result, number)
            elif number:
                orders = (i.values, i.values[::-1]) if i.op == "add" else ()
                firsts = (product(a) for a, b in orders if coordinate(b) == _THREAD)
                fine = any(made is not None and made[0] == _BLOCK for made in firsts)
            else:
                made = product(i.result)
                fine = made is not None and (made[0] == _GRID or fits(i.result, number=True))
            if not fine:
                return False
        return True

    calls = [i for i in map(instruction, lines) if i.callee == INDEX]
    if not any(i.values[0] == str(_THREAD) for i in calls):
        return None
    if not all(i.values[0].isdigit() and fits(i.result, i.values[0] == str(_THREAD)) for i in calls):
        return None
    products = {line: product(instruction(line).result) for line in lines if instruction(line).op in ("mul", "shl")}
    widths = {made[1] for made in products.values() if made is not None}
    if len(widths) != 1:
        return None
    return "\n".join(new for line in lines for new in _with_number(line, products.get(line))), widths.pop()


def _with_number(line: str, product: tuple[int, int] | None) -> list[str]:
    """What computes the first number of a range, or that of all threads, in the place of a product."""
    i = instruction(line)
    if product is None:
        return [line]
    low, name, rest = product[0], f"%tw.range.{i.result[1:]}", line[i.end :]
    if i.type == "i32":
        return [f"  {i.result} = call i32 @{INDEX}(i32 {low}){rest}"]
    words = [f"  {name}.{k} = call i32 @{INDEX}(i32 {low + k}){rest}" for k in range(2)]
    words += [f"  {name}.{k}.w = zext i32 {name}.{k} to i64{rest}" for k in range(2)]
    words += [f"  {name}.high = shl i64 {name}.1.w, 32{rest}"]
    return [*words, f"  {i.result} = add i64 {name}.0.w, {name}.high{rest}"]
