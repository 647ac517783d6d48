"""Functions of an LLVM module, as ``llvm_text`` reads them.

Types are kept as strings, with ``handle`` for the opaque pointers that stand for tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

HANDLE = "handle"  # a tile: a pointer in the address space that the headers reserve


class LLVMTextError(Exception):
    """Text that the reader does not understand: a construct that tile code has no use for."""


@dataclass(frozen=True)
class Local:
    """The result of an instruction, or an argument."""

    name: str


@dataclass(frozen=True)
class Const:
    """A constant: an int, float, bool, ``None`` (null pointer), or ``UNDEFINED``."""

    type: str
    value: Any


@dataclass(frozen=True)
class Symbol:
    """The address of a global variable or function, ``offset`` bytes further."""

    name: str
    offset: int = 0


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()
Operand = Union[Local, Const, Symbol]


@dataclass
class Instruction:
    """``name`` is the result or None. ``labels`` holds the target blocks, or the incoming blocks of a phi.

    ``detail`` is the predicate of a comparison, the callee of a call, the element type of a ``getelementptr``,
    the case values of a ``switch``, or the indices of ``extractvalue`` and ``insertvalue``.
    """

    name: str | None
    op: str
    type: str
    operands: list[Operand] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    detail: Any = None
    flags: frozenset[str] = frozenset()
    debug: int | None = None


@dataclass
class BasicBlock:
    name: str
    instructions: list[Instruction]

    @property
    def phis(self) -> list[Instruction]:
        return [i for i in self.instructions if i.op == "phi"]

    @property
    def terminator(self) -> Instruction:
        return self.instructions[-1]


@dataclass
class LLVMFunction:
    name: str
    arguments: list[tuple[str, str]]  # name, type
    blocks: list[BasicBlock]
    subprogram: int | None
    no_alias: frozenset[str] = frozenset()  # arguments declared __restrict__


@dataclass
class LLVMModule:
    functions: dict[str, LLVMFunction]
    defined: frozenset[str]  # every function with a body, read or not
    globals: dict[str, str]  # name -> text after the "="
    types: dict[str, str]  # name -> what the struct type consists of
    metadata: dict[int, str]
