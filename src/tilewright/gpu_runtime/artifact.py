"""What compilation gives: machine code and how to launch it, in a form that the disk cache can hold."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tilewright.ir.gpu_parameters import Descriptor, TableParameter


class Texts(Mapping[str, str]):
    """What ``make`` gives, called when it is looked at: printing IR takes as long as some passes over it."""

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._made = functools.cache(make)

    def __getitem__(self, title: str) -> str:
        return self._made()[title]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())


@dataclass(frozen=True)
class GpuBinary:
    """Machine code of one kernel, and what a launch needs to know of it. ``texts`` are the stages of compilation.

    A block is launched with ``threads`` or, where that is 0, with 32 for each of ``num_warps``.
    """

    code: bytes
    symbol: str
    num_warps: int
    num_ctas: int
    shared_bytes: int
    scratch_bytes: int
    descriptors: tuple[dict[str, Any], ...]
    threads: int = 0
    texts: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def block_threads(self) -> int:
        return self.threads or 32 * self.num_warps


@dataclass(frozen=True)
class Artifact:
    """``formats`` say how the parameters are passed, ``hidden`` how many null pointers follow them.

    Those of ``tables`` that are passed by value have room for ``capacity`` arrays.
    A kernel that ``reports`` takes the address of its buffer after the other numbers, and one whose blocks need
    ``local_bytes`` each takes the address of those.
    With ``depths`` there is a variant with so many stages for one block on each SM, for two and so on. ``fallback``
    says what the compiler had to do without.
    """

    binary: GpuBinary
    formats: tuple[str, ...]
    descriptors: tuple[Descriptor, ...]
    hidden: int
    reports: bool = False
    local_bytes: int = 0
    tables: tuple[TableParameter, ...] = ()
    capacity: int = 0
    depths: tuple[int, ...] = ()
    fallback: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        fields = asdict(replace(self, binary=replace(self.binary, texts={})))
        code = fields["binary"].pop("code")
        fields["binary"].pop("texts")
        head = json.dumps(fields).encode()
        return len(head).to_bytes(8, "little") + head + code

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        size = int.from_bytes(data[:8], "little")
        fields = json.loads(data[8 : 8 + size])
        binary = fields["binary"]
        binary["descriptors"] = tuple(binary["descriptors"])
        fields["binary"] = GpuBinary(code=data[8 + size :], **binary)
        fields["formats"] = tuple(fields["formats"])
        fields["descriptors"] = tuple(_descriptor(d) for d in fields["descriptors"])
        fields["tables"] = tuple(_table(t) for t in fields["tables"])
        fields["depths"] = tuple(fields["depths"])
        fields["fallback"] = tuple(fields["fallback"])
        return cls(**fields)


def _table(fields: dict[str, Any]) -> TableParameter:
    descriptors = tuple(map(_descriptor, fields["descriptors"]))
    return TableParameter(**{**fields, "descriptors": descriptors, "boxes": tuple(fields["boxes"])})


def _descriptor(fields: dict[str, Any]) -> Descriptor:
    """JSON has no tuples."""
    pairs = {name: tuple(map(tuple, fields[name])) for name in ("shape", "strides")}
    tuples = {name: tuple(fields[name]) for name in ("axes", "block")}
    return Descriptor(**{**fields, **pairs, **tuples})
