"""Turns a control-flow graph into the structured control flow of Tile IR.

The dominator tree gives the nesting: a block that is reached along one edge is translated where that edge is taken,
a block that is reached along several is translated after the code that decides between them. That code yields which
of the waiting blocks comes next (when there are several) and the values of their phis. A jump out of the innermost
loop is a ``break``, a jump to its header a ``continue``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.frontend.cpp.cfg import Graph, NaturalLoop
from tilewright.frontend.cpp.counting import CountedLoop, counted_loop
from tilewright.frontend.cpp.llvm_form import Const, Instruction, Local
from tilewright.frontend.cpp.values import Translation
from tilewright.ir.core import Block, Value
from tilewright.ir.dtypes import int32
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.location import Loc
from tilewright.ir.ops.arith import Add, Cmp, Not, Select
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.shape import Constant, Undefined
from tilewright.ir.types import I32, TileType

# They cannot fail, so that it does not matter whether they run.
_HARMLESS = ("zext", "sext", "trunc", "shl", "lshr", "and", "or", "xor")
_MOVABLE = (Constant, Undefined)


@dataclass
class Outcome:
    """Where control goes next: ``targets`` are blocks that are still to be translated, none if it never arrives.

    ``bindings`` holds the values of their phis. With several targets, ``selector`` is the index of the chosen one in
    reverse postorder, or ``test`` chooses between two: the first when it is true. ``left`` marks code that has ended
    in a ``break`` or ``continue``.
    """

    targets: list[str] = field(default_factory=list)
    bindings: dict[str, Value] = field(default_factory=dict)
    selector: Value | None = None
    test: Value | None = None
    left: bool = False


@dataclass
class _OpenLoop:
    """A loop that is being translated. ``results`` are the phis of its exits, in the order of ``break``'s operands."""

    loop: NaturalLoop
    carried: list[str]
    results: list[str]
    types: tuple[TileType, ...]


