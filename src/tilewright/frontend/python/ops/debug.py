"""print, printf and assert_."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.python.context import Context, OpBuilder
from tilewright.frontend.python.formatting import FormattedString, Hole, parts_of, text_of
from tilewright.frontend.python.merge import describe
from tilewright.frontend.python.ops import arguments as check
from tilewright.frontend.python.ops.convert import numeric
from tilewright.ir.formatting import FLOATING, SIGNED, UNSIGNED, conversions, joined
from tilewright.ir.ops.memory import Assert, Print
from tilewright.language import tiles as lang


def _emit(ctx: Context, parts: list[str | Hole]) -> None:
    """One ``print`` op."""
    holes = [p for p in parts if isinstance(p, Hole)]
    texts = joined(p if isinstance(p, str) else None for p in parts)
    ctx.builder.emit_op(Print, [h.tile.value for h in holes], parts=texts, formats=tuple(h.format for h in holes))


def print_values(ctx: Context, values: tuple[Any, ...], sep: Any = " ", end: Any = "\n") -> None:
    """``print(*values, sep=sep, end=end)``."""
    for name, text in (("sep", sep), ("end", end)):
        if text is not None and not isinstance(text, str):
            check.wrong(ctx, name, f"must be a string, not {describe(text)}")
    separator, last = " " if sep is None else sep, "\n" if end is None else end
    parts: list[str | Hole] = []
    for i, value in enumerate(values):
        if i:
            parts.append(separator)
        tracer: Any = ctx
        parts.extend(parts_of(value if isinstance(value, (str, FormattedString)) else text_of(tracer, value)))
    _emit(ctx, [*parts, last])


def _print(ctx: Context, *args: Any, sep: Any = " ", end: Any = "\n") -> None:
    print_values(ctx, args, sep, end)


def _printf(ctx: Context, format: Any, *args: Any) -> None:
    if not isinstance(format, str):
        check.wrong(ctx, "format", f"must be a constant string, not {describe(format)}")
    parts: list[str | Hole] = []
    remaining = list(args)
    for before, match in conversions(format):
        parts.append(before)
        if match is None:
            break
        text, letter = match.group(), match["kind"]
        if text == "%":  # the last character
            parts.append(text)
            continue
        if letter not in SIGNED | UNSIGNED | FLOATING or not {"*", "^"}.isdisjoint(text):
            ctx.fail(f"the conversion {text!r} is not possible; use one of diuoxXeEfFgGaA", argument="format")
        if not remaining:
            ctx.fail(f"the format {format!r} has more conversions than the {len(args)} arguments", argument="format")
        tile = numeric(ctx, remaining.pop(0))
        if tile.dtype.is_floating is not (letter in FLOATING):
            fits = "one such as %f" if tile.dtype.is_floating else "one such as %d"
            wrong = f"the conversion {text!r} does not suit {tile.dtype} values; write {fits}"
            ctx.fail(wrong, argument="format")
        length = match["length"] or ""
        parts.append(Hole(tile, text.replace(length + letter, letter)))
    if remaining:
        ctx.fail(f"the format {format!r} has fewer conversions than the {len(args)} arguments", argument="format")
    _emit(ctx, parts)


def _assert(ctx: Context, cond: Any, message: Any = None) -> None:
    if message is not None and not isinstance(message, str):
        check.wrong(ctx, "message", f"must be a constant string, not {describe(message)}")
    tile = check.tile(ctx, cond, "cond")
    if tile.value.tile.is_pointer or not tile.dtype.is_bool:
        check.wrong(ctx, "cond", f"must be a bool tile, not {describe(tile)}; write a comparison")
    ctx.builder.emit_op(Assert, tile.value, [], message=message or "")


BUILDERS: dict[Any, OpBuilder] = {lang.print: _print, lang.printf: _printf, lang.assert_: _assert}
