; What runs the threads of a block: sections of LLVM text, each behind a line with its name, for `regions.py` and
; `warps.py`. Values of a kernel stand for `$name`; `%c0` to `%c11` are coordinates and extents.

;; block
define internal void @$block(ptr %slots, ptr %where)$location {
entry:
$head
  %votes = alloca i32
  %met = alloca $set
  %plane = mul i32 %c6, %c7
  %count = mul i32 %plane, %c8
  %threads = zext i32 %count to i64
$frame
$uniform
  br label %placed
placed:
$coordinates
  br label %dispatch
dispatch:
  %state = phi i32 [ 0, %placed ], [ %h, %go ]
  %outcome = phi i32 [ 0, %placed ], [ %combined, %go ]
  store i32 0, ptr %votes
  store $set 0, ptr %met
  switch i32 %state, label %done [ $cases ]
$loops
join:
$kept
  br label %judge
judge:
  %set = load $set, ptr %met
  %others = sub $set %set, 1
  %both = and $set %set, %others
  %same = icmp eq $set %both, 0
  %zeros = call $set @llvm.ctlz.$set($set %set, i1 true)
  %last = xor $set %zeros, $last
  %wide = $widen %last$widened
  %h = trunc i64 %wide to i32
  br i1 %same, label %check, label %diverged
check:
  %ended = icmp eq i32 %h, 0
  br i1 %ended, label %done, label %go
go:
  %m.i = sub i32 %h, 1
  %m.kind = getelementptr i32, ptr @$kind, i32 %m.i
  %kind = load i32, ptr %m.kind
  %sum = load i32, ptr %votes
  %all = icmp eq i32 %sum, %count
  %any = icmp ne i32 %sum, 0
  %counts = icmp eq i32 %kind, 0
  %conjunction = icmp eq i32 %kind, 1
  %truth = select i1 %conjunction, i1 %all, i1 %any
  %number = zext i1 %truth to i32
  %combined = select i1 %counts, i32 %sum, i32 %number
$passed
  br label %dispatch
diverged:
  %yields = and $set %set, $yields
  %apart = icmp ne $set %yields, 0
  br i1 %apart, label %$apart, label %wrong
wrong:
  %d.i = sub i32 %h, 1
  %d.file = getelementptr ptr, ptr @$file, i32 %d.i
  %d.line = getelementptr i32, ptr @$line, i32 %d.i
  %file = load ptr, ptr %d.file
  %line = load i32, ptr %d.line
  %first = and $set %set, 1
  %some = icmp ne $set %first, 0
  %d.kind = getelementptr i32, ptr @$kind, i32 %d.i
  %d.k = load i32, ptr %d.kind
  %left = icmp eq i32 %d.k, $leaves
  %elsewhere = select i1 %left, i32 2, i32 0
  %why = select i1 %some, i32 1, i32 %elsewhere
  call void @__tw_simt_diverged(ptr %file, i32 %line, i32 %why)
  ret void
done:
  %follows = call i1 @__tw_simt_next(ptr %where)
  br i1 %follows, label %placed, label %finished
finished:
  ret void
}

;; loops
${r}start:
$first
${r}zs:
  %${r}z = phi i32 [ 0, %${r}$from ], [ %${r}zn, %${r}ze ]
  br label %${r}ys
${r}ys:
  %${r}y = phi i32 [ 0, %${r}zs ], [ %${r}yn, %${r}ye ]
  %${r}zh = mul i32 %${r}z, $rows
  %${r}row = add i32 %${r}zh, %${r}y
  %${r}first = mul i32 %${r}row, $width
  %${r}base = zext i32 %${r}first to i64
  br label %${r}xs
${r}xs:
  %${r}x = phi i32 [ 0, %${r}ys ], [ %${r}xn, %${r}xe ]
$body
  br label %${r}xe
${r}xe:
  %${r}xn = add nuw nsw i32 %${r}x, 1
  %${r}xm = icmp ult i32 %${r}xn, $limit
  br i1 %${r}xm, label %${r}xs, label %${r}ye$loop
${r}ye:
  %${r}yn = add nuw nsw i32 %${r}y, 1
  %${r}ym = icmp ult i32 %${r}yn, $rows
  br i1 %${r}ym, label %${r}ys, label %${r}ze
${r}ze:
  %${r}zn = add nuw nsw i32 %${r}z, 1
  %${r}zm = icmp ult i32 %${r}zn, %c8
  br i1 %${r}zm, label %${r}zs, label %$after

;; guarded
  store [3 x i64] [i64 0, i64 1, i64 0], ptr %bound
  %${r}all = $asked
