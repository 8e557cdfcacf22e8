"""Errors a person can mend: one line that says what, where and what to do, and an exit code."""


class UserError(ValueError):
    """Something is wrong with the input or the environment; ends a program with exit code 1."""

    exit_code = 1


class FlagError(UserError):
    """Something is wrong with the command line; ends a program with exit code 2."""

    exit_code = 2
