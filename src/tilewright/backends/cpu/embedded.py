"""A launch as LLVM IR that calls nothing of Python: for programs of other compilers, which run it on their threads."""

from __future__ import annotations

import functools
import sys

from tilewright.backends.cpu.context import (
    CHUNKS_PER_THREAD,
    WORKER_BYTES,
    Field,
    blocks_alone,
    launch_record,
    named_words,
)
from tilewright.backends.native import Embedded, embedded_function
from tilewright.backends.native.body import Body, pointer
from tilewright.backends.native.templates import filled

_JOB_BYTES = 64
_VALUES = {
    "yield": "SwitchToThread" if sys.platform == "win32" else "sched_yield",
    "closed": 1 << 62,
    "worker_bytes": WORKER_BYTES,
    "last_byte": WORKER_BYTES - 1,
    "head_bytes": _JOB_BYTES + WORKER_BYTES,
}


@functools.cache
def _shared() -> str:
    """What the functions of all launches have in common."""
    return filled(__file__, "embedded.ll", **_VALUES, **named_words())


def embedded(
    name: str, address: int, scratch_bytes: int, block_work: int | None, printer: int, python: int, *, ranges: bool
) -> Embedded:
    """The function ``i64 @name(ptr values, i64 x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``.

    ``address`` is that of machine code which takes blocks until none is left, ``python`` that of a table as
    ``context.Python`` describes; with ``ranges``, each thread begins with blocks of its own (``codegen/drivers.ll``).
    The result is 0, or the number of the ``assert`` that failed, from 1.
    """
    body = Body()
    context = body.stack(f"[{len(Field)} x i64]", 64)
    total = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")
    body.unless(body.let(f"icmp eq i64 {total}, 0"), "empty")
    small = body.let(f"icmp sle i64 {total}, {blocks_alone(block_work)}")
    wanted = _smaller(body, total, "%threads")
    count = body.let(f"select i1 {small}, i64 1, i64 {wanted}")
    chunks = body.let(f"udiv i64 {total}, {body.let(f'mul i64 {count}, {CHUNKS_PER_THREAD}')}")
    chunk = body.let(f"select i1 {body.let(f'icmp eq i64 {chunks}, 0')}, i64 1, i64 {chunks}")
    record = launch_record(total, chunk, ("%x", "%y", "%z"), "0", printer=str(printer), python=str(python))
    for i, word in enumerate(record):
        body.store("i64", word, context, 8 * i)
    others = body.let(f"sub i64 {count}, 1")
    numbers = f"i64 {scratch_bytes}, i64 {others}, i64 {int(ranges)}"
    given = f"ptr {pointer(address)}, ptr %values, ptr {context}, {numbers}, ptr %schedule, ptr %pool"
    body.do(f"call void @tilewright_run({given})")
    failed = body.load("i64", context, 8 * Field.FAILED)
    return Embedded(embedded_function(name, body, f"ret i64 {failed}\nempty:\nret i64 0"), _shared(), (), ())


def _smaller(body: Body, one: str, other: str) -> str:
    return body.let(f"select i1 {body.let(f'icmp slt i64 {one}, {other}')}, i64 {one}, i64 {other}")
