"""Inline PTX in SIMT code. What any processor has, such as the coordinates of a thread, becomes C++; of the rest a mark
is left: kernels that lead there are refused, and libraries keep what nobody uses."""

from __future__ import annotations

import re

from tilewright.frontend.cpp.attributes import blank, closing, mask, without_comments
from tilewright.frontend.cpp.source import DEVICE, bodies

_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s|volatile|__volatile__|inline|goto)*(?=\()")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPERAND = re.compile(r'\s*(?:\[\w+\]\s*)?"(?P<constraint>[^"]*)"\s*(?=\()')
_BIT = "(1u << ::__tw_simt::lane())"
_COORDINATES = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}
_REGISTERS = {f"{name}.{axis}": f"{variable}.{axis}" for name, variable in _COORDINATES.items() for axis in "xyz"} | {
    "laneid": "::__tw_simt::lane()",
    "warpid": "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32",
    "smid": "::__tw_simt::sm_id()",
    "nsmid": "::__tw_simt_sm_count()",
    "lanemask_eq": _BIT,
    "lanemask_lt": f"{_BIT} - 1",
    "lanemask_le": f"{_BIT} * 2 - 1",
    "lanemask_ge": f"~({_BIT} - 1)",
    "lanemask_gt": f"~({_BIT} * 2 - 1)",
    "clock": "clock()",
    "clock64": "clock64()",
    "globaltimer": "::__tw_simt::nanoseconds()",
    "globaltimer_lo": "unsigned(::__tw_simt::nanoseconds())",
    "globaltimer_hi": "unsigned(::__tw_simt::nanoseconds() >> 32)",
}
# What `ptx.h` has, by their names without types and what makes no difference here.
_KNOWN = re.compile(
    r"add|sub|mul(?:_lo|_hi|_wide)?|mad_(?:lo|wide)|fma|min|max|abs|neg|and|x?or|not|sh[lr]|lop3|popc|clz|brev|bfind|"
    r"bf[ei]|bmsk_(?:clamp|wrap)|prmt|selp|mov|cvta?|setp_(?:eq|ne|lt|le|gt|ge|lo|ls|hi|hs)|ld(?:_ordered)?|st(?:_ordered)?|fence|hint|"
    r"atom_(?:add|exch|min|max|inc|dec|and|x?or|cas)|bar(?:_warp)?|nanosleep|trap|exit|activemask|match_(?:any|all)|"
    r"shfl_(?:up|down|bfly|idx)|vote_(?:ballot|any|all|uni)|redux_(?:add|min|max|and|x?or)|"
    r"elect|mbarrier_(?:init|inval|arrive(?:_expect_tx)?|try_wait(?:_parity)?)|cp_async_bulk"
)
_SAME = {"red": "atom", "membar": "fence", "barrier": "bar"}
_SAME |= dict.fromkeys(("prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol"), "hint")
_WITHOUT_RESULT = {"bar", "bar_warp", "nanosleep", "trap", "exit", "cp_async_bulk", "mbarrier_init", "mbarrier_inval"}
_ORDERED = {"volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
_NO_DIFFERENCE = re.compile(
    r"sync|aligned|weak|gpu|sys|cta|cluster|ca|cg|cs|cv|lu|wb|wt|nc|global|generic|const|local|to|rn|"
    r"shared(?:::(?:cta|cluster))?|mbarrier::complete_tx::bytes|L[12]::\w+|v[24]"
)
_KINDS = {"u": "unsigned {}", "b": "unsigned {}", "s": "signed {}"}
_WIDTHS = {8: "char", 16: "short", 32: "int", 64: "long long"}
_TYPES = {f"{kind}{width}": form.format(name) for kind, form in _KINDS.items() for width, name in _WIDTHS.items()}
_TYPES |= {"f32": "float", "f64": "double", "pred": "bool"}
_INSTRUCTION = re.compile(r"(?:@(?P<unless>!?)(?P<guard>\w+) )?(?P<name>[a-z][\w.:]*) ?(?P<operands>.*)")
_TOKEN = re.compile(r"\{[^}]*\}|\[[^]]*\]|[^,{}\s]+")
_DECLARATION = re.compile(r"\.reg \.(?P<type>\w+) (?P<names>[\w, ]+)")


class _Refused(Exception):
    """There is no C++ for it."""


def without_assembly(text: str) -> str:
    """``text`` with C++, or a mark, in place of each statement of inline assembly in SIMT code."""
    masked, found = mask(text), dict[int, tuple[int, int]]()
    for match, start, end in bodies(masked, DEVICE):
        if "tile" not in match.group():
            for each in _STATEMENT.finditer(masked, start, end):
                found[each.start()] = each.end() + 1, closing(masked, each.end(), "()")
    for begin, (start, end) in sorted(found.items(), reverse=True):
        made = _as_cpp(text[start:end], masked[start:end]) or "::__tw_no_assembly()"
        text = f"{text[:begin]}{made}{blank(text[begin : end + 1])}{text[end + 1 :]}"
    return text


def _as_cpp(text: str, masked: str) -> str | None:
    """The C++ for what stands between the brackets of a statement; None where there is none."""
    depth, ends = 0, list[int]()
    for i, c in enumerate(masked):
        depth += (c == "(") - (c == ")")
        if c == ":" and not depth:
            ends.append(i)
    parts = [text[i:j] for i, j in zip([0, *(e + 1 for e in ends)], [*ends, len(text)])]
    written = "".join(re.sub(r"\\(?:.|\n)", "\n", each[1:-1]) for each in _STRING.findall(parts[0]))  # without escapes
    statement = _Statement()
    for output, part in ((True, parts[1:2]), (False, parts[2:3])):
        for m in _OPERAND.finditer("".join(part)):
            value = m.string[m.end() : closing(m.string, m.end(), "()") + 1]
            statement.add_operand(m["constraint"], value, output=output)
    try:
        for each in without_comments(written.replace("%%", "%")).split(";"):
            statement.add(re.sub(r"\s+", " ", each).strip().lstrip("{} ").strip())
    except _Refused:
        return None
    return f"({{ {' '.join(statement.lines)} }})" if statement.lines else "(void)0"


class _Statement:
    """A statement of inline assembly: ``lines`` are its C++. Operands and registers become variables: ``names`` has
    them, and the bits of what may be an address, or 0."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, tuple[str, int]] = {}
        self.shared: tuple[int, ...] = ()  # the bits of addresses that are those of shared memory

    def add_operand(self, constraint: str, value: str, *, output: bool) -> None:
        """The next operand: what is read is so before anything is written."""
        variable = f"__tw_{len(self.names)}"
        self.lines.append(f"{'auto&&' if output else 'auto const'} {variable} = {value};")
        self.names[f"%{len(self.names)}"] = variable, 64 if "l" in constraint else 32 if "r" in constraint else 0

    def add(self, text: str) -> None:
        """An instruction or a declaration. _Refused for what there is no C++ for."""
        declared, found = _DECLARATION.fullmatch(text), _INSTRUCTION.fullmatch(text)
        if declared is not None:
            for name in re.findall(r"\w+", declared["names"]):
                if name in self.names or declared["type"] not in _TYPES:
                    raise _Refused
                self.names[name] = f"__tw_r_{name}", int(re.sub(r"\D", "", declared["type"]) or 0)
                self.lines.append(f"{_TYPES[declared['type']]} __tw_r_{name}{{}};")
        elif found is not None:
            made = " ".join(self._made(*found["name"].split("."), tokens=_TOKEN.findall(found["operands"])))
            guard = f"if ({found['unless']}{self._value(found['guard'])}) " if found["guard"] else ""
            self.lines.append(f"{guard}{{ {made} }}" if guard else made)
        elif text:
            raise _Refused

    def _made(self, opcode: str, *words: str, tokens: list[str]) -> list[str]:
        types = [word for word in words if word in _TYPES]
        shared = any(word.startswith("shared") for word in words)
        self.shared = () if not shared else (32,) if opcode == "cp" else (32, 64)
        rest = [word for word in words if word not in (*types, *_ORDERED) and not _NO_DIFFERENCE.fullmatch(word)]
        name = "_".join([_SAME.get(opcode, opcode), *rest])
        name = name.partition("_")[0] if name.startswith(("fence_", "hint_")) else name
        if name in ("ld", "st") and _ORDERED & {*words}:
            name += "_ordered"
        partly = (opcode == "cvta" and types != ["u64"]) or (opcode == "redux" and "f32" in types)
        if not _KNOWN.fullmatch(name) or partly or (name == "bar" and tokens != ["0"]):
            raise _Refused
        call = f"::__tw_ptx::op_{name}" + (f"<{', '.join(_TYPES[type] for type in types)}>" if types else "")
        if name in ("fence", "hint", "bar"):
            return [f"{call}();"]
        if opcode == "st":
            address, values = self._in(tokens[0]), self._several(tokens[1])
            return [f"{call}({address}, {self._in(value)}, {i});" for i, value in enumerate(values)]
        if opcode == "cvta" and "shared" in words:
            call = "::__tw_ptx::op_to_shared" if "to" in words else "::__tw_ptx::op_from_shared"
        if name in _WITHOUT_RESULT or opcode == "red":
            return [f"{call}({', '.join(self._in(token) for token in tokens)});"]
        places, predicate = self._several(tokens[0].partition("|")[0]), tokens[0].partition("|")[2]
        if name.startswith("ld"):
            return [self._set(place, f"{call}({self._in(tokens[1])}, {i})") for i, place in enumerate(places)]
        if len(places) > 1 and types:
            part, width = f"::__tw_ptx::op_part<{_TYPES[types[0]]}>", int(types[0][1:]) // len(places)
            return [self._set(p, f"{part}({self._in(tokens[1])}, {width}, {i})") for i, p in enumerate(places)]
        given = [self._in(each) for token in tokens[1:] for each in self._several(token)]
        call = call.replace("op_mov", "op_pack") if name == "mov" and len(given) > 1 else call
        given += [f"&{self._value(predicate)}"] if predicate else []
        return [self._set(places[0], f"{call}({', '.join(given)})")]

    def _several(self, token: str) -> list[str]:
        """The operands of a token: several in braces."""
        return re.findall(r"[^,{}\s]+", token) if token.startswith("{") else [token]

    def _set(self, place: str, value: str) -> str:
        return f"(void){value};" if place == "_" else f"::__tw_ptx::set({self._value(place)}, {value});"

    def _in(self, token: str) -> str:
        """What an instruction reads: a value, or an address, which takes 64 bits here."""
        address = re.fullmatch(r"\[ ?(?P<base>[^+ ]+) ?(?:\+ ?(?P<offset>-?\d+) ?)?\]", token)
        if address is None:
            return f"::__tw_ptx::in{{{self._value(token)}}}"
        bits = self.names.get(address["base"], ("", 0))[1]
        if bits not in (64, *self.shared):
            raise _Refused
        base = f"(unsigned long long){self._value(address['base'])}"
        if bits in self.shared:
            base = f"::__tw_ptx::op_from_shared{'_32' if bits == 32 else ''}({base})"
        return f"::__tw_ptx::in{{{base} + {address['offset'] or 0}}}"

    def _value(self, token: str) -> str:
        """The C++ of a variable, a special register or a number."""
        if token in self.names:
            return self.names[token][0]
        if token.startswith("%") and token[1:] in _REGISTERS:
            return f"({_REGISTERS[token[1:]]})"
        number = re.fullmatch(r"(-?(?:0[xX][\da-fA-F]+|\d+))U?|0[fF]([\da-fA-F]{8})", token)
        if number is None:
            raise _Refused
        return number[1] or f"0x{number[2]}u"
