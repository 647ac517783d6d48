"""A launch as LLVM IR that calls nothing of Python: for programs of other compilers, which run it on their threads."""

from __future__ import annotations

import sys

from tilewright.backends.cpu.context import (
    CHUNKS_PER_THREAD,
    WORKER_BYTES,
    Field,
    Worker,
    blocks_alone,
    launch_record,
)
from tilewright.backends.native import Embedded

_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_CLOSED = 1 << 62  # in the state of a job: nobody else may join

# A job lies on the heap, as tasks may start after the launch has ended: the code, its values and context, bytes of
# scratch memory per thread, the number of threads at work with _CLOSED, that of those that know of it, the number of
# the next one that begins, of ranges of blocks, and, from the next multiple of their size on, the records of all.
_SHARED = f"""
declare ptr @calloc(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @{_YIELD}()

define internal void @tilewright_work(ptr %job, i64 %number) {{
  %code = load ptr, ptr %job
  %values.at = getelementptr i64, ptr %job, i64 1
  %values = load ptr, ptr %values.at
  %context.at = getelementptr i64, ptr %job, i64 2
  %context = load ptr, ptr %context.at
  %bytes.at = getelementptr i64, ptr %job, i64 3
  %bytes = load i64, ptr %bytes.at
  %size = add i64 %bytes, 64
  %memory = call ptr @malloc(i64 %size)
  %address = ptrtoint ptr %memory to i64
  %past = add i64 %address, 63
  %aligned = and i64 %past, -64
  %scratch = inttoptr i64 %aligned to ptr
  %start = ptrtoint ptr %job to i64
  %past.job = add i64 %start, {8 * 8 + WORKER_BYTES - 1}
  %first = and i64 %past.job, -{WORKER_BYTES}
  %before = mul i64 %number, {WORKER_BYTES}
  %record = add i64 %first, %before
  %worker = inttoptr i64 %record to ptr
  %share = getelementptr i64, ptr %worker, i64 {Worker.SHARE.value}
  store i64 %number, ptr %share
  %ranges.at = getelementptr i64, ptr %job, i64 7
  %ranges = load i64, ptr %ranges.at
  %shares = getelementptr i64, ptr %worker, i64 {Worker.SHARES.value}
  store i64 %ranges, ptr %shares
  call void %code(ptr %values, ptr %context, ptr %scratch, ptr %worker)
  call void @free(ptr %memory)
  ret void
}}

define internal void @tilewright_leave(ptr %job) {{
  %known.at = getelementptr i64, ptr %job, i64 5
  %known = atomicrmw sub ptr %known.at, i64 1 acq_rel
  %last = icmp eq i64 %known, 1
  br i1 %last, label %free, label %end
free:
  call void @free(ptr %job)
  br label %end
end:
  ret void
}}

define internal void @tilewright_task(ptr %job) {{
  %state.at = getelementptr i64, ptr %job, i64 4
  %state = atomicrmw add ptr %state.at, i64 1 acq_rel
  %late = icmp sge i64 %state, {_CLOSED}
  br i1 %late, label %end, label %work
work:
  %number.at = getelementptr i64, ptr %job, i64 6
  %number = atomicrmw add ptr %number.at, i64 1 monotonic
  call void @tilewright_work(ptr %job, i64 %number)
  br label %end
end:
  %before = atomicrmw sub ptr %state.at, i64 1 acq_rel
  call void @tilewright_leave(ptr %job)
  ret void
}}

define internal void @tilewright_run(ptr %code, ptr %values, ptr %context, i64 %bytes, i64 %others,
    i64 %ranged, ptr %schedule, ptr %pool) {{
entry:
  %all = add i64 %others, 1
  %records = mul i64 %all, {WORKER_BYTES}
  %size = add i64 %records, {8 * 8 + WORKER_BYTES}
  %job = call ptr @calloc(i64 1, i64 %size)
  store ptr %code, ptr %job
  %values.at = getelementptr i64, ptr %job, i64 1
  store ptr %values, ptr %values.at
  %context.at = getelementptr i64, ptr %job, i64 2
  store ptr %context, ptr %context.at
  %bytes.at = getelementptr i64, ptr %job, i64 3
  store i64 %bytes, ptr %bytes.at
  %state.at = getelementptr i64, ptr %job, i64 4
  %known.at = getelementptr i64, ptr %job, i64 5
  store i64 %all, ptr %known.at
  %number.at = getelementptr i64, ptr %job, i64 6
  store i64 1, ptr %number.at
  %ranges.at = getelementptr i64, ptr %job, i64 7
  %ranges = mul i64 %all, %ranged
  store i64 %ranges, ptr %ranges.at
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %following, %again ]
  %more = icmp slt i64 %i, %others
  br i1 %more, label %ask, label %work
ask:
  %refused = call i32 %schedule(ptr %pool, ptr @tilewright_task, ptr %job)
  %failed = icmp ne i32 %refused, 0
  br i1 %failed, label %alone, label %again
alone:
  call void @tilewright_leave(ptr %job)
  br label %again
again:
  %following = add i64 %i, 1
  br label %next
work:
  call void @tilewright_work(ptr %job, i64 0)
  %closing = atomicrmw or ptr %state.at, i64 {_CLOSED} acq_rel
  br label %wait
wait:
  %state = load atomic i64, ptr %state.at acquire, align 8
  %done = icmp eq i64 %state, {_CLOSED}
  br i1 %done, label %end, label %busy
busy:
  %yielded = call i32 @{_YIELD}()
  br label %wait
end:
  call void @tilewright_leave(ptr %job)
  ret void
}}
"""


