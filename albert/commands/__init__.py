"""What the commands of `albert` do; their command lines are in `albert.cli`."""
