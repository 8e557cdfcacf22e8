"""Runs `albert classify`, by its name in the reference."""

from albert.cli.main import imported_program, run_program

if __name__ == "__main__":
    run_program("classify")
else:
    main = imported_program("classify")
