"""The structure of Tile IR: values, ops, blocks and functions.

A region is one block. Ops keep their operands and attributes flat; the fields that an op class declares
(see ``ir.opdef``) give them names.

Values know their users, ops their block, and blocks the op that they are a region of. The methods here keep that true,
and are the only way to change what is in a block or what an op reads: an op uses its operands while it is in a block.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from tilewright.ir.location import Loc
from tilewright.ir.types import PartitionViewType, TileType, Type
from tilewright.records import dataclass

if TYPE_CHECKING:
    from tilewright.ir.builder import Builder
    from tilewright.ir.layouts import LinearLayout
    from tilewright.ir.opdef import OpSpec

_OpT = TypeVar("_OpT", bound="Op")


class Value:
    """An SSA value: the result of an op (``owner`` is the op) or an argument of a block."""

    __slots__ = ("_users", "index", "name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Block, index: int, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        self._users: dict[Op, None] = {}

    @property
    def users(self) -> Collection[Op]:
        """The ops in blocks that have this value among their operands, each once, in the order of their insertion."""
        return self._users.keys()

    def replace_all_uses_with(self, other: Value) -> None:
        """Let every user read ``other`` instead."""
        for op in list(self._users):
            for i, operand in enumerate(op.operands):
                if operand is self:
                    op.set_operand(i, other)

    @property
    def op(self) -> Op | None:
        """The op that defines this value; None for a block argument."""
        return self.owner if isinstance(self.owner, Op) else None

    @property
    def block(self) -> Block | None:
        """The block that this value is an argument of, or that its op is in."""
        return self.owner.block if isinstance(self.owner, Op) else self.owner

    @property
    def tile(self) -> TileType:
        """The type of a tile value; TypeError for views."""
        if not isinstance(self.type, TileType):
            raise TypeError(f"{self!r} is not a tile")
        return self.type

    @property
    def partition(self) -> PartitionViewType:
        """The type of a view that is cut into tiles; TypeError for others."""
        if not isinstance(self.type, PartitionViewType):
            raise TypeError(f"{self!r} is not a partition view")
        return self.type

    @property
    def layout(self) -> LinearLayout:
        """Which thread holds which element of a tile that is distributed over the threads of a CTA."""
        layout = self.tile.layout
        assert layout is not None, self
        return layout

    def __repr__(self) -> str:
        return f"%{self.name or self.index}: {self.type}"


def _kept(values: Sequence[Value], kept: Sequence[bool]) -> list[Value]:
    found = [v for v, keep in zip(values, kept) if keep]
    for i, v in enumerate(found):
        v.index = i
    return found


class Op:
    """One operation. Subclasses are declared with ``ir.opdef.define``; do not construct this class itself."""

    __slots__ = ("_operands", "attributes", "block", "loc", "operands", "regions", "results", "segments")

    spec: ClassVar[OpSpec]

    def __init__(
        self,
        operands: list[Value],
        segments: tuple[int, ...],
        attributes: dict[str, Any],
        regions: Sequence[Block],
        result_types: Sequence[Type],
        loc: Loc,
    ) -> None:
        self._operands = operands
        self.operands: Final[Sequence[Value]] = operands
        self.segments = segments
        self.attributes = attributes
        self.regions = tuple(regions)
        for region in regions:
            region.parent = self
        self.block: Block | None = None  # that this op is in
        self.loc = loc
        self.results = [Value(t, self, i) for i, t in enumerate(result_types)] if result_types else []

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def result(self) -> Value:
        """The only result of this op."""
        (value,) = self.results
        return value

    def canonicalize(self, builder: Builder) -> Value | None:
        """A simpler value than the result of this op, which has one: an operand, or what ``builder`` emits for it."""
        return None

    @property
    def parent(self) -> Op | None:
        """The op in a region of which this one is; None at the top of a function."""
        return None if self.block is None else self.block.parent

    @property
    def ancestors(self) -> Iterator[Op]:
        """The ops in whose regions this one is, from the inside out."""
        op = self.parent
        while op is not None:
            yield op
            op = op.parent

    def ancestor_in(self, block: Block) -> Op | None:
        """The op of ``block`` that this op is, or that it is nested in; None when it is outside of the block."""
        op: Op | None = self
        while op is not None and op.block is not block:
            op = op.parent
        return op

    def set_operand(self, i: int, value: Value) -> None:
        """Make ``value`` operand ``i``."""
        old, self._operands[i] = self._operands[i], value
        if self.block is not None:
            if old not in self._operands:
                old._users.pop(self, None)
            value._users[self] = None

    def set_operands(self, operands: Sequence[Value], segments: tuple[int, ...]) -> None:
        """Make ``operands`` all operands, ``segments`` being how many each declared field has."""
        assert self.block is not None
        for v in self._operands:
            v._users.pop(self, None)
        self._operands[:], self.segments = operands, segments
        for v in self._operands:
            v._users[self] = None

    def keep_results(self, kept: Sequence[bool]) -> None:
        """Drop the results that are not ``kept``, which nothing may use."""
        self.results = _kept(self.results, kept)

    def detach(self) -> None:
        """Take this op out of its block, with its regions as they are."""
        assert self.block is not None
        self.block._ops.remove(self)
        self._leave()

    def erase(self) -> None:
        """Take this op out of its block for good, with all that is nested in it. Nothing may use its results."""
        assert self.block is not None
        self.block.erase([self])

    def replace_by(self, values: Sequence[Value]) -> None:
        """Let ``values`` stand for the results, and erase this op."""
        for old, new in zip(self.results, values):
            old.replace_all_uses_with(new)
        self.erase()

    def drop_regions(self) -> None:
        """Empty the regions of this op, but for those that another op has taken over."""
        for region in self.regions:
            if region.parent is self:
                region.clear()

    def _leave(self) -> None:
        self.block = None
        for v in self._operands:
            v._users.pop(self, None)

    def captured(self) -> tuple[Value, ...]:
        """The values from around this op that the ops nested in it use, each once, in program order."""
        if not self.regions:
            return ()
        nested = list(self.walk())
        inside = {region for op in nested for region in op.regions}
        return tuple(dict.fromkeys(v for op in nested[1:] for v in op.operands if v.block not in inside))

    def walk(self) -> Iterator[Op]:
        """This op and every op nested in it, in program order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def __repr__(self) -> str:
        return f"<{self.name} at {self.loc}>"


