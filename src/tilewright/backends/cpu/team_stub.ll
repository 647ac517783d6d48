; How machine code has a team of threads run a launch, for `team_stub.py`, whose values stand for `$$name`: what
; `CpuExecutable._run_team` does, without a step in Python. `%team` is a record as `context.Team` describes.

; Nanoseconds of a clock, 0 where there is none.
define internal i64 @now(i32 %clock) {
  %time = alloca [2 x i64], align 8
  store [2 x i64] zeroinitializer, ptr %time
  %failed = call i32 $clock_gettime(i32 %clock, ptr %time)
  %rest.at = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; Have a team run `total` blocks, if one may be used now: that of the program while its threads run, or our own. Gives
; its record, where the records of its threads are, of which the launching one is the first; or null.
define internal ptr @together(ptr %own, ptr %theirs, ptr %values, i64 %total, i64 %x, i64 %y, i64 %z) {
  %may = load i64, ptr $free
  %is.free = icmp ne i64 %may, 0
  br i1 %is.free, label %main, label %no
main:
  %thread = call i64 $thread_ident()
  %is.main = icmp eq i64 %thread, $main_thread
  br i1 %is.main, label %choose, label %no
choose:
  %before = call i64 @now(i32 1)
  %current = load i64, ptr $current
  %is.own = icmp eq i64 %current, 0
  br i1 %is.own, label %outside, label %others
others:
  %is.unknown = icmp eq ptr %theirs, null
  br i1 %is.unknown, label %no, label %known
known:
  %number.at = getelementptr i64, ptr %theirs, i64 $team_number
  %number = load i64, ptr %number.at
  %in_parallel.theirs.at = getelementptr i64, ptr %theirs, i64 $team_in_parallel
  %in_parallel.theirs = load ptr, ptr %in_parallel.theirs.at
  %inside.theirs = call i32 %in_parallel.theirs()
  %is.inside = icmp ne i32 %inside.theirs, 0
  %is.other = icmp ne i64 %number, %current
  %is.none = or i1 %is.inside, %is.other
  br i1 %is.none, label %no, label %look
look:
  %last = load i64, ptr $last
  %pause = sub i64 %before, %last
  %longest = load i64, ptr $awake
  %is.awake = icmp sle i64 %pause, %longest
  br i1 %is.awake, label %outside, label %ask
ask:
  %member = load i32, ptr $member
  %cpu.time = call i64 @now(i32 %member)
  %cpu.time.after = call i64 @now(i32 %member)
  %runs = icmp ugt i64 %cpu.time.after, %cpu.time
  br label %outside
outside:
  %is.theirs = phi i1 [ false, %choose ], [ true, %look ], [ %runs, %ask ]
  %team = select i1 %is.theirs, ptr %theirs, ptr %own
  %is.missing = icmp eq ptr %team, null
  br i1 %is.missing, label %no, label %allowed
allowed:
  %ready.at = getelementptr i64, ptr %team, i64 $team_ready
  %ready = load ptr, ptr %ready.at
  %is.ready = load i64, ptr %ready
  %worth = icmp eq i64 %is.ready, 1
  br i1 %worth, label %idle, label %no
idle:
  %in_parallel.at = getelementptr i64, ptr %team, i64 $team_in_parallel
  %in_parallel = load ptr, ptr %in_parallel.at
  %inside = call i32 %in_parallel()
  %is.outside = icmp eq i32 %inside, 0
  br i1 %is.outside, label %count, label %no
count:
  %threads.at = getelementptr i64, ptr %team, i64 $team_threads
  %size.at = getelementptr i64, ptr %team, i64 $team_count
  %threads = load ptr, ptr %threads.at
  %size = load i64, ptr %size.at
  %found = call i32 %threads()
  %found.wide = sext i32 %found to i64
  %same = icmp eq i64 %found.wide, %size
  %enough = icmp sge i64 %total, %size
  %suits = and i1 %same, %enough
  br i1 %suits, label %run, label %no
run:
  %context.at = getelementptr i64, ptr %team, i64 $team_context
  %records.at = getelementptr i64, ptr %team, i64 $team_before
  %bytes.at = getelementptr i64, ptr %team, i64 $team_bytes
  %chunk.at = getelementptr i64, ptr %team, i64 $team_chunk
  %context = load ptr, ptr %context.at
  %records = load ptr, ptr %records.at
  %bytes = load i64, ptr %bytes.at
  %wanted = load i64, ptr %chunk.at
  %chunks = mul i64 %size, $chunks_per_thread
  %divided = udiv i64 %total, %chunks
  %shared = call i64 @llvm.umax.i64(i64 %divided, i64 1)
  %free.to.choose = icmp eq i64 %wanted, 0
  %chunk = select i1 %free.to.choose, i64 %shared, i64 %wanted
  %copied = call ptr $memmove(ptr %context, ptr %records, i64 %bytes)
  %total.at = getelementptr i64, ptr %context, i64 $field_total
  %chunk.of = getelementptr i64, ptr %context, i64 $field_chunk
  %x.at = getelementptr i64, ptr %context, i64 $field_grid_x
  %y.at = getelementptr i64, ptr %context, i64 $field_grid_y
  %z.at = getelementptr i64, ptr %context, i64 $field_grid_z
  store i64 %total, ptr %total.at
  store i64 %chunk, ptr %chunk.of
  store i64 %x, ptr %x.at
  store i64 %y, ptr %y.at
  store i64 %z, ptr %z.at
  %worker = getelementptr i8, ptr %context, i64 $worker_bytes
  %code.at = getelementptr i64, ptr %team, i64 $team_code
  %fork.at = getelementptr i64, ptr %team, i64 $team_fork
  %code = load ptr, ptr %code.at
  %fork = load ptr, ptr %fork.at
  store ptr %values, ptr %team
  call void %fork(ptr %code, ptr %team, i32 0, i32 0)
  %after = call i64 @now(i32 1)
  %taken = sub i64 %after, %before
  %blocks.at = getelementptr i64, ptr %worker, i64 $worker_blocks
  %began.at = getelementptr i64, ptr %worker, i64 $worker_began
  %left.at = getelementptr i64, ptr %worker, i64 $worker_left
  %blocks = load i64, ptr %blocks.at
  %began = load i64, ptr %began.at
  %left = load i64, ptr %left.at
  %busy = sub i64 %left, %began
  %all = mul i64 %busy, %total
  %least = mul i64 %blocks, $worth
  %is.worth = icmp sge i64 %all, %least
  %again = zext i1 %is.worth to i64
  store i64 %again, ptr %ready
  br i1 %is.theirs, label %judge, label %end
judge:
  store i64 %after, ptr $last
  call void @judge(i64 %busy, i64 %blocks, i64 %chunk, i64 %taken)
  br label %end
end:
  ret ptr %team
no:
  ret ptr null
}

; Say whether other launches may do the same: none where threads of the program's team were late. The launching thread was
; `busy` with so many `blocks` in a launch that has `taken` so long.
define internal void @judge(i64 %busy, i64 %blocks, i64 %chunk, i64 %taken) {
  %some = call i64 @llvm.umax.i64(i64 %blocks, i64 1)
  %chunks = mul i64 %busy, %chunk
  %last = udiv i64 %chunks, %some
  %others = sub i64 %taken, %busy
  %late = sub i64 %others, %last
  %part = udiv i64 %busy, $parts
  %more = call i64 @llvm.smax.i64(i64 %part, i64 $late)
  %was.late = icmp sgt i64 %late, %more
  %counted = select i1 %was.late, i64 %late, i64 0
  %free = select i1 %was.late, i64 0, i64 1
  %late.at = getelementptr i64, ptr $noted, i64 1
  store i64 %busy, ptr $noted
  store i64 %counted, ptr %late.at
  store i64 %free, ptr $free
  ret void
}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
