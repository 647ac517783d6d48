"""``tilewright demo``: kernels of the examples, compiled, checked and timed."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.cli.errors import FINDINGS, FINE, UsageError
from tilewright.cli.files import load_module
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command

EXAMPLES = Path(__file__).parents[3] / "examples"
_SELECTION = (
    "vector_add",
    "softmax",
    "layer_norm",
    "matmul",
    "attention",
    "histogram",
    "embedding",
    "convolution",
    "transpose",
    "mandelbrot",
    "heat",
    "prefix_sum",
    "monte_carlo",
    "nbody",
)


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "demo", "run kernels of the examples: checked against NumPy, and timed", run)
    parser.add_argument("--small", action="store_true", help="small arrays, for a quick look")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON, in seconds")


def run(options: argparse.Namespace) -> int:
    if not EXAMPLES.is_dir():
        raise UsageError("the demo runs the examples of the repository; clone it and type ./run demo there")
    harness = load_module(EXAMPLES / "harness.py")
    cases = []
    for name in _SELECTION:
        cases += load_module(EXAMPLES / f"{name}.py").cases(small=options.small)
    outcomes = []
    for i, case in enumerate(cases, 1):
        _progress(f"[{i}/{len(cases)}] {case.name} ...")
        outcomes.append(harness.measure(case))
    _progress("")
    wrong = [o.name for o in outcomes if not o.correct]
    if options.json:
        say(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    else:
        say(harness.HEADER)
        for outcome in outcomes:
            say(str(outcome))
        say(f"{len(outcomes) - len(wrong)} of {len(outcomes)} kernels agree with NumPy")
    return FINDINGS if wrong else FINE


def _progress(text: str) -> None:
    """Show ``text`` in place on a terminal, on a line of its own elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
    elif text:
        say(text, error=True)
