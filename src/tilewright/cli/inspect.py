"""``tilewright inspect``: a kernel on its way to machine code, for this machine or for a GPU elsewhere."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.backends.registry import get_backend
from tilewright.cli.arguments import SPECIFICATIONS, filled, parse_argument, parse_index
from tilewright.cli.bench import report, timed
from tilewright.cli.cpp import add_options, refuse_options
from tilewright.cli.errors import FINE, UsageError, misused
from tilewright.cli.files import check_writable
from tilewright.cli.kernels import add_kernel, arguments_of, find, kernels_in
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.cli.tileir import arguments_for, find_module
from tilewright.cli.tileir_names import is_tileir
from tilewright.ir.core import Function
from tilewright.ir.printer import print_function
from tilewright.runtime.backend_choice import requested, use_backend
from tilewright.runtime.launch import specialization
from tilewright.runtime.launchable import Launchable
from tilewright.runtime.specialization import RENAMED_STAGES, Specialization
from tilewright.tileir.bytecode import read
from tilewright.tileir.export import Kernel, export
from tilewright.tileir.kernels import Kernel as TileIRKernel
from tilewright.tileir.text import print_module
from tilewright.transforms.instrumentation import observed_passes

_EPILOG = f"""\
{SPECIFICATIONS}
example:
  tilewright inspect examples/vector_add.py::vector_add --arg f32[4096] --arg f32[4096] --arg f32[4096] --arg 1024
  tilewright inspect 'examples/scale.cu::scale<float, 128>' --arg f32[4096] --arg 2.0 --arg 4096
  ... --target sm_90 --stage PTX    for a GPU, which need not be here
  ... --stage tileir                as CUDA Tile IR, which NVIDIA's compiler takes
  tilewright inspect kernels.py                        the names of the kernels of a file
  tilewright inspect kernels.tilebc                    the text of a CUDA Tile IR file
  ... --perf                        what each loop nest of the machine code does
  ... --plot add.svg --grid 4       how near a run comes to what the machine can do
"""
_PLOT_SECONDS = 0.5  # of launches that are timed, as those of ``tune`` are: one run only, so a few more
TILE_IR = "tileir"  # a stage that is shown when it is asked for only: no backend compiles it


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "inspect", "print Tile IR, LLVM IR and assembly of a kernel", run, _EPILOG)
    add_kernel(parser)
    parser.add_argument("--backend", metavar="NAME", help="the backend (default: the one a launch would take)")
    parser.add_argument(
        "--target", metavar="NAME", help="compile for this GPU, such as sm_90 or gfx942; none is needed"
    )
    parser.add_argument("--stage", action="append", metavar="NAME", help="show this stage only; may be repeated")
    parser.add_argument("--stages", action="store_true", help="show the Tile IR after each pass first")
    parser.add_argument("--json", action="store_true", help="print the stages, and what --plot finds, as JSON")
    parser.add_argument("--perf", action="store_true", help="show flops, bytes, vectors and spills of each loop nest")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="run the kernel, and draw its roofline as SVG")
    parser.add_argument("--grid", metavar="X,Y,Z", help="the blocks that --plot runs (default: 1)")
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    if options.plot is not None:
        check_writable(options.plot)
    elif options.grid is not None:
        raise UsageError("--grid is the grid that --plot runs; nothing else here runs the kernel")
    if is_tileir(options.kernel):
        refuse_options(options)
        if not (options.arg or options.stage or options.backend or options.target):
            module, name = find_module(options.kernel)
            say(module.text(name).rstrip())
            return FINE
    elif "::" not in options.kernel and (known := kernels_in(options.kernel)):
        say("\n".join(f"{options.kernel}::{name}" for name in known))
        return FINE
    kernel = find(options)
    wanted = [*(options.stage or ()), *(["performance"] if options.perf else [])]
    if isinstance(kernel, TileIRKernel):
        args = arguments_for(kernel, [parse_argument(text) for text in options.arg])
    else:
        args = arguments_of(kernel, options)
    with misused(TypeError, ValueError, OverflowError, RuntimeError):
        with observed_passes(_show_pass) if options.stages else contextlib.nullcontext():
            found = compiled(kernel, args, options)
        if options.plot is not None:
            plot(kernel, args, options)
    if options.plot is None or wanted:
        show(kernel, found, wanted, options.json)
    return FINE


def show(kernel: Launchable, found: Specialization, wanted: Sequence[str], as_json: bool) -> None:
    """Print the stages ``wanted``, or all of them. UsageError when one does not exist."""
    if as_json:
        say(json.dumps({"kernel": kernel.name, "stages": dict(stages_of(found, wanted))}, indent=2))
        return
    for name, text in stages_of(found, wanted):
        say(f"==== {name}\n{text}")


def _show_pass(name: str, function: Function) -> None:
    say(f"==== after {name}\n{print_function(function).rstrip()}\n")


def compiled(kernel: Launchable, args: tuple[Any, ...], options: argparse.Namespace) -> Specialization:
    """``kernel`` compiled for the target or the backend that was asked for. UsageError when they contradict."""
    backend = requested(options.backend)
    on_gpu = backend is not None and get_backend(backend).capabilities.for_target is not None
    if options.target is None and not on_gpu:
        return specialization(kernel, args, backend)
    if options.target is not None and options.backend is not None and not on_gpu:
        raise UsageError(f"--target is for the backend of GPUs, not for {options.backend!r}; leave out one of the two")
    if options.plot is not None:
        raise UsageError("--plot runs the kernel on arrays in host memory, which no GPU can; use the backend 'cpu'")
    try:
        with use_backend(backend) if backend is not None else contextlib.nullcontext():
            return kernel.compile_for(options.target, args)
    except RuntimeError as e:
        if options.target is None:
            raise UsageError(f"{e}. To compile for a GPU that is not here, say which: --target sm_90") from e
        raise


def stages_of(found: Specialization, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The names and texts of the stages ``wanted``, or of all. UsageError when one does not exist."""
    wanted = [RENAMED_STAGES.get(name, name) for name in wanted]
    shown = []
    if TILE_IR in wanted and isinstance(found, Specialization):
        shown.append(TILE_IR)
        yield TILE_IR, print_module(read(export([Kernel(found.function)])))
    for stage in found.stage_names():
        shown.append(stage)
        if not wanted or stage in wanted:
            yield stage, found.stage(stage).rstrip() + "\n"
    missing = set(wanted) - set(shown)
    if missing:
        known = ", ".join(dict.fromkeys((*shown, TILE_IR)))
        raise UsageError(f"there is no stage {', '.join(sorted(missing))}; the stages are: {known}")


def plot(kernel: Launchable, args: tuple[Any, ...], options: argparse.Namespace) -> None:
    """Run ``kernel``, say how fast it was, and draw that. ValueError when its work is not known."""
    grid = (1,) if options.grid is None else parse_index(options.grid, "grid", 1)
    args = tuple(map(filled, args))
    times = timed(kernel.bind(grid, args, backend=options.backend), _PLOT_SECONDS)
    report(kernel, grid, args, times, options)
