"""Damages bytecode at random: the reader must accept it or say where it is damaged, and do nothing else.

``python tests/support/tile_ir_mutations.py 1000000`` (with ``src`` and ``tests`` on the path) reads that many files.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

from support.tile_ir_ops import every_op, multimem

from tilewright.tileir.bytecode import read, write
from tilewright.tileir.errors import BytecodeError, TileIRError
from tilewright.tileir.importer import import_entry
from tilewright.tileir.module import Module
from tilewright.tileir.optable import NEWEST
from tilewright.tileir.text import print_module


def sources() -> list[bytes]:
    """Files with every op, of every version."""
    return [*(write(every_op(minor)) for minor in range(1, NEWEST + 1)), write(multimem())]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """``data`` with one to three changes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind, at = rng.randrange(5), rng.randrange(len(out))
        if kind == 0:
            out[at] = rng.randrange(256)
        elif kind == 1:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del out[at : at + rng.randrange(1, 5)]
        elif kind == 3:
            out[at:at] = rng.randbytes(rng.randrange(1, 4))
        else:
            del out[at : at + rng.randrange(1, 2000)]
        out = out or bytearray(1)
    return bytes(out)


def outcome(data: bytes) -> str:
    """What comes of reading ``data``: ``refused``, or ``read``. Any other exception than ours is a fault."""
    try:
        module = read(data)
    except BytecodeError as error:
        if not 0 <= error.offset <= len(data):
            raise AssertionError(f"byte {error.offset} of {len(data)}") from error
        return "refused"
    for use in (write, print_module, _imported):
        with contextlib.suppress(TileIRError):
            use(module)
    return "read"


def _imported(module: Module) -> None:
    for entry in module.entries:
        import_entry(module, entry, checked=True)


def mutations(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    files = sources()
    return (mutated(rng.choice(files), rng) for _ in range(count))


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts = {"read": 0, "refused": 0}
    for i, data in enumerate(mutations(count, seed)):
        try:
            counts[outcome(data)] += 1
        except Exception:
            print(f"mutation {i} of seed {seed}: {data.hex()}", flush=True)
            raise
    print(f"{count} files: {counts['read']} read, {counts['refused']} refused")


if __name__ == "__main__":
    main()
