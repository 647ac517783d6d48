"""What goes wrong with Tile IR files."""

from __future__ import annotations

from tilewright.ir.errors import TileError, TileUnsupportedFeatureError
from tilewright.ir.location import Loc


class TileIRError(TileError):
    """Tile IR that breaks a rule, or that cannot be translated."""


class BytecodeError(TileIRError):
    """Damaged bytecode: ``offset`` is the byte where reading stopped, ``expected`` what should be there."""

    def __init__(self, offset: int, expected: str, file: str = "") -> None:
        super().__init__(f"{file or 'bytecode'}: at byte {offset}: expected {expected}")
        self.offset = offset
        self.expected = expected
        self.file = file


class TextError(TileIRError):
    """Text that is no Tile IR, with its line and column."""

    def __init__(self, message: str, file: str, line: int, column: int) -> None:
        super().__init__(message, Loc(file, line, column))


class VersionError(TileIRError, TileUnsupportedFeatureError):
    """What the chosen bytecode version cannot express."""
