"""f-strings and ``str``: text with run-time values in it, known in shape at compile time."""

from __future__ import annotations

import ast
import dataclasses
import enum
import re
from typing import TYPE_CHECKING, Any

from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.values import Array, PartlyFixed, Tile
from tilewright.ir.dtypes import DType
from tilewright.ir.errors import TileSyntaxError, TileUnsupportedFeatureError
from tilewright.records import dataclass

if TYPE_CHECKING:
    from tilewright.frontend.python.semantics import ValueSemantics
    from tilewright.frontend.python.tracer import Tracer


@dataclass(frozen=True)
class Hole:
    """A tile in a text, with its printf conversion; empty for the default of the dtype."""

    tile: Tile
    format: str = ""


@dataclass(frozen=True)
class FormattedString(PartlyFixed):
    """Literal text and holes, in order."""

    parts: tuple[str | Hole, ...]

    def fixed(self) -> tuple[str | tuple[str], ...]:
        return tuple(p if isinstance(p, str) else (p.format,) for p in self.parts)

    def described(self) -> str:
        return "the text " + repr("".join(p if isinstance(p, str) else "{...}" for p in self.parts))


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
            wrong = f"tile code has no !{chr(piece.conversion)} conversion in f-strings; leave it out"
            t.fail(f"{wrong}, and write x={{x}} for {{x=}}", TileSyntaxError, at=piece)
        value = t.eval(piece.value)
        spec = "" if piece.format_spec is None else t.eval(piece.format_spec)
        t.locate(piece)
        if not isinstance(spec, str):
            t.fail("the format of a value in an f-string must be literal text", TileSyntaxError)
        parts.extend(formatted(t, value if piece.conversion == -1 else text_of(t, value), spec))
    return joined(parts)


def joined(parts: list[str | Hole]) -> str | FormattedString:
    """The text of ``parts``; a plain string when nothing in it is run-time data."""
    if all(isinstance(p, str) for p in parts):
        return "".join(map(str, parts))
    return FormattedString(tuple(parts))


def formatted(t: ValueSemantics, value: Any, spec: str) -> tuple[str | Hole, ...]:
    """``format(value, spec)``."""
    if isinstance(value, Tile) and value.constant is None:
        return (Hole(value, _conversion(t, value, spec)),)
    known = value.constant if isinstance(value, Tile) else value
    if isinstance(known, (bool, int, float, str)):
        try:
            return (format(known, spec),)
        except ValueError as e:
            t.fail(f"{known!r} cannot be formatted as {spec!r}: {e}")
    own = _method_text(t, value, "__format__", spec)
    if own is not None:
        return parts_of(own)
    if spec:
        t.fail(f"{describe(value)} cannot be formatted as {spec!r}")
    return parts_of(text_of(t, value))


def _conversion(t: ValueSemantics, tile: Tile, spec: str) -> str:
    """An f-string format as a printf conversion."""
    if not spec:
        return ""
    match = _SPEC.match(spec)
    if match is None or match["align"] == "^":
        t.fail(
            f"the format {spec!r} is not possible for run-time values; use [<>][sign][#][0][width][.precision][type]",
            TileUnsupportedFeatureError,
        )
    floating = tile.dtype.is_floating
    letter = match["type"] or ("f" if floating else "d")
    if letter not in (_FLOAT_TYPES if floating else _INTEGER_TYPES):
        t.fail(f"the format {spec!r} does not suit {tile.dtype} values")
    if letter == "d" and not tile.dtype.is_signed:
        letter = "u"
    flags = match["sign"].replace("-", "") + match["alt"] + match["zero"] + ("-" if match["align"] == "<" else "")
    return f"%{flags}{match['width']}{match['prec']}{letter}"


def text_of(t: ValueSemantics, value: Any) -> str | FormattedString:
    """``str(value)``."""
    if isinstance(value, (str, FormattedString)):
        return value
    if isinstance(value, enum.Enum):
        return str(value)
    own = _method_text(t, value, "__str__")
    return repr_of(t, value) if own is None else own


def repr_of(t: ValueSemantics, value: Any) -> str | FormattedString:
    """``repr(value)``, as items of tuples and fields of dataclasses are shown."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, FormattedString):
        return _quoted(value)
    if isinstance(value, Tile):
        return FormattedString((Hole(value),)) if value.constant is None else str(value.constant)
    if isinstance(value, tuple):
        parts: list[str | Hole] = ["("]
        for i, item in enumerate(value):
            parts += [", "] * (i > 0)
            parts += parts_of(repr_of(t, item))
        return joined([*parts, ",)" if len(value) == 1 else ")"])
    if isinstance(value, Array):
        t.fail("an array cannot be printed; load a tile of it")
    if _is_record(value):
        own = _method_text(t, value, "__repr__")
        return _dataclass_text(t, value) if own is None else own
    if value is None or isinstance(value, (bool, int, float, enum.Enum)):
        return repr(value)
    return repr(value) if isinstance(value, DType) or not callable(value) else describe(value)


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _method_text(t: ValueSemantics, value: Any, name: str, *arguments: Any) -> str | FormattedString | None:
    """What the method ``name`` of the program's own dataclass returns; None where it has none."""
    found, result = t.method_result(value, name, *arguments)
    if found and not isinstance(result, (str, FormattedString)):
        t.fail(f"{name} of {describe(value)} does not return a string")
    return result if found else None


def _dataclass_text(t: ValueSemantics, value: Any) -> str | FormattedString:
    """What ``dataclass`` generates, or what stands for it where the program asked for nothing."""
    name = type(value).__qualname__
    if not value.__dataclass_params__.repr:
        return f"<{name} object>"
    shown = [f.name for f in dataclasses.fields(value) if f.repr]
    parts: list[str | Hole] = [f"{name}("]
    for i, field in enumerate(shown):
        parts += [f"{', ' * (i > 0)}{field}=", *parts_of(repr_of(t, getattr(value, field)))]
    return joined([*parts, ")"])


def _quoted(text: FormattedString) -> FormattedString:
    """``repr`` of a text with holes, whose numbers need no escapes."""
    literal = "".join(p for p in text.parts if isinstance(p, str))
    quote, other = ('"', "'") if "'" in literal and '"' not in literal else ("'", '"')
    # In front of the other quote, Python's own repr uses this one.
    parts = (repr(other + p)[2:-1] if isinstance(p, str) else p for p in text.parts)
    return FormattedString((quote, *parts, quote))
