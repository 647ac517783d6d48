"""The constructs that a path of control flow can leave early."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field

from tilewright.frontend.python.merge import Path
from tilewright.frontend.python.scope import CallFrame
from tilewright.ir.core import Block
from tilewright.records import dataclass

RETURN = "return"  # the result of a function among its variables: no identifier, so it cannot clash with one


@dataclass
class Context:
    """A construct that paths can leave: a loop, or a function body (``is_loop`` is False)."""

    is_loop: bool
    exits: dict[str, list[Path]] = field(default_factory=lambda: {"break": [], "continue": [], RETURN: []})
    dead: list[Block] = field(default_factory=list)  # blocks whose end cannot be reached
    static: bool = False  # an unrolled loop, which has no exits


@dataclass
class Cleanup:
    """What a path has to do that leaves a ``with`` block early: ``statements`` of the innermost of ``frames``."""

    level: int  # how many contexts are around the block
    frames: list[CallFrame]
    statements: Sequence[ast.stmt]
