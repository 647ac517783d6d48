"""Values know their users, whatever happens to the ops: after each change, the verifier counts them again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tilewright.ir.core import Function, Op
from tilewright.ir.ops.arith import Add
from tilewright.ir.ops.control import For, If, LoopOp
from tilewright.ir.ops.linear import Mma
from tilewright.ir.ops.memory import MemoryOp
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.rewrite import clone_function, clone_op
from tilewright.ir.verifier import verify

TEXT = """
func @f(%n: i32 = "n".scalar) {
  %0 = constant() {value = 1, type = !i32} : i32
  %1 = add(%n, %0) : i32
  %2 = add(%n, %n) : i32
  %3 = for(%n, %1, %2, [%0]) : i32 { ^(%i: i32, %a: i32)
    %4 = add(%a, %1) : i32
    %5 = mul(%i, %n) : i32
    continue([%4])
  }
  %6 = add(%3, %0) : i32
  return()
}
"""


def ops_of(function: Function, name: str) -> list[Op]:
    return [op for op in function.walk() if op.name == name]


@pytest.mark.parametrize("kind", [Op, Add, For, LoopOp, (LoopOp, MemoryOp, If), Mma])
def test_ops_of_a_kind_are_those_of_a_walk(kind: type[Op] | tuple[type[Op], ...]) -> None:
    for text in (TEXT, (Path(__file__).parent / "every_op.tir").read_text()):
        f = parse_function(text)
        assert f.ops_of(kind) == [op for op in f.walk() if isinstance(op, kind)]


def test_users_are_listed_once_in_the_order_of_their_insertion() -> None:
    f = parse_function(TEXT)
    (n,) = f.body.args
    first, second, *_ = ops_of(f, "add")
    assert list(n.users) == [first, second, *ops_of(f, "mul"), *ops_of(f, "for")]


def test_replacing_uses_reaches_nested_ones_and_repeated_operands() -> None:
    f = parse_function(TEXT)
    (n,) = f.body.args
    (constant,) = ops_of(f, "constant")
    n.replace_all_uses_with(constant.result)
    assert not n.users
    assert not any(v is n for op in f.walk() for v in op.operands)
    verify(f)


def test_only_what_nothing_uses_is_erased() -> None:
    f = parse_function(TEXT)
    with pytest.raises(AssertionError, match="has uses"):
        ops_of(f, "for")[0].erase()
    f = parse_function(TEXT)
    loop, last = ops_of(f, "for")[0], ops_of(f, "add")[-1]
    f.body.erase([loop, last])  # one uses the other
    verify(f)
    assert [op.name for op in f.walk()] == ["constant", "add", "add", "return"]
    assert list(f.body.args[0].users) == ops_of(f, "add")


@pytest.mark.parametrize("seed", range(20))
def test_users_hold_through_random_changes(seed: int) -> None:
    """Copies are inserted, uses are replaced by equal values, unused ops are erased, and independent ops are moved."""
    choose, f = random.Random(seed), parse_function(TEXT)
    for _ in range(30):
        op = choose.choice([o for o in f.walk() if len(o.results) == 1 and not o.regions])
        block = op.block
        assert block is not None
        copied = clone_op(op, {})
        block.insert(copied, before=op)
        if choose.random() < 0.5:
            op.result.replace_all_uses_with(copied.result)
            verify(f)
            op.erase()
        else:
            block.splice([op], before=copied)
        verify(f)
        verify(clone_function(f))
    assert print_function(f)