class Block:
    """A list of ops with arguments; the last op of a complete block is its terminator."""

    __slots__ = ("_ops", "args", "ops", "parent")

    def __init__(self, arg_types: tuple[Type, ...] = ()) -> None:
        self.args = [Value(t, self, i) for i, t in enumerate(arg_types)]
        self._ops: list[Op] = []
        self.ops: Final[Sequence[Op]] = self._ops
        self.parent: Op | None = None  # whose region this block is

    def add_arg(self, type: Type, name: str = "") -> Value:
        value = Value(type, self, len(self.args), name)
        self.args.append(value)
        return value

    def append(self, op: Op) -> None:
        """Insert ``op``, which is in no block, at the end."""
        self._ops.append(op)
        op.block = self
        for v in op._operands:
            v._users[op] = None

    def insert(self, op: Op, before: Op) -> None:
        """Insert ``op``, which is in no block, before another op of this one."""
        self.append(op)
        self._ops.insert(self._ops.index(before), self._ops.pop())

    def splice(self, ops: Iterable[Op], before: Op | None = None) -> None:
        """Move ``ops`` here from the blocks that they are in: to the end, or before an op of this block."""
        moved = dict.fromkeys(ops)
        for block in dict.fromkeys(op.block for op in moved):
            assert block is not None
            block._ops[:] = [op for op in block._ops if op not in moved]
        at = len(self._ops) if before is None else self._ops.index(before)
        self._ops[at:at] = moved
        for op in moved:
            op.block = self

    def erase(self, ops: Iterable[Op]) -> None:
        """Take ``ops`` out of this block for good, with all that is nested. Nothing else may use their results."""
        erased = dict.fromkeys(ops)
        for op in erased:
            op._leave()
            op.drop_regions()
        for op in erased:
            assert not any(r._users for r in op.results), f"{op!r} has uses"
        if len(erased) == 1:  # as most passes do, thousands of times
            self._ops.remove(*erased)
        elif erased:
            self._ops[:] = [op for op in self._ops if op not in erased]

    def keep_args(self, kept: Sequence[bool]) -> None:
        """Drop the arguments that are not ``kept``, which nothing may use."""
        self.args = _kept(self.args, kept)

    def clear(self) -> None:
        """Erase all ops. Nothing outside of this block may use their results."""
        for op in self._ops:
            op._leave()
            op.drop_regions()
        self._ops.clear()

    @property
    def terminator(self) -> Op:
        return self.ops[-1]

    def walk(self) -> Iterator[Op]:
        """Every op of this block and every op nested in it, in program order."""
        open_blocks = [iter(self._ops)]  # by a stack: a generator a level would hand each op up through all of them
        while open_blocks:
            for op in open_blocks[-1]:
                yield op
                if op.regions:
                    open_blocks.extend(iter(region._ops) for region in reversed(op.regions))
                    break
            else:
                open_blocks.pop()

    def ops_of(self, kind: type[_OpT] | tuple[type[_OpT], ...]) -> list[_OpT]:
        """The ops of ``kind`` in this block and nested in it, in program order."""
        found: list[_OpT] = []
        self._find(_sought(kind), found)
        return found

    def _find(self, sought: _Sought, found: list[Any]) -> None:
        for op in self._ops:
            place = sought[type(op)]  # which takes less than ``isinstance`` of several classes
            if place:
                if place is _HERE:
                    found.append(op)
                for region in op.regions:
                    region._find(sought, found)


