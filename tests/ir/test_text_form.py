"""The text form reads back to the same IR, for every op."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.ir.location import Loc
from tilewright.ir.opdef import OPS
from tilewright.ir.parser import IRParseError, parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.rewrite import clone_function
from tilewright.ir.verifier import verify

EVERY_OP = (Path(__file__).parent / "every_op.tir").read_text()


def test_the_sample_has_every_op() -> None:
    used = {op.name for op in parse_function(EVERY_OP).walk()}
    assert used == set(OPS)


def test_text_round_trip() -> None:
    function = parse_function(EVERY_OP)
    verify(function)
    assert print_function(function) == EVERY_OP


def test_names_of_cpp_round_trip() -> None:
    text = "func @outer::inner::f() {\n  return()\n}\n"
    assert print_function(parse_function(text)) == text


def test_locations_round_trip() -> None:
    function = parse_function(EVERY_OP)
    call = Loc('dir/"k".py', 9, 4, 9, 12, "kernel")
    for i, op in enumerate(function.walk()):
        op.loc = Loc("helper.py", i + 1, 2, i + 1, 8, "helper", call)
    text = print_function(function, locations=True)
    again = parse_function(text)
    assert print_function(again, locations=True) == text
    assert [op.loc for op in again.walk()] == [op.loc for op in function.walk()]


def test_clone_is_equal_and_independent() -> None:
    function = parse_function(EVERY_OP)
    clone = clone_function(function)
    verify(clone)
    assert print_function(clone) == print_function(function)
    assert not set(clone.walk()) & set(function.walk())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func @f() {\n  %0 = nothing() : i32\n}", "2:8: unknown op 'nothing'"),
        ("func @f() {\n  %0 = neg(%1) : i32\n}", "2:12: %1 is not defined"),
        ("func @f() {\n  %0 = bid() {axis = 0} : f32\n}", "2:8: bid yields ['i32'], not ['f32']"),
        ("func @f() {\n  %0 = bid() {axis = 7} : i32\n}", "2:8: bid: axis 7"),
        ('func @f(%a: q32 = "a".scalar) {\n}', "1:13: unknown dtype 'q32'"),
        ("func @f() {\n  return()\n} }", "3:3: unexpected '}' after the function"),
        ("func @f() {\n  ;\n}", "2:3: unexpected character ';'"),
        ("func @f() {\n  %0 = bid() {axis = 0} : i32\n  %0 = bid() {axis = 0} : i32\n}", "3:8: %0 is defined twice"),
        ("func @f() {\n  %0 = bid() {axis = 0} : i32\n}", "2:8: bid ends a block"),
        ("func @f() {\n}", "2:1: a block has no terminator"),
        ("func @f() {\n  yield([])\n}", "2:3: yield cannot end this region; expected return"),
        ("func @f() {\n  return()\n  return()\n}", "2:3: return stands after the end of its block"),
        (
            'func @f(%n: i32 = "n".scalar) {\n  for(%n, %n, %n, []) { ^(%i: i32)\n    return()\n  }\n  return()\n}',
            "3:5: return cannot end this region; expected continue",
        ),
        (
            'func @f(%n: i32 = "n".scalar) {\n  for(%n, %n, %n, []) { ^(%i: i32)\n    %1 = neg(%i) : i32\n'
            "    continue([])\n  }\n  %2 = neg(%1) : i32\n  return()\n}",
            "6:12: %1 is not defined",
        ),
        (
            "func @f() {\n  %0 = constant() {value = 1, type = !partition<view<f32,[?],[1],i32>,[8],[0],fog,[8]>} : i32\n}",
            "2:79: unknown padding mode 'fog'",
        ),
        (
            'func @f(%a: f32 = "a".scalar) {\n  %0 = neg(%a) {rounding = RoundingMode.UP} : f32\n}',
            "2:43: RoundingMode has no member UP",
        ),
        ('func @f(%a: f32 = "\\q".scalar) {\n}', '1:19: "\\q" is no string of JSON: '),
        ('func @f(%a: f32[3] = "a".scalar) {\n}', "1:18: dimension 0 of the tile shape (3,) is 3"),
        ("func @f() hints {num_ctas = by_target(gfx = 2)} {\n}", "1:38: ByTarget: 'gfx' is not an architecture"),
        ('func @f(%a: ptr<f32> = "a".base) {\n  %0 = neg(%a) : f32\n}', "2:8: neg: "),
    ],
)
def test_parse_errors_name_the_place(text: str, message: str) -> None:
    with pytest.raises(IRParseError) as e:
        parse_function(text)
    assert str(e.value).startswith(message)
