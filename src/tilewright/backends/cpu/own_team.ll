; A team of threads with the interface of an OpenMP runtime, for `own_team.py`, whose values stand for `$$name`. All
; threads share `words`.
;
; A launch opens `state`, has all threads of the team call its code, and closes it again: threads that come later find it
; closed, and the launching one waits only for those that have come before. A thread that comes so late that it
; finds the next launch open calls the code of that one, whose epoch it has not seen yet. So that it does not do so again
; when it sees it, `launch` has the epoch of the launch that is open.

@words = global [512 x i8] zeroinitializer, align 128
declare i32 @sched_yield()
declare i32 @sched_getcpu()
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @clock_gettime(i32, ptr)
declare i32 @nanosleep(ptr, ptr)
declare i64 @syscall(i64, ...)  ; futex: FUTEX_WAIT is 128, FUTEX_WAKE 129, among the threads of one process

; Wake two of the threads that sleep, which do the same.
define internal void @wake() {
  %asleep = load atomic i32, ptr $sleepers seq_cst, align 4
  %none = icmp eq i32 %asleep, 0
  br i1 %none, label %end, label %some
some:
  %woken = call i64 (i64, ...) @syscall(i64 $futex, ptr $epoch, i64 129, i64 2, ptr null, ptr null, i64 0)
  br label %end
end:
  ret void
}

; Keep off the processor of the launching thread, where each thread can have one of its own; %avoided is the address of
; the one that this thread keeps off. Systems like to wake a thread where its waker runs, and take milliseconds to notice
; that another processor is idle: longer than many launches. The other bits of `launcher` are others as soon as the
; affinity is.
define internal void @make_way(ptr %avoided) {
  %mask = alloca [$mask_bytes x i8], align 8
  %before = load i32, ptr %avoided
  %there = load atomic i32, ptr $launcher monotonic, align 4
  %known = icmp eq i32 %before, %there
  br i1 %known, label %end, label %move
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr $affinity, i64 $mask_bytes, i1 false)
  store i32 %there, ptr %avoided
  %known.there = and i32 %there, 1023
  %index = lshr i32 %known.there, 3
  %at = getelementptr i8, ptr %mask, i32 %index
  %bit = and i32 %there, 7
  %one = shl i32 1, %bit
  %bits = load i8, ptr %at
  %narrow = trunc i32 %one to i8
  %others = xor i8 %narrow, -1
  %left = and i8 %bits, %others
  store i8 %left, ptr %at
  %refused = call i32 @sched_setaffinity(i32 0, i64 $mask_bytes, ptr %mask)
  br label %end
end:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Nanoseconds of a clock.
define internal i64 @now(i32 %clock) {
  %time = alloca [2 x i64], align 8
  %failed = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; Note in `%times` that this thread has its processor anew: both clocks, and since when.
define internal void @start_turn(ptr %times) {
  %now = call i64 @now(i32 1)
  %ran = call i64 @now(i32 3)
  %ran.at = getelementptr i64, ptr %times, i64 1
  %since.at = getelementptr i64, ptr %times, i64 2
  store i64 %now, ptr %times
  store i64 %ran, ptr %ran.at
  store i64 %now, ptr %since.at
  ret void
}

; Whether a thread whose turn `%times` notes should give its processor up at `%now`, as it shares that and has had it for
; long; `%lost`: for how long it had none although it did not sleep, since it was asked before.
define zeroext i1 @is_over(ptr %times, i64 %now, i64 %lost) {
  %since.at = getelementptr i64, ptr %times, i64 2
  %until.at = getelementptr i64, ptr %times, i64 3
  %is.taken = icmp sge i64 %lost, 500000
  br i1 %is.taken, label %others, label %known
others:
  %until.new = add i64 %now, $shared
  store i64 %until.new, ptr %until.at
  store i64 %now, ptr %since.at
  ret i1 false
known:
  %until = load i64, ptr %until.at
  %since = load i64, ptr %since.at
  %length = sub i64 %now, %since
  %is.shared = icmp slt i64 %now, %until
  %is.long = icmp sge i64 %length, $turn
  %over = and i1 %is.shared, %is.long
  ret i1 %over
}

; Between launches: where another thread shares the processor of this one, give that up before it is taken in the midst
; of a launch, which would wait for this thread until its next turn; launches go on without it meanwhile.
define internal void @take_turns(ptr %times) {
  %pause = alloca [2 x i64], align 8
  %ran.at = getelementptr i64, ptr %times, i64 1
  %now = call i64 @now(i32 1)
  %before = load i64, ptr %times
  %passed = sub i64 %now, %before
  %is.long = icmp sge i64 %passed, 1000000
  br i1 %is.long, label %compare, label %decide
compare:
  %ran.before = load i64, ptr %ran.at
  %ran = call i64 @now(i32 3)
  store i64 %now, ptr %times
  store i64 %ran, ptr %ran.at
  %ran.since = sub i64 %ran, %ran.before
  %lost = sub i64 %passed, %ran.since
  br label %decide
decide:
  %lost.known = phi i64 [ 0, %0 ], [ %lost, %compare ]
  %over = call zeroext i1 @is_over(ptr %times, i64 %now, i64 %lost.known)
  br i1 %over, label %rest, label %end
rest:
  %nanoseconds.at = getelementptr i64, ptr %pause, i64 1
  store i64 0, ptr %pause
  store i64 $rest, ptr %nanoseconds.at
  %woken = call i32 @nanosleep(ptr %pause, ptr null)
  call void @start_turn(ptr %times)
  br label %end
end:
  ret void
}

; What the thread of this number does for ever: call the code of each launch after the one that was the latest when it was
; asked for. It looks for the next one actively for a while, and then sleeps.
define void @serve(i64 %number, i32 %latest) {
  %avoided = alloca i32, align 4
  %times = alloca [4 x i64], align 8
  store [4 x i64] zeroinitializer, ptr %times
  call void @start_turn(ptr %times)
  store i32 -1, ptr %avoided
  %mine = inttoptr i64 %number to ptr
  %set = call i32 @pthread_setspecific(i32 $key, ptr %mine)
  br label %wait
wait:
  %seen = phi i32 [ %latest, %0 ], [ %seen, %pause ], [ %seen, %sleep ], [ %now, %left ], [ %now, %join ]
  %looks = phi i32 [ 0, %0 ], [ %more, %pause ], [ 0, %sleep ], [ 0, %left ], [ 0, %join ]
  %called = phi i32 [ %latest, %0 ], [ %called, %pause ], [ %called, %sleep ], [ %called.now, %left ], [ %called, %join ]
  %now = load atomic i32, ptr $epoch seq_cst, align 4
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %join, label %pause
pause:
  call void @$pause
  %more = add i32 %looks, 1
  %long = icmp uge i32 %more, $looks
  br i1 %long, label %sleep, label %wait
sleep:
  %before.sleep = atomicrmw add ptr $sleepers, i32 1 seq_cst
  %slept = call i64 (i64, ...) @syscall(i64 $futex, ptr $epoch, i64 128, i32 %seen, ptr null, ptr null, i64 0)
  %before.wake = atomicrmw sub ptr $sleepers, i32 1 seq_cst
  call void @start_turn(ptr %times)
  br label %wait
join:
  call void @make_way(ptr %avoided)
  call void @wake()
  %size = load atomic i64, ptr $size monotonic, align 8
  %member = icmp slt i64 %number, %size
  br i1 %member, label %enter, label %wait
enter:
  %state = atomicrmw add ptr $state, i64 1 seq_cst
  %late = icmp sge i64 %state, $closed
  br i1 %late, label %left, label %once
once:
  %size.now = load atomic i64, ptr $size monotonic, align 8  ; that of a later launch, where this thread is so late
  %belongs = icmp slt i64 %number, %size.now
  br i1 %belongs, label %first, label %left
first:
  %launch = load i32, ptr $launch
  %again = icmp eq i32 %launch, %called
  br i1 %again, label %left, label %work
work:
  %code = load ptr, ptr $code
  %data = load ptr, ptr $data
  call void %code(ptr %data)
  br label %left
left:
  %called.now = phi i32 [ %called, %enter ], [ %called, %once ], [ %called, %first ], [ %launch, %work ]
  %before.end = atomicrmw sub ptr $state, i64 1 seq_cst
  call void @take_turns(ptr %times)
  br label %wait
}

; GOMP_parallel, by all threads.
define void @fork(ptr %code, ptr %data, i32 %threads, i32 %flags) {
  store i32 1, ptr $busy
  %here = call i32 @sched_getcpu()
  %kept = load i32, ptr $kept
  %there = or i32 %here, %kept
  store atomic i32 %there, ptr $launcher monotonic, align 4
  store ptr %code, ptr $code
  store ptr %data, ptr $data
  %before = load atomic i32, ptr $epoch monotonic, align 4
  %launch = add i32 %before, 1
  store i32 %launch, ptr $launch
  %opened = atomicrmw sub ptr $state, i64 $closed seq_cst
  %epoch = atomicrmw add ptr $epoch, i32 1 seq_cst
  call void @wake()
  call void %code(ptr %data)
  %left = atomicrmw add ptr $state, i64 $closed seq_cst
  br label %wait
wait:
  %looks = phi i32 [ 0, %0 ], [ %more, %pause ], [ 0, %yield ]
  %state = load atomic i64, ptr $state seq_cst, align 8
  %alone = icmp eq i64 %state, $closed
  br i1 %alone, label %end, label %busy
busy:
  %more = add i32 %looks, 1
  %long = icmp ugt i32 %more, 1024
  br i1 %long, label %yield, label %pause
pause:
  call void @$pause
  br label %wait
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
end:
  store i32 0, ptr $busy
  ret void
}

; omp_get_thread_num: 0 in a thread that is none of the team.
define i32 @number() {
  %mine = call ptr @pthread_getspecific(i32 $key)
  %number = ptrtoint ptr %mine to i32
  ret i32 %number
}

; omp_get_max_threads: 1 where the affinity of this thread is found not to be the one that the team was made for.
define i32 @threads() {
  %mask = alloca [$mask_bytes x i8], align 8
  %calls = load i32, ptr $calls
  %since = and i32 %calls, $others
  %is.due = icmp eq i32 %since, 0
  br i1 %is.due, label %ask, label %known
ask:
  %refused = call i32 @sched_getaffinity(i32 0, i64 $mask_bytes, ptr %mask)
  %differs = call i32 @memcmp(ptr %mask, ptr $affinity, i64 $mask_bytes)
  %is.same = icmp eq i32 %differs, 0
  br i1 %is.same, label %known, label %other
other:
  ret i32 1
known:
  %more = add i32 %calls, 1
  store i32 %more, ptr $calls
  %size = load i64, ptr $size
  %threads = trunc i64 %size to i32
  ret i32 %threads
}

; omp_in_parallel, for the thread that launches.
define i32 @in_parallel() {
  %busy = load i32, ptr $busy
  ret i32 %busy
}
