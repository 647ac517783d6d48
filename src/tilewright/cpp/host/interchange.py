"""Loops of SIMT kernels that all threads of a block go through together, as their length is the same for all: they
become the outer loop, and that over the threads the inner one, which LLVM vectorizes.

One thread after another would run such a loop from its first to its last iteration. Where threads that are neighbours
touch neighbouring memory, as in a product of matrices, or the same, it gets a barrier that nobody needs (``strides``)
before every few iterations, which are unrolled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tilewright.cpp.host.control_flow import condition_of, loops
from tilewright.cpp.host.fission import Transform
from tilewright.cpp.host.locality import INDEX, Locality, computes, short_functions
from tilewright.cpp.host.strides import YIELD
from tilewright.frontend.cpp.llvm_instruction import instruction
from tilewright.frontend.cpp.llvm_module import parts_of, with_functions

_UNROLL = ("loop_simplify", "lcssa", "loop_rotate", "loop_unroll", "sroa", "simplify_cfg")
_SHORT = 64  # iterations of loops that are unrolled as a whole
_COUNT, _MOST = 8, 256  # iterations between barriers, and lines that these may be
_MARK = "tw.together"  # is called where these barriers are to be: calls of these are never copied
_DECLARED = f'declare void @"{_MARK}"()'


def with_interchange(text: str, kernels: Collection[str], barrier: str, transform: Transform) -> str:
    """The module ``text``, whose functions have no variables in memory but those with addresses, with calls of
    ``barrier`` in such loops of ``kernels``."""
    functions = parts_of(text).functions
    first = parts_of(text).free_number()
    nodes = {count: first + 2 * k for k, count in enumerate((_COUNT, _COUNT // 2, 1))}
    short = short_functions(functions)
    found = {name: _marked(functions[name].text, nodes, short) for name in kernels if name in functions}
    edited = {name: code for name, code in found.items() if code != functions[name].text}
    if not edited:
        return text
    text = with_functions(text, edited, lambda each: edited[each.name])
    lines = [f"!{n} = distinct !{{!{n}, !{n + 1}}}" for n in nodes.values()]
    lines += [f'!{n + 1} = !{{!"llvm.loop.unroll.count", i32 {count}}}' for count, n in nodes.items()]
    text = transform("\n".join([text, _DECLARED, *lines, ""]), edited, _UNROLL)
    text = with_functions(text, edited, lambda each: _with_barriers(each.text, barrier))
    return text.replace(parts_of(text).declared[_MARK], "")


class _Function(Locality):
    def __init__(self, text: str, short: Collection[str] = ()) -> None:
        super().__init__(text)
        self._short = short

    def chosen(self) -> list[tuple[set[str], str]]:
        """The loops that are to be outer ones, and their headers."""
        every = list(loops(self.edges))
        long = [loop for loop, _ in every if not self._is_short(loop)]
        inner = [each for each in every if each[0] in long and not any(other < each[0] for other in long)]
        return [(loop, min(headers)) for loop, headers in inner if len(headers) == 1 and self._fits(loop, min(headers))]

    def _leaving(self, loop: set[str]) -> list[str]:
        return [condition_of(self.blocks[name]) for name in loop if set(self.edges[name]) - loop]

    def _is_short(self, loop: set[str]) -> bool:
        tests = [self.definition(value) for value in self._leaving(loop)]
        return any(i.op == "icmp" and i.values[1].isdigit() and int(i.values[1]) <= _SHORT for i in tests)

    def _fits(self, loop: set[str], header: str) -> bool:
        """Whether all threads leave ``loop`` together, and gain by that."""
        leaving = self._leaving(loop)
        counts = [i.result for i in map(instruction, self.blocks[header]) if i.op == "phi" and i.type in ("i32", "i64")]
        if not leaving or not counts or not all(map(self.is_same, leaving)):
            return False
        for line in (line for name in loop for line in self.blocks[name]):
            i = instruction(line)
            if i.pointer is not None:
                if i.words or i.op in ("atomicrmw", "cmpxchg"):
                    return False
            elif i.op in ("call", "invoke", "fence") and not (i.callee == INDEX or computes(line, self._short)):
                return False
        return self.gains(loop, header)


def _marked(text: str, nodes: Mapping[int, int], short: Collection[str]) -> str:
    function = _Function(text, short)
    for loop, header in function.chosen():
        size = sum(bool(instruction(line).op) for name in loop for line in function.blocks[name])
        count = next((n for n in nodes if n * size <= _MOST), 1)
        latches = [name for name in loop if header in function.edges[name]]
        block = function.blocks[latches[0]]
        at = next(i for i, line in enumerate(block) if instruction(line).op == "br")
        if len(latches) == 1:
            block[at] = f"{block[at].partition(', !llvm.loop ')[0]}, !llvm.loop !{nodes[count]}"
        inside = [name for name in function.edges[header] if name in loop]
        start = inside[0] if len(inside) == 1 and len(function.edges[header]) > 1 else header
        block = function.blocks[start]
        at = max((i for i, line in enumerate(block) if instruction(line).op == "phi"), default=0)
        block.insert(at + 1, f'  call void @"{_MARK}"()')
    return function.text()


def _with_barriers(text: str, barrier: str) -> str:
    """A function with one barrier in each of its unrolled loops, and none outside of loops."""
    function, number = _Function(text), 0
    inner = [loop for loop, _ in loops(function.edges)]
    inner = [loop for loop in inner if not any(other < loop for other in inner)]
    for loop in [*inner, set(function.blocks)]:
        some = False
        for block in (block for name, block in function.blocks.items() if name in loop):
            for line in [line for line in block if instruction(line).callee == _MARK]:
                at = block.index(line)
                call = f"  %{_MARK}.{number} = call i32 @{barrier}(i32 {YIELD}, i32 0, ptr @{barrier}, i32 0)"
                block[at : at + 1] = [call] if loop in inner and not some else []
                number, some = number + 1, True
    return function.text()
