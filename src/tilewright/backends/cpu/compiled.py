"""What compilation produces: everything that a launch needs, in a form that can be stored as bytes."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.native.image import Image, text_and_content, with_text
from tilewright.ir.core import Op
from tilewright.ir.location import Loc
from tilewright.records import NamedTuple

BLOCK_SYMBOL = "block"  # runs one block: what is generated for a kernel
# The entry points in the object code, which call it.
SYMBOL = "kernel"  # takes blocks until none is left, beside other threads
CALLER_SYMBOL = "kernel_caller"  # does so in the thread that launches; there must be no print
TEAM_SYMBOL = "kernel_team"  # what each thread of another runtime calls: see codegen/drivers.ll
SERIAL_SYMBOL = "kernel_alone"  # runs all blocks in that thread; there must be no print or assert
WATCH_SUFFIX = "_watch"  # of the name of an entry point: looks at its blocks, if they may wait; see codegen/drivers.ll
WATCH_SYMBOL = f"{SYMBOL}{WATCH_SUFFIX}"
SYMBOLS = BLOCK_SYMBOL, SYMBOL, CALLER_SYMBOL, TEAM_SYMBOL, SERIAL_SYMBOL, WATCH_SYMBOL


PollLocation = tuple[Loc, str]  # of a loop, or of the op at which one waits: where it is, and what


def poll_locations(polls: Sequence[Op]) -> list[PollLocation]:
    """Where ``polls`` are. They are few bytes beside their ops, which hold the function."""
    return [(op.loc, op.name) for op in polls]


class CompiledKernel(NamedTuple):
    """Machine code, and how it is launched. What it knows by numbers, ops that print, fail or wait, is not part of it:
    ``CpuExecutable.lowered`` has that.

    Unlike a data class, a named tuple costs next to nothing when a program starts.
    Every thread needs ``scratch_bytes``; ``may_spin`` says that a block may wait for another one; ``block_work`` is
    about how many element operations a block does, if known; blocks may print, or fail by an ``assert``.
    """

    code: Image | bytes
    scratch_bytes: int
    may_spin: bool
    block_work: int | None
    may_print: bool = False
    may_fail: bool = False

    @property
    def code_bytes(self) -> int:
        """The size of the machine code."""
        return len(self.code.content if isinstance(self.code, Image) else self.code)

    def to_bytes(self) -> bytes:
        """A text with all but the machine code, then that."""
        code = self.code
        image = None if isinstance(code, bytes) else (code.symbols, code.relative, code.imports)
        return with_text({"image": image, "facts": self[1:]}, code if isinstance(code, bytes) else code.content)

    @classmethod
    def from_bytes(cls, data: bytes) -> CompiledKernel:
        """What ``to_bytes`` wrote; this runs nothing that the bytes say. ValueError for others."""
        try:
            fields, content = text_and_content(data)
            image, facts = fields["image"], fields["facts"]
            if not all(fact is None or isinstance(fact, (int, float)) for fact in facts):
                raise ValueError(f"{facts!r} are not the facts of a kernel")
            return cls(content if image is None else Image.checked(content, *image), *facts)
        except (TypeError, LookupError, AttributeError) as e:
            raise ValueError(f"this is no compiled kernel: {type(e).__name__}: {e}") from None
