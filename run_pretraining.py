"""Runs `albert pretrain` under its name in the reference."""

import sys

if __name__ == "__main__":
    from albert.cli.main import run_program

    run_program("pretrain")
else:
    from albert import run_pretraining

    sys.modules[__name__] = run_pretraining
