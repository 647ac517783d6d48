"""Print, assert and local arrays become accesses to memory that the launch gives, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.transforms.gpu.lower_reports import LowerReports


def test_a_print_takes_room_and_fills_it() -> None:
    """Its record has the site, the block and the values; what does not fit is lost."""
    check(
        LowerReports(),
        """
func @f(%i: i32 = "i".scalar) {
  print([%i]) {parts = (none), formats = ("")}
  return()
}
""",
        """
func @f(%i: i32 = "i".scalar, %report: ptr<i64> = "report".report) {
  %0 = constant() {value = 5, type = !i64} : i64
  %1 = atomic_rmw(%report, %0, _) {kind = AtomicKind.ADD, memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE} : i64
  %2 = constant() {value = 1048547, type = !i64} : i64
  %3 = cmp(%1, %2) {predicate = CmpPredicate.LE} : i1
  if(%3) {types = ()} {
    %4 = constant() {value = 24, type = !i64} : i64
    %5 = add(%1, %4) : i64
    %6 = ptr_offset(%report, %5) : ptr<i64>
    %7 = constant() {value = 0, type = !i64} : i64
    %8 = bid() {axis = 0} : i32
    %9 = cast(%8) {dtype = i64} : i64
    %10 = bid() {axis = 1} : i32
    %11 = cast(%10) {dtype = i64} : i64
    %12 = bid() {axis = 2} : i32
    %13 = cast(%12) {dtype = i64} : i64
    %14 = constant() {value = 0, type = !i64} : i64
    %15 = ptr_offset(%6, %14) : ptr<i64>
    store(%15, %7, _)
    %16 = constant() {value = 1, type = !i64} : i64
    %17 = ptr_offset(%6, %16) : ptr<i64>
    store(%17, %9, _)
    %18 = constant() {value = 2, type = !i64} : i64
    %19 = ptr_offset(%6, %18) : ptr<i64>
    store(%19, %11, _)
    %20 = constant() {value = 3, type = !i64} : i64
    %21 = ptr_offset(%6, %20) : ptr<i64>
    store(%21, %13, _)
    %22 = bitcast(%i) {dtype = u32} : u32
    %23 = cast(%22) {dtype = i64} : i64
    %24 = constant() {value = 4, type = !i64} : i64
    %25 = ptr_offset(%6, %24) : ptr<i64>
    store(%25, %23, _)
    yield([])
  } {
    yield([])
  }
  return()
}
""",
    )


def test_the_first_failed_assert_is_kept_and_each_ends_its_block() -> None:
    """The site is written by one block, the others only end."""
    check(
        LowerReports(),
        """
func @f(%c: i1 = "c".scalar) {
  assert(%c, []) {message = "no"}
  return()
}
""",
        """
func @f(%c: i1 = "c".scalar, %report: ptr<i64> = "report".report) {
  %0 = constant() {value = 0, type = !i32} : i32
  %1 = constant() {value = false, type = !i1} : i1
  %2 = cmp(%c, %1) {predicate = CmpPredicate.EQ} : i1
  if(%2) {types = ()} {
    %3 = constant() {value = 1, type = !i64} : i64
    %4 = ptr_offset(%report, %3) : ptr<i64>
    %5 = constant() {value = 1, type = !i64} : i64
    %6 = constant() {value = 0, type = !i64} : i64
    %7 = atomic_cas(%4, %6, %5, _) {memory_order = MemoryOrder.RELAXED, memory_scope = MemoryScope.DEVICE} : i64
    %8 = constant() {value = 0, type = !i64} : i64
    %9 = cmp(%7, %8) {predicate = CmpPredicate.EQ} : i1
    if(%9) {types = ()} {
      %10 = bid() {axis = 0} : i32
      %11 = cast(%10) {dtype = i64} : i64
      %12 = bid() {axis = 1} : i32
      %13 = cast(%12) {dtype = i64} : i64
      %14 = bid() {axis = 2} : i32
      %15 = cast(%14) {dtype = i64} : i64
      %16 = constant() {value = 2, type = !i64} : i64
      %17 = ptr_offset(%report, %16) : ptr<i64>
      store(%17, %11, _)
      %18 = constant() {value = 3, type = !i64} : i64
      %19 = ptr_offset(%report, %18) : ptr<i64>
      store(%19, %13, _)
      %20 = constant() {value = 4, type = !i64} : i64
      %21 = ptr_offset(%report, %20) : ptr<i64>
      store(%21, %15, _)
      %22 = cast(%0) {dtype = i64} : i64
      %23 = constant() {value = 5, type = !i64} : i64
      %24 = ptr_offset(%report, %23) : ptr<i64>
      store(%24, %22, _)
      yield([])
    } {
      yield([])
    }
    gpu.exit()
    yield([])
  } {
    yield([])
  }
  return()
}
""",
    )


def test_local_arrays_are_parts_of_a_buffer() -> None:
    """Each block has 32 bytes of it: a multiple of 16 bytes for each array."""
    check(
        LowerReports(),
        """
func @f(%v: f32 = "v".scalar) {
  %a = local_array() {dtype = f32, count = 3} : ptr<f32>
  %b = local_array() {dtype = f32, count = 1} : ptr<f32>
  store(%b, %v, _)
  return()
}
""",
        """
func @f(%v: f32 = "v".scalar, %local: ptr<i64> = "local".local) {
  %0 = bid() {axis = 0} : i32
  %1 = cast(%0) {dtype = i64} : i64
  %2 = bid() {axis = 1} : i32
  %3 = cast(%2) {dtype = i64} : i64
  %4 = bid() {axis = 2} : i32
  %5 = cast(%4) {dtype = i64} : i64
  %6 = num_blocks() {axis = 0} : i32
  %7 = cast(%6) {dtype = i64} : i64
  %8 = num_blocks() {axis = 1} : i32
  %9 = cast(%8) {dtype = i64} : i64
  %10 = mul(%5, %9) : i64
  %11 = add(%10, %3) : i64
  %12 = mul(%11, %7) : i64
  %13 = add(%12, %1) : i64
  %14 = constant() {value = 4, type = !i64} : i64
  %15 = mul(%13, %14) : i64
  %16 = constant() {value = 0, type = !i64} : i64
  %17 = add(%15, %16) : i64
  %18 = ptr_offset(%local, %17) : ptr<i64>
  %19 = bitcast(%18) {dtype = ptr<f32>} : ptr<f32>
  %20 = bid() {axis = 0} : i32
  %21 = cast(%20) {dtype = i64} : i64
  %22 = bid() {axis = 1} : i32
  %23 = cast(%22) {dtype = i64} : i64
  %24 = bid() {axis = 2} : i32
  %25 = cast(%24) {dtype = i64} : i64
  %26 = num_blocks() {axis = 0} : i32
  %27 = cast(%26) {dtype = i64} : i64
  %28 = num_blocks() {axis = 1} : i32
  %29 = cast(%28) {dtype = i64} : i64
  %30 = mul(%25, %29) : i64
  %31 = add(%30, %23) : i64
  %32 = mul(%31, %27) : i64
  %33 = add(%32, %21) : i64
  %34 = constant() {value = 4, type = !i64} : i64
  %35 = mul(%33, %34) : i64
  %36 = constant() {value = 2, type = !i64} : i64
  %37 = add(%35, %36) : i64
  %38 = ptr_offset(%local, %37) : ptr<i64>
  %39 = bitcast(%38) {dtype = ptr<f32>} : ptr<f32>
  store(%39, %v, _)
  return()
}
""",
    )
