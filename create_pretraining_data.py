"""Runs `albert pretraining-data` under its name in the reference."""

import sys

if __name__ == "__main__":
    from albert.cli.main import run_program

    run_program("pretraining-data")
else:
    from albert import create_pretraining_data

    sys.modules[__name__] = create_pretraining_data
