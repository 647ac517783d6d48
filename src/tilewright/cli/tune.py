"""``tilewright tune``: the fastest configuration of a kernel."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from typing import Any

from tilewright.cli.arguments import SPECIFICATIONS, filled, parse_argument, parse_index
from tilewright.cli.bench import report, timed
from tilewright.cli.cpp import add_options
from tilewright.cli.errors import FINE, Failure, UsageError
from tilewright.cli.kernels import add_kernel, find_tunable
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.language import cdiv
from tilewright.runtime.backend_choice import use_backend
from tilewright.runtime.grid import checked_grid
from tilewright.runtime.launchable import Launchable
from tilewright.tune import AutotunedKernel, Config, TuningResult, exhaustive_search, space
from tilewright.tune.candidate import with_hints

_EPILOG = f"""\
{SPECIFICATIONS}
  32|64|128          each of these, in turn
Hints for the compiler vary in the same way: --hint num_ctas=1|2. A kernel that @ct.autotune marks has its
configurations already; --arg is for its other parameters. The grid is up to three expressions of the parameters, such
as x.size or x.shape[0] where x is an array, and of cdiv.

example:
  tilewright tune examples/vector_add.py::vector_add --grid 'cdiv(a.size, TILE)' \\
      --arg f32[4M] --arg f32[4M] --arg f32[4M] --arg '256|1024|4096'
"""
_BENCH_SECONDS = 0.3  # of launches of the best candidate: 100 of 3 ms, say


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "tune", "find the fastest configuration of a kernel", run, _EPILOG)
    add_kernel(parser)
    parser.add_argument("--grid", metavar="X,Y,Z", default="1", help="the blocks: numbers, or expressions (default: 1)")
    parser.add_argument("--hint", action="append", default=[], metavar="NAME=A|B", help="a hint, and its values")
    parser.add_argument("--backend", metavar="NAME", help="the backend (default: the one a launch would take)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON, in seconds")
    add_options(parser)
    parser.set_defaults(plot=None)


def run(options: argparse.Namespace) -> int:
    found = find_tunable(options)
    kernel = found.kernel if isinstance(found, AutotunedKernel) else found
    names = [ref.argument for ref, _ in kernel.parameters]
    given, configs = _space(found, kernel, names, options)
    grid = _grid(options.grid)

    def values(config: Config) -> dict[str, Any]:
        return {**given, **config.values}

    def arguments(config: Config) -> tuple[Any, ...]:
        return tuple(values(config)[name] for name in names)

    def blocks(config: Config) -> tuple[int, int, int]:
        return grid(values(config))

    try:
        blocks(configs[0])  # what is wrong with the expression is wrong for all of them
        # The search shows a bar on terminals, and prints its table.
        backend = nullcontext() if options.backend is None else use_backend(options.backend)
        with backend, redirect_stdout(io.StringIO()) if options.json else nullcontext():
            result = exhaustive_search(configs, None, blocks, kernel, arguments, lambda config: config.hints)
    except TypeError as e:
        raise UsageError(str(e)) from e
    except (ValueError, RuntimeError) as e:
        raise Failure(str(e)) from e
    if options.json:
        say(json.dumps(_described(kernel, result), indent=2))
        return FINE
    best = result.best.config
    say(f"best: {_named(best)}")
    chosen = with_hints(kernel, best.hints)
    grid_of_best, args = blocks(best), arguments(best)
    times = timed(chosen.bind(grid_of_best, args, backend=options.backend), _BENCH_SECONDS)
    report(chosen, grid_of_best, args, times, options)
    return FINE


def _space(
    found: Launchable | AutotunedKernel, kernel: Launchable, names: Sequence[str], options: argparse.Namespace
) -> tuple[dict[str, Any], list[Config]]:
    """The arguments that do not vary, by name, and the configurations. UsageError for arguments that do not fit."""
    own = found.configs if isinstance(found, AutotunedKernel) else [Config({})]
    free = [name for name in names if name not in own[0].values]
    if not set(free[len(options.arg) :]) <= set(kernel.defaults) or len(options.arg) > len(free):
        raise UsageError(f"{kernel.name}() takes {len(free)} --arg ({', '.join(free)}), not {len(options.arg)}")
    parsed = [[filled(parse_argument(part)) for part in text.split("|")] for text in options.arg]
    alternatives = dict(zip(free, parsed))
    varied: dict[str, Any] = {name: several for name, several in alternatives.items() if len(several) > 1}
    given = {**kernel.defaults, **{name: one[0] for name, one in alternatives.items() if len(one) == 1}}
    hints: dict[str, Any] = dict(_hint(text) for text in options.hint)
    configs = [
        Config({**config.values, **values}, **{**config.hints, **chosen})
        for config in own
        for values in space(**varied)
        for chosen in space(**hints)
    ]
    if len(configs) == 1:
        raise UsageError(
            "there is one configuration only; give an argument several values, as in --arg '32|64', or a hint, "
            "as in --hint 'num_ctas=1|2'"
        )
    return given, configs


def _hint(text: str) -> tuple[str, list[Any]]:
    name, assigned, values = text.partition("=")
    if not assigned or not name.isidentifier():
        raise UsageError(f"--hint {text}: write NAME=A|B, such as num_ctas=1|2")
    return name, [parse_argument(value) for value in values.split("|")]


def _grid(text: str) -> Callable[[Mapping[str, Any]], tuple[int, int, int]]:
    """The grid for the parameters of a configuration, by name. UsageError for neither numbers nor expressions."""
    with suppress(UsageError):
        text = ",".join(map(str, parse_index(text, "grid", 1)))
    try:
        code = compile(f"({text},)", "--grid", "eval")
    except (SyntaxError, ValueError):
        raise UsageError(
            f"--grid {text}: write up to three numbers or expressions, such as cdiv(x.size, TILE)"
        ) from None

    def grid(values: Mapping[str, Any]) -> tuple[int, int, int]:
        try:
            return checked_grid(eval(code, {"__builtins__": {}, "cdiv": cdiv, "min": min, "max": max}, dict(values)))
        except Exception as e:
            known = ", ".join([*values, "cdiv", "min", "max"])
            raise UsageError(f"--grid {text}: {type(e).__name__}: {e}; it may use {known}") from e

    return grid


def _named(config: Config) -> str:
    return ", ".join(f"{name}={value}" for name, value in {**config.values, **config.hints}.items())


def _described(kernel: Launchable, result: TuningResult[Config]) -> dict[str, Any]:
    """Everything that was measured, the fastest first; values of arguments as text where JSON has none."""

    def config(one: Config) -> dict[str, Any]:
        plain = (str, int, float, bool)
        named = {**one.values, **one.hints}
        return {name: value if isinstance(value, plain) else str(value) for name, value in named.items()}

    ranked = sorted(result.successes, key=lambda m: m.mean_us)
    return {
        "kernel": kernel.name,
        "best": config(result.best.config),
        "measured": [
            {
                "config": config(m.config),
                "mean": m.mean_us * 1e-6,
                "margin": m.error_margin_us * 1e-6,
                "runs": m.num_samples,
            }
            for m in ranked
        ],
        "failed": [
            {"config": config(c), "error": error.__name__, "message": message} for c, error, message in result.failures
        ],
    }