$ends
  %${r}bound = load i64, ptr %bound
  %${r}row.w = zext i32 $width to i64
  %${r}least = call i64 @llvm.umin.i64(i64 %${r}bound, i64 %${r}row.w)
  %${r}step.at = getelementptr i64, ptr %bound, i64 1
  %${r}step.w = load i64, ptr %${r}step.at
  %${r}step = trunc i64 %${r}step.w to i32
  %${r}up = add i64 %${r}least, %${r}step.w
  %${r}last = sub i64 %${r}up, 1
  %${r}count = udiv i64 %${r}last, %${r}step.w
  %${r}limit = trunc i64 %${r}count to i32
  %${r}some = icmp ne i32 %${r}limit, 0
  br i1 %${r}some, label %${r}$begin, label %$after

;; dense
; every second, fourth or eighth thread of a row, or the multiples by which these access memory: all are asked then, as
; vectors of neighbours are faster
${r}choose:
  %${r}by.at = getelementptr i64, ptr %bound, i64 $by
  %${r}by.w = load i64, ptr %${r}by.at
  %${r}by = trunc i64 %${r}by.w to i32
  %${r}mask = sub i32 %${r}by, 1
  %${r}over = sub i32 %${r}by, 2
  %${r}few = icmp ult i32 %${r}over, 7
  %${r}bits = and i32 %${r}by, %${r}mask
  %${r}one = icmp eq i32 %${r}bits, 0
  %${r}dense = and i1 %${r}few, %${r}one
  %${r}shift = call i32 @llvm.cttz.i32(i32 %${r}by, i1 false)
  %${r}room = trunc i64 %${r}least to i32
  %${r}d.limit = shl i32 %${r}room, $shift
  br i1 %${r}dense, label %${r}d.start, label %${r}zs

;; of dense
  %${r}rest = and i32 %${r}x, %$mask
  %${r}asked = icmp eq i32 %${r}rest, 0
  br i1 %${r}asked, label %${r}do, label %${r}xe
${r}do:
  %${r}own = lshr i32 %${r}x, $shift

;; stragglers
stragglers:
  store $set 0, ptr %met
  br label %g.thread
g.thread:
  %g.t = phi i64 [ 0, %stragglers ], [ %g.tn, %g.end ]
  %g.w = trunc i64 %g.t to i32
  %g.x = urem i32 %g.w, %c6
  %g.q = udiv i32 %g.w, %c6
  %g.y = urem i32 %g.q, %c7
  %g.z = udiv i32 %g.q, %c7
$notes
$uniform
  %g.at = getelementptr i32, ptr $next, i64 %g.t
  %g.first = load i32, ptr %g.at
  br label %g.go
g.go:
  %g.s = phi i32 [ %g.first, %g.thread ]$ways
  switch i32 %g.s, label %g.end [ $cases ]
$regions
g.end:
$ends
  %g.tn = add nuw nsw i64 %g.t, 1
  %g.m = icmp ult i64 %g.tn, %threads
  br i1 %g.m, label %g.thread, label %judge

;; warp
define internal i64 @$run(ptr %slots, ptr %where, i32 %from, i32 %mask, ptr noalias %given, ptr noalias %taken, ptr noalias %masks, ptr noalias %ended, i32 %outcome, ptr noalias %sum)$location {
entry:
$head
  %votes = alloca i32
  %met = alloca $set
  store i32 0, ptr %votes
  store $set 0, ptr %met
  %plane = mul i32 %c6, %c7
  %count = mul i32 %plane, %c8
  %threads = zext i32 %count to i64
$frame
  br label %some
; lanes that are neighbours, also along x
some:
  %left = phi i32 [ %mask, %entry ], [ %others, %ran ]
  %first = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %first.at = add nuw nsw i32 %from, %first
  %x.first = urem i32 %first.at, %c6
  %row = udiv i32 %first.at, %c6
  %y = urem i32 %row, %c7
  %z = udiv i32 %row, %c7
  %down = lshr i32 %left, %first
  %gaps = xor i32 %down, -1
  %set = call i32 @llvm.cttz.i32(i32 %gaps, i1 false)
  %room = sub i32 %c6, %x.first
  %count.lanes = call i32 @llvm.umin.i32(i32 %set, i32 %room)
  %behind = add i32 %first, %count.lanes
  %behind.wide = zext i32 %behind to i64
  %ran.wide = shl i64 -1, %behind.wide
  %kept = trunc i64 %ran.wide to i32
  %others = and i32 %left, %kept
  br label %lane
lane:
  %lane.i = phi i32 [ 0, %some ], [ %lane.more, %lane ]
  %lane.number = add nuw nsw i32 %first, %lane.i
  %lane.wide = zext i32 %lane.number to i64
  %lane.at = add nuw nsw i32 %from, %lane.number
  %lane.thread = zext i32 %lane.at to i64
  %x = add nuw nsw i32 %x.first, %lane.i
$notes
  %lane.next = $call
$ends
  %lane.more = add nuw nsw i32 %lane.i, 1
  %lane.go = icmp ult i32 %lane.more, %count.lanes
  br i1 %lane.go, label %lane, label %ran$loop
ran:
  %go = icmp ne i32 %others, 0
  br i1 %go, label %some, label %end
end:
  %voted = load i32, ptr %votes
  %before = load i32, ptr %sum
  %after = add i32 %before, %voted
  store i32 %after, ptr %sum
  %found = load $set, ptr %met
  %found.wide = $widen %found$widened
  ret i64 %found.wide
}

