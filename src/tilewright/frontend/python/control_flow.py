"""Branches, loops and early exits: from statements to structured IR.

A path that leaves a region early (``break``, ``continue``, ``return``) is recorded as an exit, and gets its
terminator when the construct that it leaves has been traced whole, because only then the values that all paths
agree to pass on are known. A function whose paths return early is a ``loop`` that runs once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python.carry import fit, loosen, rebuild, spread
from tilewright.frontend.python.merge import Path, concrete, describe, merge, same, undefined
from tilewright.frontend.python.paths import RETURN, Context
from tilewright.frontend.python.scope import Unusable
from tilewright.frontend.python.source import assigned_names, leaves_loop, statements
from tilewright.frontend.python.values import Tile
from tilewright.ir.core import Block, Value
from tilewright.ir.dtypes import bool_, with_article
from tilewright.ir.enums import CmpPredicate
from tilewright.ir.errors import TileSyntaxError
from tilewright.ir.opdef import create
from tilewright.ir.ops.arith import Add, Cmp
from tilewright.ir.ops.control import Break, Continue, For, If, Loop, Yield
from tilewright.ir.promotion import loose_dtype
from tilewright.ir.types import BOOL, TileType, Type

if TYPE_CHECKING:
    from tilewright.frontend.python.tracer import Tracer


def leave(t: Tracer, kind: str) -> bool:
    """Record that the current path ends here. Returns False: nothing falls through."""
    contexts = t.contexts[:]
    while t.contexts[-1].static:  # an unrolled loop is no op of its own: the path leaves what is around it
        t.contexts.pop()
    _clean_up(t)
    t.contexts[-1].exits[kind].append(Path(t.builder.block, t.scope.names))
    t.contexts[:] = contexts
    return False


def _clean_up(t: Tracer) -> None:
    """Trace the ends of the context managers whose blocks in the innermost context the current path leaves."""
    pending = t.cleanups
    frames = list(t.frames)
    while t.cleanups and t.cleanups[-1].level >= len(t.contexts):
        cleanup = t.cleanups[-1]
        t.cleanups = t.cleanups[:-1]
        t.frames[:] = cleanup.frames
        names, t.scope.names = t.scope.names, dict(t.scope.names)
        t.body(cleanup.statements)
        t.scope.names = names  # the paths that stay have not come here
    t.frames[:] = frames
    t.cleanups = pending


def unreachable(t: Tracer) -> bool:
    """Record that the end of the current block cannot be reached. Returns False."""
    context = next(c for c in reversed(t.contexts) if not c.static)
    context.dead.append(t.builder.block)
    return False


def branch(t: Tracer, condition: Value, arms: tuple[Any, Any]) -> bool:
    """A run-time ``if``. ``arms`` trace the two sides; each returns whether control falls through."""
    outer, where = t.scope.names, t.builder.loc
    blocks, falling = [], []
    for arm in arms:
        block = Block()
        t.scope.names = dict(outer)
        with t.builder.at(block):
            if arm():
                falling.append(Path(block, t.scope.names))
        blocks.append(block)
    merged = merge(falling, outer, t.builder)
    for path in falling:
        with t.builder.at(path.block):
            t.builder.emit_op(Yield, path.leaves)
    t.builder.loc = where  # of the condition, which the arms have left behind
    op = t.builder.emit_op(If, condition, types=tuple(merged.types), then=blocks[0], orelse=blocks[1])
    joined = merged.bind(op.results)
    if t.joins is not None:
        t.joins.record(where, [p.names for p in falling], joined)
    t.scope.names = {**outer, **joined}
    return True if falling else unreachable(t)


def if_statement(t: Tracer, node: ast.If) -> bool:
    condition = t.condition(node.test)
    if isinstance(condition, bool):
        return t.body(node.body if condition else node.orelse)
    return branch(t, condition, (lambda: t.body(node.body), lambda: t.body(node.orelse)))


def always_returns(statements: Sequence[ast.stmt]) -> bool:
    """Whether the text alone shows that ``statements`` end in ``return``."""
    return any(
        isinstance(s, ast.Return) or (isinstance(s, ast.If) and always_returns(s.body) and always_returns(s.orelse))
        for s in statements
    )


def tail(t: Tracer, statements: Sequence[ast.stmt]) -> bool:
    """Trace statements at whose end the function returns. Returns False: nothing falls through.

    What follows an ``if`` of which one branch always returns belongs to the other branch. So the result of a
    function can be that of an ``if``, and a kernel that starts with a test is no loop.
    """
    for i, statement in enumerate(statements):
        if isinstance(statement, ast.If):
            rest = statements[i + 1 :]
            if not rest or always_returns(statement.body) or always_returns(statement.orelse):
                return _tail_if(t, statement, rest)
        if not t.body([statement]):
            return False
    t.scope.names = {**t.scope.names, RETURN: None}
    return leave(t, RETURN)


def _tail_if(t: Tracer, node: ast.If, rest: Sequence[ast.stmt]) -> bool:
    then, orelse = list(node.body), list(node.orelse)
    (orelse if always_returns(then) else then).extend(rest)
    t.locate(node)
    condition = t.condition(node.test)
    if isinstance(condition, bool):
        return tail(t, then if condition else orelse)
    return branch(t, condition, (lambda: tail(t, then), lambda: tail(t, orelse)))


class _Carried:
    """The variables of a loop: what is carried as IR values, found by tracing the body until it is stable."""

    def __init__(self, t: Tracer, node: ast.For | ast.While) -> None:
        self.t = t
        self.node = node
        self.outer = t.scope.names
        self.names = [n for n in self.outer if n in assigned_names(node)]
        self.entry: dict[str, Any] = {n: self.outer[n] for n in self.names}
        for name in _augmented(node):
            entry = self.entry.get(name)
            if isinstance(entry, (bool, int, float)):
                scalar = TileType(loose_dtype(entry))
                self.entry[name] = Tile(concrete(entry, t.builder.block, scalar, t.builder))

    def open(self, block: Block) -> dict[str, Any]:
        """The variables inside the body: carried parts are arguments of ``block``."""
        names = dict(self.outer)
        for name, value in self.entry.items():
            args = [block.add_arg(v.type, name) for v in spread(value)]
            names[name] = rebuild(value, iter(args)) if args else value
        return names

    def record(self) -> None:
        """Tell what became of numbers, when the loop has been traced for good."""
        if self.t.joins is not None:
            where = self.t.frame.source.loc(self.node, self.t.frame.caller)
            self.t.joins.record(where, [self.outer], self.entry)

    @property
    def inits(self) -> list[Value]:
        return [leaf for value in self.entry.values() for leaf in spread(value)]

    def unstable(self, paths: list[Path]) -> bool:
        """Whether an iteration changes something that was taken as constant; then the entry values are adapted."""
        changed = False
        for name, entry in list(self.entry.items()):
            if isinstance(entry, Unusable):
                continue
            following = [p.names.get(name) for p in paths]
            if self.fits(entry, following):
                continue
            changed = True
            loosened = loosen(entry, following, self.t.builder.block, self.t.builder)
            if self.fits(loosened, following):
                self.entry[name] = loosened
                continue
            odd = next(v for v in following if not same(v, entry))
            self.entry[name] = Unusable(
                f"{name!r} is {describe(entry)} before the loop and {describe(odd)} after an iteration; the type of a "
                f"variable that a loop carries cannot change. {_advice(odd)}"
            )
        return changed

    def fits(self, template: Any, values: Iterable[Any]) -> bool:
        """Whether ``values`` can be carried where ``template`` is."""
        trial = Block()
        found = all(fit(template, v, trial, self.t.builder) is not None for v in values)
        trial.clear()
        return found

    def next_values(self, path: Path) -> list[Value]:
        """The carried values at the end of an iteration."""
        leaves = []
        for name, entry in self.entry.items():
            if not isinstance(entry, Unusable):
                found = fit(entry, path.names[name], path.block, self.t.builder)
                assert found is not None
                leaves += found
        return leaves


def _advice(value: Any) -> str:
    if isinstance(value, Tile) and value.shape:
        return f"Start it with ct.zeros({value.shape}, ct.{value.dtype}) or convert it with astype()"
    if isinstance(value, Tile):
        return f"Start it with {with_article(value.dtype)} scalar or convert it with astype()"
    return "Use another name inside the loop"


def _augmented(node: ast.AST) -> Iterable[str]:
    """Names that ``node`` changes with ``+=`` and the like: they are not constant."""
    changed = [n.target for n in statements(node) if isinstance(n, ast.AugAssign)]
    return [target.id for target in changed if isinstance(target, ast.Name)]


def _traced(
    t: Tracer, carried: _Carried, trace: Callable[[], bool], counter: tuple[Type, str] | None = None
) -> tuple[Context, Block]:
    """The body of a loop, traced by ``trace`` until what it carries is stable; it starts with the ``counter``."""
    while True:
        block, context = Block(), Context(True)
        if counter is not None:
            block.add_arg(*counter)
        t.scope.names = carried.open(block)
        t.contexts.append(context)
        with t.builder.at(block):
            if trace():
                leave(t, "continue")
        t.contexts.pop()
        t.scope.names = carried.outer
        if not carried.unstable(context.exits["continue"]):
            carried.record()
            return context, block
        block.clear()


def while_loop(t: Tracer, node: ast.While) -> bool:
    _no_else(t, node)
    carried = _Carried(t, node)

    def trace() -> bool:
        condition = t.condition(node.test)
        if isinstance(condition, Value):
            branch(t, condition, (lambda: True, lambda: leave(t, "break")))
        elif not condition:
            leave(t, "break")
        return condition is not False and t.body(node.body)

    context, block = _traced(t, carried, trace)
    return _finish_loop(t, context, carried, block, [], lambda path: [])


def range_loop(t: Tracer, node: ast.For, target: str, bounds: tuple[Value, Value, Value]) -> bool:
    """``for target in range(...)``: a ``for`` op, or a ``loop`` with a counter when the body leaves early.

    A variable that exists before the loop keeps its value when the loop does not run, as in Python.
    """
    carried = _Carried(t, node)
    lower, upper, step = bounds
    early, where = leaves_loop(node), t.builder.loc

    def trace() -> bool:
        counter = t.builder.block.args[0]
        if early:
            running = t.builder.emit(Cmp, counter, upper, predicate=CmpPredicate.LT)
            branch(t, running, (lambda: True, lambda: leave(t, "break")))
        t.scope.names[target] = Tile(counter)
        return t.body(node.body)

    context, block = _traced(t, carried, trace, (lower.type, target))
    if early:

        def advance(path: Path) -> list[Value]:
            with t.builder.at(path.block):
                return [t.builder.emit(Add, block.args[0], step)]

        return _finish_loop(t, context, carried, block, [lower], advance)
    for path in context.exits["continue"]:
        values = carried.next_values(path)
        with t.builder.at(path.block):
            t.builder.emit_op(Continue, values)
    for dead in context.dead:
        _end(t, dead, Continue, [v.type for v in carried.inits])
    t.builder.loc = where
    op = t.builder.emit_op(For, lower, upper, step, carried.inits, body=block)
    results = iter(op.results)
    names = dict(carried.outer)
    for name in assigned_names(node):
        names[name] = Unusable(f"{name!r} may be undefined here: the loop that assigns it may not have run")
    for name, entry in carried.entry.items():
        names[name] = rebuild(entry, results) if spread(entry) else entry
    t.scope.names = names
    return True


def _end(t: Tracer, block: Block, terminator: Any, types: Iterable[Type]) -> None:
    """Give a block that cannot be reached a terminator."""
    values = [undefined(ty, block, t.builder) for ty in types]
    with t.builder.at(block):
        t.builder.emit_op(terminator, values)


def _finish_loop(
    t: Tracer, context: Context, carried: _Carried, block: Block, counter: list[Value], advance: Any
) -> bool:
    """Terminate every path of a ``loop`` body and emit the op."""
    for path in context.exits["continue"]:
        values = [*advance(path), *carried.next_values(path)]
        with t.builder.at(path.block):
            t.builder.emit_op(Continue, values)
    breaks, returns = context.exits["break"], context.exits[RETURN]
    merged = merge(breaks, carried.outer, t.builder)
    for path in returns:
        path.names = {RETURN: path.names[RETURN]}
    returned = merge(returns, {}, t.builder)
    flag: list[Type] = [BOOL] if breaks and returns else []
    types = [*merged.types, *returned.types, *flag]
    for paths, before, after, returning in ((breaks, [], returned.types, False), (returns, merged.types, [], True)):
        for path in paths:
            values = [undefined(ty, path.block, t.builder) for ty in before] + path.leaves
            values += [undefined(ty, path.block, t.builder) for ty in after]
            with t.builder.at(path.block):
                if flag:
                    values.append(t.builder.constant(returning, bool_))
                t.builder.emit_op(Break, values)
    for dead in context.dead:
        _end(t, dead, Break, types)
    op = t.builder.emit_op(Loop, [*counter, *carried.inits], types=tuple(types), body=block)
    after_loop = {**carried.outer, **merged.bind(op.results)}
    split = len(merged.types)
    if not breaks and not returns:
        return unreachable(t)
    t.scope.names = after_loop
    if not returns:
        return True
    value = returned.bind(op.results[split : split + len(returned.types)])[RETURN]

    def give_back() -> bool:
        t.scope.names[RETURN] = value
        return leave(t, RETURN)

    if not breaks:
        t.scope.names = dict(after_loop)
        return give_back()
    return branch(t, op.results[-1], (give_back, lambda: True))


def _no_else(t: Tracer, node: ast.While | ast.For) -> None:
    if node.orelse:
        t.fail(
            "tile code has no 'else' on loops; set a flag in the loop and test it afterwards", TileSyntaxError, at=node
        )


def run_function(t: Tracer, statements: Sequence[ast.stmt]) -> Any:
    """Trace a function body; gives the result."""
    outer_block = t.builder.block
    body = Block()
    context = Context(False)
    t.contexts.append(context)
    with t.builder.at(body):
        tail(t, statements)
    t.contexts.pop()
    returns = context.exits[RETURN]
    for path in returns:
        path.names = {RETURN: path.names[RETURN]}
    if len(returns) == 1 and returns[0].block is body and not context.dead:
        outer_block.splice(body.ops)
        return returns[0].names[RETURN]
    merged = merge(returns, {}, t.builder)
    ends = {path.block: path.leaves for path in returns}
    if ends and _tail_blocks(body, ends) == {*ends, *context.dead}:
        results = _yield_out(t, body, ends, tuple(merged.types))
        outer_block.splice(body.ops)
    else:
        for path in returns:
            with t.builder.at(path.block):
                t.builder.emit_op(Break, path.leaves)
        for dead in context.dead:
            _end(t, dead, Break, merged.types)
        op = create(Loop, ([],), {"types": tuple(merged.types), "body": body}, t.builder.loc)
        outer_block.append(op)
        results = op.results
    result = merged.bind(results).get(RETURN)
    if t.joins is not None:
        where = t.frame.source.loc(t.frame.source.node, t.frame.caller)
        t.joins.record(where, [path.names for path in returns], {RETURN: result})
    if isinstance(result, Unusable):
        t.fail(result.reason.replace(repr(RETURN), "the result of this function"))
    return result


def _tail_blocks(block: Block, ends: Mapping[Block, list[Value]]) -> set[Block]:
    """``block``, and the blocks in which it ends, with nothing but ``if`` ops around them."""
    found = {block}
    last = block.ops[-1] if block.ops and block not in ends else None
    if isinstance(last, If) and not last.results:
        for region in last.regions:
            found |= _tail_blocks(region, ends)
    return found


def _yield_out(t: Tracer, block: Block, ends: Mapping[Block, list[Value]], types: tuple[Type, ...]) -> list[Value]:
    """Pass the values of ``ends`` outwards through the ``if`` ops at the ends of blocks, as their results."""
    if block in ends:
        return ends[block]
    last = block.ops[-1]
    assert isinstance(last, If)
    last.detach()
    for region in last.regions:
        values = _yield_out(t, region, ends, types)
        with t.builder.at(region):
            t.builder.emit_op(Yield, values)
    then, orelse = last.regions
    op = create(If, (last.condition,), {"types": types, "then": then, "orelse": orelse}, last.loc)
    block.append(op)
    return op.results
