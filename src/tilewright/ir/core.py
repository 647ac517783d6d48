"""The structure of Tile IR: values, ops, blocks and functions.

A region is one block. Ops keep their operands and attributes flat; the fields that an op class declares
(see ``ir.opdef``) give them names.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.ir.location import Loc
from tilewright.ir.types import TileType, Type

if TYPE_CHECKING:
    from tilewright.ir.opdef import OpSpec


class Value:
    """An SSA value: the result of an op (``owner`` is the op) or an argument of a block."""

    __slots__ = ("index", "name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Block, index: int, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name

    @property
    def op(self) -> Op | None:
        """The op that defines this value; None for a block argument."""
        return self.owner if isinstance(self.owner, Op) else None

    @property
    def tile(self) -> TileType:
        """The type of a tile value; TypeError for views."""
        if not isinstance(self.type, TileType):
            raise TypeError(f"{self!r} is not a tile")
        return self.type

    def __repr__(self) -> str:
        return f"%{self.name or self.index}: {self.type}"


class Op:
    """One operation. Subclasses are declared with ``ir.opdef.define``; do not construct this class itself."""

    __slots__ = ("attributes", "loc", "operands", "regions", "results", "segments")

    spec: ClassVar[OpSpec]

    def __init__(
        self,
        operands: list[Value],
        segments: tuple[int, ...],
        attributes: dict[str, Any],
        regions: list[Block],
        result_types: tuple[Type, ...],
        loc: Loc,
    ) -> None:
        self.operands = operands
        self.segments = segments
        self.attributes = attributes
        self.regions = regions
        self.loc = loc
        self.results = [Value(t, self, i) for i, t in enumerate(result_types)]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def result(self) -> Value:
        """The only result of this op."""
        (value,) = self.results
        return value

    def walk(self) -> Iterator[Op]:
        """This op and every op nested in it, in program order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def __repr__(self) -> str:
        return f"<{self.name} at {self.loc}>"


class Block:
    """A list of ops with arguments; the last op of a complete block is its terminator."""

    __slots__ = ("args", "ops")

    def __init__(self, arg_types: tuple[Type, ...] = ()) -> None:
        self.args = [Value(t, self, i) for i, t in enumerate(arg_types)]
        self.ops: list[Op] = []

    def add_arg(self, type: Type, name: str = "") -> Value:
        value = Value(type, self, len(self.args), name)
        self.args.append(value)
        return value

    @property
    def terminator(self) -> Op:
        return self.ops[-1]

    def walk(self) -> Iterator[Op]:
        for op in self.ops:
            yield from op.walk()


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

    def walk(self) -> Iterator[Op]:
        """Every op, outer before inner, in program order."""
        return self.body.walk()

    def __str__(self) -> str:
        return type(self).printer(self)

    def __repr__(self) -> str:
        return f"<IR function {self.name} of {len(self.params)} parameters, {sum(1 for _ in self.walk())} ops>"

    def _repr_html_(self) -> str:
        """What notebooks show: the text form."""
        return f"<pre>{html.escape(str(self))}</pre>"
