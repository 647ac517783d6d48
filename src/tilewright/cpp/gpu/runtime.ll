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
; The barrier of a block, by the kind of its result.
define internal i32 @__tw_simt_barrier(i32 %kind, i32 %predicate, ptr %f, i32 %l) alwaysinline convergent {
  switch i32 %kind, label %k2 [
    i32 0, label %k0
    i32 1, label %k1 ]
k0:
  %r0 = call i32 asm sideeffect "{ .reg .pred p, q; setp.ne.u32 p, $1, 0; bar.red.popc.u32 $0, 0, p; }", "=r,r,~{memory}"(i32 %predicate) convergent
  ret i32 %r0
k1:
  %r1 = call i32 asm sideeffect "{ .reg .pred p, q; setp.ne.u32 p, $1, 0; bar.red.and.pred q, 0, p; selp.u32 $0, 1, 0, q; }", "=r,r,~{memory}"(i32 %predicate) convergent
  ret i32 %r1
k2:
  %r2 = call i32 asm sideeffect "{ .reg .pred p, q; setp.ne.u32 p, $1, 0; bar.red.or.pred q, 0, p; selp.u32 $0, 1, 0, q; }", "=r,r,~{memory}"(i32 %predicate) convergent
  ret i32 %r2
}
declare i32 @llvm.nvvm.read.ptx.sreg.smid()
declare i32 @llvm.nvvm.read.ptx.sreg.nsmid()
define internal i32 @__tw_simt_sm_id() alwaysinline {
  %found = call i32 @llvm.nvvm.read.ptx.sreg.smid()
  ret i32 %found
}
define internal i32 @__tw_simt_sm_count() alwaysinline {
  %found = call i32 @llvm.nvvm.read.ptx.sreg.nsmid()
  ret i32 %found
}
; The coordinates of a thread, by their number.
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
define internal i32 @__tw_simt_index(i32 %which) alwaysinline {
  switch i32 %which, label %c0 [
    i32 0, label %c0
    i32 1, label %c1
    i32 2, label %c2
    i32 3, label %c3
    i32 4, label %c4
    i32 5, label %c5
    i32 6, label %c6
    i32 7, label %c7
    i32 8, label %c8
    i32 9, label %c9
    i32 10, label %c10
    i32 11, label %c11 ]
c0:
  %v0 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %v0
c1:
  %v1 = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  ret i32 %v1
c2:
  %v2 = call i32 @llvm.nvvm.read.ptx.sreg.tid.z()
  ret i32 %v2
c3:
  %v3 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  ret i32 %v3
c4:
  %v4 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  ret i32 %v4
c5:
  %v5 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  ret i32 %v5
c6:
  %v6 = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  ret i32 %v6
c7:
  %v7 = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  ret i32 %v7
c8:
  %v8 = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  ret i32 %v8
c9:
  %v9 = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  ret i32 %v9
c10:
  %v10 = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  ret i32 %v10
c11:
  %v11 = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  ret i32 %v11
}
