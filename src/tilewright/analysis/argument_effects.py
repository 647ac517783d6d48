"""Which kernel arguments a function reads and writes through pointers."""

from __future__ import annotations

from tilewright.analysis.alias import AliasAnalysis, is_address
from tilewright.analysis.manager import AnalysisManager
from tilewright.ir.core import Function
from tilewright.ir.opdef import Effect
from tilewright.ir.ops.memory import MemoryOp
from tilewright.records import dataclass


@dataclass(frozen=True)
class ArgumentEffects:
    """Names of the kernel arguments whose memory is read, and of those whose memory is written."""

    read: frozenset[str]
    written: frozenset[str]


def argument_effects(function: Function) -> ArgumentEffects:
    """The effects of ``function`` on its arguments.

    Addresses are followed through every op that passes them on; one loaded from the table of a list argument
    belongs to that argument. An address of unknown origin counts as every argument's.
    """
    alias = AnalysisManager(function).get(AliasAnalysis)
    names = {a: p.argument for p, a in zip(function.params, function.body.args) if is_address(a)}
    found: dict[Effect, set[str]] = {Effect.READ: set(), Effect.WRITE: set()}
    for op in function.walk():
        if isinstance(op, MemoryOp):
            origins = alias.origins(op.address)
            known = bool(origins) and None not in origins
            touched = {names[o] for o in origins if o in names} if known else set(names.values())
            for effect, arguments in found.items():
                if op.spec.effect & effect:
                    arguments |= touched
    return ArgumentEffects(*map(frozenset, found.values()))
