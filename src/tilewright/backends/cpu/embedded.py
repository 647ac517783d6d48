"""A launch as LLVM IR that calls nothing of Python: for programs of other compilers, which run it on their threads."""

from __future__ import annotations

import functools
import sys

from tilewright.backends.cpu.context import CHUNKS_PER_THREAD, WORKER_BYTES, Field, Worker, blocks_alone, launch_record
from tilewright.backends.native import Embedded, embedded_function
from tilewright.backends.native.body import Body, pointer

_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_CLOSED = 1 << 62  # in the state of a job: nobody else may join

_CODE, _VALUES, _CONTEXT, _BYTES, _STATE, _KNOWN, _NUMBER, _RANGES = range(0, 64, 8)
_HEAD = 64

# A job lies on the heap, as tasks may start after the launch has ended: the code, its values and context, bytes of
# scratch memory per thread, the number of threads at work with _CLOSED, that of those that know of it, the number of
# the next one that begins, of ranges of blocks, and, from the next multiple of their size on, the records of all.


def _work() -> str:
    """What the thread ``%number`` does for a job."""
    body = Body()
    code, values, context = (body.load("ptr", "%job", at) for at in (_CODE, _VALUES, _CONTEXT))
    bytes_, ranges = (body.load("i64", "%job", at) for at in (_BYTES, _RANGES))
    memory = body.let(f"call ptr @malloc(i64 {body.let(f'add i64 {bytes_}, 64')})")
    scratch = _aligned(body, body.let(f"ptrtoint ptr {memory} to i64"), 64)
    first = _aligned(
        body, body.let(f"add i64 {body.let('ptrtoint ptr %job to i64')}, {_HEAD}"), WORKER_BYTES, as_="i64"
    )
    record = body.let(f"add i64 {first}, {body.let(f'mul i64 %number, {WORKER_BYTES}')}")
    worker = body.let(f"inttoptr i64 {record} to ptr")
    body.store("i64", "%number", worker, 8 * Worker.SHARE)
    body.store("i64", ranges, worker, 8 * Worker.SHARES)
    body.do(f"call void {code}(ptr {values}, ptr {context}, ptr {scratch}, ptr {worker})")
    body.do(f"call void @free(ptr {memory})")
    return body.function("internal void @tilewright_work(ptr %job, i64 %number)")


def _aligned(body: Body, address: str, unit: int, as_: str = "ptr") -> str:
    """``address``, or the next one that is a multiple of ``unit``."""
    found = body.let(f"and i64 {body.let(f'add i64 {address}, {unit - 1}')}, -{unit}")
    return body.let(f"inttoptr i64 {found} to ptr") if as_ == "ptr" else found


def _leave() -> str:
    """Free a job that nobody else knows of."""
    body = Body()
    known = body.let(f"atomicrmw sub ptr {body.at('%job', _KNOWN)}, i64 1 acq_rel")
    body.unless(body.let(f"icmp ne i64 {known}, 1"), "end")
    body.do("call void @free(ptr %job)")
    body.jump("end")
    body.label("end")
    return body.function("internal void @tilewright_leave(ptr %job)")


def _task() -> str:
    """What a thread that was asked for does."""
    body = Body()
    state = body.let(f"atomicrmw add ptr {body.at('%job', _STATE)}, i64 1 acq_rel")
    body.unless(body.let(f"icmp sge i64 {state}, {_CLOSED}"), "end")
    number = body.let(f"atomicrmw add ptr {body.at('%job', _NUMBER)}, i64 1 monotonic")
    body.do(f"call void @tilewright_work(ptr %job, i64 {number})")
    body.jump("end")
    body.label("end")
    body.let(f"atomicrmw sub ptr {body.at('%job', _STATE)}, i64 1 acq_rel")
    body.do("call void @tilewright_leave(ptr %job)")
    return body.function("internal void @tilewright_task(ptr %job)")


