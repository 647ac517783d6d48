"""Where stores go, text in and text out."""

from __future__ import annotations

from support.passes import check

from tilewright.backends.cpu.loops.sink_stores import SinkStores

VIEW = "view<f32,[?,?],[?,1],i32>"
PARTITION = f"partition<{VIEW},[4,64],[0,1],zero,[4,64]>"
HEAD = f"""
    func @k(%a: ptr<f32> = "a".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {{
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %v = make_partition_view(%u) {{type = !{PARTITION}}} : {PARTITION}"""
LOAD = "\n %x = load_view(%v, [%m, %n]) {in_bounds = (false, false)} : f32[4,64]"
STORE = "\n store_view(%v, %x, [%n, %n]) {in_bounds = (false, false)}"
SUM = """
      %s = reduce([%x]) {axis = 0, identities = (0.0), commutative = true} : f32[64] { ^(%l: f32, %r: f32)
        %c = add(%l, %r) : f32
        yield([%c])
      }"""
END = "\n return()\n}"


def test_behind_the_reduction_of_what_was_loaded() -> None:
    after = "\n %t = neg(%s) : f32[64]"
    check(SinkStores(), f"{HEAD}{LOAD}{STORE}{SUM}{after}{END}", f"{HEAD}{LOAD}{SUM}{STORE}{after}{END}")


def test_behind_what_is_computed_of_what_was_loaded() -> None:
    half = "\n %h = neg(%x) : f32[4,64]"
    used = "\n %t = exp(%h) : f32[4,64]"
    after = "\n %o = constant() {value = 1.0, type = !f32[4,64]} : f32[4,64]"
    check(
        SinkStores(),
        f"{HEAD}{LOAD}{half}{STORE}{used}{after}{END}",
        f"{HEAD}{LOAD}{half}{used}{STORE}{after}{END}",
    )


def test_not_behind_other_reductions_and_effects() -> None:
    other = "\n %x2 = constant() {value = 1.0, type = !f32[4,64]} : f32[4,64]"
    apart = f"{HEAD}{LOAD}{STORE}{other}{SUM.replace('[%x]', '[%x2]')}{END}"
    check(SinkStores(), apart, apart)
    again = LOAD.replace("%x", "%z")
    loads = f"{HEAD}{LOAD}{STORE}{again}{SUM}{END}"
    check(SinkStores(), loads, loads)


def test_to_the_end_of_an_iteration() -> None:
    loop = """
      %one = constant() {value = 1, type = !i32} : i32
      %zero = constant() {value = 0.0, type = !f32[4,64]} : f32[4,64]
      %t = for(%m, %n, %one, [%zero]) : f32[4,64] { ^(%i: i32, %o: f32[4,64])"""
    add = "\n %e = add(%o, %x) : f32[4,64]"
    end = f"\n continue([%e])\n }}{END}"
    check(SinkStores(), f"{HEAD}{loop}{LOAD}{STORE}{add}{end}", f"{HEAD}{loop}{LOAD}{add}{STORE}{end}")
