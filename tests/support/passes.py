"""Runs one pass on text."""

from __future__ import annotations

from textwrap import dedent

from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.verifier import verify
from tilewright.transforms.base import Pass


def check(tested: Pass, before: str, after: str, *, settles: bool = True) -> None:
    """``tested`` turns ``before`` into ``after``, leaves its input alone and, if it ``settles``, has no more to do then."""
    source = parse_function(before)
    text = print_function(source)
    result = tested.run(source)
    verify(result)
    assert print_function(result) == print_function(parse_function(after)), dedent(after)
    assert print_function(source) == text
    assert not settles or print_function(tested.run(result)) == print_function(result)
