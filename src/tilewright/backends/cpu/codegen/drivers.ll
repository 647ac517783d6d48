; What runs the blocks of a grid, for `drivers.py`, whose values stand for `$$name`: `$$field_total` is the number of the
; word `Field.TOTAL` of the record of the launch, `$$worker_budget` that of `Worker.BUDGET`, and so on (`context.py`).

;; clock
; The nanoseconds of the monotonic clock, that of `time.monotonic_ns`.
declare i32 @clock_gettime(i32, ptr)
define internal i64 @clock() {
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

;; clock of Windows
declare i64 @GetTickCount64()
define internal i64 @clock() {
  %ticks = call i64 @GetTickCount64()
  %now = mul i64 %ticks, 1000000
  ret i64 %now
}

;; wait
; Let other threads run, after some iterations of a waiting loop for longer and longer.
declare i32 @$sleep(i32)
declare i32 @$yield()
define internal void @wait(i64 %count) noinline {
  %naps = sub i64 %count, $patient
  %sleeps = icmp sgt i64 %naps, 0
  br i1 %sleeps, label %sleep, label %yield
sleep:
  %longer = mul i64 %naps, $longer_us
  %wanted = add i64 %longer, $shortest_us
  %short = icmp slt i64 %longer, $longest_us
  %microseconds = select i1 %short, i64 %wanted, i64 $longest_us
  %nap = trunc i64 $nap to i32
  %slept = call i32 @$sleep(i32 %nap)
  ret void
yield:
  %yielded = call i32 @$yield()
  ret void
}

;; save_thread
; Give Python's lock away, if this thread is to look for signals.
define internal void @save_thread(ptr %context, ptr %worker) {
  %state.at = getelementptr i64, ptr %worker, i64 $worker_state
  store i64 0, ptr %state.at
  %table.at = getelementptr i64, ptr %context, i64 $field_python
  %table = load ptr, ptr %table.at
  %none = icmp eq ptr %table, null
  br i1 %none, label %done, label %save
save:
  %save.at = getelementptr ptr, ptr %table, i64 $python_save_thread
  %function = load ptr, ptr %save.at
  %state = call i64 %function()
  store i64 %state, ptr %state.at
  ret void
done:
  ret void
}

;; restore_thread
; What `save_thread` gave away.
define internal void @restore_thread(ptr %context, ptr %worker) {
  %state.at = getelementptr i64, ptr %worker, i64 $worker_state
  %state = load i64, ptr %state.at
  %none = icmp eq i64 %state, 0
  br i1 %none, label %done, label %restore
restore:
  %table.at = getelementptr i64, ptr %context, i64 $field_python
  %table = load ptr, ptr %table.at
  %restore.at = getelementptr ptr, ptr %table, i64 $python_restore_thread
  %function = load ptr, ptr %restore.at
  call void %function(i64 %state)
  ret void
done:
  ret void
}

;; attend
; What a poll does that finds its budget used up or the launch cancelled. Whether to stop.
define internal i1 @attend(ptr %context, ptr %worker, i64 %block, i64 %number) noinline cold nounwind {
  %cancelled.at = getelementptr i64, ptr %context, i64 $field_cancelled
  %before = load atomic i64, ptr %cancelled.at monotonic, align 8
  %cancelled = icmp ne i64 %before, 0
  br i1 %cancelled, label %stop, label %look
look:
  %budget.at = getelementptr i64, ptr %worker, i64 $worker_budget
  store i64 $budget, ptr %budget.at
  %state.at = getelementptr i64, ptr %worker, i64 $worker_state
  %state = load i64, ptr %state.at
  %deadline.at = getelementptr i64, ptr %context, i64 $field_deadline
  %deadline = load i64, ptr %deadline.at
  %either = or i64 %state, %deadline
  %neither = icmp eq i64 %either, 0
  br i1 %neither, label %onwards, label %ask
ask:
  %now = call i64 @clock()
  %limited = icmp ne i64 %deadline, 0
  %beyond = icmp uge i64 %now, %deadline
  %late = and i1 %limited, %beyond
  br i1 %late, label %timed_out, label %in_time
timed_out:
  %exchanged = cmpxchg ptr %cancelled.at, i64 0, i64 $cancellation_timed_out monotonic monotonic
  br label %stop
in_time:
  %helper = icmp eq i64 %state, 0
  br i1 %helper, label %onwards, label %launching
launching:
  %look.at = getelementptr i64, ptr %worker, i64 $worker_look
  %when = load i64, ptr %look.at
  %first = icmp eq i64 %when, 0
  br i1 %first, label %later, label %again
later:
  %since = phi i64 [%now, %launching], [%after, %handle]
  %next = add i64 %since, $look_ns
  store i64 %next, ptr %look.at
  br label %onwards
again:
  %early = icmp ult i64 %now, %when
  br i1 %early, label %onwards, label %handle
handle:
  %table.at = getelementptr i64, ptr %context, i64 $field_python
  %table = load ptr, ptr %table.at
  %check.at = getelementptr ptr, ptr %table, i64 $python_check_signals
  %check = load ptr, ptr %check.at
  call void @restore_thread(ptr %context, ptr %worker)
  %said = call i32 %check()
  call void @save_thread(ptr %context, ptr %worker)
  %after = call i64 @clock()
  %raised = icmp slt i32 %said, 0
  br i1 %raised, label %cancel, label %later
cancel:
  store atomic i64 $cancellation_raised, ptr %cancelled.at monotonic, align 8
  br label %stop
onwards:
  ret i1 false
stop:
  %poll.at = getelementptr i64, ptr %worker, i64 $worker_poll
  %poll = load i64, ptr %poll.at
  %unknown = icmp eq i64 %poll, 0
  br i1 %unknown, label %note, label %noted
note:
  store i64 %number, ptr %poll.at
  %block.at = getelementptr i64, ptr %worker, i64 $worker_block
  store i64 %block, ptr %block.at
  ret i1 true
noted:
  ret i1 true
}

;; run
; Run the blocks from `start` to the one before `end`; whether the launch is cancelled.
define internal i1 @run(ptr %values, ptr %context, ptr %scratch, ptr %worker, i64 %start, i64 %end, i64 %total) {
entry:
  %cancelled.at = getelementptr i64, ptr %context, i64 $field_cancelled
  %budget.at = getelementptr i64, ptr %worker, i64 $worker_budget
  br label %run
run:
  %number = phi i64 [%start, %entry], [%following, %polled]
  call void @block(ptr %values, ptr %context, ptr %scratch, ptr %worker, i64 %number)
  $waited
  %following = add i64 %number, 1
  %more = icmp ult i64 %following, %total
  br i1 %more, label %poll, label %done
poll:
  %cancelled = load atomic i64, ptr %cancelled.at monotonic, align 8
  %budget = load i64, ptr %budget.at
  %budget.left = sub i64 %budget, $weight
  store i64 %budget.left, ptr %budget.at
  %used = icmp slt i64 %budget.left, 0
  %ended = icmp ne i64 %cancelled, 0
  %looks = or i1 %used, %ended
  br i1 %looks, label %attend, label %polled, !prof !{!"branch_weights", i32 1, i32 4000}
attend:
  %stops = call i1 @attend(ptr %context, ptr %worker, i64 %number, i64 $between_blocks)
  br i1 %stops, label %stopped, label %polled
polled:
  %again = icmp ult i64 %following, %end
  br i1 %again, label %run, label %done
done:
  ret i1 false
stopped:
  ret i1 true
}

;; lock
define internal void @unlock(ptr %held) {
  %none = icmp eq ptr %held, null
  br i1 %none, label %done, label %free
free:
  store atomic i64 0, ptr %held release, align 8
  ret void
done:
  ret void
}

; Give the lock `held` back, if there is one, and take another. Whether no block updates memory by atomic instructions: none
; begins to, then, before this lock is free.
define internal i1 @lock(ptr %exclusion, ptr %lock, ptr %held) noinline {
entry:
  call void @unlock(ptr %held)
  br label %try
try:
  %before = atomicrmw xchg ptr %lock, i64 1 seq_cst
  %free = icmp eq i64 %before, 0
  br i1 %free, label %taken, label %busy
busy:
  %count = phi i64 [0, %try], [%following, %look]
  %following = add i64 %count, 1
  %long = icmp sge i64 %following, $spins
  br i1 %long, label %yield, label %look
look:
  %state = load atomic i64, ptr %lock monotonic, align 8
  %freed = icmp eq i64 %state, 0
  br i1 %freed, label %try, label %busy
yield:
  call void @wait(i64 0)
  br label %try
taken:
  %swapping.at = getelementptr i64, ptr %exclusion, i64 $exclusion_swapping
  %swapping = load atomic i64, ptr %swapping.at seq_cst, align 8
  %alone = icmp eq i64 %swapping, 0
  ret i1 %alone
}

;; join
  call void @count(ptr %context, i64 1)

;; part
  call void @count(ptr %context, i64 -1)

;; count
; One more worker, or one less, whose blocks update memory by locks ($exclusion_locking) or by atomic instructions: these
; begin when no block has a lock that it took before.
define internal void @count(ptr %context, i64 %change) {
entry:
  %table.at = getelementptr i64, ptr %context, i64 $field_python
  %table = load ptr, ptr %table.at
  %exclusion.at = getelementptr i64, ptr %table, i64 $python_exclusion
  %exclusion = load ptr, ptr %exclusion.at
  %workers.at = getelementptr i64, ptr %exclusion, i64 $workers
  %before = atomicrmw add ptr %workers.at, i64 %change seq_cst
  %locking.at = getelementptr i64, ptr %exclusion, i64 $exclusion_locking
  %locking = load atomic i64, ptr %locking.at seq_cst, align 8
  %none = icmp eq i64 %locking, 0
  %locks.too = icmp eq i64 $workers, $exclusion_locking
  %leaves = icmp slt i64 %change, 0
  %either = or i1 %none, %locks.too
  %ready = or i1 %either, %leaves
  br i1 %ready, label %done, label %look
look:
  %number = phi i64 [0, %entry], [%number, %held], [%following, %next]
  %words = mul i64 %number, $lock_words
  %lock = add i64 %words, $exclusion_locks
  %lock.at = getelementptr i64, ptr %exclusion, i64 %lock
  %state = load atomic i64, ptr %lock.at seq_cst, align 8
  %free = icmp eq i64 %state, 0
  br i1 %free, label %next, label %held
held:
  call void @wait(i64 0)
  br label %look
next:
  %following = add i64 %number, 1
  %more = icmp ult i64 %following, $locks
  br i1 %more, label %look, label %done
done:
  ret void
}

;; begin
  %budget.at = getelementptr i64, ptr %worker, i64 $worker_budget
  store i64 $budget, ptr %budget.at
  %poll.at = getelementptr i64, ptr %worker, i64 $worker_poll
  store i64 0, ptr %poll.at
  %look.at = getelementptr i64, ptr %worker, i64 $worker_look
  store i64 0, ptr %look.at
  %waited.at = getelementptr i64, ptr %worker, i64 $worker_waited
  store i64 0, ptr %waited.at
  $forget_panels
  $join
  $enter
  %total.at = getelementptr i64, ptr %context, i64 $field_total
  %total = load i64, ptr %total.at

;; end
  $leave
  $part
  store atomic i64 $ended, ptr %waited.at release, align 8

;; work
; Take blocks until none is left, beside other threads. Each thread begins with a range of blocks of its own, the same
; one in every launch of a grid, so that what a launch has left in the caches of a processor serves the next one there. A
; thread that has none left takes those of the others. Where all threads share one range, blocks begin in the order of
; their numbers.
define internal void @work(ptr %values, ptr %context, ptr %scratch, ptr %worker) {
begin:
  $begin
  %chunk.at = getelementptr i64, ptr %context, i64 $field_chunk
  %chunk = load i64, ptr %chunk.at
  %share.at = getelementptr i64, ptr %worker, i64 $worker_share
  %own = load i64, ptr %share.at
  %shares.at = getelementptr i64, ptr %worker, i64 $worker_shares
  %shares = load i64, ptr %shares.at
  %back = mul i64 %own, -$worker_bytes
  %records = getelementptr i8, ptr %worker, i64 %back
  %several = icmp ne i64 %shares, 0
  %ranges = select i1 %several, i64 %shares, i64 1
  %begins.with = select i1 %several, i64 %own, i64 0
  %but.one = sub i64 %ranges, 1
  %rounded = add i64 %total, %but.one
  %size = udiv i64 %rounded, %ranges
  %blocks.at = getelementptr i64, ptr %worker, i64 $worker_blocks
  br label %share
share:
  %range = phi i64 [%begins.with, %begin], [%range.next, %used_up]
  %visited = phi i64 [1, %begin], [%visited.next, %used_up]
  %before = mul i64 %range, $worker_bytes
  %record = getelementptr i8, ptr %records, i64 %before
  %taken.at = getelementptr i64, ptr %record, i64 $worker_taken
  %next.at = getelementptr i64, ptr %context, i64 $field_next
  %counter = select i1 %several, ptr %taken.at, ptr %next.at
  %first = mul i64 %range, %size
  %left = sub i64 %total, %first
  %fewer = icmp slt i64 %left, %size
  %blocks = select i1 %fewer, i64 %left, i64 %size
  br label %take
take:
  %taken = atomicrmw add ptr %counter, i64 %chunk monotonic
  %wanted = add i64 %taken, %chunk
  %inside = icmp slt i64 %wanted, %blocks
  %until = select i1 %inside, i64 %wanted, i64 %blocks
  %found = icmp slt i64 %taken, %blocks
  br i1 %found, label %run, label %used_up
used_up:
  %following = add i64 %range, 1
  %ahead = icmp ult i64 %following, %ranges
  %range.next = select i1 %ahead, i64 %following, i64 0
  %visited.next = add i64 %visited, 1
  %others = icmp ult i64 %visited, %ranges
  br i1 %others, label %share, label %end
run:
  %blocks.before = load i64, ptr %blocks.at
  %count = sub i64 %until, %taken
  %blocks.since = add i64 %blocks.before, %count
  store i64 %blocks.since, ptr %blocks.at
  %start = add i64 %first, %taken
  %stop = add i64 %first, %until
  %stops = call i1 @run(ptr %values, ptr %context, ptr %scratch, ptr %worker, i64 %start, i64 %stop, i64 %total)
  br i1 %stops, label %end, label %take
end:
  $end
  ret void
}

;; waited
; The end of a block that may have a waiting loop: see `polls.emit_waited`.
  %waited.at = getelementptr i64, ptr %worker, i64 $worker_waited
  %progress.at = getelementptr i64, ptr %worker, i64 $worker_progress
  %progress.before = load i64, ptr %progress.at
  %progress = add i64 %progress.before, 1
  store atomic i64 %progress, ptr %progress.at monotonic, align 8
  store atomic i64 0, ptr %waited.at release, align 8

;; declare x86
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.sfence()

;; declare arm
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

;; declare other

; The thread that launches a kernel may have another rounding mode, or flush subnormal numbers, because a library asked
; for that; the pool's threads do not. All of them compute alike only in an environment of our own: to nearest, subnormal
; numbers kept, no traps.

;; enter x86
  %saved = alloca i32
  %fresh = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  store i32 8064, ptr %fresh
  call void @llvm.x86.sse.ldmxcsr(ptr %fresh)

;; leave x86
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)

