"""Loops whose iterations are written out."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.builder import Builder
from tilewright.ir.core import Value
from tilewright.ir.ops.arith import Add
from tilewright.ir.ops.control import For
from tilewright.ir.rewrite import Rewriter, clone_op


def written_out(rewriter: Rewriter, loop: For, count: int | None, b: Builder) -> Sequence[Value]:
    """Put the ``count`` iterations of ``loop`` in its place: what it carries in the end, for ``replace_ops``."""
    assert count is not None
    number, _, step = rewriter.all(loop.bounds)
    carried = rewriter.all(loop.inits)
    for _ in range(count):
        values = {**rewriter.values, loop.body.args[0]: number, **dict(zip(loop.carried, carried))}
        for op in loop.body.ops[:-1]:
            b.insert(clone_op(op, values))
        carried = [values.get(v, v) for v in loop.next_values]
        number = b.emit(Add, number, step)
    return carried
