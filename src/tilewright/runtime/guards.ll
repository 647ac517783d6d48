; What guards of all arrays have in common, for `guards.py`, which says what the words at `%known` are: compiled once, so
; that a kind of arguments that is new takes little more than calls of it. What each axis takes is one block, as code that
; is not optimized keeps values in registers within blocks only.

; Whether an array at `%address` with these extents and strides is as the words at `%known` say. Its address goes to
; `%out`, and what kernels take of the others to the places behind it that their rows name: those that they do not take
; have the first one, which the address overwrites. Without `%strides` it is contiguous.
define i1 @array(i64 %address, ptr %shape, ptr %strides, ptr %known, ptr %out) {
start:
  %least.at = getelementptr i64, ptr %known, i64 1
  %bits.at = getelementptr i64, ptr %known, i64 2
  %rank = load i64, ptr %known
  %least = load i64, ptr %least.at
  %bits = load i64, ptr %bits.at
  %low = and i64 %address, 15
  %aligned = icmp eq i64 %low, %bits
  %there = icmp uge i64 %address, %least
  %placed = and i1 %aligned, %there
  br i1 %placed, label %layout, label %no
layout:
  %contiguous = icmp eq ptr %strides, null
  br i1 %contiguous, label %missing, label %axes
missing:
  %computed = alloca i64, i64 %rank, align 8
  call void @contiguous(ptr %shape, i64 %rank, ptr %computed)
  br label %axes
axes:
  %steps = phi ptr [%strides, %layout], [%computed, %missing], [%steps, %axis]
  %left = phi i64 [%rank, %layout], [%rank, %missing], [%i, %axis]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %yes, label %axis
axis:
  %i = sub i64 %left, 1
  %shift.at = getelementptr i64, ptr %known, i64 3
  %shift = load i64, ptr %shift.at
  %extent.at = getelementptr i64, ptr %shape, i64 %i
  %n = load i64, ptr %extent.at
  %row = getelementptr [$words x i64], ptr %known, i64 %i
  %n.low.at = getelementptr i64, ptr %row, i64 4
  %n.span.at = getelementptr i64, ptr %row, i64 5
  %n.unlike.at = getelementptr i64, ptr %row, i64 6
  %n.mask.at = getelementptr i64, ptr %row, i64 7
  %n.other.at = getelementptr i64, ptr %row, i64 8
  %n.place.at = getelementptr i64, ptr %row, i64 9
  %n.low = load i64, ptr %n.low.at
  %n.span = load i64, ptr %n.span.at
  %n.unlike = load i64, ptr %n.unlike.at
  %n.mask = load i64, ptr %n.mask.at
  %n.other = load i64, ptr %n.other.at
  %n.place = load i64, ptr %n.place.at
  %n.to = getelementptr i64, ptr %out, i64 %n.place
  store i64 %n, ptr %n.to
  %n.above = sub i64 %n, %n.low
  %n.within = icmp ule i64 %n.above, %n.span
  %n.differs = icmp ne i64 %n, %n.unlike
  %n.rest = and i64 %n, %n.mask
  %n.divides = icmp eq i64 %n.rest, 0
  %n.other.rest = and i64 %n, %n.other
  %n.not.more = icmp ne i64 %n.other.rest, 0
  %n.no.other = icmp eq i64 %n.other, 0
  %n.1 = and i1 %n.within, %n.differs
  %n.2 = or i1 %n.not.more, %n.no.other
  %n.3 = and i1 %n.1, %n.divides
  %n.suits = and i1 %n.2, %n.3
  %rank.again = load i64, ptr %known
  %stride.row = getelementptr [$words x i64], ptr %row, i64 %rank.again
  %stride.at = getelementptr i64, ptr %steps, i64 %i
  %found = load i64, ptr %stride.at
  %s = ashr i64 %found, %shift
  %whole = shl i64 %s, %shift
  %is.whole = icmp eq i64 %whole, %found
  %s.low.at = getelementptr i64, ptr %stride.row, i64 4
  %s.span.at = getelementptr i64, ptr %stride.row, i64 5
  %s.unlike.at = getelementptr i64, ptr %stride.row, i64 6
  %s.mask.at = getelementptr i64, ptr %stride.row, i64 7
  %s.other.at = getelementptr i64, ptr %stride.row, i64 8
  %s.place.at = getelementptr i64, ptr %stride.row, i64 9
  %s.low = load i64, ptr %s.low.at
  %s.span = load i64, ptr %s.span.at
  %s.unlike = load i64, ptr %s.unlike.at
  %s.mask = load i64, ptr %s.mask.at
  %s.other = load i64, ptr %s.other.at
  %s.place = load i64, ptr %s.place.at
  %s.to = getelementptr i64, ptr %out, i64 %s.place
  store i64 %s, ptr %s.to
  %s.above = sub i64 %s, %s.low
  %s.within = icmp ule i64 %s.above, %s.span
  %s.differs = icmp ne i64 %s, %s.unlike
  %s.rest = and i64 %s, %s.mask
  %s.divides = icmp eq i64 %s.rest, 0
  %s.other.rest = and i64 %s, %s.other
  %s.not.more = icmp ne i64 %s.other.rest, 0
  %s.no.other = icmp eq i64 %s.other, 0
  %s.1 = and i1 %s.within, %s.differs
  %s.2 = or i1 %s.not.more, %s.no.other
  %s.3 = and i1 %s.1, %s.divides
  %s.4 = and i1 %s.2, %s.3
  %s.suits = and i1 %s.4, %is.whole
  %suits = and i1 %n.suits, %s.suits
  br i1 %suits, label %axes, label %no
yes:
  store i64 %address, ptr %out
  ret i1 true
no:
  ret i1 false
}

; The strides of a contiguous array.
define internal void @contiguous(ptr %shape, i64 %rank, ptr %strides) {
start:
  br label %axes
axes:
  %left = phi i64 [%rank, %start], [%i, %axis]
  %count = phi i64 [1, %start], [%all, %axis]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %end, label %axis
axis:
  %i = sub i64 %left, 1
  %extent.at = getelementptr i64, ptr %shape, i64 %i
  %stride.at = getelementptr i64, ptr %strides, i64 %i
  store i64 %count, ptr %stride.at
  %n = load i64, ptr %extent.at
  %all = mul i64 %count, %n
  br label %axes
end:
  ret void
}