;; enter arm
  %saved = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)

;; leave arm
  call void @llvm.aarch64.set.fpcr(i64 %saved)

;; enter other

;; leave other

;; fence x86
; Order the non-temporal stores so far before all that follow, which other processors than x86 do anyway.
  call void @llvm.x86.sse.sfence()

;; kernel
; A thread beside the launching one is counted before it looks how many blocks there are: that one looks in the other
; order.
define void @$symbol(ptr %values, ptr %context, ptr %scratch, ptr %worker) {
  %state.at = getelementptr i64, ptr %worker, i64 $worker_state
  store i64 0, ptr %state.at
  %share.at = getelementptr i64, ptr %worker, i64 $worker_share
  %share = load i64, ptr %share.at
  %back = mul i64 %share, -$worker_bytes
  %first = getelementptr i8, ptr %worker, i64 %back
  %helpers.at = getelementptr i64, ptr %first, i64 $worker_helpers
  %before = atomicrmw add ptr %helpers.at, i64 1 seq_cst
  fence seq_cst
  call void @work(ptr %values, ptr %context, ptr %scratch, ptr %worker)
  %after = atomicrmw sub ptr %helpers.at, i64 1 seq_cst
  ret void
}

;; kernel_caller
; The launching thread, the first worker: when it has found no more blocks, it lets no more workers begin, and waits for
; those that have. It handles signals meanwhile; no block of this thread is cancelled then.
define void @kernel_caller(ptr %values, ptr %context, ptr %scratch, ptr %worker) {
entry:
  call void @save_thread(ptr %context, ptr %worker)
  %began = call i64 @clock()
  %began.at = getelementptr i64, ptr %worker, i64 $worker_began
  store i64 %began, ptr %began.at
  call void @work(ptr %values, ptr %context, ptr %scratch, ptr %worker)
  %left = call i64 @clock()
  %left.at = getelementptr i64, ptr %worker, i64 $worker_left
  store i64 %left, ptr %left.at
  %total.at = getelementptr i64, ptr %context, i64 $field_total
  store atomic i64 0, ptr %total.at seq_cst, align 8
  fence seq_cst
  %helpers.at = getelementptr i64, ptr %worker, i64 $worker_helpers
  %poll.at = getelementptr i64, ptr %worker, i64 $worker_poll
  %poll = load i64, ptr %poll.at
  br label %wait
wait:
  %count = phi i64 [-$spins, %entry], [%following, %busy], [%following, %rest]
  %following = add i64 %count, 1
  %helpers = load atomic i64, ptr %helpers.at acquire, align 8
  %none = icmp eq i64 %helpers, 0
  br i1 %none, label %joined, label %busy
busy:
  %spins = icmp slt i64 %count, 0
  br i1 %spins, label %wait, label %rest
rest:
  call void @wait(i64 %count)
  %stops = call i1 @attend(ptr %context, ptr %worker, i64 0, i64 $between_blocks)
  br label %wait
joined:
  store i64 %poll, ptr %poll.at
  call void @restore_thread(ptr %context, ptr %worker)
  ret void
}

