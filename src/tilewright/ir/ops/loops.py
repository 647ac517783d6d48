"""The loop-level form of a kernel on a CPU: what there is beside the ops of Tile IR.

A function in this form is what its code will be, statement by statement. Each ``nest`` is one loop nest; the ops in its
body are fused: computed together, element by element. Outside of nests, a tile of more than one element is

- in a *buffer*, a range of the scratch memory of the thread, when a nest or control flow gives it; the buffers of
  different values overlap when their lives do not, or when one is computed in place of the other;
- in an *array*, when ``load_view`` gives it: nothing is loaded there; the nests that use it read it where it lies.

Everything else outside of nests is scalars, views and control flow. See ``backends.cpu.loops.verify`` for the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.core import Block, Op, Value
from tilewright.ir.opdef import LOOP_OPS, Effect, attribute, define, operand, operands, optional_operand, region
from tilewright.ir.ops.rules import Unary, pointers, require, scalar_integer, tile, types_of
from tilewright.ir.types import BOOL, PointerType, TileType, Type

LOOP_VERSIONS = ("streaming", "plain", "trimmed", "bounds_checked", "on_copies")


@define("nest", table=LOOP_OPS)
class LoopNest(Op):
    """Computes the ops of ``body`` together, ``lanes`` elements at a time, and yields tiles that are kept.

    The lanes of a reduction that goes ``along`` them hold its partial results, those of a scan that does its results.
    Any other one has a result for each lane, and ``vectors`` of these side by side; so do stores. A scan with
    ``square`` reads so many rows along its axis at once, and transposes squares of them in registers.

    ``buffers`` has the offset in scratch memory of each result; None for one element that stays in a register.
    ``scratch`` are offsets of more memory that the op at the end of the body needs. ``transposed`` is the axis along
    which the first result is read from memory, where that is not its innermost one: it goes by squares.

    ``versions`` of the loops, the fastest first; checks at run time pick one. ``plain`` ones have no bounds checks and
    no masks that a check covers, ``bounds_checked`` ones have them: for view tiles that leave their array, or where
    a check in ``unmasked``, one for each load at the positions ``unmasked_loads`` in the body, does not say that its
    mask is true everywhere. ``on_copies``: where an element may be stored before it is loaded, the loops read copies.
    The checks ``disjoint``, one for each load at ``disjoint_loads``, say that nothing which is loaded is stored. The
    array tiles ``overlapping`` are compared with what is stored; they may be the very tile that is stored where
    ``same_index`` says that each element is loaded right before it is stored. The copies are at the offsets
    ``copies``: of ``overlapping``, then of the loads at ``disjoint_loads``; they are made along the axes ``copy_axes``,
    as ``transposed`` says. ``trimmed`` ones, of a store, go only over what it keeps, and have no bounds checks: taken
    where the tile begins in its array, and all that is loaded for this part of it lies in its array, too.
    ``streaming`` ones are trimmed and store whole vectors past the caches: taken when the array is larger.

    ``panels``, where there are any, are an offset in scratch memory and how many iterations of the loop around have
    room for their results there. Where the indices of what is loaded are those of an earlier run of the loop, a result
    that is there is not computed again.
    """

    unmasked: list[Value] = operands()
    disjoint: list[Value] = operands()
    overlapping: list[Value] = operands()
    lanes: int = attribute(int, default=0)
    vectors: int = attribute(int, default=1)
    along: bool = attribute(bool, default=False)
    square: int | None = attribute(int, type(None), default=None)
    buffers: tuple[int | None, ...] = attribute(tuple, default=())
    scratch: tuple[int | None, ...] = attribute(tuple, default=())
    transposed: int | None = attribute(int, type(None), default=None)
    versions: tuple[str, ...] = attribute(tuple, default=())
    unmasked_loads: tuple[int, ...] = attribute(tuple, default=())
    disjoint_loads: tuple[int, ...] = attribute(tuple, default=())
    same_index: tuple[bool, ...] = attribute(tuple, default=())
    copies: tuple[int, ...] = attribute(tuple, default=())
    copy_axes: tuple[int | None, ...] = attribute(tuple, default=())
    panels: tuple[int, ...] = attribute(tuple, default=())
    body: Block = region()

    @property
    def kept(self) -> Sequence[Value]:
        """What the body yields: the results, as they are called there."""
        return self.body.terminator.operands

    def vectorize(self, lanes: int, vectors: int, square: int | None, *, along: bool) -> None:
        """Set how many elements the loops compute at a time, and in which arrangement."""
        self.attributes.update(lanes=lanes, vectors=vectors, square=square, along=along)

    def add_version(self, version: str) -> None:
        """Add ``version`` of the loops, in its order among the others."""
        self.versions = tuple(v for v in LOOP_VERSIONS if v == version or v in self.versions)

    def infer(self) -> tuple[Type, ...]:
        kept = types_of(self.kept)
        require(len(kept) == len(self.buffers), self, "{} buffers for {} results", len(self.buffers), len(kept))
        require(set(self.versions) <= set(LOOP_VERSIONS), self, "versions {}, not of {}", self.versions, LOOP_VERSIONS)
        require(all(v.type == BOOL for v in (*self.unmasked, *self.disjoint)), self, "a check that is not a bool")
        require(len(self.unmasked) == len(self.unmasked_loads), self, "each unmasked load has one check")
        require(len(self.disjoint) == len(self.disjoint_loads), self, "each disjoint load has one check")
        reads = len(self.overlapping) + len(self.disjoint)
        require(len(self.copies) == len(self.copy_axes) == reads, self, f"{len(self.copies)} copies of {reads} tiles")
        require(len(self.same_index) == len(self.overlapping), self, "same_index says it of each overlapping tile")
        return kept


@define("check_load", table=LOOP_OPS)
class CheckLoad(Op):
    """Asks of a load through pointers, once for the whole tile, what its loops need not ask for every element.

    If ``masked``, the body yields the mask, and a result says whether that is surely true everywhere. If there is a
    ``view``, it yields the pointers, and a result says whether also none of them refers to an element of the tile at
    ``indices``. What is known of the ranges of values gives the answers, which are false also when that does not tell.
    """

    view: Value | None = optional_operand()
    indices: list[Value] = operands()
    in_bounds: tuple[bool, ...] = attribute(tuple, default=())
    masked: bool = attribute(bool)
    body: Block = region()

    @property
    def promised(self) -> tuple[bool, ...]:
        """Along which axes the tile of the view is promised to lie inside of its array."""
        return self.in_bounds

    @property
    def asked(self) -> Sequence[Value]:
        """What the body yields: the mask, if ``masked``, and the pointers, if they are compared with a view tile."""
        return self.body.terminator.operands

    def infer(self) -> tuple[Type, ...]:
        asked = self.masked + (self.view is not None)
        require(len(self.asked) == asked > 0, self, "yields a mask or pointers")
        if self.view is not None:
            pointers(self, self.asked[-1])
        return (BOOL,) * asked


@define("write_part", table=LOOP_OPS)
class WritePart(Op):
    """The tile ``into``, in its buffer, with ``value`` written to the part that starts at ``origin``.

    With ``indices`` the part starts at these multiples of its extents instead, modulo the extents of the tile. Without
    ``into`` the rest of the tile is not written yet.
    """

    into: Value | None = optional_operand()
    value: Value = operand()
    indices: list[Value] = operands()
    origin: tuple[int, ...] = attribute(tuple, default=())
    type: TileType = attribute(TileType)

    def infer(self) -> tuple[Type, ...]:
        part = tile(self, self.value)
        require(part.dtype == self.type.dtype and part.rank == self.type.rank, self, "{} in {}", part, self.type)
        require(self.into is None or self.into.type == self.type, self, "part of {}", self.type)
        scalar_integer(self, *self.indices)
        return (self.type,)


@define("copy_buffer", table=LOOP_OPS)
class CopyBuffer(Unary):
    """A copy of the tile ``x`` in the buffer at ``offset``."""

    offset: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        return (tile(self, self.x),)


@define("reserve_scratch", effect=Effect.ALLOCATE, table=LOOP_OPS)
class ReserveScratch(Op):
    """The first op of a function: each thread needs ``bytes`` of scratch memory."""

    bytes: int = attribute(int)

    def infer(self) -> tuple[Type, ...]:
        return ()


@define("scratch_pointer", table=LOOP_OPS)
class ScratchPointer(Op):
    """The address of ``bytes`` bytes of scratch memory from ``offset`` on: of an array of the kernel itself."""

    offset: int = attribute(int)
    bytes: int = attribute(int)
    type: PointerType = attribute(PointerType)

    def infer(self) -> tuple[Type, ...]:
        return (TileType(self.type),)
