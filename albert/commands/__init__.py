"""Implementation of the commands of `albert`; `albert.cli` parses their command lines."""
