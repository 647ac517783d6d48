"""Typed expressions and statements of random programs: each has its text in the language and its NumPy model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from fuzz.model import Array


class Level(IntEnum):
    """How much is known about a value beforehand."""

    MODELLED = 0  # the model predicts each bit
    EXACT = 1  # every backend gives the same bits
    CLOSE = 2  # backends agree within a tolerance


class Unmodelled(Exception):
    """The data reached an operation whose result the model cannot tell, such as one that NumPy rounds twice."""


class Break(Exception):
    pass


class Continue(Exception):
    pass


class Return(Exception):
    def __init__(self, value: Any = None) -> None:
        self.value = value


@dataclass
class Env:
    """What one block sees: its index and its variables."""

    bid: tuple[int, int, int]
    grid: tuple[int, int, int]
    arrays: dict[str, Array]
    variables: dict[str, Any] = field(default_factory=dict)


Value = Callable[[Env], Any]


@dataclass
class Expr:
    text: str
    dtype: str
    shape: tuple[int, ...]
    value: Value
    level: Level = Level.MODELLED


@dataclass
class Stmt:
    """Lines at indentation 0, and what they do."""

    lines: list[str]
    run: Callable[[Env], None]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def block(statements: list[Stmt]) -> Stmt:
    lines = [line for s in statements for line in s.lines] or ["pass"]

    def run(env: Env) -> None:
        for s in statements:
            s.run(env)

    return Stmt(lines, run)