;; kernel_alone
; The launching thread, which runs all blocks.
define void @kernel_alone(ptr %values, ptr %context, ptr %scratch, ptr %worker) {
  call void @save_thread(ptr %context, ptr %worker)
  $begin
  %stops = call i1 @run(ptr %values, ptr %context, ptr %scratch, ptr %worker, i64 0, i64 %total, i64 %total)
  $end
  call void @restore_thread(ptr %context, ptr %worker)
  ret void
}

;; kernel_team
; What each thread of the team of another runtime calls, with a record as `context.Team` describes. Thread 0 is the
; launching one, and has Python's lock.
define void @kernel_team(ptr %team) {
  %number.at = getelementptr i64, ptr %team, i64 $team_number
  %number.of = load ptr, ptr %number.at
  %narrow = call i32 %number.of()
  %number = sext i32 %narrow to i64
  %records.at = getelementptr i64, ptr %team, i64 $team_records
  %records = load ptr, ptr %records.at
  %before = mul i64 %number, $worker_bytes
  %worker = getelementptr i8, ptr %records, i64 %before
  %memory.at = getelementptr i64, ptr %team, i64 $team_scratch
  %memory = load ptr, ptr %memory.at
  %stride.at = getelementptr i64, ptr %team, i64 $team_stride
  %stride = load i64, ptr %stride.at
  %offset = mul i64 %number, %stride
  %scratch = getelementptr i8, ptr %memory, i64 %offset
  %values.at = getelementptr i64, ptr %team, i64 $team_values
  %values = load ptr, ptr %values.at
  %context.at = getelementptr i64, ptr %team, i64 $team_context
  %context = load ptr, ptr %context.at
  %launching = icmp eq i64 %number, 0
  br i1 %launching, label %caller, label %helper
caller:
  call void @kernel_caller(ptr %values, ptr %context, ptr %scratch, ptr %worker)
  ret void
helper:
  %count.at = getelementptr i64, ptr %team, i64 $team_count
  %count = load i64, ptr %count.at
  %wanted = icmp slt i64 %number, %count
  br i1 %wanted, label %work, label %done
work:
  call void @$symbol(ptr %values, ptr %context, ptr %scratch, ptr %worker)
  ret void
done:
  ret void
}

