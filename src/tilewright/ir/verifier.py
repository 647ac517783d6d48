"""Checks that a function is well-formed IR: declarations hold, values dominate their uses, terminators fit."""

from __future__ import annotations

from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.opdef import IRError, check_fields, infer
from tilewright.ir.ops.control import If, LoopOp, PassingOp

# The terminators that may end the region of each op; the "if" of a loop body may also leave the loop.
_ENDINGS = {
    "for": ("continue",),
    "loop": ("continue", "break"),
    "if": ("yield",),
    "reduce": ("yield",),
    "scan": ("yield",),
    "nest": ("yield",),
    "check_load": ("yield",),
    "gpu.thread_reduce": ("yield",),
    "gpu.thread_scan": ("yield",),
    "gpu.warp_specialize": ("yield",),
}


class VerificationError(IRError):
    """A function that is not well-formed: ``where`` is the op, or the block, at fault."""

    def __init__(self, message: str, where: Op | Block) -> None:
        super().__init__(f"{where.loc}: {message}" if isinstance(where, Op) else message)
        self.message = message
        self.where = where


def verify(function: Function) -> None:
    """Raise IRError, naming the op and its location, unless ``function`` is well-formed."""
    if len(function.params) != len(function.body.args):
        raise IRError(f"{function.name}: {len(function.params)} parameters for {len(function.body.args)} arguments")
    verifier = _Verifier()
    verifier.block(function.body, ("return",))
    verifier.use_lists()


class _Verifier:
    def __init__(self) -> None:
        self.visible: set[Value] = set()
        self.defined: list[Value] = []
        self.users: dict[Value, dict[Op, None]] = {}

    def block(self, block: Block, endings: tuple[str, ...]) -> None:
        if not block.ops:
            raise VerificationError("a block has no terminator", block)
        added = list(block.args)
        self.visible.update(added)
        for i, op in enumerate(block.ops):
            last = i == len(block.ops) - 1
            if op.spec.terminator != last:
                raise _at(op, "stands after the end of its block" if op.spec.terminator else "ends a block")
            if last and op.name not in endings:
                raise _at(op, f"cannot end this region; expected {' or '.join(endings)}")
            if op.block is not block:
                raise _at(op, "is in another block, by its own account")
            self.op(op, endings)
            added.extend(op.results)
            self.visible.update(op.results)
        self.visible.difference_update(added)
        self.defined += added

    def use_lists(self) -> None:
        """What values say of their users is what the walk over the ops has found."""
        for v in self.defined:
            found = self.users.get(v, {}).keys()
            if v.users != found:
                raise VerificationError(f"{v!r} lists the users {list(v.users)}, but has {list(found)}", v.owner)

    def op(self, op: Op, endings: tuple[str, ...]) -> None:
        for v in op.operands:
            if v not in self.visible:
                raise _at(op, f"uses {v!r}, which is not defined here")
            self.users.setdefault(v, {})[op] = None
        try:
            check_fields(op)
            types = infer(op)
        except IRError as e:
            raise _at(op, str(e)) from None
        found = tuple(r.type for r in op.results)
        if found != types:
            raise _at(op, f"has result types {list(found)}, expected {list(types)}")
        self.terminator(op)
        inner = _ENDINGS.get(op.name, ())
        if op.name == "if":
            inner += tuple(e for e in endings if e in ("continue", "break"))
        for region in op.regions:
            if region.parent is not op:
                raise _at(op, "has a region of another op, by the region's account")
            self.block(region, inner)

    @staticmethod
    def terminator(op: Op) -> None:
        if isinstance(op, PassingOp) and isinstance(op.target, (LoopOp, If)):
            passed, expected = ([str(v.type) for v in values] for values in (op.values, op.receivers))
            if passed != expected:
                raise _at(op, f"passes {passed}, expected {expected}")


def _at(op: Op, message: str) -> VerificationError:
    return VerificationError(f"{op.name} {message}", op)
