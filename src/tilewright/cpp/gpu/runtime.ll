; What SIMT code calls on GPUs, as instructions. Barriers are those of the block; `assert` and memory are the driver's.
declare i32 @vprintf(ptr, ptr)
declare void @__assertfail(ptr, ptr, i32, ptr, i64)
declare void @llvm.trap()
declare ptr @malloc(i64)
declare void @free(ptr)
define internal ptr @_Znwm(i64 %size) {
  %found = call ptr @malloc(i64 %size)
  ret ptr %found
}
define internal ptr @_Znam(i64 %size) {
  %found = call ptr @malloc(i64 %size)
  ret ptr %found
}
define internal void @_ZdlPvm(ptr %p, i64 %size) {
  call void @free(ptr %p)
  ret void
}
define internal void @_ZdaPv(ptr %p) {
  call void @free(ptr %p)
  ret void
}
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32) convergent
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1) convergent
declare void @llvm.nvvm.bar.warp.sync(i32) convergent
define internal ptr @__tw_simt_exchange(i32 %mask, i64 %value, i32 %bytes, ptr %file, i32 %line) alwaysinline convergent {
  call void @llvm.nvvm.bar.warp.sync(i32 %mask)
  ret ptr null
}
define internal i64 @__tw_simt_shuffle(i32 %mask, i64 %value, i32 %lane) alwaysinline convergent {
  %low = trunc i64 %value to i32
  %up = lshr i64 %value, 32
  %high = trunc i64 %up to i32
  %l = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %mask, i32 %low, i32 %lane, i32 31)
  %h = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 %mask, i32 %high, i32 %lane, i32 31)
  %lw = zext i32 %l to i64
  %hw = zext i32 %h to i64
  %hs = shl i64 %hw, 32
  %both = or i64 %lw, %hs
  ret i64 %both
}
define internal i32 @__tw_simt_ballot(i32 %mask, i32 %predicate) alwaysinline convergent {
  %p = icmp ne i32 %predicate, 0
  %found = call i32 @llvm.nvvm.vote.ballot.sync(i32 %mask, i1 %p)
  ret i32 %found
}
define internal i32 @__tw_simt_active() alwaysinline convergent {
  %found = call i32 asm sideeffect "activemask.b32 $0;", "=r"() convergent
  ret i32 %found
}
define internal void @__assert_fail(ptr %what, ptr %file, i32 %line, ptr %function) noreturn {
  call void @__assertfail(ptr %what, ptr %file, i32 %line, ptr %function, i64 1)
  call void @llvm.trap()
  unreachable
}
define internal void @__cxa_pure_virtual() noreturn {
  call void @llvm.trap()
  unreachable
}
