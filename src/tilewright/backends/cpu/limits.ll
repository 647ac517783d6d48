; What is measured of a machine: see `limits.py`.

;; copy
; With stores that do not read what they overwrite, n cache lines.
define void @copy(ptr %from, ptr %to, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = getelementptr <16 x float>, ptr %from, i64 %i
  %b = getelementptr <16 x float>, ptr %to, i64 %i
  %x = load <16 x float>, ptr %a, align 64
  store <16 x float> %x, ptr %b, align 64, !nontemporal !0
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %n
  br i1 %again, label %loop, label %end
end:
  ret void
}
!0 = !{i32 1}

;; stream
; Reads, or copies, n times as many words as eight cache lines have, and that several times.
declare i32 @llvm.vector.reduce.or.v${words}i32(<$words x i32>)
define i32 @stream(ptr %from, ptr %to, i64 %n, i64 %times) {
entry:
  br label %outer
outer:
  %t = phi i64 [ 0, %entry ], [ %t1, %latch ]
  br label %loop
loop:
  %i = phi i64 [ 0, %outer ], [ %next, %loop ]
  %s = phi <$words x i32> [ zeroinitializer, %outer ], [ %r, %loop ]
  %p = getelementptr <$words x i32>, ptr %from, i64 %i
  %q = getelementptr <$words x i32>, ptr %to, i64 %i
  %x = load volatile <$words x i32>, ptr %p, align 64
  %r = or <$words x i32> %s, %x
  $store
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %n
  br i1 %again, label %loop, label %latch
latch:
  %t1 = add i64 %t, 1
  %more = icmp ult i64 %t1, %times
  br i1 %more, label %outer, label %end
end:
  %e = call i32 @llvm.vector.reduce.or.v${words}i32(<$words x i32> %r)
  ret i32 %e
}

;; multiply-adds
; Chains of multiply-adds that do not wait for each other, n in each.
declare $vector $fma($vector, $vector, $vector)
define $element @work(i64 %n, $element %seed) {
entry:
  %s0 = insertelement $vector undef, $element %seed, i32 0
  %s = shufflevector $vector %s0, $vector undef, <$lanes x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
$starts
$steps
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %n
  br i1 %again, label %loop, label %end
end:
$sums
  %r = extractelement $vector $sum, i32 0
  ret $element %r
}
