"""What specializations are keyed on, in words, and why a kernel was compiled again.

``TILEWRIGHT_EXPLAIN=1`` prints it to the standard error stream at every compilation; ``kernel.inspect()`` returns it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence

from tilewright.frontend import signature as signatures
from tilewright.ir.core import Function
from tilewright.ir.location import Loc
from tilewright.ir.printer import print_function
from tilewright.records import dataclass
from tilewright.runtime.layout import ALIGNMENT
from tilewright.system.environment import switch


@dataclass(frozen=True)
class Fact:
    """One thing that machine code relies on: ``what`` of ``argument`` is ``value``."""

    argument: str
    what: str
    value: str

    def __str__(self) -> str:
        return self.value if self.what == "kind" else f"{self.what} {self.value}"


@dataclass(frozen=True)
class Compilation:
    """How a specialization came to be.

    ``origin`` is ``"compiled"`` or ``"disk cache"``; ``seconds`` is the time from the source to machine code that
    can be launched; ``reasons`` says why an earlier specialization would not do. ``taken`` says as what the backend
    took the kernel, where it is not the default one and nobody asked for it.
    """

    backend: str
    origin: str
    seconds: float
    facts: tuple[Fact, ...]
    reasons: tuple[str, ...]
    taken: str = ""

    @property
    def engine(self) -> str:
        """``backend``, under the name that it had before."""
        warnings.warn("Compilation.engine is now called Compilation.backend", DeprecationWarning, stacklevel=2)
        return self.backend

    def lines(self) -> Iterator[str]:
        """The compilation as text: how, on what it depends, and why it was needed."""
        how = "compiled" if self.origin == "compiled" else "loaded from the disk cache"
        yield f"backend {self.backend}, {how} in {self.seconds * 1e3:.1f} ms"
        if self.taken:
            yield f"  {self.taken}"
        yield "  keyed on"
        by_argument: dict[str, list[str]] = {}
        for fact in self.facts:
            by_argument.setdefault(fact.argument, []).append(str(fact))
        width = max(map(len, by_argument), default=0)
        for argument, texts in by_argument.items():
            yield f"    {argument:<{width}}  {'; '.join(texts)}"
        yield "  because"
        for reason in self.reasons:
            yield f"    {reason}"


def facts(names: Sequence[str], signature: signatures.Signature) -> tuple[Fact, ...]:
    """Everything that ``signature`` says of the arguments ``names``."""
    return tuple(fact for name, spec in zip(names, signature.arguments) for fact in _facts(name, spec))


def _facts(name: str, spec: signatures.ArgumentSpec) -> Iterator[Fact]:
    if isinstance(spec, signatures.ArraySpec):
        yield from _array_facts(name, spec)
    elif isinstance(spec, signatures.PointerSpec):
        yield Fact(name, "kind", f"pointer to {spec.dtype or 'void'}")
        yield Fact(name, "address", _divisibility(spec.divisible))
    elif isinstance(spec, signatures.ScalarSpec):
        yield Fact(name, "kind", f"{spec.dtype} number")
    elif isinstance(spec, signatures.ConstantSpec):
        yield Fact(name, "kind", "constant")
        yield Fact(name, "value", repr(spec.value))
    elif isinstance(spec, signatures.ListSpec):
        yield Fact(name, "kind", "list of arrays")
        yield from _array_facts(f"{name}[...]", spec.element)
    else:
        yield Fact(name, "kind", f"tuple of {len(spec.items)}")
        for i, item in enumerate(spec.items):
            yield from _facts(f"{name}[{i}]", item)


def _array_facts(name: str, spec: signatures.ArraySpec) -> Iterator[Fact]:
    yield Fact(name, "kind", f"{spec.dtype} array of rank {spec.ndim}")
    if spec.index_dtype.bitwidth != 32:
        yield Fact(name, "index dtype", spec.index_dtype.name)
    yield Fact(name, "address", _divisibility(spec.base_divisible))
    for extent in spec.extents():
        value = _divisibility(extent.divisor) if extent.known is None else f"= {extent.known}"
        yield Fact(name, f"{'extent' if extent.role == 'shape' else extent.role} {extent.axis}", value)


def _divisibility(divisor: int) -> str:
    return f"no multiple of {ALIGNMENT}" if divisor == 1 else f"a multiple of {divisor}"


def differences(old: Sequence[Fact], new: Sequence[Fact]) -> list[str]:
    """Which facts of ``new`` are not those of ``old``, by argument. Of a changed kind the details are left out."""
    before = {(f.argument, f.what): f.value for f in old}
    found: list[str] = []
    changed: set[str] = set()
    for fact in new:
        was = before.get((fact.argument, fact.what))
        if was == fact.value or _within(fact.argument, changed):
            continue
        if fact.what == "kind":
            changed.add(fact.argument)
        subject = "the argument" if fact.what == "kind" else fact.what
        was_text = "" if was is None else f"; it was {was}"
        found.append(f"argument '{fact.argument}': {subject} is {fact.value}{was_text}")
    kept = {(f.argument, f.what) for f in new}
    found += [
        f"argument '{f.argument}': {f.what} was {f.value}, and nothing is known of it now"
        for f in old
        if (f.argument, f.what) not in kept and not _within(f.argument, changed)
    ]
    return found


def _within(argument: str, names: Iterable[str]) -> bool:
    """Whether ``argument`` is one of ``names``, or an entry of one."""
    return any(argument == name or argument.startswith(f"{name}[") for name in names)


# How many kernel objects have compiled something, by where they are written: each has a cache of its own.
_OBJECTS: dict[tuple[str, str, int], int] = {}
_COMPARED = 32  # the last compilations that a new one is compared with: all would be quadratic in a sweep over shapes


def reasons(name: str, loc: Loc, backend: str, new: Sequence[Fact], old: Sequence[Compilation]) -> list[str]:
    """Why a kernel ``name``, written at ``loc``, is compiled for ``new``; ``old`` is what it compiled before."""
    same_backend = [c for c in old if c.backend == backend][-_COMPARED:]
    if same_backend:
        return min((differences(c.facts, new) for c in reversed(same_backend)), key=len)
    if old:
        return [f"the first launch on the backend {backend}; before it ran on {old[-1].backend}"]
    definition = name, loc.file, loc.line
    twins = _OBJECTS.get(definition, 0)
    _OBJECTS[definition] = twins + 1
    if twins:
        return [
            f"kernel object {twins + 1} made from {name}() at {loc.file}:{loc.line}, and every object compiles for "
            "itself: define the kernel once, and keep what replace_hints() returns"
        ]
    return ["the first launch"]


def wanted() -> bool:
    """Whether the environment asks for an explanation of each compilation."""
    return switch("TILEWRIGHT_EXPLAIN")


def show(name: str, number: int, compilation: Compilation) -> None:
    """Print what was compiled, and why, in one piece."""
    head, *rest = compilation.lines()
    sys.stderr.write("\n".join([f"tilewright: {name}() specialization {number}: {head}", *rest, ""]))


def show_ir(function: Function) -> None:
    """Print the Tile IR of what was compiled, in one piece, where the environment asks for it."""
    if switch("TILEWRIGHT_SHOW_IR"):
        sys.stderr.write(f"{print_function(function)}\n")