def embedded(
    name: str, address: int, scratch_bytes: int, block_work: int | None, printer: int, *, ranges: bool
) -> Embedded:
    """The function ``i64 @name(ptr values, i64 x, i64 y, i64 z, i64 stream, i64 threads, ptr schedule, ptr pool)``.

    ``address`` is that of machine code which takes blocks until none is left; with ``ranges``, each thread begins with
    blocks of its own (``codegen/shares.py``). The result is 0, or the number of the ``assert`` that failed, from 1.
    """
    record = launch_record("%total", "%chunk", ("%x", "%y", "%z"), "0", printer=str(printer))
    stores = "\n".join(
        f"  %f{i} = getelementptr i64, ptr %context, i64 {i}\n  store i64 {word}, ptr %f{i}"
        for i, word in enumerate(record)
    )
    text = f"""
define i64 @{name}(ptr %values, i64 %x, i64 %y, i64 %z, i64 %stream, i64 %threads, ptr %schedule, ptr %pool) {{
  %context = alloca [{len(Field)} x i64], align 64
  %rows = mul i64 %x, %y
  %total = mul i64 %rows, %z
  %nothing = icmp eq i64 %total, 0
  br i1 %nothing, label %empty, label %count
empty:
  ret i64 0
count:
  %small = icmp sle i64 %total, {blocks_alone(block_work)}
  %fewer = icmp slt i64 %total, %threads
  %wanted = select i1 %fewer, i64 %total, i64 %threads
  %count.of = select i1 %small, i64 1, i64 %wanted
  %share = mul i64 %count.of, {CHUNKS_PER_THREAD}
  %part = sdiv i64 %total, %share
  %tiny = icmp slt i64 %part, 1
  %chunk = select i1 %tiny, i64 1, i64 %part
{stores}
  %others = sub i64 %count.of, 1
  call void @tilewright_run(ptr inttoptr (i64 {address} to ptr), ptr %values, ptr %context, i64 {scratch_bytes},
    i64 %others, i64 {int(ranges)}, ptr %schedule, ptr %pool)
  %failed = load i64, ptr %f{Field.FAILED.value}
  ret i64 %failed
}}
"""
    return Embedded(text, _SHARED, (), ())