;; ends
  %$own.end = getelementptr i32, ptr %ended, i64 %$own.wide
  store i32 %$own.next, ptr %$own.end$group
$met

;; met
; the set of where threads ended, of which `to` is one: one reduction, which a vectorized loop can have
  %$own.to = $widen32 $to$widened32
  %$own.bit = shl $set 1, %$own.to
  %$own.set = load $set, ptr %met
  %$own.union = or $set %$own.set, %$own.bit
  store $set %$own.union, ptr %met

;; apart
define internal i32 @$name(ptr %slots, ptr %where, i32 %warps, i32 %at, i32 %outcome, ptr %words, ptr %masks, ptr %ended, ptr %state) {
  ret i32 -1
}

;; together
define internal i32 @$name(ptr %slots, ptr %where, i32 %warps, i32 %at, i32 %outcome, ptr noalias %words, ptr noalias %masks, ptr noalias %ended, ptr noalias %state)$location {
entry:
$head
  %votes = alloca i32
  %met = alloca $set
  %g = alloca ptr
  %t = alloca ptr
  store i32 0, ptr %votes
  %plane = mul i32 %c6, %c7
  %count = mul i32 %plane, %c8
  %threads = zext i32 %count to i64
  %own.given = getelementptr ptr, ptr %words, i64 0
  %own.taken = getelementptr ptr, ptr %words, i64 1
$frame
$bound
$kept
; lanes of a warp must be neighbours along x
  %over = and i32 $width, 31
  %whole = icmp eq i32 %over, 0
  %row = icmp eq i32 $width, %count
  %fits = $fits
  br i1 %fits, label %placed, label %unfit
unfit:
  ret i32 -1
placed:
  %at.first = phi i32 [ %at, %entry ], [ 0, %through ]
$coordinates
  br label %warp
warp:
  %begin = phi i32 [ %at.first, %placed ], [ %begin, %end ], [ %place, %next ]
  %w = phi i32 [ 0, %placed ], [ %w.next, %end ], [ 0, %next ]
  %common = phi i32 [ 0, %placed ], [ %place, %end ], [ 0, %next ]
  %from = shl i32 %w, 5
  %flat = icmp ult i32 %from, $width
  br i1 %flat, label %start, label %divide
divide:
  %p.x = urem i32 %from, $width
  %p.row = udiv i32 %from, $width
  %p.y = urem i32 %p.row, $rows
  %p.z = udiv i32 %p.row, $rows
  br label %start
start:
  %x.first = phi i32 [ %from, %warp ], [ %p.x, %divide ]
  %y = phi i32 [ 0, %warp ], [ %p.y, %divide ]
  %z = phi i32 [ 0, %warp ], [ %p.z, %divide ]
; as it is, which the optimizer is to know
  %x = and i32 %x.first, -32
  %g.first = load ptr, ptr %own.given
  %t.first = load ptr, ptr %own.taken
  store ptr %g.first, ptr %g
  store ptr %t.first, ptr %t
  switch i32 %begin, label %unfit [ $cases ]
$enters
$regions
finish:
  %place = phi i32 $places
  %first = icmp eq i32 %w, 0
  %same = icmp eq i32 %place, %common
  %fine = or i1 %first, %same
  br i1 %fine, label %end, label %differs
differs:
  %place.wide = zext i32 %place to i64
  %where.to = shl i64 1, %place.wide
  br label %stopped
end:
  %w.next = add nuw nsw i32 %w, 1
  %more = icmp ult i32 %w.next, %warps
  br i1 %more, label %warp, label %all
all:
  switch i32 %place, label %done [ i32 0, label %whole.block $yields ]
whole.block:
  %lanes.all = shl i32 %warps, 5
  %is.all = icmp eq i32 %lanes.all, %count
  br i1 %is.all, label %through, label %done
through:
  %follows = call i1 @__tw_simt_next(ptr %where)
  br i1 %follows, label %placed, label %finished
; the state of a block that has ended is that of none
finished:
  %s.last = getelementptr i32, ptr %state, i64 1
  store i32 0, ptr %s.last
  ret i32 %warps
; a barrier that counts nothing, at which the whole block is
meets:
  %lanes = shl i32 %warps, 5
  %is.block = icmp eq i32 %lanes, %count
  br i1 %is.block, label %next, label %done
; all warps go on, as at the next iteration of a loop, which touches memory next to what the warp before did
next:
  br label %warp
stopped:
  %set = phi i64 [ %where.to, %differs ], $found
  %s.set = getelementptr i64, ptr %state, i64 1
  store i64 %set, ptr %s.set
  %g.last = load ptr, ptr %g
  %t.last = load ptr, ptr %t
  store ptr %g.last, ptr %own.given
  store ptr %t.last, ptr %own.taken
  br label %done
done:
  %reached = phi i32 [ %place, %all ], [ %place, %whole.block ], [ %place, %meets ], [ %common, %stopped ]
  %number = phi i32 [ %warps, %all ], [ %warps, %whole.block ], [ %warps, %meets ], [ %w, %stopped ]
  %voted = load i32, ptr %votes
  %before = load i32, ptr %state
  %after = add i32 %before, %voted
  store i32 %after, ptr %state
  %s.place = getelementptr i32, ptr %state, i64 1
  store i32 %reached, ptr %s.place
  %s.begin = getelementptr i32, ptr %state, i64 4
  store i32 %begin, ptr %s.begin
  ret i32 %number
}

