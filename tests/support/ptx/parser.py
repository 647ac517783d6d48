"""PTX as LLVM writes it: entries with their instructions in a row, calls of functions inlined."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

Operand = str | tuple[str, ...]


@dataclass(frozen=True)
class Instruction:
    """``opcode`` in parts; ``operands`` as text, those of a vector as a tuple. ``guard`` is a predicate and whether
    it must be false."""

    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    text: str


@dataclass
class Entry:
    """A kernel. ``registers`` has the bits of each register, 1 for predicates; ``parameters`` name and bytes."""

    name: str
    parameters: list[tuple[str, int]]
    registers: dict[str, int] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    constants: dict[str, bytes] = field(default_factory=dict)  # global arrays


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(
    r"(?:\.visible |\.weak )*\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$.]+)\s*\(([^)]*)\)([^{;]*)(\{|;)", re.DOTALL
)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(?:\s+\.ptr\s+(?:\.\w+\s+)?\.align\s+\d+)?\s+([\w$]+)")
_CONSTANT = re.compile(r"^\s*\.global \.align \d+ \.b8 ([\w$]+)\[\d+\] = \{([^}]*)\};", re.MULTILINE)
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
_LABEL = re.compile(r"(?:^|[;{\s])([A-Za-z_]\w*):(?!:)")
_NAME = re.compile(r"%?[A-Za-z_$][\w$]*|%\w+")
_BITS = {"pred": 1, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64, "u32": 32, "u64": 64, "s32": 32, "u16": 16}
_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "b32": 4, "u32": 4, "f32": 4, "b64": 8, "u64": 8, "f64": 8}


@dataclass(frozen=True)
class _Function:
    results: list[str]
    parameters: list[tuple[str, int]]
    body: str


def parse(text: str) -> dict[str, Entry]:
    """The entries of a module. ValueError for what is not understood."""
    text = _COMMENT.sub("", text)
    functions: dict[str, _Function] = {}
    entries = []
    for found in _FUNCTION.finditer(text):
        kind, results, name, parameters, _, end = found.groups()
        if end == ";":
            continue
        body = text[found.end() : _closing(text, found.end())]
        returned = [n for _, n in _PARAMETER.findall(results or "")]
        taken = [(n, _BYTES[t]) for t, n in _PARAMETER.findall(parameters)]
        functions[name] = _Function(returned, taken, body)
        if kind == "entry":
            entries.append(name)
    constants = {name: bytes(map(int, data.split(","))) for name, data in _CONSTANT.findall(text)}
    result = {}
    for name in entries:
        entry = Entry(name, functions[name].parameters, constants=constants)
        _Loader(entry, functions).load(functions[name].body, "", None)
        result[name] = entry
    return result


def _closing(text: str, start: int) -> int:
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if not depth:
            return i
    raise ValueError("a function does not end")


def _split(text: str) -> list[str]:
    """Operands, which commas separate outside of braces and brackets."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    if current.strip():
        parts.append(current.strip())
    return parts


