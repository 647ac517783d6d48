; What guards of all arrays have in common, for `guards.py`, which says what the words at `%known` are: compiled once, so
; that a kind of arguments that is new takes little more than calls of it.

; Whether an array at `%address` with these extents and strides is as the words at `%known` say. Its address goes to
; `%out`, and what kernels take of the others behind it. Without `%strides` it is contiguous.
define i1 @array(i64 %address, ptr %shape, ptr %strides, ptr %known, ptr %out) {
start:
  %least.at = getelementptr i64, ptr %known, i64 1
  %bits.at = getelementptr i64, ptr %known, i64 2
  %shift.at = getelementptr i64, ptr %known, i64 3
  %rows = getelementptr i64, ptr %known, i64 4
  %rank = load i64, ptr %known
  %least = load i64, ptr %least.at
  %bits = load i64, ptr %bits.at
  %shift = load i64, ptr %shift.at
  %stride.rows = getelementptr [$words x i64], ptr %rows, i64 %rank
  %low = and i64 %address, 15
  %aligned = icmp eq i64 %low, %bits
  %there = icmp uge i64 %address, %least
  %placed = and i1 %aligned, %there
  br i1 %placed, label %axes, label %no
axes:
  %left = phi i64 [%rank, %start], [%axis, %given], [%axis, %missing]
  %count = phi i64 [1, %start], [%all, %given], [%all, %missing]
  %done = icmp eq i64 %left, 0
  br i1 %done, label %yes, label %extent
extent:
  %axis = sub i64 %left, 1
  %extent.at = getelementptr i64, ptr %shape, i64 %axis
  %extent.row = getelementptr [$words x i64], ptr %rows, i64 %axis
  %n = load i64, ptr %extent.at
  %all = mul i64 %count, %n
  %suits = call i1 @suits(i64 %n, ptr %extent.row, ptr %out)
  br i1 %suits, label %stride, label %no
stride:
  %row = getelementptr [$words x i64], ptr %stride.rows, i64 %axis
  %contiguous = icmp eq ptr %strides, null
  br i1 %contiguous, label %missing, label %given
given:
  %stride.at = getelementptr i64, ptr %strides, i64 %axis
  %found = load i64, ptr %stride.at
  %step = ashr i64 %found, %shift
  %whole = shl i64 %step, %shift
  %is.whole = icmp eq i64 %whole, %found
  %step.suits = call i1 @suits(i64 %step, ptr %row, ptr %out)
  %both = and i1 %is.whole, %step.suits
  br i1 %both, label %axes, label %no
missing:
  %count.suits = call i1 @suits(i64 %count, ptr %row, ptr %out)
  br i1 %count.suits, label %axes, label %no
yes:
  store i64 %address, ptr %out
  ret i1 true
no:
  ret i1 false
}

; Whether an extent or stride is as its row says. It goes to the place at `%out` that this names: the first one where
; kernels do not take it, which the address overwrites.
define internal i1 @suits(i64 %n, ptr %row, ptr %out) {
  %high.at = getelementptr i64, ptr %row, i64 1
  %unlike.at = getelementptr i64, ptr %row, i64 2
  %mask.at = getelementptr i64, ptr %row, i64 3
  %other.mask.at = getelementptr i64, ptr %row, i64 4
  %place.at = getelementptr i64, ptr %row, i64 5
  %low = load i64, ptr %row
  %high = load i64, ptr %high.at
  %unlike = load i64, ptr %unlike.at
  %mask = load i64, ptr %mask.at
  %other.mask = load i64, ptr %other.mask.at
  %place = load i64, ptr %place.at
  %to = getelementptr i64, ptr %out, i64 %place
  store i64 %n, ptr %to
  %above = icmp sge i64 %n, %low
  %below = icmp sle i64 %n, %high
  %differs = icmp ne i64 %n, %unlike
  %rest = and i64 %n, %mask
  %divides = icmp eq i64 %rest, 0
  %other.rest = and i64 %n, %other.mask
  %other.fails = icmp ne i64 %other.rest, 0
  %no.other = icmp eq i64 %other.mask, 0
  %not.more = or i1 %other.fails, %no.other
  %within = and i1 %above, %below
  %fits = and i1 %within, %differs
  %divided = and i1 %divides, %not.more
  %suits = and i1 %fits, %divided
  ret i1 %suits
}
