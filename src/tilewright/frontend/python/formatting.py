"""f-strings and ``str``: text with run-time values in it, known in shape at compile time."""

from __future__ import annotations

import ast
import dataclasses
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.values import Array, Tile
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileSyntaxError, TileTypeError, TileUnsupportedFeatureError

if TYPE_CHECKING:
    from tilewright.frontend.python.tracer import Tracer


@dataclass(frozen=True)
class Hole:
    """A tile in a text, with its printf conversion; empty for the default of the dtype."""

    tile: Tile
    format: str = ""


@dataclass(frozen=True)
class FormattedString:
    """Literal text and holes, in order."""

    parts: tuple[str | Hole, ...]


def parts_of(text: str | FormattedString) -> tuple[str | Hole, ...]:
    return text.parts if isinstance(text, FormattedString) else (text,) if text else ()


_SPEC = re.compile(
    r"(?P<align>[<>^]?)(?P<sign>[-+ ]?)(?P<alt>#?)(?P<zero>0?)(?P<width>\d*)(?P<prec>(?:\.\d+)?)(?P<type>[a-zA-Z]?)\Z"
)
_INTEGER_TYPES, _FLOAT_TYPES = "dxXo", "eEfFgG"


def format_string(t: Tracer, node: ast.JoinedStr) -> str | FormattedString:
    """The text of an f-string; a plain string when nothing in it is run-time data."""
    parts: list[str | Hole] = []
    for piece in node.values:
        if isinstance(piece, ast.Constant):
            parts.append(str(piece.value))
            continue
        assert isinstance(piece, ast.FormattedValue)
        if piece.conversion not in (-1, ord("s")):
            t.fail(TileSyntaxError, f"tile code has no !{chr(piece.conversion)} conversion in f-strings", at=piece)
        value = t.eval(piece.value)
        spec = "" if piece.format_spec is None else t.eval(piece.format_spec)
        t.locate(piece)
        if not isinstance(spec, str):
            t.fail(TileSyntaxError, "the format of a value in an f-string must be literal text")
        parts.extend(formatted(t, value, spec))
    return joined(parts)


def joined(parts: list[str | Hole]) -> str | FormattedString:
    """The text of ``parts``; a plain string when nothing in it is run-time data."""
    if all(isinstance(p, str) for p in parts):
        return "".join(map(str, parts))
    return FormattedString(tuple(parts))


def formatted(t: Tracer, value: Any, spec: str) -> tuple[str | Hole, ...]:
    """``format(value, spec)``."""
    if isinstance(value, Tile) and value.constant is None:
        return (Hole(value, _conversion(t, value, spec)),)
    known = value.constant if isinstance(value, Tile) else value
    if isinstance(known, (bool, int, float, str)):
        try:
            return (format(known, spec),)
        except ValueError as e:
            t.fail(TileTypeError, f"{known!r} cannot be formatted as {spec!r}: {e}")
    if spec:
        t.fail(TileTypeError, f"{describe(value)} cannot be formatted as {spec!r}")
    return parts_of(text_of(t, value))


def _conversion(t: Tracer, tile: Tile, spec: str) -> str:
    """An f-string format as a printf conversion."""
    if not spec:
        return ""
    match = _SPEC.match(spec)
    if match is None or match["align"] == "^":
        t.fail(
            TileUnsupportedFeatureError,
            f"the format {spec!r} is not possible for run-time values; use [<>][sign][#][0][width][.precision][type]",
        )
    floating = tile.dtype.is_floating
    letter = match["type"] or ("f" if floating else "d")
    if letter not in (_FLOAT_TYPES if floating else _INTEGER_TYPES):
        t.fail(TileTypeError, f"the format {spec!r} does not suit {tile.dtype} values")
    if letter == "d" and not tile.dtype.is_signed:
        letter = "u"
    flags = match["sign"].replace("-", "") + match["alt"] + match["zero"] + ("-" if match["align"] == "<" else "")
    return f"%{flags}{match['width']}{match['prec']}{letter}"


def text_of(t: Tracer, value: Any) -> str | FormattedString:
    """``str(value)``."""
    if isinstance(value, FormattedString):
        return value
    if isinstance(value, Tile):
        return FormattedString((Hole(value),)) if value.constant is None else str(value.constant)
    if isinstance(value, tuple):
        parts: list[str | Hole] = ["("]
        for i, item in enumerate(value):
            parts += [", "] * (i > 0)
            parts += [repr(item)] if isinstance(item, str) else parts_of(text_of(t, item))
        return joined([*parts, ",)" if len(value) == 1 else ")"])
    if isinstance(value, Array):
        t.fail(TileTypeError, "an array cannot be printed; load a tile of it")
    found, result = t.method_result(value, "__str__", "__repr__")
    if found:
        if not isinstance(result, (str, FormattedString)):
            t.fail(TileTypeError, f"__str__ of {describe(value)} does not return a string")
        return result
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [f"{type(value).__qualname__}("]
        for i, field in enumerate(dataclasses.fields(value)):
            item = getattr(value, field.name)
            parts.append(f"{', ' * (i > 0)}{field.name}=")
            parts += [repr(item)] if isinstance(item, str) else parts_of(text_of(t, item))
        return joined([*parts, ")"])
    if value is None or isinstance(value, (bool, int, float, str, enum.Enum)):
        return str(value)
    return repr(value) if isinstance(value, DType) or not callable(value) else describe(value)
