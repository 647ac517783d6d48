"""A launch as LLVM IR that calls nothing of Python: for programs of other compilers, which run it on their threads."""

from __future__ import annotations

import functools
import sys

from tilewright.backends.cpu.context import (
    CHUNKS_PER_THREAD,
    WORKER_BYTES,
    Field,
    Worker,
    blocks_alone,
    launch_record,
    words_of,
)
from tilewright.backends.cpu.scratch import ALIGNMENT
from tilewright.backends.native import Embedded, embedded_function
from tilewright.backends.native.body import Body, pointer
from tilewright.backends.native.values import Record, Word

# A job: the code, its values and its context, bytes of scratch memory per thread, how many threads are at work, with
# _CLOSED when nobody else may join, how many know of it, the number of the next one that begins, and ranges of blocks.
# It lies on the heap, as tasks may start after the launch has ended. The records of all its threads follow it, from the
# next multiple of their size on.
_JOB = "code", "values", "context", "bytes", "state", "known", "next", "ranges"
_CLOSED = 1 << 62
_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_CALLED = "ptr @calloc(i64, i64)", "ptr @malloc(i64)", "void @free(ptr)", f"i32 @{_YIELD}()"


@functools.cache
def _shared() -> str:
    """What the functions of all launches have in common."""
    return "".join(f"declare {each}\n" for each in _CALLED) + _work() + _leave() + _task() + _run()


def _changed(job: Record, name: str, how: str, by: object) -> Word:
    """What a word of a job was before all threads see another one there."""
    return Word(job.body, job.body.op(f"atomicrmw {how} ptr", job.place(name), f"i64 {by} acq_rel"))


def _aligned(body: Body, address: str, unit: int) -> Word:
    return (Word(body, body.op("ptrtoint ptr", f"{address} to i64")) + (unit - 1)) & -unit


def _work() -> str:
    """What the thread of this number does for a job."""
    body = Body()
    job = Record(body, "%job", _JOB)
    memory = body.op(f"call ptr @malloc(i64 {job['bytes'] + ALIGNMENT})")
    scratch = body.op("inttoptr i64", f"{_aligned(body, memory, ALIGNMENT)} to ptr")
    record = _aligned(body, job.end(), WORKER_BYTES) + Word(body, "%number") * WORKER_BYTES
    worker = Record(body, body.op("inttoptr i64", f"{record} to ptr"), tuple(words_of(Worker)))
    worker["SHARE"], worker["SHARES"] = "%number", job["ranges"]
    given = f"ptr {job.load('values')}, ptr {job.load('context')}, ptr {scratch}, ptr {worker.address}"
    body.do(f"call void {job.load('code')}({given})")
    body.do(f"call void @free(ptr {memory})")
    return body.named("internal void @tilewright_work(ptr %job, i64 %number)", "ret void")


def _leave() -> str:
    """Free a job that nobody else knows of."""
    body = Body()
    with body.when(_changed(Record(body, "%job", _JOB), "known", "sub", 1).equals(1)):
        body.do("call void @free(ptr %job)")
    return body.named("internal void @tilewright_leave(ptr %job)", "ret void")


def _task() -> str:
    """What a thread that was asked for does."""
    body = Body()
    job = Record(body, "%job", _JOB)
    with body.when(_changed(job, "state", "add", 1) < _CLOSED):
        body.do(f"call void @tilewright_work(ptr %job, i64 {_changed(job, 'next', 'add', 1)})")
    _changed(job, "state", "sub", 1)
    body.do("call void @tilewright_leave(ptr %job)")
    return body.named("internal void @tilewright_task(ptr %job)", "ret void")


def _run() -> str:
    """Ask for so many other threads, take part, and wait for those that do."""
    body = Body()
    others = Word(body, "%others")
    everyone = others + 1
    size = everyone * WORKER_BYTES + (8 * len(_JOB) + WORKER_BYTES)
    job = Record(body, body.op(f"call ptr @calloc(i64 1, i64 {size})"), _JOB)
    for name in ("code", "values", "context"):
        body.store("ptr", f"%{name}", job.place(name))
    for name, value in {"bytes": "%bytes", "known": everyone, "next": 1, "ranges": everyone * "%ranged"}.items():
        job[name] = value
    with body.each(others):
        no = body.op(f"call i32 %schedule(ptr %pool, ptr @tilewright_task, ptr {job.address})")
        with body.when(body.op("icmp ne i32", no, 0)):
            body.do(f"call void @tilewright_leave(ptr {job.address})")
    body.do(f"call void @tilewright_work(ptr {job.address}, i64 0)")
    _changed(job, "state", "or", _CLOSED)
    body.jump("wait")
    body.label("wait")
    now = Word(body, body.op("load atomic i64, ptr", f"{job.place('state')} acquire", "align 8"))
    body.branch(now.equals(_CLOSED), "done", "yield")
    body.label("yield")
    body.op(f"call i32 @{_YIELD}()")
    body.jump("wait")
    body.label("done")
    body.do(f"call void @tilewright_leave(ptr {job.address})")
    taken = "ptr %code, ptr %values, ptr %context, i64 %bytes, i64 %others, i64 %ranged, ptr %schedule, ptr %pool"
    return body.named(f"internal void @tilewright_run({taken})", "ret void")


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
