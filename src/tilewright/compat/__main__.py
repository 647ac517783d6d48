"""``python -m tilewright.compat [--device cpu] [--replace] prog.py [arguments]``."""

from __future__ import annotations

import argparse

from tilewright.compat.program import run_program


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tilewright.compat", description=__doc__)
    parser.add_argument("--device", choices=["cpu"], help="run torch CUDA tensors as CPU tensors")
    parser.add_argument("--replace", action="store_true", help="use tilewright even where cuda.tile is installed")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    run_program(options.program, options.arguments, device=options.device, replace=options.replace)


if __name__ == "__main__":
    main()
