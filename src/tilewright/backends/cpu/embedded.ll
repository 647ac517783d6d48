; What embedded launches have in common, for `embedded.py`, whose values stand for `$$name`.

; A job lies on the heap, as tasks may start after the launch has ended. The records of all its threads follow it, from
; the next multiple of their size on.
%tilewright.job = type {
  ptr, ptr, ptr,  ; the code, its values and its context
  i64,            ; 3: bytes of scratch memory per thread
  i64,            ; 4: how many threads are at work, with $closed when nobody else may join
  i64,            ; 5: how many threads know of it
  i64,            ; 6: the number of the next thread that begins
  i64             ; 7: ranges of blocks
}

declare ptr @calloc(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @$yield()

; What the thread of this number does for a job.
define internal void @tilewright_work(ptr %job, i64 %number) {
  %values.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 1
  %context.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 2
  %bytes.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 3
  %ranges.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 7
  %code = load ptr, ptr %job
  %values = load ptr, ptr %values.at
  %context = load ptr, ptr %context.at
  %bytes = load i64, ptr %bytes.at
  %ranges = load i64, ptr %ranges.at
  %room = add i64 %bytes, 64
  %memory = call ptr @malloc(i64 %room)
  %start = ptrtoint ptr %memory to i64
  %beyond = add i64 %start, 63
  %aligned = and i64 %beyond, -64
  %scratch = inttoptr i64 %aligned to ptr
  %end = getelementptr %tilewright.job, ptr %job, i32 1
  %head = ptrtoint ptr %end to i64
  %behind = add i64 %head, $last_byte
  %records = and i64 %behind, -$worker_bytes
  %before = mul i64 %number, $worker_bytes
  %record = add i64 %records, %before
  %worker = inttoptr i64 %record to ptr
  %share.at = getelementptr i64, ptr %worker, i64 $worker_share
  %shares.at = getelementptr i64, ptr %worker, i64 $worker_shares
  store i64 %number, ptr %share.at
  store i64 %ranges, ptr %shares.at
  call void %code(ptr %values, ptr %context, ptr %scratch, ptr %worker)
  call void @free(ptr %memory)
  ret void
}

; Free a job that nobody else knows of.
define internal void @tilewright_leave(ptr %job) {
  %known.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 5
  %known = atomicrmw sub ptr %known.at, i64 1 acq_rel
  %last = icmp eq i64 %known, 1
  br i1 %last, label %alone, label %end
alone:
  call void @free(ptr %job)
  br label %end
end:
  ret void
}

; What a thread that was asked for does.
define internal void @tilewright_task(ptr %job) {
  %state.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 4
  %state = atomicrmw add ptr %state.at, i64 1 acq_rel
  %late = icmp sge i64 %state, $closed
  br i1 %late, label %end, label %join
join:
  %next.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 6
  %number = atomicrmw add ptr %next.at, i64 1 monotonic
  call void @tilewright_work(ptr %job, i64 %number)
  br label %end
end:
  %before = atomicrmw sub ptr %state.at, i64 1 acq_rel
  call void @tilewright_leave(ptr %job)
  ret void
}

; Ask for so many other threads, take part, and wait for those that do.
define internal void @tilewright_run(ptr %code, ptr %values, ptr %context, i64 %bytes, i64 %others, i64 %ranged, ptr %schedule, ptr %pool) {
  %everyone = add i64 %others, 1
  %size.of.records = mul i64 %everyone, $worker_bytes
  %size = add i64 %size.of.records, $head_bytes
  %job = call ptr @calloc(i64 1, i64 %size)
  %values.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 1
  %context.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 2
  %bytes.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 3
  %state.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 4
  %known.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 5
  %next.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 6
  %ranges.at = getelementptr %tilewright.job, ptr %job, i32 0, i32 7
  %ranges = mul i64 %everyone, %ranged
  store ptr %code, ptr %job
  store ptr %values, ptr %values.at
  store ptr %context, ptr %context.at
  store i64 %bytes, ptr %bytes.at
  store i64 %everyone, ptr %known.at
  store i64 1, ptr %next.at
  store i64 %ranges, ptr %ranges.at
  br label %ask
ask:
  %asked = phi i64 [ 0, %0 ], [ %more, %one ], [ %more, %refused ]
  %more = add i64 %asked, 1
  %all = icmp sge i64 %asked, %others
  br i1 %all, label %work, label %one
one:
  %no = call i32 %schedule(ptr %pool, ptr @tilewright_task, ptr %job)
  %granted = icmp eq i32 %no, 0
  br i1 %granted, label %ask, label %refused
refused:
  call void @tilewright_leave(ptr %job)
  br label %ask
work:
  call void @tilewright_work(ptr %job, i64 0)
  %before = atomicrmw or ptr %state.at, i64 $closed acq_rel
  br label %wait
wait:
  %now = load atomic i64, ptr %state.at acquire, align 8
  %done = icmp eq i64 %now, $closed
  br i1 %done, label %end, label %yield
yield:
  %yielded = call i32 @$yield()
  br label %wait
end:
  call void @tilewright_leave(ptr %job)
  ret void
}
