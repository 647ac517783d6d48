"""Stepping through a kernel without Python source, op by op: what ``tilewright debug`` does with CUDA Tile IR."""

from __future__ import annotations

import argparse
import cmd
import linecache
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tilewright.backends.reference.values import PartitionView, Pointers, TensorView
from tilewright.cli.arguments import filled, parse_argument, parse_index
from tilewright.cli.errors import UsageError, misused
from tilewright.cli.output import say
from tilewright.cli.tileir import arguments_for, find_kernel
from tilewright.ir.core import Function, Op
from tilewright.ir.location import Loc
from tilewright.ir.printer import listing
from tilewright.runtime.launch import specialization

Index = tuple[int, int, int]
_AROUND = 5  # lines that ``list`` shows on either side


def debug(options: argparse.Namespace) -> int:
    """``tilewright debug`` for a kernel of a file of CUDA Tile IR."""
    kernel = find_kernel(options.kernel)
    block = None if options.block is None else parse_index(options.block, "block", 0)
    grid = parse_index(options.grid or "1", "grid", 1)
    if options.arguments:
        raise UsageError(f"{options.arguments[0]!r} is for a program, and {options.kernel} is a kernel; use --arg")
    if block is not None and not all(i < n for i, n in zip(block, grid)):
        raise UsageError(f"there is no block {block} in the grid {grid} of {kernel.name}()")
    arguments = arguments_for(kernel, [filled(parse_argument(text)) for text in options.arg])
    with misused(TypeError, ValueError, OverflowError):
        found = specialization(kernel, arguments, "reference")
        run: Any = kernel.bind(grid, arguments, backend="reference")
    with suppress(Quit):
        run(observer=OpDebugger(found.function, block))
    return 0


class Quit(BaseException):
    """The person at the debugger wants no more; no Exception, which a launch might handle."""


class OpDebugger(cmd.Cmd):
    """An observer of the reference backend that stops before ops of one block, or of all."""

    prompt = "(tile) "
    intro = None

    def __init__(self, function: Function, block: Index | None) -> None:
        super().__init__()
        self._listing = listing(function)
        self._block = block
        self._values: dict[str, Any] = {}
        self._current: tuple[Index, Op] | None = None
        self._until = "op"  # where to stop next: at an op, at a line, or nowhere
        self._left: tuple[str, int] | None = None

    def before(self, op: Op, block: Index, operands: Sequence[Any]) -> None:
        """What the reference backend calls before each op."""
        if self._block not in (None, block):
            return
        for value, found in zip(op.operands, operands):
            self._values[self._listing.names[value]] = found
        if self._current is not None and self._current[0] != block:
            self._until = "op" if self._until != "nowhere" else "nowhere"
        where = op.loc.file, op.loc.line
        self._current = block, op
        if self._until == "nowhere" or (self._until == "line" and where == self._left):
            return
        self._left = where
        self._show()
        self.cmdloop()

    def _show(self) -> None:
        assert self._current is not None
        block, op = self._current
        if op.loc.line:
            say(f"> {op.loc.file}({op.loc.line}) block {block}\n-> {_line(op.loc).strip()}")
        else:
            say(f"> block {block}")
        say(f"   {self._listing.ops[op]}")

    def emptyline(self) -> bool:
        return self.onecmd(self.lastcmd) if self.lastcmd else False

    def default(self, line: str) -> None:
        if line == "EOF":
            raise Quit
        say(f"unknown command {line!r}; the commands are step, next, continue, p, values, list, where, quit")

    def do_step(self, _: str) -> bool:
        """s(tep): to the next op."""
        self._until = "op"
        return True

    def do_next(self, _: str) -> bool:
        """n(ext): to the next source line."""
        self._until = "line"
        return True

    def do_continue(self, _: str) -> bool:
        """c(ontinue): to the end."""
        self._until = "nowhere"
        return True

    def do_quit(self, _: str) -> bool:
        """q(uit)"""
        raise Quit

    def do_p(self, name: str) -> None:
        """p %NAME: a value; without a name, the operands of the op."""
        assert self._current is not None
        names = [name.strip()] if name.strip() else [self._listing.names[v] for v in self._current[1].operands]
        for one in names:
            one = one if one.startswith("%") else f"%{one}"
            say(f"{one} = {_value(self._values[one])}" if one in self._values else f"no op has used {one} yet")

    def do_values(self, _: str) -> None:
        """values: the names of what ops have used so far."""
        say(" ".join(self._values) or "none yet")

    def do_list(self, _: str) -> None:
        """l(ist): the source around the location."""
        assert self._current is not None
        loc = self._current[1].loc
        for number in range(max(loc.line - _AROUND, 1), loc.line + _AROUND + 1):
            text = linecache.getline(loc.file, number).rstrip("\n")
            if text:
                say(f"{number:4}{'->' if number == loc.line else '  '} {text}")

    def do_where(self, _: str) -> None:
        """w(here): the location, and the calls that led to it."""
        assert self._current is not None
        for loc in self._current[1].loc.chain():
            say(f"  {loc.file}({loc.line}){loc.function and f' in {loc.function}'}")

    do_s, do_n, do_c, do_q, do_l, do_w = do_step, do_next, do_continue, do_quit, do_list, do_where


def _line(loc: Loc) -> str:
    return linecache.getline(loc.file, loc.line) or "(the source is not here)"


def _value(found: Any) -> str:
    if isinstance(found, Pointers):
        return f"pointers {found.address}"
    if isinstance(found, (TensorView, PartitionView)):
        return repr(found.type)
    return f"{found}"
