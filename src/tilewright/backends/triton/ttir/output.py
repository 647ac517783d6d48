"""print and assert."""

from __future__ import annotations

from tilewright.backends.triton.ttir.state import State
from tilewright.backends.triton.ttir.text import Val
from tilewright.ir.core import Op


def _quoted(text: str) -> str:
    escaped = "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\{ord(c) & 0xFF:02X}" for c in text)
    return f'"{escaped}"'


def print_op(s: State, op: Op) -> None:
    """One line per element and value, in the form of Triton: block, position, the text before the value, the value."""
    w, prefix = s.w, ""
    values = iter(op.operands)
    for part in op.attributes["parts"]:
        if part is not None:
            prefix += part
            continue
        value = next(values)
        _print(s, prefix.strip("\n"), s[value], not value.tile.is_pointer and value.tile.element.is_signed)
        prefix = ""
    if prefix.strip():
        w.located(f"tt.print {_quoted(' ' + prefix.rstrip(chr(10)))} {{hex = false, isSigned = array<i32>}}")


def _print(s: State, prefix: str, x: Val, signed: bool) -> None:
    w = s.w
    if x.element == "i1":
        x = w.convert("arith.extui", x, "i32")
    elif x.element in ("f16", "bf16"):
        x = w.convert("arith.extf", x, "f32")
    fields = f"{{hex = false, isSigned = array<i32: {int(signed)}>}}"
    w.located(f"tt.print {_quoted(f' {prefix}')} {fields} : {x.name} : {x.type}")


def assert_op(s: State, op: Op) -> None:
    message = f"{op.loc.file}:{op.loc.line}: {op.attributes['message']}"
    condition = s[op.operands[0]]
    s.w.located(f"tt.assert {condition.name}, {_quoted(message)} : {condition.type}")