def _run() -> str:
    """Ask for ``%others`` threads, take part, and wait for those that do."""
    body = Body()
    everyone, i = body.let("add i64 %others, 1"), body.stack("i64")
    size = body.let(f"add i64 {body.let(f'mul i64 {everyone}, {WORKER_BYTES}')}, {_HEAD + WORKER_BYTES}")
    job = body.let(f"call ptr @calloc(i64 1, i64 {size})")
    ranges = body.let(f"mul i64 {everyone}, %ranged")
    fields = ("%code", _CODE), ("%values", _VALUES), ("%context", _CONTEXT)
    for value, at in fields:
        body.store("ptr", value, job, at)
    for number, at in (("%bytes", _BYTES), (everyone, _KNOWN), ("1", _NUMBER), (ranges, _RANGES)):
        body.store("i64", number, job, at)
    body.store("i64", 0, i)
    body.jump("next")
    body.label("next")
    asked = body.load("i64", i)
    body.unless(body.let(f"icmp sge i64 {asked}, %others"), "work")
    body.store("i64", body.let(f"add i64 {asked}, 1"), i)
    refused = body.let(f"call i32 %schedule(ptr %pool, ptr @tilewright_task, ptr {job})")
    body.unless(body.let(f"icmp eq i32 {refused}, 0"), "next")
    body.do(f"call void @tilewright_leave(ptr {job})")
    body.jump("next")
    body.label("work")
    body.do(f"call void @tilewright_work(ptr {job}, i64 0)")
    state = body.at(job, _STATE)
    body.let(f"atomicrmw or ptr {state}, i64 {_CLOSED} acq_rel")
    body.jump("wait")
    body.label("wait")
    now = body.let(f"load atomic i64, ptr {state} acquire, align 8")
    body.unless(body.let(f"icmp eq i64 {now}, {_CLOSED}"), "end")
    body.let(f"call i32 @{_YIELD}()")
    body.jump("wait")
    body.label("end")
    body.do(f"call void @tilewright_leave(ptr {job})")
    taken = "ptr %code, ptr %values, ptr %context, i64 %bytes, i64 %others, i64 %ranged, ptr %schedule, ptr %pool"
    return body.function(f"internal void @tilewright_run({taken})")


_DECLARED = f"""
declare ptr @calloc(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @{_YIELD}()
"""


@functools.cache
def _shared() -> str:
    return "\n".join((_DECLARED, _work(), _leave(), _task(), _run()))


def embedded(
    name: str, address: int, scratch_bytes: int, block_work: int | None, printer: int, *, ranges: bool
) -> Embedded:
    """The function ``i64 @name(ptr values, i64 x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``.

    ``address`` is that of machine code which takes blocks until none is left; with ``ranges``, each thread begins with
    blocks of its own (``codegen/shares.py``). The result is 0, or the number of the ``assert`` that failed, from 1.
    """
    body = Body()
    context = body.stack(f"[{len(Field)} x i64]", 64)
    total = body.let(f"mul i64 {body.let('mul i64 %x, %y')}, %z")
    body.unless(body.let(f"icmp eq i64 {total}, 0"), "empty")
    small = body.let(f"icmp sle i64 {total}, {blocks_alone(block_work)}")
    wanted = _smaller(body, total, "%threads")
    count = body.let(f"select i1 {small}, i64 1, i64 {wanted}")
    part = body.let(f"sdiv i64 {total}, {body.let(f'mul i64 {count}, {CHUNKS_PER_THREAD}')}")
    chunk = body.let(f"select i1 {body.let(f'icmp slt i64 {part}, 1')}, i64 1, i64 {part}")
    for i, word in enumerate(launch_record(total, chunk, ("%x", "%y", "%z"), "0", printer=str(printer))):
        body.store("i64", word, context, 8 * i)
    others = body.let(f"sub i64 {count}, 1")
    numbers = f"i64 {scratch_bytes}, i64 {others}, i64 {int(ranges)}"
    given = f"ptr {pointer(address)}, ptr %values, ptr {context}, {numbers}, ptr %schedule, ptr %pool"
    body.do(f"call void @tilewright_run({given})")
    failed = body.load("i64", context, 8 * Field.FAILED)
    return Embedded(embedded_function(name, body, f"ret i64 {failed}\nempty:\nret i64 0"), _shared(), (), ())


def _smaller(body: Body, one: str, other: str) -> str:
    return body.let(f"select i1 {body.let(f'icmp slt i64 {one}, {other}')}, i64 {one}, i64 {other}")