;; watch
; A look at blocks that may wait for each other, which the thread that launches takes again and again; `watch` is a
; record as `context.Watch` describes, of workers that have all begun. How many more workers are needed, as all wait and
; blocks are left that have not begun, or that no block can progress. All wait also where they change memory meanwhile, as
; those that count their iterations there: when for long no block has begun and all were in waiting loops. Where the block
; has failed that the others may wait for, it cancels the launch.
define i64 @${symbol}_watch(ptr %context, ptr %watch) {
entry:
  %count.at = getelementptr i64, ptr %watch, i64 $watch_count
  %count = load i64, ptr %count.at
  %rows = getelementptr i64, ptr %watch, i64 $watch_words
  br label %look
; How many workers wait, 0 where another one that is left does not; whether all that are left are in waiting loops; what
; all have changed; and the fewest iterations that one of them has waited since memory changed.
look:
  %number = phi i64 [0, %entry], [%number.next, %look]
  %all.wait = phi i1 [true, %entry], [%all.wait.next, %look]
  %all.loop = phi i1 [true, %entry], [%all.loop.next, %look]
  %waiting.before = phi i64 [0, %entry], [%waiting.next, %look]
  %progress.before = phi i64 [0, %entry], [%progress, %look]
  %fewest.before = phi i64 [9223372036854775807, %entry], [%fewest, %look]
  %words = mul i64 %number, 2
  %row = getelementptr i64, ptr %rows, i64 %words
  %worker = load ptr, ptr %row
  %since.at = getelementptr i64, ptr %row, i64 1
  %since = load i64, ptr %since.at
  %waited.at = getelementptr i64, ptr %worker, i64 $worker_waited
  %waited = load atomic i64, ptr %waited.at acquire, align 8
  %changes.at = getelementptr i64, ptr %worker, i64 $worker_progress
  %changes = load atomic i64, ptr %changes.at acquire, align 8
  %waits = icmp sge i64 %waited, $waits
  %has.ended = icmp eq i64 %waited, $ended
  %longer = sub i64 %waited, %since
  %less = icmp slt i64 %longer, %fewest.before
  %fewer = and i1 %waits, %less
  %either = or i1 %waits, %has.ended
  %all.wait.next = and i1 %all.wait, %either
  %loops = icmp ne i64 %waited, 0
  %all.loop.next = and i1 %all.loop, %loops
  %one = zext i1 %waits to i64
  %waiting.next = add i64 %waiting.before, %one
  %progress = add i64 %progress.before, %changes
  %fewest = select i1 %fewer, i64 %longer, i64 %fewest.before
  %number.next = add i64 %number, 1
  %others = icmp ult i64 %number.next, %count
  br i1 %others, label %look, label %looked
looked:
  %waiting = select i1 %all.wait.next, i64 %waiting.next, i64 0
  %now = call i64 @clock()
  %total.at = getelementptr i64, ptr %context, i64 $field_total
  %total = load i64, ptr %total.at
  %next.at = getelementptr i64, ptr %context, i64 $field_next
  %next = load atomic i64, ptr %next.at acquire, align 8
  %left = sub i64 %total, %next
  %blocks.left = icmp sgt i64 %left, 0
  %next.then.at = getelementptr i64, ptr %watch, i64 $watch_next
  %next.then = load i64, ptr %next.then.at
  %next.same = icmp eq i64 %next.then, %next
  store i64 %next, ptr %next.then.at
  %loop.same = and i1 %all.loop.next, %next.same
  %began.at = getelementptr i64, ptr %watch, i64 $watch_began
  %began.then = load i64, ptr %began.at
  %began = select i1 %loop.same, i64 %began.then, i64 %now
  store i64 %began, ptr %began.at
  %loop.time = sub i64 %now, %began
  %loop.long = icmp sge i64 %loop.time, $watch_loop_ns
  %crowded = and i1 %loop.long, %blocks.left
  br i1 %crowded, label %needed, label %compare
compare:
  %some = icmp sgt i64 %waiting, 0
  %waiting.at = getelementptr i64, ptr %watch, i64 $watch_waiting
  %waiting.then = load i64, ptr %waiting.at
  %waiting.same = icmp eq i64 %waiting.then, %waiting
  store i64 %waiting, ptr %waiting.at
  %progress.at = getelementptr i64, ptr %watch, i64 $watch_progress
  %progress.then = load i64, ptr %progress.at
  %progress.same = icmp eq i64 %progress.then, %progress
  store i64 %progress, ptr %progress.at
  %both.same = and i1 %waiting.same, %progress.same
  %same = and i1 %some, %both.same
  %changed.at = getelementptr i64, ptr %watch, i64 $watch_since
  br i1 %same, label %unchanged, label %changed
changed:
  store i64 %now, ptr %changed.at
  br label %note
note:
  %noted = phi i64 [0, %changed], [%noted.next, %note]
  %note.words = mul i64 %noted, 2
  %note.row = getelementptr i64, ptr %rows, i64 %note.words
  %note.worker = load ptr, ptr %note.row
  %note.waited.at = getelementptr i64, ptr %note.worker, i64 $worker_waited
  %note.waited = load i64, ptr %note.waited.at
  %note.since.at = getelementptr i64, ptr %note.row, i64 1
  store i64 %note.waited, ptr %note.since.at
  %noted.next = add i64 %noted, 1
  %note.others = icmp ult i64 %noted.next, %count
  br i1 %note.others, label %note, label %nothing
unchanged:
  br i1 %blocks.left, label %needed, label %all_begun
needed:
  %few = icmp slt i64 %left, %count
  %more = select i1 %few, i64 %left, i64 %count
  ret i64 %more
all_begun:
  %failed.at = getelementptr i64, ptr %context, i64 $field_failed
  %failed = load atomic i64, ptr %failed.at acquire, align 8
  %has.failed = icmp ne i64 %failed, 0
  br i1 %has.failed, label %cancel, label %judge
cancel:
  %cancelled.at = getelementptr i64, ptr %context, i64 $field_cancelled
  store atomic i64 $cancellation_requested, ptr %cancelled.at monotonic, align 8
  ret i64 0
judge:
  %changed.then = load i64, ptr %changed.at
  %duration = sub i64 %now, %changed.then
  %patience.at = getelementptr i64, ptr %watch, i64 $watch_patience
  %patience = load i64, ptr %patience.at
  %late = icmp sge i64 %duration, %patience
  %enough = icmp sge i64 %fewest, $stuck_iterations
  %is.stuck = and i1 %late, %enough
  br i1 %is.stuck, label %stuck, label %nothing
stuck:
  ret i64 $stuck
nothing:
  ret i64 0
}
