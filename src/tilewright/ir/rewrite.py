"""Copying IR with substitutions: the one mechanism of cloning, inlining and most passes."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir.core import Block, Function, Op, Value

ValueMap = dict[Value, Value]


def clone_op(op: Op, values: ValueMap, *, clone_regions: Callable[[Block, ValueMap], Block] | None = None) -> Op:
    """A copy of ``op`` with operands looked up in ``values``, to which its results are added.

    Types, attributes and location are kept without inferring them again.
    """
    copy_region = clone_regions or clone_block
    copied = type(op)(
        [values.get(v, v) for v in op.operands],
        op.segments,
        dict(op.attributes),
        [copy_region(r, values) for r in op.regions],
        tuple(r.type for r in op.results),
        op.loc,
    )
    for old, new in zip(op.results, copied.results):
        new.name = old.name
        values[old] = new
    return copied


def clone_block(block: Block, values: ValueMap) -> Block:
    """A copy of ``block`` whose arguments and results are added to ``values``."""
    copied = open_block(block, values)
    copied.ops = [clone_op(op, values) for op in block.ops]
    return copied


def open_block(block: Block, values: ValueMap) -> Block:
    """An empty block with the arguments of ``block``, which are added to ``values``."""
    copied = Block()
    for arg in block.args:
        values[arg] = copied.add_arg(arg.type, arg.name)
    return copied


def clone_function(function: Function) -> Function:
    """A deep copy."""
    return with_body(function, clone_block(function.body, {}))


def with_body(function: Function, body: Block) -> Function:
    return Function(function.name, body, list(function.params), function.loc, dict(function.hints), function.may_alias)
