"""Which reductions become one, text in and text out."""

from __future__ import annotations

import pytest
from support.passes import check

from tilewright.backends.cpu.loops.merge_reductions import MergeReductions
from tilewright.backends.cpu.target import described
from tilewright.ir.ops.linear import Reduce
from tilewright.ir.parser import parse_function

AVX512 = described("x86_64-unknown-linux-gnu", "skylake-avx512", {})._replace(vector_bytes=64, vector_registers=32)
AVX2 = described("x86_64-unknown-linux-gnu", "haswell", {"avx2": True, "fma": True})

VIEW = "view<f32,[?,?],[?,1],i32>"
PARTITION = f"partition<{VIEW},[4,64],[0,1],zero,[4,64]>"
HEAD = f"""
    func @k(%a: ptr<f32> = "a".base, %m: i32 = "a".shape.0, %n: i32 = "a".shape.1) {{
      %u = make_tensor_view(%a, [%m, %n], [%n]) {{type = !{VIEW}}} : {VIEW}
      %v = make_partition_view(%u) {{type = !{PARTITION}}} : {PARTITION}
      %x = load_view(%v, [%m, %n]) {{in_bounds = (false, false)}} : f32[4,64]"""


def reduction(result: str, value: str, op: str = "add", axis: int = 1, shape: str = "[4]") -> str:
    return f"""
      %{result} = reduce([%{value}]) {{axis = {axis}, identities = (0.0), commutative = true}} : f32{shape} {{
       ^(%{result}_l: f32, %{result}_r: f32)
        %{result}_c = {op}(%{result}_l, %{result}_r) : f32
        yield([%{result}_c])
      }}"""


def count(body: str, processor: object = AVX512) -> int:
    """How many reductions are left of those in ``body``."""
    made = MergeReductions(processor).run(parse_function(f"{HEAD}{body}\n return()\n}}"))  # type: ignore[arg-type]
    return sum(isinstance(op, Reduce) for op in made.walk())


SQUARE = "\n %y = mul(%x, %x) : f32[4,64]"


def test_two_sums_of_the_same_tile() -> None:
    use = "\n %t = add(%s, %q) : f32[4]"
    check(
        MergeReductions(AVX512),
        f"{HEAD}{reduction('s', 'x')}\n %h = neg(%s) : f32[4]{SQUARE}{reduction('q', 'y')}{use}\n return()\n}}",
        f"""{HEAD}{SQUARE}
      %s, %q = reduce([%x, %y]) {{axis = 1, identities = (0.0, 0.0), commutative = true}} : f32[4], f32[4] {{
       ^(%0: f32, %1: f32, %2: f32, %3: f32)
        %s_c = add(%0, %2) : f32
        %q_c = add(%1, %3) : f32
        yield([%s_c, %q_c])
      }}
      %h = neg(%s) : f32[4]{use}\n return()\n}}""",
    )


def test_three_become_one() -> None:
    cube = "\n %z = mul(%y, %x) : f32[4,64]"
    assert count(f"{SQUARE}{cube}{reduction('s', 'x')}{reduction('q', 'y')}{reduction('r', 'z')}") == 1


def test_a_sum_and_a_product() -> None:
    assert count(reduction("s", "x") + reduction("q", "x", "mul")) == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            reduction("s", "x")
            + "\n %c = reshape(%s) {shape = (4, 1)} : f32[4,1]\n %w = broadcast(%c) {shape = (4, 64)} : f32[4,64]"
            + "\n %y = sub(%x, %w) : f32[4,64]"
            + reduction("q", "y"),
            id="the second needs the first",
        ),
        pytest.param(reduction("s", "x") + reduction("q", "x", axis=0, shape="[64]"), id="another axis"),
        pytest.param(
            "\n %y = load_view(%v, [%n, %n]) {in_bounds = (false, false)} : f32[4,64]"
            + reduction("s", "x")
            + reduction("q", "y"),
            id="nothing in common",
        ),
        pytest.param(
            reduction("s", "x")
            + "\n store_view(%v, %x, [%n, %n]) {in_bounds = (false, false)}"
            + "\n %z = load_view(%v, [%n, %n]) {in_bounds = (false, false)} : f32[4,64]\n %y = mul(%x, %z) : f32[4,64]"
            + reduction("q", "y"),
            id="a load that a store precedes",
        ),
        pytest.param(
            reduction("s", "x") + reduction("q", "x", "max"), id="no identity: numbers that are none are dropped"
        ),
    ],
)
def test_those_that_stay_apart(body: str) -> None:
    assert count(body) == 2


def test_partial_results_have_to_fit_into_registers() -> None:
    body = SQUARE + reduction("s", "x") + reduction("q", "y")
    assert (count(body, AVX512), count(body, AVX2)) == (1, 2)


def test_sums_that_depend_on_each_other_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels have hundreds of them, and what each is computed from grows with their number."""

    def fail(*_: object) -> None:
        raise AssertionError("compared")

    monkeypatch.setattr(MergeReductions, "_fits", fail)
    body, before = "", "x"
    for i in range(4):
        wide = f"\n %r{i} = reshape(%s{i}) {{shape = (4, 1)}} : f32[4,1]"
        wide += f"\n %b{i} = broadcast(%r{i}) {{shape = (4, 64)}} : f32[4,64]"
        body += f"{reduction(f's{i}', before)}{wide}\n %y{i} = add(%{before}, %b{i}) : f32[4,64]"
        before = f"y{i}"
    assert count(body) == 4
