"""Prints Tile IR as ``tileirdisasm`` does, but for the names of values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.tileir import module as tir
from tilewright.tileir import numbers
from tilewright.tileir.constants import elements, is_splat
from tilewright.tileir.errors import TileIRError
from tilewright.tileir.text.syntax import KINDS, LISTED, PARTS
from tilewright.tileir.types import Scalar, TensorView, Tile, is_gathering

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
MOST_ELEMENTS = 100  # that a constant lists; more are printed as bytes


def print_module(module: tir.Module) -> str:
    """The text of ``module``."""
    lines = [f"// Producer: {module.producer}"] if module.producer else []
    lines += [_global(g) for g in module.globals]
    for entry in module.entries:
        lines += _Printer().entry(entry)
    return "\n".join(lines) + "\n"


def _global(g: tir.Global) -> str:
    visibility = "private " if g.visibility == "private" else ""
    constant = " constant" if g.constant else ""
    alignment = f" alignment = {g.alignment}" if g.alignment else ""
    return f"global {visibility}{constant} @{_name(g.name)}{alignment} {constant_text(g.type, g.value)} : {g.type}"


def quoted(text: str) -> str:
    """A string literal: what is not printable ASCII as two hexadecimal digits."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte == ord("\\"):
            out.append("\\\\")
        elif 32 <= byte < 127 and byte != ord('"'):
            out.append(chr(byte))
        else:
            out.append(f"\\{byte:02X}")
    return f'"{"".join(out)}"'


def _name(text: str) -> str:
    """The name of a symbol, quoted where it is no word."""
    return text if _WORD.fullmatch(text) else quoted(text)


def constant_text(type: Tile, data: bytes) -> str:
    """``<f32: 1.000000e+00>``: the element type and the elements, one for all where they are equal."""
    element = type.element
    if not isinstance(element, Scalar):
        raise TileIRError(f"a constant of type {type}; constants are numbers")
    if is_splat(type, data):
        shown = _number(element, elements(Tile(element), data, first=True)[0])
    elif type.size > MOST_ELEMENTS:
        shown = f'"0x{_element_bytes(type, data).hex().upper()}"'
    else:
        shown = _nested([_number(element, bits) for bits in elements(type, data)], type.shape)
    return f"<{element}: {shown}>"


def _element_bytes(type: Tile, data: bytes) -> bytes:
    assert isinstance(type.element, Scalar)
    return bytes(elements(type, data)) if type.element.bits == 1 else data


def _number(type: Scalar, bits: int) -> str:
    if not type.is_integer:
        return numbers.show(type.name, bits)
    if type.bits == 1:
        return "true" if bits else "false"
    return str(bits - (1 << type.bits) if bits >> (type.bits - 1) else bits)


