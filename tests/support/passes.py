"""Runs one pass on text."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from tilewright.ir.core import Function, Op
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.rewrite import clone_function
from tilewright.ir.verifier import verify
from tilewright.transforms.base import InPlacePass, Pass


def check(tested: Pass, before: str, after: str, *, settles: bool = True, names: bool = True) -> None:
    """``tested`` turns ``before`` into ``after``, leaves its input alone and, if it ``settles``, has no more to do then.

    Without ``names`` values are told apart by their order alone.
    """
    source = parse_function(before)
    text = print_function(source)
    result = tested.run(source)
    verify(result)
    assert not settles or print_function(tested.run(result)) == print_function(result)
    assert print_function(source) == text
    found, wanted = result, parse_function(after)
    if not names:
        found = clone_function(found)
        _remove_names(found)
        _remove_names(wanted)
    assert print_function(found) == print_function(wanted), dedent(after)


def _remove_names(function: Function) -> None:
    for op in function.walk():
        for value in (*op.results, *(a for r in op.regions for a in r.args)):
            value.name = ""


def after(changed: type[InPlacePass], then: Callable[[Function], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``then`` change what the pass ``changed`` leaves."""
    change = changed.change

    def both(self: InPlacePass, function: Function) -> bool:
        change(self, function)
        then(function)
        return True

    monkeypatch.setattr(changed, "change", both)


def without(dropped: Callable[[Op], bool], function: Function) -> None:
    """Erase the ops that are to be ``dropped``, whose results are their first operands."""
    for op in [op for op in function.walk() if dropped(op)]:
        op.replace_by(op.operands[: len(op.results)])
