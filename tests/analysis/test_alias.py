"""What an address points into, through control flow, integers and memory; one analysis answers both questions about it."""

from __future__ import annotations

import pytest
from support.kernel_runs import arguments, generated, seeds

from tilewright.analysis.alias import AliasAnalysis, MemoryObject
from tilewright.frontend.python.compile import trace
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import LocalArray, MemoryOp, Store
from tilewright.ir.parser import parse_function
from tilewright.transforms.pipelines import optimize

HEAD = (
    'func @f(%a: ptr<i64> = "a".base, %b: ptr<i64> = "b".base, %k: i1 = "k".scalar, %n: i64 = "n".scalar, '
    '%t: ptr<i64> = "list".table.1, %i: i32 = "i".scalar) {\n  %local = local_array() {dtype = i64, count = 4} : ptr<i64>\n'
)


def names(found: set[MemoryObject], function: Function) -> set[str]:
    known = {v: p.argument for v, p in zip(function.body.args, function.params)}
    return {"?" if v is None else known.get(v, "local" if isinstance(v.op, LocalArray) else "!") for v in found}


@pytest.mark.parametrize(
    ("body", "origins", "underlying"),
    [
        ("%p = ptr_offset(%a, %n) : ptr<i64>", {"a"}, "a"),
        ("%p = ptr_offset(%local, %n) : ptr<i64>", {"local"}, "local"),
        ("%p = select(%k, %a, %b) : ptr<i64>", {"a", "b"}, "?"),
        ("%p = if(%k) {types = (!ptr<i64>)} : ptr<i64> { yield([%a]) } { yield([%b]) }", {"a", "b"}, "?"),
        ("%p = if(%k) {types = (!ptr<i64>)} : ptr<i64> { yield([%a]) } { yield([%a]) }", {"a"}, "a"),
        (
            "%p = for(%i, %i, %i, [%a]) : ptr<i64> { ^(%j: i32, %q: ptr<i64>)\n"
            "%r = ptr_offset(%q, %n) : ptr<i64>\ncontinue([%r])\n}",
            {"a"},
            "a",
        ),
        (
            "%p = for(%i, %i, %i, [%a]) : ptr<i64> { ^(%j: i32, %q: ptr<i64>)\n"
            "if(%k) {types = ()} { continue([%b]) } { yield([]) }\ncontinue([%q])\n}",
            {"a", "b"},
            "?",
        ),
        (
            "%p = loop([%a]) {types = (!ptr<i64>)} : ptr<i64> { ^(%q: ptr<i64>)\n"
            "if(%k) {types = ()} { break([%q]) } { yield([]) }\nbreak([%local])\n}",
            {"a", "local"},
            "?",
        ),
        ("%e = load(%t, _, _) : i64\n%p = int_to_ptr(%e) {dtype = ptr<i64>} : ptr<i64>", {"list"}, "list"),
        ("%e = load(%a, _, _) : i64\n%p = int_to_ptr(%e) {dtype = ptr<i64>} : ptr<i64>", {"a"}, "?"),
        ("%e = load(%local, _, _) : i64\n%p = int_to_ptr(%e) {dtype = ptr<i64>} : ptr<i64>", {"?"}, "?"),
        (
            "%e = ptr_to_int(%a) {dtype = i64} : i64\n%g = add(%e, %n) : i64\n"
            "%p = int_to_ptr(%g) {dtype = ptr<i64>} : ptr<i64>",
            {"a"},
            "?",
        ),
        ("%p = int_to_ptr(%n) {dtype = ptr<i64>} : ptr<i64>", set(), "?"),
    ],
)
def test_what_an_address_points_into(body: str, origins: set[str], underlying: str) -> None:
    function = parse_function(f"{HEAD}{body}\nstore(%p, %n, _)\nreturn()\n}}")
    alias = AliasAnalysis(function)
    (store,) = (op for op in function.walk() if isinstance(op, Store))
    assert names(alias.origins(store.ptrs), function) == origins
    assert names({alias.underlying_object(store.ptrs)}, function) == {underlying}


@pytest.mark.parametrize("seed", seeds(20))
def test_both_answers_agree(seed: int) -> None:
    kernel = generated(seed)
    launched = kernel.kernel()
    signature, _ = launched.described(arguments(kernel)[0], "reference")
    function = trace(launched.function, signature, {})
    for f in (function, optimize(function)):
        alias = AliasAnalysis(f)
        accesses = [op for op in f.walk() if isinstance(op, MemoryOp)]
        assert accesses
        for op in accesses:
            root, origins = alias.underlying_object(op.address), alias.origins(op.address)
            assert origins
            assert root is None or origins == {root}
