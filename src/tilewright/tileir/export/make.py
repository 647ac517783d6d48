"""Functions that append ops to what an emitter exports, made from the table: one for each op that is used."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from tilewright.tileir.module import Block, Operation, Value
from tilewright.tileir.optable import BY_NAME, NO_DEFAULT, OpSpec

_NO_REGIONS: list[Block | None] = []


def _maker(spec: OpSpec) -> Callable[..., Any]:
    """``function(emitter, operands, result, **attributes)``, which returns the result of the op. For an op with any
    other number of results it is ``function(emitter, operands, types, regions, **attributes)``, and returns them all.

    What is left out has its default, operands among them. The objects are made field by field, in two thirds of the
    time of a call.
    """
    defaults = {a.name: None if a.default is NO_DEFAULT else a.default for a in spec.attributes}
    defaults |= dict.fromkeys(spec.units, False)
    absent = [f"{o.name!r}: {[] if o.variadic else None}, " for o in spec.operands if o.variadic or o.optional]
    chosen = {name: value for name, value in defaults.items() if not keyword.iskeyword(name)}
    keywords = f", *, {', '.join(f'{name}={value!r}' for name, value in chosen.items())}" if chosen else ""
    attributes = (f"{name!r}: {name if name in chosen else repr(value)}" for name, value in defaults.items())
    one = spec.results == 1
    given = "result" if one else "types=(), regions=none"
    lines = [
        f"def make(e, operands, {given}{keywords}):",
        f"if e.minor < {spec.since}: e.lacks({spec.name!r})" if spec.since > 1 else "",
        "made = new(Value); made.type = result" if one else "made = [*map(Value, types)]",
        "op = new(Operation)",
        "op.spec = spec",
        f"op.operands = {{{''.join(absent)}**operands}}" if absent else "op.operands = operands",
        f"op.attributes = {{{', '.join(attributes)}}}",
        f"op.results = {'(made,)' if one else 'made'}",
        f"op.regions = {'none' if one else 'regions'}",
        "op.loc = e.loc",
        "op.offset = 0",
        "e.append(op)",
        "return made",
    ]
    names = {"spec": spec, "new": object.__new__, "Operation": Operation, "Value": Value, "none": _NO_REGIONS}
    exec(compile("\n    ".join(filter(None, lines)), f"<maker of {spec.name}>", "exec"), names)
    made: Callable[..., Any] = names["make"]  # type: ignore[assignment]
    return made


class _Makers(dict[str, Callable[..., Any]]):
    def __missing__(self, name: str) -> Callable[..., Any]:
        found = self[name] = _maker(BY_NAME[name])
        return found


make = _Makers()
