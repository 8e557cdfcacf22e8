"""Runs `albert entities`, like the reference's programs for other tasks."""

from albert.cli.main import imported_program, run_program

if __name__ == "__main__":
    run_program("entities")
else:
    main = imported_program("entities")
