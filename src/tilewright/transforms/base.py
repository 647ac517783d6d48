"""What a pass is."""

from __future__ import annotations

from typing import ClassVar, Protocol

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.rewrite import ValueMap, clone_op, open_block, with_body


class Pass(Protocol):
    """A frozen dataclass whose fields are its options.

    A pass that has nothing to change gives its argument back, whose analyses then stay: see ``analysis.manager``.
    """

    name: ClassVar[str]

    def run(self, function: Function) -> Function:
        """An equivalent function; ``function`` itself is not modified."""


class Rewriter:
    """Rebuilds a function op by op. Subclasses override ``rewrite`` and leave ops they do not know alone."""

    def __init__(self) -> None:
        self.values: ValueMap = {}

    def function(self, function: Function) -> Function:
        return with_body(function, self.block(function.body, self.values))

    def block(self, block: Block, values: ValueMap) -> Block:
        """The rebuilt ``block``, whose arguments and results are added to ``values``."""
        copied = open_block(block, values)
        builder = Builder(copied, block.ops[0].loc)
        for op in block.ops:
            self.insert(op, builder)
            if copied.ops and copied.ops[-1].spec.terminator:
                break  # the rewrite ended the block: what follows cannot be reached
        return copied

    def insert(self, op: Op, builder: Builder) -> None:
        """Rebuild ``op`` at the end of the builder's block, or what ``rewrite`` puts in its place."""
        builder.loc = op.loc
        copied = clone_op(op, self.values, clone_regions=self.block)
        replacement = self.rewrite(copied, builder)
        if replacement is None:
            builder.block.ops.append(copied)
        else:
            self.values.update(zip(op.results, replacement))

    def rewrite(self, op: Op, builder: Builder) -> list[Value] | None:
        """The values that replace the results of ``op``, which is not inserted yet; None keeps it."""
        return None
