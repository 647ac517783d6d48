"""Views that control flow chooses or carries, as the numbers that they consist of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Op, Value
from tilewright.ir.opdef import create
from tilewright.ir.ops.control import CONTROL_FLOW, Break, Continue, For, If, Loop, LoopOp, Yield
from tilewright.ir.ops.memory import MakePartitionView, MakeTensorView
from tilewright.ir.rewrite import Rewriter, ValueMap
from tilewright.ir.types import PartitionViewType, PointerType, TensorViewType, TileType, Type


class ExpandViews:
    """Lets loops and branches carry the base, extents and strides of views, of which views are made again.

    Runs before ``lower-views``, which then finds how each view was made.
    """

    name: ClassVar[str] = "expand-views"

    def run(self, function: Function) -> Function:
        if not any(_chooses_views(op) for op in function.walk()):
            return function
        return _Expansion().function(function)


def _is_view(t: Type) -> bool:
    return isinstance(t, (TensorViewType, PartitionViewType))


def _chooses_views(op: Op) -> bool:
    values = (*op.results, *(op.carried if isinstance(op, LoopOp) else ()))
    return isinstance(op, CONTROL_FLOW) and any(_is_view(v.type) for v in values)


def _tensor(t: Type) -> TensorViewType:
    if isinstance(t, PartitionViewType):
        return t.view
    assert isinstance(t, TensorViewType)
    return t


def _expanded_types(types: Iterable[Type]) -> list[Type]:
    found: list[Type] = []
    for t in types:
        if _is_view(t):
            view = _tensor(t)
            count = view.shape.count(None) + view.strides.count(None)
            found += [TileType(PointerType(view.dtype)), *[TileType(view.index_dtype)] * count]
        else:
            found.append(t)
    return found


class _Expansion(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[Value, list[Value]] = {}  # of views of the rebuilt function

    def insert(self, op: Op, builder: Builder) -> None:
        builder.loc = op.loc
        if isinstance(op, (If, LoopOp)):
            self._control(op, builder)
        elif isinstance(op, (Yield, Continue, Break)):
            builder.emit_op(type(op), self._flat(op.operands))
        else:
            super().insert(op, builder)
            if isinstance(op, MakeTensorView):
                self.parts[self.value(op.result)] = self.all(op.operands)
            elif isinstance(op, MakePartitionView):
                self.parts[self.value(op.result)] = self.parts[self.value(op.view)]

    def _flat(self, values: Sequence[Value]) -> list[Value]:
        found: list[Value] = []
        for v in self.all(values):
            found += self.parts[v] if _is_view(v.type) else [v]
        return found

    def _control(self, op: If | LoopOp, b: Builder) -> None:
        groups: list[Any]
        keywords: dict[str, Any]
        if isinstance(op, If):
            groups = [self.value(op.condition)]
            keywords = {"then": self.block(op.then, self.values), "orelse": self.block(op.orelse, self.values)}
        else:
            bounds = self.all(op.bounds) if isinstance(op, For) else []
            groups, keywords = [*bounds, self._flat(op.inits)], {"body": self.block(op.body, self.values)}
        if isinstance(op, (If, Loop)):
            keywords["types"] = tuple(_expanded_types(op.types))
        made = create(type(op), groups, keywords, op.loc)
        b.insert(made)
        self._bind(op.results, made.results, b)

    def block(self, block: Block, values: ValueMap) -> Block:
        copied = Block()
        args = [copied.add_arg(t) for t in _expanded_types(arg.type for arg in block.args)]
        builder = Builder(copied, block.ops[0].loc)
        self._bind(block.args, args, builder)
        for op in block.ops:
            self.insert(op, builder)
        return copied

    def _bind(self, old: Sequence[Value], new: Sequence[Value], b: Builder) -> None:
        """Let ``new`` stand for ``old``, in which each view takes the place of several values."""
        rest = list(new)
        for value in old:
            found = rest.pop(0)
            found.name = value.name
            if _is_view(value.type):
                view = _tensor(value.type)
                count = view.shape.count(None) + view.strides.count(None)
                found = self._view(value.type, [found, *rest[:count]], b)
                del rest[:count]
            self.values[value] = found

    def _view(self, t: Type, parts: list[Value], b: Builder) -> Value:
        tensor = _tensor(t)
        extents = tensor.shape.count(None)
        base, shape, strides = parts[0], parts[1 : 1 + extents], parts[1 + extents :]
        made = b.emit(MakeTensorView, base, shape, strides, type=tensor)
        self.parts[made] = parts
        if isinstance(t, PartitionViewType):
            made = b.emit(MakePartitionView, made, type=t)
            self.parts[made] = parts
        return made
