"""Compiled kernels as bytes: what a file of the disk cache holds. Reading them runs nothing that the bytes say."""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.compiled import CompiledKernel, Poll, Site
from tilewright.backends.native.image import Image, text_and_content, with_text
from tilewright.ir.dtypes import dtype_from_short
from tilewright.ir.location import Loc
from tilewright.ir.types import PointerType, TileType


def to_bytes(compiled: CompiledKernel) -> bytes:
    """A text with all but the machine code, then that."""
    code = compiled.code
    image = None if isinstance(code, bytes) else (code.symbols, code.relative, code.imports)
    fields = {
        "image": image,
        "arguments": list(map(_type_text, compiled.arguments)),
        "scratch_bytes": compiled.scratch_bytes,
        "may_spin": compiled.may_spin,
        "block_work": compiled.block_work,
        "sites": [
            (_loc_fields(s.loc), list(map(_type_text, s.types)), s.message, s.parts, s.formats) for s in compiled.sites
        ],
        "polls": [(_loc_fields(p.loc), p.op) for p in compiled.polls],
    }
    return with_text(fields, code if isinstance(code, bytes) else code.content)


def from_bytes(data: bytes) -> CompiledKernel:
    """What ``to_bytes`` wrote. ValueError for other bytes."""
    try:
        fields, content = text_and_content(data)
        return CompiledKernel(
            code=content if fields["image"] is None else Image.checked(content, *fields["image"]),
            arguments=tuple(map(_type, fields["arguments"])),
            scratch_bytes=_number(fields["scratch_bytes"]),
            may_spin=bool(fields["may_spin"]),
            block_work=None if fields["block_work"] is None else _number(fields["block_work"]),
            sites=tuple(_site(*site) for site in fields["sites"]),
            polls=tuple(Poll(_loc(loc), str(op)) for loc, op in fields["polls"]),
        )
    except (TypeError, LookupError, AttributeError) as e:
        raise ValueError(f"this is no compiled kernel: {type(e).__name__}: {e}") from None


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is no number")
    return value


def _type_text(t: TileType) -> tuple[str, bool, tuple[int, ...]]:
    if isinstance(t.dtype, PointerType):
        return t.dtype.pointee.short if t.dtype.pointee else "void", True, t.shape
    return t.dtype.short, False, t.shape


def _type(fields: tuple[str, bool, list[int]]) -> TileType:
    short, is_pointer, shape = fields
    dtype = None if is_pointer and short == "void" else dtype_from_short(short)
    return TileType(PointerType(dtype) if is_pointer or dtype is None else dtype, tuple(shape))


def _site(loc: Any, types: list[Any], message: str, parts: list[str | None], formats: list[str]) -> Site:
    return Site(_loc(loc), tuple(map(_type, types)), message, tuple(parts), tuple(formats))


def _loc_fields(loc: Loc) -> list[Any]:
    """The fields of ``loc``, then those of the calls that led to it."""
    return [(l.file, l.line, l.column, l.end_line, l.end_column, l.function) for l in loc.chain()]  # noqa: E741


def _loc(chain: list[Any]) -> Loc:
    found: Loc | None = None
    for fields in reversed(chain):
        file, line, column, end_line, end_column, function = fields
        found = Loc(file, line, column, end_line, end_column, function, found)
    if found is None:
        raise ValueError("a location is missing")
    return found
