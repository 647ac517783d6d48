"""Debug locations of Tile IR files. Equal locations are one object, so that chains of calls stay small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(eq=False, slots=True)
class UnknownLoc:
    """No location."""


@dataclass(eq=False, slots=True)
class CompileUnit:
    file: Location | None


@dataclass(eq=False, slots=True)
class File:
    name: str
    directory: str


@dataclass(eq=False, slots=True)
class LexicalBlock:
    scope: Location | None
    file: Location | None
    line: int
    column: int


@dataclass(eq=False, slots=True)
class FileLoc:
    """A location in a file, in a scope: a subprogram or a lexical block."""

    scope: Location | None
    file: str
    line: int
    column: int


@dataclass(eq=False, slots=True)
class Subprogram:
    file: Location | None
    line: int
    name: str
    linkage_name: str
    unit: Location | None
    scope_line: int
    flags: int = 0


@dataclass(eq=False, slots=True)
class CallSite:
    """``callee``, a location in an inlined function, and ``caller``, the location of its call."""

    callee: Location | None
    caller: Location | None


Location = Union[UnknownLoc, CompileUnit, File, LexicalBlock, FileLoc, Subprogram, CallSite]
# tag in a file -> class and how each field is written: r a reference, s a string, n a number
FIELDS: dict[int, tuple[type, str]] = {
    0: (UnknownLoc, ""),
    1: (CompileUnit, "r"),
    2: (File, "ss"),
    3: (LexicalBlock, "rrnn"),
    4: (FileLoc, "rsnn"),
    5: (Subprogram, "rnssrn"),
    6: (CallSite, "rr"),
}
SUBPROGRAM = 5  # which has flags from 13.5 on
