"""``python -m tilewright.compat [--device cpu] [--replace] prog.py [arguments]``, or ``-m module`` for the program."""

from __future__ import annotations

import argparse

from tilewright.compat.program import add_program, run_program


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tilewright.compat", description=__doc__)
    add_program(parser)
    o = parser.parse_args()
    run_program(o.program, o.arguments, device=o.device, replace=o.replace, module=o.module)


if __name__ == "__main__":
    main()