_HERE, _WITHIN = 1, 2


class _Sought(dict[type[Op], int]):
    """Whether ops of a class are of a kind, or may be around some, or neither."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def __missing__(self, op: type[Op]) -> int:
        self[op] = place = _HERE if issubclass(op, self._kind) else _WITHIN if op.spec.regions else 0
        return place


_sought: Callable[[Any], _Sought] = functools.cache(_Sought)


@dataclass(frozen=True)
class Param:
    """What a function parameter stands for in the source: ``role`` is base, shape, stride, scalar, table or length.

    ``argument`` is the name of the kernel argument; ``axis`` belongs to the roles shape and stride, and is the rank of
    the arrays of a table. ``no_alias`` promises of a pointer that what is reached through it and written is reached
    through no other argument.
    """

    argument: str
    role: str
    axis: int | None = None
    no_alias: bool = False


@dataclass
class Function:
    """A kernel: a body block whose arguments are the flattened kernel arguments.

    ``params[i]`` describes ``body.args[i]``; ``hints`` holds kernel hints such as ``num_ctas``. With ``may_alias``
    the arguments may share memory, as pointers of C++ may. ``analyses`` belongs to ``analysis.manager``.
    """

    name: str
    body: Block
    params: list[Param]
    loc: Loc
    hints: dict[str, Any] = field(default_factory=dict)
    may_alias: bool = False
    analyses: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    printer: ClassVar[Callable[[Function], str]]  # of ``ir.printer``, which stands on this module

    def blocks(self) -> Iterator[Block]:
        """Every block, outer before inner."""
        yield self.body
        for op in self.walk():
            yield from op.regions

    def walk(self) -> Iterator[Op]:
        """Every op, outer before inner, in program order."""
        return self.body.walk()

    def ops_of(self, kind: type[_OpT] | tuple[type[_OpT], ...]) -> list[_OpT]:
        """Every op of ``kind``, outer before inner, in program order."""
        return self.body.ops_of(kind)

    def __str__(self) -> str:
        return type(self).printer(self)

    def __repr__(self) -> str:
        return f"<IR function {self.name} of {len(self.params)} parameters, {sum(1 for _ in self.walk())} ops>"

    def _repr_html_(self) -> str:
        """What notebooks show: the text form."""
        return f"<pre>{html.escape(str(self))}</pre>"
