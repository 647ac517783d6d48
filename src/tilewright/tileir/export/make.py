"""Functions that append ops to what an emitter writes, made from the table: one for each op that is used."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from tilewright.tileir.bytecode.encode import NUMBERED, written_parts
from tilewright.tileir.module import Operation, Value
from tilewright.tileir.optable import BY_NAME, NEWEST, NO_DEFAULT, OpSpec

Maker = Callable[..., Any]


def _maker(spec: OpSpec, minor: int) -> Maker:
    """``function(emitter, operands, type, **attributes)``, which writes an op and returns its result. For an op with
    any other number of results it is ``function(emitter, operands, types, **attributes)``, and returns them all; of one
    with regions they get their numbers by ``BodyWriter.define`` behind these.

    What is left out has its default, operands among them.
    """
    defaults = {a.name: None if a.default is NO_DEFAULT else a.default for a in spec.attributes}
    defaults |= dict.fromkeys(spec.units, False)
    absent = [f"{o.name!r}: {[] if o.variadic else None}, " for o in spec.operands if o.variadic or o.optional]
    chosen = {name: value for name, value in defaults.items() if not keyword.iskeyword(name)}
    keywords = f", *, {', '.join(f'{name}={value!r}' for name, value in chosen.items())}" if chosen else ""
    parts, names = written_parts(spec, minor, lambda name: name if name in chosen else repr(defaults[name]))
    attributes = (f"{name!r}: {name if name in chosen else repr(value)}" for name, value in defaults.items())
    one, numbered = spec.results == 1, not spec.regions and spec.results != 0 and minor >= spec.results_since
    lines = [
        f"def make(e, operands, {'kind' if one else 'kinds=()'}{keywords}):",
        "w = e.writer",
        "values, types = w.values, w.types",
        f"operands = {{{''.join(absent)}**operands}}" if absent else "",
        "result = new(Value); result.type = kind" if one else "results = [*map(Value, kinds)]",
        f"try: w.out += {parts}",
        "except (KeyError, TypeError, ValueError):",
        f"    results = {'[result]' if one else 'results'}",
        f"    w.explain(Operation(spec, operands, {{{', '.join(attributes)}}}, results, []))",
        "    raise",
        "w.locations.append(e.loc)",
        (NUMBERED if one else "w.define(results)") if numbered else "",
        "return result" if one else "return results",
    ]
    names |= {"spec": spec, "new": object.__new__, "Operation": Operation, "Value": Value}
    exec(compile("\n    ".join(filter(None, lines)), f"<maker of {spec.name} in 13.{minor}>", "exec"), names)
    made: Maker = names["make"]
    return made


class _Makers(dict[str, Maker]):
    """By the name of the op, those of a version that were needed so far."""

    def __init__(self, minor: int) -> None:
        self.minor = minor

    def __missing__(self, name: str) -> Maker:
        spec = BY_NAME[name]
        found = self[name] = _maker(spec, self.minor) if spec.since <= self.minor else lambda e, *_, **__: e.lacks(name)
        return found


MAKERS = {minor: _Makers(minor) for minor in range(1, NEWEST + 1)}
