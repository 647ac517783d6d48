"""What is reached from values, and in which order."""

from __future__ import annotations

import pytest

from tilewright.ir.ops.arith import Add
from tilewright.ir.ops.control import If
from tilewright.ir.parser import parse_function
from tilewright.ir.reachable import are_alike, operands_within, reachable

GRAPH = {"a": "bc", "b": "d", "c": "cd", "d": "a", "e": "a"}


def test_each_node_is_given_once_in_the_order_in_which_it_is_found() -> None:
    assert "".join(reachable("a", GRAPH.__getitem__)) == "abcd"
    assert "".join(reachable("ee", GRAPH.__getitem__)) == "eabcd"


def test_nothing_is_followed_before_it_is_asked_for() -> None:
    found = reachable("a", {"a": "b"}.__getitem__)
    assert (next(found), next(found)) == ("a", "b")
    with pytest.raises(KeyError):
        next(found)


def test_operands_of_a_branch_are_those_of_the_ops_in_it() -> None:
    function = parse_function(
        'func @f(%k: i1 = "k".scalar, %x: i32 = "x".scalar, %y: i32 = "y".scalar) {\n'
        "%r = if(%k) {types = (!i32)} : i32 {\n%s = add(%x, %y) : i32\nyield([%s])\n} { yield([%x]) }\nreturn()\n}\n"
    )
    (branch,) = (op for op in function.walk() if isinstance(op, If))
    (added,) = (op for op in function.walk() if isinstance(op, Add))
    k, x, y = function.body.args
    assert set(operands_within(branch.result)) == {k, x, y, added.result}
    assert operands_within(x) == []


def test_values_are_alike_where_pure_ops_of_one_kind_compute_them_of_such() -> None:
    function = parse_function(
        'func @f(%p: ptr<f32> = "p".base, %x: i32 = "x".scalar, %y: i32 = "y".scalar) {\n'
        "%a = add(%x, %y) : i32\n%b = add(%x, %y) : i32\n%c = mul(%a, %x) : i32\n%d = mul(%b, %x) : i32\n"
        "%e = mul(%b, %y) : i32\n%g = sub(%x, %y) : i32\n%k = constant() {value = 0.0, type = !f32} : f32\n"
        "%l = constant() {value = -0.0, type = !f32} : f32\n%m = load(%p, _, _) : f32\n%n = load(%p, _, _) : f32\nreturn()\n}\n"
    )
    _, x, y = function.body.args
    a, b, c, d, e, g, k, l, m, n = (op.result for op in function.body.ops[:-1])
    assert are_alike(x, x) and are_alike(a, b) and are_alike(c, d) and are_alike(None, None)
    assert are_alike(c, e, {x: y}) and not are_alike(c, e)
    assert not any(are_alike(*pair) for pair in ((x, y), (a, c), (d, e), (a, g), (k, l), (m, n), (x, None)))


def test_values_that_use_others_twice_are_compared_once() -> None:
    """Two sums of themselves, over and over, which have more paths than can be followed."""
    chains = (f"%{name}{i + 1} = add(%{name}{i}, %{name}{i}) : i32\n" for i in range(100) for name in "ab")
    function = parse_function(
        f'func @f(%a0: i32 = "x".scalar, %b0: i32 = "y".scalar) {{\n{"".join(chains)}return()\n}}\n'
    )
    a, b = (op.result for op in function.body.ops[-3:-1])
    assert are_alike(a, b, {function.body.args[0]: function.body.args[1]}) and not are_alike(a, b)