;; even
; whether a variable is the same in all lanes of a warp
  $v.at = getelementptr $type, ptr %f$i, i32 %from
  $v.all = load $vector, ptr $v.at, align 1
  $v = extractelement $vector $v.all, i32 0
  store $type $v, ptr %even$i
  $v.one = insertelement $vector poison, $type $v, i32 0
  $v.each = shufflevector $vector $v.one, $vector poison, <32 x i32> zeroinitializer
  $v.eq = icmp eq $vector $v.all, $v.each
  $v.bits = bitcast <32 x i1> $v.eq to i32
  $v.same = icmp eq i32 $v.bits, -1
  $v.so = and i1 $v.same, $so

;; together region
${r}start:
  store $set 0, ptr %met
$words
$asked
${r}lane:
  %${r}number = phi i32 [ 0, %${r}start ], [ %${r}more, %${r}lane ]
  %${r}x = add nuw nsw i32 %x, %${r}number
  %${r}wide = zext i32 %${r}number to i64
  %${r}from = or disjoint i32 %from, %${r}number
  %${r}thread = zext i32 %${r}from to i64
  %${r}next = $call
$ends
  %${r}more = add nuw nsw i32 %${r}number, 1
  %${r}go = icmp ult i32 %${r}more, $limit
  br i1 %${r}go, label %${r}lane, label %${r}judge$loop
${r}judge:
$judge
$to
${r}stop:
  %${r}found.wide = $widen %${r}found$widened
$kept
  br label %stopped

;; together some
; the lanes of the warp that a region is to run for
  store [3 x i64] [i64 0, i64 1, i64 0], ptr %bound
  %${r}a.wide = add i64 0, 0
  %${r}a.thread = zext i32 %from to i64
  %${r}all = $call
  %${r}bound = load i64, ptr %bound
  %${r}base = zext i32 $base to i64
  %${r}behind = call i64 @llvm.usub.sat.i64(i64 %${r}bound, i64 %${r}base)
  %${r}least = call i64 @llvm.umin.i64(i64 %${r}behind, i64 $lanes)
  %${r}limit = trunc i64 %${r}least to i32
  %${r}some = icmp ne i32 %${r}limit, 0
  br i1 %${r}some, label %${r}lane, label %${r}judge

;; guards
@"tw.guard.behind" = internal thread_local global [65536 x i8] zeroinitializer, section ".tbss.tw.behind"
define internal void @"tw.guards"(ptr %into) {
  %before = call ptr @llvm.threadlocal.address.p0(ptr @"tw.guard.before")
  %behind = call ptr @llvm.threadlocal.address.p0(ptr @"tw.guard.behind")
  %second = getelementptr ptr, ptr %into, i64 1
  store ptr %before, ptr %into
  store ptr %behind, ptr %second
  ret void
}
