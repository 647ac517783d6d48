"""Structured control flow whose regions are emitted by functions, which give what the region hands on at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.ops.control import Continue, For, If, Yield
from tilewright.ir.types import Type

Region = Callable[..., Iterable[Value]]


def emit_region(b: Builder, types: Iterable[Type], emit: Region, end: type[Op] = Yield) -> Block:
    """A block with arguments of ``types``, which ``emit`` takes, and with the terminator ``end``."""
    block = Block(tuple(types))
    with b.at(block):
        b.emit_op(end, list(emit(*block.args)))
    return block


def emit_if(b: Builder, condition: Value, then: Region, orelse: Region = list) -> list[Value]:
    """The results of an ``if``: what ``then`` gives, or ``orelse``."""
    regions = [emit_region(b, (), emit) for emit in (then, orelse)]
    types = tuple(v.type for v in regions[0].terminator.operands)
    return b.emit_op(If, condition, types=types, then=regions[0], orelse=regions[1]).results


def emit_for(b: Builder, bounds: Sequence[Value], inits: Sequence[Value], emit: Region) -> Op:
    """A ``for`` from the first of the ``bounds`` to the second by the third. ``emit`` takes the induction variable and
    what is carried, ``inits`` at first."""
    body = emit_region(b, (bounds[0].type, *(v.type for v in inits)), emit, Continue)
    return b.emit_op(For, *bounds, list(inits), body=body)
