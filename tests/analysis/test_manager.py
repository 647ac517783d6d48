"""Analyses are computed once for each function, and stay where a pass changes nothing or preserves them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.kernel_runs import arguments, generated, seeds
from support.sources import ROOT, trees

from tilewright.analysis.alias import AliasAnalysis
from tilewright.analysis.argument_effects import argument_effects
from tilewright.analysis.integer_ranges import IntegerRanges
from tilewright.analysis.liveness import Liveness
from tilewright.analysis.manager import AnalysisManager
from tilewright.frontend.python.compile import trace
from tilewright.ir.core import Function
from tilewright.ir.ops.memory import MemoryOp
from tilewright.ir.parser import parse_function
from tilewright.ir.printer import print_function
from tilewright.ir.rewrite import clone_function
from tilewright.ir.types import TileType
from tilewright.transforms import pipelines
from tilewright.transforms.base import InPlacePass
from tilewright.transforms.bounds_check_elimination import BoundsCheckElimination
from tilewright.transforms.clip_views import ClipViews
from tilewright.transforms.cse import CommonSubexpressions
from tilewright.transforms.gpu.sink_loads import SinkLoads
from tilewright.transforms.pipelines import OPTIMIZE, run_passes

FUNCTION = """func @first(%x: ptr<f32> = "x".base, %i: i32 = "i".scalar) {
  %v = make_tensor_view(%x, [], []) {type = !view<f32,[64],[1],i32>} : view<f32,[64],[1],i32>
  %p = make_partition_view(%v) {type = !partition<view<f32,[64],[1],i32>,[8],[0],zero,[8]>} : partition<view<f32,[64],[1],i32>,[8],[0],zero,[8]>
  %t = load_view(%p, [%i]) {in_bounds = (PROMISED)} : f32[8]
  store_view(%p, %t, [%i]) {in_bounds = (false)}
  return()
}
"""


def test_an_analysis_is_computed_once() -> None:
    calls: list[int] = []

    def size(function: Function, factor: int) -> int:
        calls.append(factor)
        return factor * len(function.body.ops)

    function = parse_function(FUNCTION.replace("PROMISED", "true"))
    analyses = AnalysisManager(function)
    assert [analyses.get(size, 1), AnalysisManager(function).get(size, 1), analyses.get(size, 2)] == [5, 5, 10]
    assert calls == [1, 2]
    assert AnalysisManager(clone_function(function)).get(size, 1) == 5
    assert calls == [1, 2, 1]


def test_they_stay_where_a_pass_changes_nothing() -> None:
    plain = parse_function(FUNCTION.replace("PROMISED", "false"))
    ranges = AnalysisManager(plain).get(IntegerRanges)
    assert ClipViews().run(plain) is plain
    assert BoundsCheckElimination().run(plain) is plain
    assert AnalysisManager(plain).get(IntegerRanges) is ranges


def test_they_go_where_a_pass_changes_something() -> None:
    promising = parse_function(FUNCTION.replace("PROMISED", "true"))
    effects = AnalysisManager(promising).get(argument_effects)
    clipped = ClipViews().run(promising)
    assert clipped is not promising and not clipped.analyses
    assert AnalysisManager(clipped).get(argument_effects) == effects


def _ranges(found: IntegerRanges, function: Function) -> object:
    values = [*function.body.args, *(v for op in function.walk() for v in op.results)]
    scalars = [v for v in values if isinstance(v.type, TileType) and not v.type.shape and not v.type.is_pointer]
    return [(found.range(v), found.divisor(v)) for v in scalars if v.tile.element.is_integer]


def _objects(found: AliasAnalysis, function: Function) -> object:
    return [found.underlying_object(op.address) for op in function.walk() if isinstance(op, MemoryOp)]


def _live(found: Liveness, function: Function) -> object:
    return [(op in found.ops, [r in found.values for r in op.results]) for op in function.walk()]


# What an analysis says of all that is in a function.
FACTS: dict[Any, Callable[[Any, Function], object]] = {
    IntegerRanges: _ranges,
    AliasAnalysis: _objects,
    Liveness: _live,
    argument_effects: lambda found, function: found,
}


@pytest.mark.parametrize("seed", seeds(10))
def test_what_a_pass_preserves_still_holds(seed: int) -> None:
    """The result from before a pass says of what is left what one from after it says."""
    kernel = generated(seed).kernel()
    signature, _ = kernel.described(arguments(generated(seed))[0], "reference")
    function = clone_function(trace(kernel.function, signature, {}))
    for p in (ClipViews(), *OPTIMIZE, SinkLoads()):
        if not isinstance(p, InPlacePass):
            function = p.run(function)
            continue
        results = {analysis: AnalysisManager(function).get(analysis) for analysis in FACTS}
        for analysis, facts in FACTS.items():
            facts(results[analysis], function)  # computed on demand
        changed = p.apply(function)
        kept = {analysis for analysis, _ in function.analyses}
        assert kept & FACTS.keys() == (p.preserves if changed else FACTS.keys())
        for analysis in kept & FACTS.keys():
            facts = FACTS[analysis]
            assert facts(results[analysis], function) == facts(analysis(function), function), (p.name, analysis)


@pytest.mark.parametrize("seed", seeds(3))
def test_what_passes_are_given_stays(seed: int) -> None:
    kernel = generated(seed).kernel()
    signature, _ = kernel.described(arguments(generated(seed))[0], "reference")
    function = trace(kernel.function, signature, {})
    text = print_function(function)
    first = print_function(run_passes(function, (ClipViews(), *OPTIMIZE)))
    assert print_function(function) == text != first
    assert print_function(run_passes(function, (ClipViews(), *OPTIMIZE))) == first


def test_a_copy_that_passes_leave_as_it_was_serves_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Function] = []

    def cloned(function: Function) -> Function:
        copies.append(clone_function(function))
        return copies[-1]

    monkeypatch.setattr(pipelines, "clone_function", cloned)
    promising = parse_function(FUNCTION.replace("PROMISED", "true"))
    text = print_function(promising)
    for _ in range(2):
        assert run_passes(promising, (CommonSubexpressions(),)) is promising
    promising.hints["num_ctas"] = 2  # of which passes may know more by now
    first = run_passes(promising, (CommonSubexpressions(), ClipViews()))
    assert first is copies[0] and first.hints == {"num_ctas": 2}
    assert len(copies) == 1 and not promising.analyses
    assert print_function(run_passes(promising, (ClipViews(),))) == print_function(first)
    del promising.hints["num_ctas"]
    assert len(copies) == 2 and print_function(promising) == text


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """What is called, by its last name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr, node


def test_whoever_needs_an_analysis_asks_the_manager() -> None:
    """What is an argument of the manager's ``get`` anywhere is called nowhere."""
    modules = {path.relative_to(ROOT).as_posix(): tree for path, tree in trees().items()}
    known = {node.name for name, tree in modules.items() if name.startswith("analysis/") for node in definitions(tree)}
    asked = {
        call.args[0].id
        for tree in modules.values()
        for name, call in calls(tree)
        if name == "get" and call.args and isinstance(call.args[0], ast.Name)
    }
    assert {"AliasAnalysis", "IntegerRanges", "Liveness", "argument_effects"} <= asked & known
    found = [
        f"{path}:{call.lineno}" for path, tree in modules.items() for name, call in calls(tree) if name in asked & known
    ]
    assert found == []


def definitions(tree: ast.Module) -> list[ast.ClassDef | ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
