"""Rules of ops with regions, which everything that reads a module relies on."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.tileir.module import Block, Operation


def _for(op: Operation, body: Block) -> str | None:
    return _arguments(op, body, 1 + len(op.operands["initValues"])) or _carried(op)


def _carried(op: Operation) -> str | None:
    inits, results = len(op.operands["initValues"]), len(op.results)
    return None if inits == results else f"as many results as initial values, {inits}, not {results}"


def _loop(op: Operation, body: Block) -> str | None:
    return _arguments(op, body, len(op.operands["initValues"]))


def _if(op: Operation, body: Block) -> str | None:
    other = op.regions[1]
    return _arguments(op, body, 0) or (None if other is None else _arguments(op, other, 0))


def _fold(op: Operation, body: Block) -> str | None:
    operands = len(op.operands["operands"])
    if len(op.attributes["identities"].items) != operands or len(op.results) != operands:
        return f"one identity and one result for each of {operands} operands"
    return _arguments(op, body, 2 * operands)


def _arguments(op: Operation, body: Block, count: int) -> str | None:
    return None if len(body.args) == count else f"{count} arguments of the body of {op.name}, not {len(body.args)}"


_RULES: dict[str, Callable[[Operation, Block], str | None]] = {
    "for": _for,
    "loop": _loop,
    "if": _if,
    "reduce": _fold,
    "scan": _fold,
}


def problem(op: Operation) -> str | None:
    """The rule that ``op``, which has regions, breaks, or None."""
    body = op.regions[0]
    if body is None:
        return f"a body of {op.name}"
    rule = _RULES.get(op.name)
    return None if rule is None else rule(op, body)