def _nested(items: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return items[0]
    step = len(items) // shape[0]
    return f"[{', '.join(_nested(items[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"


def attribute_text(a: tir.Attribute) -> str:
    """A tagged attribute."""
    if isinstance(a, tir.BoolAttr):
        return "true" if a.value else "false"
    if isinstance(a, tir.IntegerAttr):
        assert isinstance(a.type, Scalar)
        number = _number(a.type, a.value)
        return number if a.type.bits in (1, 64) else f"{number} : {a.type}"
    if isinstance(a, tir.FloatAttr):
        text = numbers.show(a.type.name, a.bits)
        return text if a.type.name == "f64" and not text.startswith("0x") else f"{text} : {a.type}"
    if isinstance(a, tir.StringAttr):
        return quoted(a.value)
    if isinstance(a, tir.TypeAttr):
        return str(a.type)
    if isinstance(a, tir.ArrayAttr):
        return f"[{', '.join(map(attribute_text, a.items))}]"
    if isinstance(a, tir.DictAttr):
        return f"{{{', '.join(f'{key} = {attribute_text(value)}' for key, value in sorted(a.entries))}}}"
    if isinstance(a, tir.HintsAttr):
        return hints_text(a)
    return predicate_text(a)


def predicate_text(a: tir.Attribute) -> str:
    """What an ``assume`` promises."""
    if isinstance(a, tir.DivByAttr):
        every = "" if a.every is None else f", every {a.every}"
        along = "" if a.along is None else f" along {a.along}"
        return f"div_by<{a.divisor}{every}{along}>"
    if isinstance(a, tir.SameElementsAttr):
        return f"same_elements<[{', '.join(map(str, a.shape))}]>"
    assert isinstance(a, tir.BoundedAttr)
    lower, upper = ("?" if bound is None else bound for bound in (a.lower, a.upper))
    return f"bounded<{lower}, {upper}>"


def hints_text(hints: tir.HintsAttr) -> str:
    """``<sm_100 = {latency = 3}>``: without the types of the numbers."""
    shown = []
    for architecture, values in sorted(hints.entries, key=lambda entry: entry[0]):
        if isinstance(values, tir.DictAttr):
            entries = sorted(values.entries, key=lambda entry: entry[0])
            text = f"{{{', '.join(f'{key} = {_hint(value)}' for key, value in entries)}}}"
        else:
            text = _hint(values)
        shown.append(f"{architecture} = {text}")
    return f"<{', '.join(shown)}>"


def _hint(value: tir.Attribute) -> str:
    return attribute_text(value).split(" : ")[0]


class _Printer:
    """Prints one entry."""

    def __init__(self) -> None:
        self.names: dict[tir.Value, str] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def arguments(self, values: Sequence[tir.Value]) -> list[str]:
        for value in values:
            self.names[value] = self.fresh()
        return [f"{self.names[v]}: {v.type}" for v in values]

    def names_of(self, values: Sequence[tir.Value]) -> str:
        return ", ".join(self.names[v] for v in values)

    def entry(self, entry: tir.Entry) -> list[str]:
        hints = ""
        if entry.hints is not None and entry.hints.entries:
            hints = f" optimization_hints={hints_text(entry.hints)}"
        head = f"entry @{_name(entry.name)}({', '.join(self.arguments(entry.body.args))}){hints} {{"
        return [head, *self.block(entry.body, "  ", ""), "}"]

    def block(self, block: tir.Block, indent: str, implied: str) -> list[str]:
        """The ops of a block, without a terminator called ``implied`` that has no operands."""
        lines: list[str] = []
        for op in block.ops:
            if op is block.ops[-1] and op.name == implied and not op.operands["operands"]:
                break
            lines += self.op(op, indent)
        return lines

    def op(self, op: tir.Operation, indent: str) -> list[str]:
        structured = _STRUCTURED.get(op.name)
        if structured is not None:
            lines: list[str] = structured(self, op, indent)
            lines[0] = f"{indent}{self.results(op)}{lines[0]}"
            return lines
        text = self.plain(op)
        return [f"{indent}{self.results(op)}{text}"]

    def results(self, op: tir.Operation) -> str:
        """The names of the results and an equals sign."""
        if not op.results:
            return ""
        if len(op.results) == 1 or op.name in LISTED:
            for r in op.results:
                self.names[r] = self.fresh()
            return f"{self.names_of(op.results)} = "
        name = self.fresh()
        for i, r in enumerate(op.results):
            self.names[r] = f"{name}#{i}"
        return f"{name}:{len(op.results)} = "

    def plain(self, op: tir.Operation) -> str:
        if op.name == "constant":
            type = op.results[0].type
            if not isinstance(type, Tile):
                raise TileIRError(f"a constant of type {type}; constants are tiles of numbers")
            return f"constant {constant_text(type, op.attributes['value'])} : {type}"
        if op.name == "make_tensor_view":
            return self.tensor_view(op)
        text = "".join(self.part(op, part) for part in PARTS[op.name])
        return op.name if not text else f"{op.name}{'' if text.startswith(' ') else ' '}{text}"

    def tensor_view(self, op: tir.Operation) -> str:
        view = op.results[0].type
        if not isinstance(view, TensorView):
            raise TileIRError(f"make_tensor_view gives a tensor view, not {view}")
        used = [*op.operands["dynamicShape"], *op.operands["dynamicStrides"]]
        unknown = [sum(n is None for n in extents) for extents in (view.shape, view.strides)]
        if unknown != [len(op.operands["dynamicShape"]), len(op.operands["dynamicStrides"])]:
            raise TileIRError(f"make_tensor_view needs an operand for each dynamic extent and stride of {view}")
        left = iter(used)
        shape, strides = (
            ", ".join(self.names[next(left)] if n is None else str(n) for n in extents)
            for extents in (view.shape, view.strides)
        )
        types = f"{used[0].type} -> {view}" if used else str(view)
        if view.attr is not None:
            types = f"{op.operands['base'].type} -> {view}"
        return f"make_tensor_view {self.names[op.operands['base']]}, shape = [{shape}], strides = [{strides}] : {types}"

    def part(self, op: tir.Operation, part: tuple[str, ...]) -> str:
        kind, *rest = part
        if kind == "":
            return rest[0]
        text: str = getattr(self, kind)(op, *rest) if kind in KINDS else self.field(op, kind)
        return text

    def field(self, op: tir.Operation, name: str) -> str:
        """An operand or an attribute as it is."""
        if name in op.operands:
            operand = op.operands[name]
            return self.names_of(operand) if isinstance(operand, list) else self.names[operand]
        value = op.attributes[name]
        kind = next(a.kind for a in op.spec.attributes if a.name == name)
        if kind == "predicate":
            return predicate_text(value)
        if kind == "str":
            return f"@{_name(value)}" if op.name == "get_global" else quoted(value)
        if kind == "i32s":
            return f"[{', '.join(map(str, value))}]"
        return str(value)

    # Parts of templates.

    def type(self, op: tir.Operation, name: str) -> str:
        return str(op.operands[name].type)

    def made(self, op: tir.Operation) -> str:
        return ", ".join(str(r.type) for r in op.results)

    def same(self, op: tir.Operation) -> str:
        return str(op.results[0].type) if op.results else ""

    def flag(self, op: tir.Operation, name: str) -> str:
        return f" {name}" if op.attributes[name] else ""

    def custom(self, op: tir.Operation, name: str, default: str, word: str) -> str:
        value = op.attributes[name]
        return "" if value == default else f"{word}<{value}>"

    def option(self, op: tir.Operation, name: str, default: str, word: str) -> str:
        text = self.custom(op, name, default, word)
        return f" {text}" if text else ""

    def word(self, op: tir.Operation, name: str) -> str:
        value = op.attributes[name]
        return "" if value is None else f" {value}"

    def comma(self, op: tir.Operation, name: str) -> str:
        operand = op.operands[name]
        return f", {self.field(op, name)}" if operand else ""

    def comma_type(self, op: tir.Operation, name: str) -> str:
        operand = op.operands[name]
        return "" if operand is None else f", {operand.type}"

    def types(self, op: tir.Operation, name: str) -> str:
        operands: list[tir.Value] = op.operands[name]
        return f" : {', '.join(str(v.type) for v in operands)}" if operands else ""

    def after(self, op: tir.Operation, *words: str) -> str:
        token = op.operands["token"]
        return "" if token is None else f" {' '.join(words)}{' ' if words[1:] else ''}{self.names[token]}"

    def close_after(self, op: tir.Operation) -> str:
        return self.after(op, "token", "=").lstrip()

    def index(self, op: tir.Operation) -> str:
        return self.names_of(op.operands["index"])

    def indices(self, op: tir.Operation) -> str:
        if "index" not in op.operands:  # of extract and insert, whose operands have this name
            return self.names_of(op.operands["indices"])
        types = [str(v.type) for v in op.operands["index"]]
        return ", ".join(types if is_gathering(op.operands["view"].type) else types[:1])

    def hints(self, op: tir.Operation) -> str:
        hints = op.attributes["optimization_hints"]
        return "" if hints is None else f" optimization_hints = {hints_text(hints)}"

    def inbounds(self, op: tir.Operation) -> str:
        flags = op.attributes["inbounds"]
        return f" inbounds = [{', '.join('true' if f else 'false' for f in flags)}]" if any(flags) else ""

    def close_inbounds(self, op: tir.Operation) -> str:
        text = self.inbounds(op)
        return text if op.operands["token"] is not None else text.lstrip()

    def reduction(self, op: tir.Operation) -> str:
        kind = op.attributes["reduction"]
        return "" if kind == "add" else f" attributes {{reduction = #cuda_tile.multimem_reduction_kind<{kind}>}}"

    # Ops with regions.

    def for_(self, op: tir.Operation, indent: str) -> list[str]:
        body = _only(op)
        names = [name.split(":")[0] for name in self.arguments(body.args)]
        lower, upper, step = (self.names[op.operands[n]] for n in ("lowerBound", "upperBound", "step"))
        unsigned = "unsigned " if op.attributes["unsignedCmp"] else ""
        inits = op.operands["initValues"]
        carried = ""
        if inits:
            pairs = ", ".join(f"{n} = {self.names[v]}" for n, v in zip(names[1:], inits))
            carried = f" iter_values({pairs}) -> ({self.made(op)})"
        head = f"for {unsigned}{names[0]} in ({lower} to {upper}, step {step}) : {body.args[0].type}{carried} {{"
        return [head, *self.block(body, indent + "  ", "continue"), f"{indent}}}"]

    def loop(self, op: tir.Operation, indent: str) -> list[str]:
        body = _only(op)
        names = [name.split(":")[0] for name in self.arguments(body.args)]
        inits = op.operands["initValues"]
        head = "loop"
        if inits:
            head += f" iter_values({', '.join(f'{n} = {self.names[v]}' for n, v in zip(names, inits))})"
        if inits or op.results:
            head += f" : {', '.join(str(v.type) for v in inits)}"
        if op.results:
            head += f"{' ' if inits else ''}-> {self.made(op)}"
        return [f"{head} {{", *self.block(body, indent + "  ", "continue"), f"{indent}}}"]

    def if_(self, op: tir.Operation, indent: str) -> list[str]:
        types = f" -> ({self.made(op)})" if op.results else ""
        then, other = op.regions
        lines = [f"if {self.names[op.operands['condition']]}{types} {{"]
        lines += self.block(then, indent + "  ", "yield") if then is not None else []
        if other is not None:
            lines += [f"{indent}}} else {{", *self.block(other, indent + "  ", "yield")]
        return [*lines, f"{indent}}}"]

    def fold(self, op: tir.Operation, indent: str) -> list[str]:
        body = _only(op)
        reverse = f" reverse={'true' if op.attributes['reverse'] else 'false'}" if op.name == "scan" else ""
        identities = ", ".join(map(attribute_text, op.attributes["identities"].items))
        operands = op.operands["operands"]
        types = ", ".join(str(v.type) for v in operands)
        head = f"{op.name} {self.names_of(operands)} dim={op.attributes['dim']}{reverse} identities=[{identities}]"
        arguments = f"{indent}({', '.join(self.arguments(body.args))}) {{"
        lines = [f"{head} : {types} -> {self.made(op)} ", arguments]
        return [*lines, *self.block(body, indent + "  ", ""), f"{indent}}}"]


def _only(op: tir.Operation) -> tir.Block:
    body = op.regions[0]
    return body if body is not None else tir.Block()


_STRUCTURED: dict[str, Any] = {
    "for": _Printer.for_,
    "loop": _Printer.loop,
    "if": _Printer.if_,
    "reduce": _Printer.fold,
    "scan": _Printer.fold,
}
