"""Short texts of layouts, for tests of the gpu dialect."""

from __future__ import annotations

from collections.abc import Sequence

Bases = Sequence[Sequence[int]]


def layout(register: Bases, lane: Bases, warp: Bases = ()) -> str:
    """The text form of a layout of distributed tiles."""
    rows = (f"{name} = [{','.join(_image(b) for b in bases)}]" for name, bases in
            (("register", register), ("lane", lane), ("warp", warp)))  # fmt: skip
    return f"#layout<{', '.join(rows)}>"


def _image(basis: Sequence[int]) -> str:
    return f"[{','.join(map(str, basis))}]"


def line(*bits: int) -> list[list[int]]:
    """Bases of rank 1: an element each."""
    return [[b] for b in bits]


def flat(size: int) -> str:
    """The text form of a row-major layout in shared memory, of rank 1."""
    return f"#layout<offset = [{','.join(f'[{1 << i}]' for i in range(size.bit_length() - 1))}]>"
