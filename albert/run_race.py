"""Runs `albert race`, by its name in the reference."""

from albert.cli.main import imported_program, run_program

if __name__ == "__main__":
    run_program("race")
else:
    main = imported_program("race")
