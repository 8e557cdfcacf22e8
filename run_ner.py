"""Runs `albert entities`, like the reference's programs for other tasks."""

from albert.cli.main import program_of

main = program_of(__name__, "entities")