class Structurer:
    """Translates the blocks of ``graph`` with ``translate``, a function for one instruction that is no jump."""

    def __init__(self, graph: Graph, state: Translation, translate: Callable[[Instruction], None]) -> None:
        self.graph = graph
        self.state = state
        self.builder = state.builder
        self.translate = translate
        self.frames: list[_OpenLoop] = []
        self.body = state.builder.block
        self.computed: dict[tuple[object, ...] | None, Value] = {}  # by what was computed, directly in the body
        self.done: set[str] = set()  # instructions that were moved in front of their loop

    def run(self) -> None:
        self._subtree(self.graph.entry)
        self.builder.emit_op(Return)

    # -- blocks

    def _subtree(self, name: str) -> Outcome:
        """The block ``name``, whose phis are bound, and the blocks that it dominates within the loop."""
        return self._merge(*self._start(name))

    def _start(self, name: str) -> tuple[Outcome, list[str]]:
        """The block or loop ``name``, and the blocks that wait until all jumps to them are translated."""
        loop = self.graph.loops.get(name)
        if loop is not None and (not self.frames or self.frames[-1].loop is not loop):
            outside = [c for b in loop.blocks for c in self.graph.children[b] if c not in loop.blocks]
            return self._loop(loop), outside
        return self._block(name), self.graph.children[name]

    def _merge(self, outcome: Outcome, waiting: list[str]) -> Outcome:
        """Translate the blocks of ``waiting`` that ``outcome`` leads to, each once, after what leads to it."""
        remaining = set(waiting)
        while True:
            reached = remaining.intersection(outcome.targets)
            if not reached:
                return outcome
            name = min(reached, key=self.graph.index.__getitem__)
            remaining.remove(name)
            if len(outcome.targets) == 1:
                # Straight on, without recursion: a long kernel is a long chain of such blocks.
                self._arrive(name, outcome)
                outcome, more = self._start(name)
                remaining.update(more)
            else:
                outcome = self._decide(outcome, name)

    def _decide(self, outcome: Outcome, name: str) -> Outcome:
        """Translate ``name``, one of several targets, for the case that it was chosen."""
        rest = self._without(outcome, name)

        def here() -> Outcome:
            self._arrive(name, outcome)
            return self._subtree(name)

        return self._branch(self._chosen(outcome, name), here, lambda: rest)

    def _without(self, outcome: Outcome, name: str) -> Outcome:
        """``outcome`` where control does not go to ``name``."""
        targets = [t for t in outcome.targets if t != name]
        phis = {str(p.name) for t in targets for p in self.graph.blocks[t].phis}
        bindings = {n: v for n, v in outcome.bindings.items() if n in phis}
        if len(targets) == 1:
            return Outcome(targets, bindings)
        return Outcome(targets, bindings, outcome.selector, outcome.test)

    def _arrive(self, name: str, outcome: Outcome) -> None:
        for phi in self.graph.blocks[name].phis:
            self.state.env[str(phi.name)] = outcome.bindings[str(phi.name)]

    def _chosen(self, outcome: Outcome, name: str) -> Value:
        """Whether ``outcome`` leads to ``name``."""
        if outcome.test is not None:
            if name == outcome.targets[0]:
                return outcome.test
            return self.builder.emit(Not, outcome.test)
        assert outcome.selector is not None
        number = self.builder.constant(self.graph.index[name], int32)
        return self.builder.emit(Cmp, outcome.selector, number, predicate=CmpPredicate.EQ)

    def _block(self, name: str) -> Outcome:
        block = self.graph.blocks[name]
        for instruction in block.instructions[:-1]:
            if instruction.op != "phi" and instruction.name not in self.done:
                self.builder.loc = self._loc(instruction)
                self._translate(instruction)
        jump = block.terminator
        self.builder.loc = self._loc(jump)
        if jump.op == "br" and jump.operands:
            condition = self.state.value(jump.operands[0], "i1")
            first, second = jump.labels
            if self._leaves(second) and not self._leaves(first):
                # Nest the way out, not the body of the loop.
                orelse = Block()
                with self.builder.at(orelse):
                    self._edge(name, second)
                return self._guard(condition, Block(), orelse, lambda: self._edge(name, first))
            return self._branch(condition, lambda: self._edge(name, first), lambda: self._edge(name, second))
        if jump.op == "br":
            return self._edge(name, jump.labels[0])
        if jump.op == "switch":
            return self._switch(name, jump)
        if jump.op not in ("ret", "unreachable"):
            self.translate(jump)
        return Outcome()

    def _translate(self, i: Instruction) -> None:
        """Translate ``i``, or take what an equal instruction gave that is executed before it in any case."""
        key = (i.op, i.type, *i.operands) if i.op in _HARMLESS else None
        if key in self.computed:
            self.state.env[str(i.name)] = self.computed[key]
            return
        self.translate(i)
        if key is not None and self.builder.block is self.body:
            self.computed[key] = self.state.env[str(i.name)]

    def _loc(self, instruction: Instruction) -> Loc:
        return self.state.locations.loc(instruction.debug) if instruction.debug is not None else self.builder.loc

    def _switch(self, name: str, jump: Instruction) -> Outcome:
        value = self.state.value(jump.operands[0], jump.types[0])
        cases = list(zip(jump.detail, jump.labels[1:]))

        def rest(i: int) -> Outcome:
            if i == len(cases):
                return self._edge(name, jump.labels[0])
            case, label = cases[i]
            number = self.state.constant(case, value.tile.dtype)
            equal = self.builder.emit(Cmp, value, number, predicate=CmpPredicate.EQ)
            return self._branch(equal, lambda: self._edge(name, label), lambda: rest(i + 1))

        return rest(0)

    # -- edges

    def _leaves(self, target: str) -> bool:
        """Whether a jump to ``target`` ends the current iteration of the innermost loop."""
        if not self.frames:
            return False
        loop = self.frames[-1].loop
        return target == loop.header or target not in loop.blocks

    def _phi_values(self, source: str, target: str, only: list[str] | None = None) -> dict[str, Value]:
        """The values that the phis of ``target``, or those called ``only``, take on the edge from ``source``."""
        values = {}
        for phi in self.graph.blocks[target].phis:
            if only is not None and phi.name not in only:
                continue
            operand = phi.operands[phi.labels.index(source)]
            values[str(phi.name)] = self._phi_value(phi, operand)
        return values

    def _phi_value(self, phi: Instruction, operand: object) -> Value:
        want = self.state.types[str(phi.name)]
        if isinstance(operand, Const) and want.rank:
            return self.builder.emit(Undefined, type=want)
        value = self.state.value(operand, phi.type, want.dtype)  # type: ignore[arg-type]
        if value.type != want:
            self.state.fail(f"a tile of type {value.type} meets one of type {want}")
        return value

    def _edge(self, source: str, target: str) -> Outcome:
        frame = self.frames[-1] if self.frames else None
        if frame is not None and target == frame.loop.header:
            values = self._phi_values(source, target, frame.carried)
            self.builder.emit_op(Continue, [values[name] for name in frame.carried])
            return Outcome(left=True)
        values = self._phi_values(source, target)
        if frame is not None and target not in frame.loop.blocks:
            return self._leave(frame, target, values)
        if len(self.graph.predecessors[target]) == 1:
            self.state.env.update(values)
            return self._subtree(target)
        return Outcome([target], values)

    def _leave(self, frame: _OpenLoop, target: str, values: dict[str, Value]) -> Outcome:
        """Break out of the innermost loop towards ``target``."""
        operands = []
        for name, t in zip(frame.results, frame.types):
            operands.append(values[name] if name in values else self.builder.emit(Undefined, type=t))
        if len(frame.types) > len(frame.results):
            operands.append(self.builder.constant(self.graph.index[target], int32))
        self.builder.emit_op(Break, operands)
        return Outcome(left=True)

    # -- conditionals

    def _branch(self, condition: Value, first: Callable[[], Outcome], second: Callable[[], Outcome]) -> Outcome:
        loc = self.builder.loc
        then, orelse = Block(), Block()
        with self.builder.at(then):
            a = first()
        self.builder.loc = loc
        if a.left:
            # What follows runs only if this branch is not taken: it need not be nested.
            return self._guard(condition, then, Block(), second)
        with self.builder.at(orelse):
            b = second()
        self.builder.loc = loc
        if b.left:
            return self._guard(condition, Block(), orelse, lambda: self._splice(then, a))
        return self._join(condition, then, a, orelse, b)

    def _guard(self, condition: Value, then: Block, orelse: Block, rest: Callable[[], Outcome]) -> Outcome:
        for block in (then, orelse):
            if not block.ops:
                with self.builder.at(block):
                    self.builder.emit_op(Yield, [])
        self.builder.emit_op(If, condition, types=(), then=then, orelse=orelse)
        return rest()

    def _splice(self, block: Block, outcome: Outcome) -> Outcome:
        self.builder.block.splice(block.ops)
        return outcome

    def _join(self, condition: Value, then: Block, a: Outcome, orelse: Block, b: Outcome) -> Outcome:
        targets = sorted({*a.targets, *b.targets}, key=self.graph.index.__getitem__)
        joined = Outcome(targets)
        slots: list[tuple[str, Value | None, Value | None]] = []
        for name in dict.fromkeys([*a.bindings, *b.bindings]):
            x, y = a.bindings.get(name), b.bindings.get(name)
            if x is y and x is not None:
                joined.bindings[name] = x
            else:
                slots.append((name, x, y))
        simple = all(isinstance(op, _MOVABLE) for op in (*then.ops, *orelse.ops))
        if len(targets) == 2 and len(a.targets) == len(b.targets) == 1:
            joined.test = condition
            joined.targets = [*a.targets, *b.targets]
        elif len(targets) > 1:
            slots.append(("", self._selector(then, a), self._selector(orelse, b)))
        if simple and all(v is None or v.type == TileType(v.tile.dtype) for _, x, y in slots for v in (x, y)):
            results = self._select(condition, then, orelse, slots)
        else:
            results = self._yield(condition, then, orelse, slots)
        for (name, _, _), value in zip(slots, results):
            if name:
                joined.bindings[name] = value
            else:
                joined.selector = value
        return joined

    def _selector(self, block: Block, outcome: Outcome) -> Value | None:
        """The number of the target of ``outcome``, computed in ``block``."""
        if not outcome.targets:
            return None
        with self.builder.at(block):
            if len(outcome.targets) == 1:
                return self.builder.constant(self.graph.index[outcome.targets[0]], int32)
            if outcome.test is not None:
                first, second = (self.builder.constant(self.graph.index[t], int32) for t in outcome.targets)
                return self.builder.emit(Select, outcome.test, first, second)
        return outcome.selector

    def _select(
        self, condition: Value, then: Block, orelse: Block, slots: list[tuple[str, Value | None, Value | None]]
    ) -> list[Value]:
        """Both branches only name values: choose between them without branching."""
        self.builder.block.splice([*then.ops, *orelse.ops])
        results = []
        for _, x, y in slots:
            if x is None or y is None:
                results.append(x or y)
            else:
                results.append(self.builder.emit(Select, condition, x, y))
        return results  # type: ignore[return-value]

    def _yield(
        self, condition: Value, then: Block, orelse: Block, slots: list[tuple[str, Value | None, Value | None]]
    ) -> list[Value]:
        types = tuple((x or y).type for _, x, y in slots)  # type: ignore[union-attr]
        for block, side in ((then, 1), (orelse, 2)):
            with self.builder.at(block):
                values = []
                for slot, t in zip(slots, types):
                    value = slot[side]
                    values.append(value if isinstance(value, Value) else self.builder.emit(Undefined, type=t))
                self.builder.emit_op(Yield, values)
        return self.builder.emit_op(If, condition, types=types, then=then, orelse=orelse).results

    # -- loops

    def _loop(self, loop: NaturalLoop) -> Outcome:
        counted = counted_loop(self.graph, loop, self.state)
        if counted is not None:
            return self._for(loop, counted)
        phis = [str(p.name) for p in self.graph.blocks[loop.header].phis]
        results = [str(p.name) for e in loop.exits for p in self.graph.blocks[e].phis]
        types = tuple(self.state.types[name] for name in results)
        if len(loop.exits) > 1:
            types += (I32,)
        self._hoist_harmless(loop)
        inits = [self.state.env[name] for name in phis]
        body = Block(tuple(v.tile for v in inits))
        frame = _OpenLoop(loop, phis, results, types)
        self._body(frame, body, dict(zip(phis, body.args)), lambda: self._subtree(loop.header))
        op = self.builder.emit_op(Loop, inits, types=types, body=body)
        outcome = Outcome(list(loop.exits), dict(zip(results, op.results)))
        if len(loop.exits) > 1:
            outcome.selector = op.results[-1]
        return self._propagate(outcome)

    def _for(self, loop: NaturalLoop, counted: CountedLoop) -> Outcome:
        for instruction in counted.hoisted:
            self.translate(instruction)
            self.done.add(str(instruction.name))
        self.done.update(counted.replaced)
        self._hoist_harmless(loop)
        bounds = [
            self.state.value(o, counted.type, counted.dtype) for o in (counted.lower, counted.upper, counted.step)
        ]
        if counted.includes_upper:
            one = self.builder.constant(1, counted.dtype)
            bounds[1] = self.builder.emit(Add, bounds[1], one, no_signed_wrap=counted.dtype.is_signed)
        carried = [str(p.name) for p in self.graph.blocks[loop.header].phis if p.name != counted.variable]
        inits = [self.state.env[name] for name in carried]
        body = Block((bounds[0].tile, *(v.tile for v in inits)))
        bindings = dict(zip((counted.variable, *carried), body.args))
        exit_block = loop.exits[0]
        frame = _OpenLoop(loop, carried, [], ())
        children = list(self.graph.children[loop.header])
        self._body(frame, body, bindings, lambda: self._merge(self._edge(loop.header, counted.body), children))
        op = self.builder.emit_op(For, *bounds, inits, body=body)
        self.state.env.update(zip(carried, op.results))
        return self._propagate(Outcome([exit_block], self._phi_values(loop.header, exit_block)))

    def _hoist_harmless(self, loop: NaturalLoop) -> None:
        """Compute integers that the iterations of ``loop`` share before it, such as the extents of views."""
        blocks = [self.graph.blocks[name] for name in sorted(loop.blocks, key=self.graph.index.__getitem__)]
        changing = {str(i.name) for block in blocks for i in block.instructions if i.name not in self.done}

        def is_known(operand: object) -> bool:
            return isinstance(operand, Const) or (isinstance(operand, Local) and operand.name not in changing)

        made: dict[tuple[object, ...], Value] = {}  # in front of a loop that may lie in another one
        for i in (i for block in blocks for i in block.instructions):
            if i.op not in _HARMLESS or str(i.name) not in changing or not all(map(is_known, i.operands)):
                continue
            key = i.op, i.type, *i.operands
            if key not in made:
                self._translate(i)
                made[key] = self.state.env[str(i.name)]
            self.state.env[str(i.name)] = made[key]
            self.done.add(str(i.name))
            changing.remove(str(i.name))

    def _body(
        self, frame: _OpenLoop, body: Block, bindings: dict[str, Value], translate: Callable[[], Outcome]
    ) -> None:
        self.frames.append(frame)
        self.state.env.update(bindings)
        loc = self.builder.loc
        with self.builder.at(body):
            outcome = translate()
            if not outcome.left:
                # The end of this body is never reached, but a loop body must say how it ends.
                undefined = [self.builder.emit(Undefined, type=self.state.types[name]) for name in frame.carried]
                self.builder.emit_op(Continue, undefined)
        self.builder.loc = loc
        self.frames.pop()

    def _propagate(self, outcome: Outcome) -> Outcome:
        """Where a loop has been left towards a block outside of the next loop too, leave that as well."""
        if not self.frames:
            return outcome
        frame = self.frames[-1]
        for target in list(outcome.targets):
            if target in frame.loop.blocks:
                continue
            if len(outcome.targets) == 1:
                return self._leave(frame, target, outcome.bindings)
            chosen = self._chosen(outcome, target)
            then, orelse = Block(), Block()
            with self.builder.at(then):
                self._leave(frame, target, outcome.bindings)
            self._guard(chosen, then, orelse, Outcome)
            outcome.targets.remove(target)
        return outcome
