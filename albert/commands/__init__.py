"""The work of the commands of `albert`; their command lines are in `albert.cli`."""
