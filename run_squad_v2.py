"""Runs `albert squad 2.0` under its name in the reference."""

import sys

if __name__ == "__main__":
    from albert.cli.main import run_program

    run_program("squad", "2.0")
else:
    from albert import run_squad_v2

    sys.modules[__name__] = run_squad_v2
