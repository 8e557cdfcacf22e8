"""Runs `albert squad 2.0`, by its name in the reference."""

from albert.cli.main import imported_program, run_program

if __name__ == "__main__":
    run_program("squad", "2.0")
else:
    main = imported_program("squad", "2.0")
