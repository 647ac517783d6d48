; Adds the products of x (m rows of count factors) and y (count rows of n) to total (m rows of n), all of float: each
; in double, rounded, and in order along count.
define void @add(ptr %total, ptr %x, ptr %y, i64 %m, i64 %n, i64 %count) {
entry:
  %whole = and i64 %n, -4
  %any = icmp ne i64 %whole, 0
  %left = icmp ne i64 %whole, %n
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %rows.end ]
  %first = mul i64 %i, %n
  %row = getelementptr float, ptr %total, i64 %first
  %factors = mul i64 %i, %count
  br label %steps
steps:
  %k = phi i64 [ 0, %rows ], [ %k.next, %steps.end ]
  %at = add i64 %factors, %k
  %factor.p = getelementptr float, ptr %x, i64 %at
  %factor.f = load float, ptr %factor.p
  %factor = fpext float %factor.f to double
  %one = insertelement <4 x double> poison, double %factor, i32 0
  %each = shufflevector <4 x double> %one, <4 x double> poison, <4 x i32> zeroinitializer
  %line.at = mul i64 %k, %n
  %line = getelementptr float, ptr %y, i64 %line.at
  br i1 %any, label %vectors, label %rest
vectors:
  %j = phi i64 [ 0, %steps ], [ %j.next, %vectors ]
  %other.p = getelementptr float, ptr %line, i64 %j
  %other.f = load <4 x float>, ptr %other.p, align 4
  %other = fpext <4 x float> %other.f to <4 x double>
  %sum.p = getelementptr float, ptr %row, i64 %j
  %sum.f = load <4 x float>, ptr %sum.p, align 4
  %sum = fpext <4 x float> %sum.f to <4 x double>
  %product = fmul <4 x double> %each, %other
  %more = fadd <4 x double> %sum, %product
  %rounded = fptrunc <4 x double> %more to <4 x float>
  store <4 x float> %rounded, ptr %sum.p, align 4
  %j.next = add i64 %j, 4
  %j.more = icmp ult i64 %j.next, %whole
  br i1 %j.more, label %vectors, label %rest
rest:
  br i1 %left, label %scalars, label %steps.end
scalars:
  %s = phi i64 [ %whole, %rest ], [ %s.next, %scalars ]
  %s.other.p = getelementptr float, ptr %line, i64 %s
  %s.other.f = load float, ptr %s.other.p
  %s.other = fpext float %s.other.f to double
  %s.sum.p = getelementptr float, ptr %row, i64 %s
  %s.sum.f = load float, ptr %s.sum.p
  %s.sum = fpext float %s.sum.f to double
  %s.product = fmul double %factor, %s.other
  %s.total = fadd double %s.sum, %s.product
  %s.rounded = fptrunc double %s.total to float
  store float %s.rounded, ptr %s.sum.p
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %n
  br i1 %s.more, label %scalars, label %steps.end
steps.end:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %steps, label %rows.end
rows.end:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %m
  br i1 %i.more, label %rows, label %end
end:
  ret void
}
