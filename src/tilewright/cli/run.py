"""``tilewright run``: a program written for ``cuda.tile``, or for the CUDA runtime and Tile C++, unmodified."""

from __future__ import annotations

import argparse
import runpy
import traceback
from pathlib import Path
from typing import Any

from tilewright.cli.cpp import add_options, is_cpp, program_of, refuse_options
from tilewright.cli.errors import UsageError
from tilewright.cli.files import check_program
from tilewright.cli.output import status_of
from tilewright.cli.parsers import add_command
from tilewright.cli.tileir_names import EPILOG, is_tileir
from tilewright.compat import add_program, run_program
from tilewright.cpp.host.findings import Reporter
from tilewright.cpp.host.program import AtExit
from tilewright.cpp.host.program import run as run_cpp
from tilewright.system.forks import load


def add_parser(commands: Any) -> None:
    summary = "run a program for cuda.tile, a C++ program with tile kernels, or a kernel of a CUDA Tile IR file"
    parser = add_command(commands, "run", summary, run, EPILOG)
    add_program(parser)
    add_options(parser)


def run(options: argparse.Namespace, reporter: Reporter | None = None, at_exit: AtExit = status_of) -> int:
    """The exit status of the program. Of one in C++, ``reporter`` gets what is wrong in SIMT kernels, and
    ``at_exit`` is called where the program ends the process."""
    if not options.module and is_cpp(options.program):
        if options.replace:
            raise UsageError("--replace is for programs in Python, which import cuda.tile; leave it out")
        program, arguments = program_of(options)
        return run_cpp(program.requests, arguments, program.libraries, reporter=reporter, at_exit=at_exit)
    refuse_options(options)
    if not options.module and is_tileir(options.program):
        return load("tilewright.cli.tileir").run(options)
    if not options.module:
        check_program(Path(options.program))
    try:
        run_program(
            options.program, options.arguments, device=options.device, replace=options.replace, module=options.module
        )
    except ImportError as e:
        if not options.module or not _raised_by_runpy(e):
            raise
        raise UsageError(f"-m {options.program}: {e}") from None
    return 0


def _raised_by_runpy(error: ImportError) -> bool:
    """Whether the module itself was not found, not one that it imports."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] in ("<frozen runpy>", runpy.__file__)
