"""Runs `albert race` under its name in the reference."""

import sys

if __name__ == "__main__":
    from albert.cli.main import run_program

    run_program("race")
else:
    from albert import run_race

    sys.modules[__name__] = run_race
