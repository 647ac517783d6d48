"""Reads the text form of CUDA Tile IR: what ``tileirdisasm`` and our printer print, and files of the MLIR dialect.

Each op follows the template that the printer fills (see ``syntax``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Union

from tilewright.tileir import rules
from tilewright.tileir.debug import FileLoc, Location
from tilewright.tileir.module import Block, Entry, Global, HintsAttr, Module, Operation, Value
from tilewright.tileir.optable import BY_NAME, NEWEST, SECTIONS, OpSpec
from tilewright.tileir.text import parse_attributes as attributes
from tilewright.tileir.text import parse_generic as generic
from tilewright.tileir.text.parse_fields import Fields, absent
from tilewright.tileir.text.parse_locations import Locations, give_scopes
from tilewright.tileir.text.parse_types import parse_type
from tilewright.tileir.text.scanner import Scanner
from tilewright.tileir.text.syntax import PARTS
from tilewright.tileir.types import TOKEN, TensorView, Type

# operands, attributes, the types of the results, regions
Parts = tuple[dict[str, Any], dict[str, Any], list[Type], list[Union[Block, None]]]
_MAX_REGIONS = 64
_OLD_NAMES = {"print": "print_tko", "pow": "fpowf"}  # of 13.1, and of those before 13.4
_ALIAS = re.compile(r"^[ \t]*#([\w.$-]+) = (.*)$", re.MULTILINE)
_COUNT = re.compile(r":\s*(\d+)")
_PRODUCER = re.compile(r"\A// Producer: (.*)")


def parse_module(text: str, file: str = "") -> Module:
    """The module that ``text`` stands for; it is of the newest version. TextError, with line and column."""
    return _Parser(text, file).module()


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.s = Scanner(text, file)
        self.values: dict[str, Value] = {}
        self.depth = 0
        self.locations = Locations(dict(_ALIAS.findall(text)) if "#" in text else {})
        self.structured: dict[str, Callable[[OpSpec], Parts]] = {
            "for": self.for_,
            "loop": self.loop,
            "if": self.if_,
            **dict.fromkeys(("reduce", "scan"), self.fold),
        }

    # -- the module

    def module(self) -> Module:
        s = self.s
        producer = _PRODUCER.match(s.text)
        found = Module(NEWEST, producer=producer[1] if producer else None, file=s.file)
        self.members(found)
        if s.pos < len(s.text):
            s.fail("the end of the file")
        return found

    def members(self, found: Module) -> None:
        """Entries, globals, aliases, and modules with such, up to a brace or the end."""
        s = self.s
        self.nest()
        while not s.peek("}") and s.pos < len(s.text):
            if s.peek("#"):  # an alias of a location, which was read before
                start = s.pos
                s.skip_to("\n")
                self.locations.require_aliases(s, start, s.pos)
                continue
            if s.accept("{-#"):  # what MLIR keeps for its tools
                s.skip_to("#-}")
                s.expect("#-}")
                continue
            if s.accept("!"):
                name = s.name()
                s.expect("=")
                s.types[name] = parse_type(s)
                continue
            if s.peek('"'):
                self.generic_member(found)
                continue
            s.accept("builtin.")
            s.dialect()
            if s.accept("module"):
                if s.peek("@"):
                    s.symbol()
                self.attributes()
                s.expect("{")
                self.members(found)
                s.expect("}")
                self.location()
            elif s.accept("global"):
                found.globals.append(self.global_())
            elif s.accept("entry"):
                found.entries.append(self.entry())
            elif s.accept("testing$func"):  # of tests of the dialect; files hold entries only
                self.entry(testing=True)
            else:
                s.fail("an entry, a global or a module")
        self.depth -= 1

    def generic_member(self, found: Module) -> None:
        """``"cuda_tile.entry"() <{sym_name = "f", ...}> ({...}) : () -> ()``, or likewise a global or a module."""
        s = self.s
        start = s.pos
        spec = BY_NAME["module"] if s.accept('"builtin.module"') else BY_NAME.get(generic.op_name(s))
        if spec is None or spec.name not in SECTIONS:
            s.fail("an entry, a global or a module", start)
        s.expect("(", ")")
        known = absent(spec)
        self.generic_attributes(spec, known)
        body: Block | None = None
        if spec.name == "module":
            s.expect("(", "{")
            self.members(found)
            s.expect("}", ")")
        elif spec.regions:
            self.values = {}
            s.expect("(")
            body = self.region("return")
            s.expect(")")
        self.generic_attributes(spec, known)
        s.expect(":", "(", ")", "->", "(", ")")
        loc = self.location() or self.here(start)
        lacks = next((n for n in ("sym_name", "value") if n in known and known[n] is None), None)
        if spec.name == "module":
            found.producer = known["producer"] or found.producer
        elif lacks is not None:
            s.fail(f"the attribute {lacks} of {spec.name}", start)
        elif body is not None:
            found.entries.append(self.finished(known["sym_name"], body, known["optimization_hints"], loc))
        else:
            name, (type, value) = known["sym_name"], known["value"]
            alignment, visibility = known["alignment"] or 0, known["symbol_visibility"]
            found.globals.append(Global(name, type, value, alignment, visibility, known["constant"]))

    def global_(self) -> Global:
        s = self.s
        private = s.accept("private")
        s.accept("public")
        constant = s.accept("constant")
        name, alignment = s.symbol(), 0
        if s.accept("alignment", "="):
            alignment = s.integer()
        type, value = attributes.constant(s)
        s.discardable()
        self.location()
        return Global(name, type, value, alignment, "private" if private else "public", constant)

    def entry(self, *, testing: bool = False) -> Entry:
        s = self.s
        start = s.pos
        name = s.symbol()
        self.values = {}
        s.expect("(")
        body = Block(self.arguments(")"))
        if testing and s.accept("->"):
            s.listed(parse_type)
        hints = None
        if s.accept("optimization_hints", "="):
            hints = attributes.hints(s)
        self.attributes()
        s.expect("{")
        self.fill(body, "return", {})
        s.discardable()
        return self.finished(name, body, hints, self.location() or self.here(start))

    def finished(self, name: str, body: Block, hints: HintsAttr | None, loc: Location) -> Entry:
        if body.ops[-1].name != "return":
            self.s.fail("a return as the last op of an entry")
        made = Entry(name, body, hints, loc=loc)
        give_scopes(made)
        return made

    def attributes(self) -> None:
        """``attributes {...}`` of a module or an entry, if it is there."""
        if self.s.accept("attributes"):
            self.s.discardable()

    # -- locations

    def here(self, pos: int) -> FileLoc:
        line, column = self.s.position(pos)
        return FileLoc(None, self.s.file, line, column)

    def location(self) -> Location | None:
        """``loc(...)``, if it is there."""
        return self.locations.read(self.s) if self.s.accept("loc", "(") else None

    # -- ops

    def fill(self, block: Block, implied: str, outer: dict[str, Value]) -> None:
        """The ops of a block up to its brace, ``implied`` if none is a terminator. Behind it ``outer`` is visible."""
        s = self.s
        self.nest()
        while not s.peek("}"):
            if s.pos >= len(s.text) or (block.ops and block.ops[-1].name in rules.TERMINATORS):
                s.fail("a closing brace")
            block.ops.append(self.op())
        if not block.ops or block.ops[-1].name not in rules.TERMINATORS:
            if not implied:
                s.fail("a yield as the last op of the body")
            block.ops.append(Operation(BY_NAME[implied], {"operands": []}, {}, [], [], self.here(s.pos)))
        s.expect("}")
        self.values = outer
        self.depth -= 1

    def nest(self) -> None:
        self.depth += 1
        if self.depth > _MAX_REGIONS:
            self.s.fail(f"regions nested at most {_MAX_REGIONS} deep")

    def op(self) -> Operation:
        s = self.s
        start = s.pos
        names = self.result_names()
        s.dialect()
        at = s.pos
        in_general = s.peek('"')
        name = generic.op_name(s) if in_general else s.word("an op")
        spec = BY_NAME.get(_OLD_NAMES.get(name, name))
        if spec is None or name in SECTIONS:
            s.fail("an op of CUDA Tile IR", at)
        if in_general:
            operands, known, types, regions = self.generic(spec, at)
        elif name in self.structured:
            operands, known, types, regions = self.structured[name](spec)
        else:
            operands, known, types = self.plain(spec, len(names))
            regions = []
        s.discardable()
        loc = self.location() or self.here(start)
        results = self.results(spec, names, types, start)
        op = Operation(spec, operands, known, results, regions, loc, s.position(start)[0])
        broken = rules.region_problem(op) if regions else None
        if broken is not None:
            s.fail(broken, start)
        return op

    def result_names(self) -> list[str]:
        """``%a, %b =`` or ``%a:2 =``."""
        s = self.s
        found: list[str] = []
        if not s.peek("%"):
            return found
        while True:
            name = s.value()
            counted = s.match(_COUNT)
            found += [name] if counted is None else [f"{name}#{i}" for i in range(min(int(counted[1]), 1 << 12))]
            if not s.accept(","):
                break
        s.expect("=")
        return found

    def results(self, spec: OpSpec, names: list[str], types: Sequence[Type], start: int) -> list[Value]:
        made = [Value(t) for t in types]
        if names and len(names) != len(made):
            self.s.fail(f"{len(made)} results of {spec.name}", start)
        for name, value in zip(names, made):
            self.define(name, value, start)
        return made

    def define(self, name: str, value: Value, start: int) -> None:
        if name in self.values:
            self.s.fail(f"another name than {name}, which is defined before", start)
        self.values[name] = value

    def plain(self, spec: OpSpec, count: int) -> tuple[dict[str, Any], dict[str, Any], list[Type]]:
        """Operands, attributes and result types of an op without regions that has ``count`` results."""
        if spec.name == "constant":
            type, value = attributes.constant(self.s)
            return {}, {"value": value}, [type]
        if spec.name == "make_tensor_view":
            return self.tensor_view()
        s, fields = self.s, Fields(self.s, spec, count, self.value, self.value_list)
        for part in PARTS[spec.name]:
            if spec.name == "print_tko" and "->" in part[-1] and not s.peek("->"):
                fields.results = [TOKEN]  # without a result in 13.1
                break
            fields.read(part)
        return fields.operands, fields.attributes, fields.results

    def tensor_view(self) -> tuple[dict[str, Any], dict[str, Any], list[Type]]:
        s = self.s
        base = self.value()
        dynamic: dict[str, list[Value]] = {}
        static: list[list[int | None]] = []
        for word, name in (("shape", "dynamicShape"), ("strides", "dynamicStrides")):
            s.expect(",", word, "=", "[")
            dynamic[name] = []
            numbers: list[int | None] = []
            while s.more(not numbers, "]"):
                if s.peek("%"):
                    dynamic[name].append(self.value())
                    numbers.append(None)
                else:
                    numbers.append(s.integer())
            static.append(numbers)
        s.discardable()
        s.expect(":")
        start = s.pos
        type = parse_type(s)
        if s.accept("->"):
            start = s.pos
            type = parse_type(s)
        if not isinstance(type, TensorView) or [list(type.shape), list(type.strides)] != static:
            s.fail("a tensor view with the extents and strides before it", start)
        return {"base": base, **dynamic}, {}, [type]

    def value(self) -> Value:
        start = self.s.pos
        name = self.s.value()
        found = self.values.get(name)
        if found is None:
            self.s.fail("a value that is defined before", start)
        return found

    def value_list(self) -> list[Value]:
        """Values with commas between them, at least one."""
        return self.s.listed(lambda s: self.value())

    def arguments(self, end: str) -> list[Value]:
        """``%a: type`` up to ``end``."""
        return list(self.s.sequence(end, self.argument))

    def argument(self, s: Scanner) -> Value:
        start = s.pos
        name = s.value()
        s.expect(":")
        found = Value(parse_type(s))
        s.discardable()
        self.define(name, found, start)
        self.location()
        return found

    # -- ops in MLIR's generic form

    def generic(self, spec: OpSpec, start: int) -> Parts:
        """The parts of an op behind its name, which is at ``start``."""
        s = self.s
        s.expect("(")
        values = s.sequence(")", lambda s: self.value())
        known = absent(spec) | {generic.SEGMENTS: None}
        self.generic_attributes(spec, known)
        regions = list(s.sequence(")", lambda s: self.region(""))) if s.accept("(") else []
        self.generic_attributes(spec, known)
        s.expect(":", "(")
        at = s.pos
        if s.sequence(")", parse_type) != tuple(v.type for v in values):
            s.fail(f"({', '.join(str(v.type) for v in values)}), the types of the operands", at)
        s.expect("->")
        types = list(s.sequence(")", parse_type)) if s.accept("(") else [parse_type(s)]
        operands = self.segments(spec, values, known.pop(generic.SEGMENTS), start)
        if spec.name == "constant" and known["value"] is not None:
            type, known["value"] = known["value"]
            if types != [type]:
                s.fail(f"a result of {type}", start)
        lacks = next((a.name for a in spec.attributes if known[a.name] is None and not a.optional), None)
        if lacks is not None:
            s.fail(f"the attribute {lacks} of {spec.name}", start)
        if "inbounds" in known:
            known["inbounds"] = known["inbounds"] or (False,) * len(operands["index"])
        if spec.results not in (None, len(types)) or spec.regions != len(regions):
            s.fail(f"{spec.results or 'some'} results and {spec.regions} regions of {spec.name}", start)
        return operands, known, types, regions

    def generic_attributes(self, spec: OpSpec, known: dict[str, Any]) -> None:
        """``<{...}>`` or ``{...}``, if it is there."""
        s = self.s
        if s.accept("<", "{"):
            known |= generic.attributes_of(s, spec, discardable=False)
            s.expect(">")
        elif s.accept("{"):
            known |= generic.attributes_of(s, spec, discardable=True)

    def segments(
        self, spec: OpSpec, values: Sequence[Value], sizes: Sequence[int] | None, start: int
    ) -> dict[str, Any]:
        """Operands by their names: ``sizes`` of them each, without it all that are left over for one."""
        flexible = [o for o in spec.operands if o.optional or o.variadic]
        if sizes is None and len(flexible) <= 1:
            sizes = [1 + (o in flexible) * (len(values) - len(spec.operands)) for o in spec.operands]
        if sizes is None or len(sizes) != len(spec.operands) or sum(sizes) != len(values):
            self.s.fail(f"{generic.SEGMENTS} of {', '.join(o.name for o in spec.operands) or 'no operands'}", start)
        found: dict[str, Any] = {}
        left = iter(values)
        for operand, size in zip(spec.operands, sizes):
            part = [next(left) for _ in range(size)]
            if not operand.variadic and size != 1 and (size or not operand.optional):
                self.s.fail(f"one operand {operand.name} of {spec.name}", start)
            found[operand.name] = part if operand.variadic else part[0] if part else None
        return found

    def region(self, implied: str) -> Block | None:
        """``{ ^bb0(%a: type): ... }``; None for one without ops."""
        s = self.s
        s.expect("{")
        outer = dict(self.values)
        body = Block()
        if s.accept("^"):
            s.name()
            body.args = self.arguments(")") if s.accept("(") else []
            s.expect(":")
        elif s.accept("}"):
            return None
        self.fill(body, implied, outer)
        return body

    # -- ops with regions

    def carried(self) -> tuple[list[str], list[Value]]:
        """``iter_values(%a = %b)``, if it is there: the arguments of the body, and what they are at first."""
        s = self.s
        names: list[str] = []
        values: list[Value] = []
        if s.accept("iter_values", "("):
            while s.more(not names, ")"):
                names.append(s.value())
                s.expect("=")
                values.append(self.value())
        return names, values

    def opened(self, names: Sequence[str], types: Sequence[Type], implied: str) -> Block:
        """The body of a loop, whose arguments have these names."""
        self.s.expect("{")
        outer = dict(self.values)
        body = Block([Value(t) for t in types])
        self.values.update(zip(names, body.args))
        self.fill(body, implied, outer)
        return body

    def for_(self, spec: OpSpec) -> Parts:
        s = self.s
        unsigned = s.accept("unsigned")
        induction = s.value()
        s.expect("in", "(")
        lower = self.value()
        s.expect("to")
        upper = self.value()
        s.expect(",", "step")
        step = self.value()
        s.expect(")")
        unsigned |= s.accept("unsigned")
        s.expect(":")
        type = parse_type(s)
        names, inits = self.carried()
        if names:
            s.expect("->", "(")
        types = list(s.sequence(")", parse_type)) if names else []
        body = self.opened([induction, *names], [type, *(v.type for v in inits)], "continue")
        operands = {"lowerBound": lower, "upperBound": upper, "step": step, "initValues": inits}
        return operands, {"unsignedCmp": unsigned}, types, [body]

    def loop(self, spec: OpSpec) -> Parts:
        s = self.s
        names, inits = self.carried()
        types: list[Type] = []
        if s.accept(":"):
            given = [] if s.peek("->") else s.listed(parse_type)
            types = s.listed(parse_type) if s.accept("->") else [] if inits else given
        body = self.opened(names, [v.type for v in inits], "continue")
        return {"initValues": inits}, {}, types, [body]

    def if_(self, spec: OpSpec) -> Parts:
        s = self.s
        condition = self.value()
        types: list[Type] = []
        if s.accept("->", "("):
            types = list(s.sequence(")", parse_type))
        then, other = self.opened([], [], "yield"), None
        if s.accept("else"):
            other = self.opened([], [], "yield")
        return {"condition": condition}, {}, types, [then, other]

    def fold(self, spec: OpSpec) -> Parts:
        s = self.s
        operands = self.value_list()
        s.expect("dim", "=")
        known: dict[str, Any] = {"dim": s.integer()}
        if spec.name == "scan":
            s.expect("reverse", "=")
            known["reverse"] = s.boolean()
        s.expect("identities", "=")
        known["identities"] = attributes.identities(s, [v.type for v in operands])
        s.discardable()
        s.expect(":")
        s.listed(parse_type)
        s.expect("->")
        types = s.listed(parse_type)
        outer = dict(self.values)
        if s.accept("("):
            body = Block(self.arguments(")"))
            s.expect("{")
            self.fill(body, "", outer)
        else:  # with its arguments inside, as cutile-rs writes it
            body = self.region("") or Block()
        return {"operands": operands}, known, types, [body]
