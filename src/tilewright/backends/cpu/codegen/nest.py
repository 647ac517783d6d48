"""Nests of counted loops under construction.

Every open loop keeps a builder of its own, so that code which does not depend on the inner loops can still be
added outside them after these have been opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from llvmlite import ir

from tilewright.backends.branches import phi_of
from tilewright.backends.cpu.codegen.index import Index, as_value
from tilewright.backends.native.text_builder import TextBuilder
from tilewright.backends.vector.types import I64
from tilewright.records import dataclass


@dataclass(eq=False, repr=False)
class _Loop:
    header: ir.Block
    induction: ir.PhiInstr
    count: Index
    step: int
    start: Index
    guarded: bool
    carried: list[tuple[ir.PhiInstr, ir.Value]] = field(default_factory=list)


class Nest:
    """``builders[k]`` adds code inside the k-th open loop, in front of loop k + 1; ``builders[0]`` in front of all."""

    def __init__(self, builder: ir.IRBuilder, label: str = "") -> None:
        """``label`` starts the names of the loops in the generated code."""
        self._name = f"{label}.loop" if label else "loop"
        self.builders = [builder]
        self._loops: list[_Loop] = []

    @property
    def level(self) -> int:
        return len(self._loops)

    @property
    def builder(self) -> ir.IRBuilder:
        """The builder of the innermost loop."""
        return self.builders[-1]

    def begin(self, count: Index, step: int = 1, start: Index = 0, *, guarded: bool = False) -> Index:
        """Open a loop of an index that runs over start, start + step, ... below ``count``; returns the index.

        It runs over start in any case, unless it is ``guarded``.
        """
        header = self.builder.append_basic_block(self._name)
        builder = TextBuilder(header)
        builder.debug_metadata = self.builder.debug_metadata
        induction = builder.phi(I64)
        self._loops.append(_Loop(header, induction, count, step, start, guarded))
        self.builders.append(builder)
        return induction

    def carry(self, init: ir.Value) -> ir.PhiInstr:
        """A value carried by the innermost loop, which nothing has been emitted into yet."""
        phi = self.builder.phi(init.type)
        self._loops[-1].carried.append((phi, init))
        return phi

    def end(self, nexts: Sequence[ir.Value] = ()) -> Sequence[ir.Value]:
        """Close the innermost loop; ``nexts`` are the next values of the carried ones. Returns the final ones."""
        loop, builder = self._loops.pop(), self.builders.pop()
        outer = self.builder
        after = builder.append_basic_block("after")
        following = builder.add(loop.induction, ir.Constant(I64, loop.step))
        loop.induction.add_incoming(as_value(loop.start), outer.block)
        loop.induction.add_incoming(following, builder.block)
        for (phi, init), value in zip(loop.carried, nexts):
            phi.add_incoming(init, outer.block)
            phi.add_incoming(value, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, as_value(loop.count)), loop.header, after)
        before = outer.block
        if not loop.guarded:
            outer.branch(loop.header)
            outer.position_at_end(after)
            return nexts
        outer.cbranch(outer.icmp_unsigned("<", as_value(loop.start), as_value(loop.count)), loop.header, after)
        outer.position_at_end(after)
        inits = [init for _, init in loop.carried]
        return [phi_of(outer, (init, before), (v, builder.block)) for init, v in zip(inits, nexts)]

    def close(self, level: int = 0) -> None:
        """Close the loops down to ``level``."""
        while self.level > level:
            self.end()
