"""Runs `albert classify` under its name in the reference."""

import sys

if __name__ == "__main__":
    from albert.cli.main import run_program

    run_program("classify")
else:
    from albert import run_classifier

    sys.modules[__name__] = run_classifier
