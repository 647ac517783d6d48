"""The verifier refuses IR that breaks a declaration, dominance, or the shape of control flow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.ir.core import Block, Function, Op
from tilewright.ir.dtypes import float32
from tilewright.ir.enums import RoundingMode
from tilewright.ir.location import UNKNOWN
from tilewright.ir.opdef import OPS, IRError, create
from tilewright.ir.parser import parse_function
from tilewright.ir.types import TileType
from tilewright.ir.verifier import verify

TEXT = """
func @f(%n: i32 = "n".scalar) {
  %0 = constant() {value = 1.0, type = !f32[4]} : f32[4]
  %1 = for(%n, %n, %n, [%0]) : f32[4] { ^(%i: i32, %a: f32[4])
    %2 = add(%a, %0) : f32[4]
    continue([%2])
  }
  %3 = add(%1, %0) : f32[4]
  return()
}
"""


def find(function: Function, name: str, nth: int = 0) -> Op:
    return [op for op in function.walk() if op.name == name][nth]


def use_value_from_inner_region(f: Function) -> None:
    find(f, "add", 1).set_operand(0, find(f, "add", 0).result)


def use_before_definition(f: Function) -> None:
    f.body.splice([f.body.ops[2]], before=f.body.ops[0])


def wrong_rounding_mode(f: Function) -> None:
    find(f, "add").attributes["rounding"] = RoundingMode.RA


def wrong_attribute_type(f: Function) -> None:
    find(f, "add").attributes["flush_to_zero"] = 1


def wrong_result_type(f: Function) -> None:
    find(f, "add", 1).result.type = TileType(float32, (8,))


def wrong_carried_type(f: Function) -> None:
    find(f, "continue").set_operand(0, f.body.args[0])


def missing_terminator(f: Function) -> None:
    f.body.terminator.erase()


def terminator_in_the_middle(f: Function) -> None:
    f.body.splice([f.body.terminator], before=f.body.ops[0])


def break_in_for(f: Function) -> None:
    body = find(f, "for").regions[0]
    body.terminator.erase()
    body.append(create(OPS["break"], [[]], {}, UNKNOWN))


def empty_region(f: Function) -> None:
    find(f, "for").regions[0].clear()


def op_of_two_blocks(f: Function) -> None:
    find(f, "for").regions[0].insert(find(f, "constant"), find(f, "continue"))


def region_of_two_ops(f: Function) -> None:
    find(f, "for").regions[0].parent = None


def user_out_of_the_function(f: Function) -> None:
    Block().append(create(OPS["add"], [f.body.args[0], f.body.args[0]], {}, UNKNOWN))


def operand_without_a_use(f: Function) -> None:
    find(f, "add", 1)._operands[0] = find(f, "constant").result  # past ``set_operand``


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (use_value_from_inner_region, "which is not defined here"),
        (use_before_definition, "which is not defined here"),
        (wrong_rounding_mode, "rounding mode RA is not available for float32"),
        (wrong_attribute_type, "attribute flush_to_zero = 1 is not bool"),
        (wrong_result_type, "has result types"),
        (wrong_carried_type, "passes ['i32'], expected ['f32[4]']"),
        (missing_terminator, "ends a block"),
        (terminator_in_the_middle, "stands after the end of its block"),
        (break_in_for, "cannot end this region; expected continue"),
        (empty_region, "has no terminator"),
        (op_of_two_blocks, "is in another block"),
        (region_of_two_ops, "has a region of another op"),
        (user_out_of_the_function, "%n: i32 lists the users [<for at"),
        (operand_without_a_use, "but has "),
    ],
)
def test_damage_is_found(damage: Callable[[Function], None], message: str) -> None:
    function = parse_function(TEXT)
    verify(function)
    damage(function)
    with pytest.raises(IRError) as e:
        verify(function)
    assert message in str(e.value)