class _Loader:
    def __init__(self, entry: Entry, functions: dict[str, _Function]) -> None:
        self.entry, self.functions, self.count = entry, functions, 0

    def load(self, body: str, prefix: str, end: str | None) -> None:
        """Append the statements of ``body``, with ``prefix`` before local names; ``ret`` goes to the label ``end``."""
        scopes: list[dict[str, str]] = [{}]  # new names of registers and labels
        at = 0
        body = re.sub(r"^\s*\.loc[^\n]*$", "", body, flags=re.MULTILINE)
        while at < len(body):
            if body[at].isspace() or body[at] == ";":
                at += 1
            elif body[at] == "{":
                scopes.append({})
                self.count += 1
                for label in _LABEL.findall(body[at : _closing(body, at + 1)]):
                    scopes[-1][label] = f"{label}.{self.count}"
                at += 1
            elif body[at] == "}":
                scopes.pop()
                at += 1
            elif (label := re.compile(r"([\w$]+):").match(body, at)) is not None:
                self.entry.labels[prefix + scopes[-1].get(label[1], label[1])] = len(self.entry.instructions)
                at = label.end()
            else:
                stop = body.index(";", at)
                self._statement(" ".join(body[at:stop].split()), prefix, end, scopes)
                at = stop + 1

    def _statement(self, text: str, prefix: str, end: str | None, scopes: list[dict[str, str]]) -> None:
        if (declared := _REGISTER.fullmatch(text)) is not None:
            self._declare(declared, prefix, scopes)
        elif text.startswith(".param"):
            kind, name = re.fullmatch(r"\.param \.(\w+) ([\w$]+)", text).groups()  # type: ignore[union-attr]
            self._register(name, 8 * _BYTES[kind], prefix, scopes)
        elif text.startswith(".pragma"):
            pass
        elif text.startswith("."):
            raise ValueError(f"unknown directive: {text}")
        else:
            self._instruction(text, prefix, end, scopes)

    def _declare(self, found: re.Match[str], prefix: str, scopes: list[dict[str, str]]) -> None:
        bits = _BITS[found[1]]
        for name in _split(found[2]):
            many = re.fullmatch(r"(%\w+)<(\d+)>", name)
            for one in [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]:
                self._register(one, bits, prefix, scopes)

    def _register(self, name: str, bits: int, prefix: str, scopes: list[dict[str, str]]) -> None:
        self.count += 1
        unique = f"{prefix}{name}" if len(scopes) == 1 else f"{prefix}{name}.{self.count}"
        scopes[-1][name] = unique
        self.entry.registers[unique] = bits

    def _instruction(self, text: str, prefix: str, end: str | None, scopes: list[dict[str, str]]) -> None:
        def renamed(name: str) -> str:
            for scope in reversed(scopes):
                if name in scope:
                    return scope[name]
            return name

        def operand(x: str) -> Operand:
            if x.startswith("{"):
                return tuple(_NAME.sub(lambda m: renamed(m[0]), part) for part in _split(x[1:-1]))
            return _NAME.sub(lambda m: renamed(m[0]), x)

        guard = None
        if (guarded := re.match(r"@(!?)(%?\w+) +", text)) is not None:
            guard = renamed(guarded[2]), bool(guarded[1])
            text = text[guarded.end() :]
        opcode, _, rest = text.partition(" ")
        parts = tuple(opcode.split("."))
        if parts[0] == "call":
            self._call(rest, prefix, renamed)
            return
        if parts[0] == "ret" and end is not None:
            self._add(("bra",), (end,), guard, text)
            return
        operands = tuple(operand(x) for x in _split(rest))
        if parts[0] == "bra":
            operands = (prefix + renamed(rest.strip()),)
        self._add(parts, operands, guard, text)

    def _add(
        self, opcode: tuple[str, ...], operands: tuple[Operand, ...], guard: tuple[str, bool] | None, text: str
    ) -> None:
        self.entry.instructions.append(Instruction(opcode, operands, guard, text))

    def _call(self, rest: str, prefix: str, renamed: Callable[[str], str]) -> None:
        parts = _split(rest)
        results = _split(parts[0][1:-1]) if parts[0].startswith("(") else []
        name = parts[1] if results else parts[0]
        arguments = _split(parts[-1][1:-1]) if parts[-1].startswith("(") and len(parts) > 1 + bool(results) else []
        if name not in self.functions:
            raise ValueError(f"call of the unknown function {name}")
        function = self.functions[name]
        self.count += 1
        inner = f"{prefix}{name}_{self.count}_"
        body = function.body
        for own, size in (*function.parameters, *((result, 8) for result in function.results)):
            self.entry.registers[inner + own] = max(16, 8 * size)
            body = re.sub(rf"(?<![\w$%]){re.escape(own)}(?![\w$])", lambda _, new=inner + own: new, body)
        for (parameter, _), argument in zip(function.parameters, arguments):
            self._add(("mov",), (inner + parameter, renamed(argument)), None, f"{parameter} of {name}")
        self.load(body, inner, inner + "end")
        self.entry.labels[inner + "end"] = len(self.entry.instructions)
        for result, into in zip(function.results, results):
            self._add(("mov",), (renamed(into), inner + result), None, f"result of {name}")
