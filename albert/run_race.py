"""Runs `albert race`, by its name in the reference."""

from albert.cli.main import program_of

main = program_of(__name__, "race")
