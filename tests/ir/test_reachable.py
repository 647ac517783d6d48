"""What is reached from values, and in which order."""

from __future__ import annotations

import pytest

from tilewright.ir.ops.arith import Add
from tilewright.ir.ops.control import If
from tilewright.ir.parser import parse_function
from tilewright.ir.reachable import operands_within, reachable

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
