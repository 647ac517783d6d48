"""What compilation gives: machine code and how to launch it, in a form that the disk cache can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tilewright.backends.native.image import text_and_content, with_text
from tilewright.ir.gpu_parameters import Descriptor, TableParameter

APART = (1, 1, 1)  # blocks that are joined along each axis
BUSY = 90  # per cent of SMs, in all rounds of CTAs, where blocks are joined


@dataclass(frozen=True)
class GpuBinary:
    """Machine code of one kernel, and what a launch needs to know of it: the ``threads`` of a block among it, and that
    it waits for the kernel before it, and so may start beside that (programmatic ``dependent_launch``). ``texts`` are
    the stages of compilation."""

    code: bytes
    symbol: str
    threads: int
    num_ctas: int
    shared_bytes: int
    descriptors: tuple[dict[str, Any], ...]
    texts: Mapping[str, str] = field(default_factory=dict, compare=False)
    dependent_launch: bool = False


@dataclass(frozen=True)
class Artifact:
    """``formats`` say how the parameters are passed, ``hidden`` how many null pointers follow them.

    Those of ``tables`` that are passed by value have room for ``capacity`` arrays.
    A kernel that ``reports`` takes the address of its buffer after the other numbers, and one whose blocks need
    ``local_bytes`` each takes the address of those.
    A grid has ``ctas_of_block`` times as many CTAs as blocks, which are in clusters of those of the binary only. With
    several ``blocks_of_cta`` it has fewer, if there are many, and the kernel takes its width as the last number. Always
    fewer where so many blocks along each axis are ``joined``. Without code, the grid of a launch says which variant is
    compiled: one that joins, or runs in turn, as many as are ``joinable``, if so many per cent of SMs are ``busy``, or
    the one whose blocks stay ``APART``.
    With ``divisions`` there are variants in which so many CTAs of a cluster run a block, if each has an SM for itself.
    With ``depths`` there is a variant with so many stages for one block on each SM, for two and so on. With
    ``kept_rows`` there are variants that keep rows: the number of the parameter that is their length, the elements of a
    step, and for how many of these at most. With ``short_rows`` there are variants for rows that are shorter
    than their tile: its elements, and the numbers of the parameters that are their lengths. With ``grid_extent`` a
    parameter says how long the grid is along its first axis, see there. ``fallback`` says what the compiler had to do
    without.
    """

    binary: GpuBinary
    formats: tuple[str, ...]
    descriptors: tuple[Descriptor, ...]
    hidden: int
    reports: bool = False
    local_bytes: int = 0
    tables: tuple[TableParameter, ...] = ()
    capacity: int = 0
    blocks_of_cta: int = 1
    ctas_of_block: int = 1
    joined: tuple[int, int, int] = APART
    joinable: tuple[tuple[int, int, int], ...] = ()
    busy: tuple[int, ...] = ()
    divisions: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()
    kept_rows: tuple[int, ...] = ()
    grid_extent: tuple[int, ...] = ()
    short_rows: tuple[int, ...] = ()
    fallback: tuple[str, ...] = ()

    @property
    def has_variants(self) -> bool:
        """Whether grids or values of parameters decide which variant is launched."""
        return bool(self.joinable or self.divisions or any(self.depths) or self.kept_rows or self.short_rows)

    def to_bytes(self) -> bytes:
        fields = asdict(replace(self, binary=replace(self.binary, texts={})))
        del fields["binary"]["texts"]
        return with_text(fields, fields["binary"].pop("code"))

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        text, code = text_and_content(data)
        fields = _with_tuples(text)
        fields["binary"] = GpuBinary(code=code, **_with_tuples(fields["binary"]))
        fields["descriptors"] = _descriptors(fields)
        tables = map(_with_tuples, fields["tables"])
        fields["tables"] = tuple(TableParameter(**{**t, "descriptors": _descriptors(t)}) for t in tables)
        return cls(**fields)


def _descriptors(fields: Mapping[str, Any]) -> tuple[Descriptor, ...]:
    return tuple(Descriptor(**_with_tuples(d)) for d in fields["descriptors"])


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """``fields`` with tuples, which JSON does not have, in place of lists."""

    def changed(value: Any) -> Any:
        return tuple(map(changed, value)) if isinstance(value, list) else value

    return {name: changed(value) for name, value in fields.items()}
