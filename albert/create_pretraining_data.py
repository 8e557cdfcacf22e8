"""Runs `albert pretraining-data`, by its name in the reference."""

from albert.cli.main import imported_program, run_program

if __name__ == "__main__":
    run_program("pretraining-data")
else:
    main = imported_program("pretraining-data")
