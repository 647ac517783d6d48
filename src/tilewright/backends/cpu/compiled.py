"""What compilation produces: everything that a launch needs, in a form that can be stored.

Named tuples: unlike data classes, they cost next to nothing when a program starts.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.native.image import Image
from tilewright.ir.core import Op
from tilewright.ir.location import Loc
from tilewright.ir.types import TileType

BLOCK_SYMBOL = "block"  # runs one block: what is generated for a kernel
# The entry points in the object code, which call it.
SYMBOL = "kernel"  # takes blocks until none is left, beside other threads
CALLER_SYMBOL = "kernel_caller"  # does so in the thread that launches; there must be no print
TEAM_SYMBOL = "kernel_team"  # what each thread of another runtime calls: see codegen/drivers.ll
SERIAL_SYMBOL = "kernel_alone"  # runs all blocks in that thread; there must be no print or assert
WATCH_SUFFIX = "_watch"  # of the name of an entry point: looks at its blocks, if they may wait; see codegen/drivers.ll
WATCH_SYMBOL = f"{SYMBOL}{WATCH_SUFFIX}"
SYMBOLS = BLOCK_SYMBOL, SYMBOL, CALLER_SYMBOL, TEAM_SYMBOL, SERIAL_SYMBOL, WATCH_SYMBOL


class Site(NamedTuple):
    """A print or assert op, which the machine code knows by its index in ``CompiledKernel.sites``."""

    loc: Loc
    types: tuple[TileType, ...]
    message: str = ""
    parts: tuple[str | None, ...] = ()
    formats: tuple[str, ...] = ()

    @staticmethod
    def of(op: Op) -> Site:
        return Site(op.loc, tuple(v.tile for v in op.operands), **op.attributes)

    @property
    def prints(self) -> bool:
        return bool(self.parts)


class Poll(NamedTuple):
    """Where machine code looks whether its launch is cancelled: a loop, or the operation ``op`` at which one waits."""

    loc: Loc
    op: str

    @staticmethod
    def of(op: Op) -> Poll:
        return Poll(op.loc, op.name)


class CompiledKernel(NamedTuple):
    """Machine code and its calling convention.

    ``arguments`` are the types of the parameters; every thread needs ``scratch_bytes``; ``may_spin`` says that a
    block may wait for another one; ``block_work`` is about how many element operations a block does, if known.
    """

    code: Image | bytes
    arguments: tuple[TileType, ...]
    scratch_bytes: int
    may_spin: bool
    block_work: int | None
    sites: tuple[Site, ...]
    polls: tuple[Poll, ...] = ()  # by number

    @property
    def code_bytes(self) -> int:
        """The size of the machine code."""
        return len(self.code.content if isinstance(self.code, Image) else self.code)
