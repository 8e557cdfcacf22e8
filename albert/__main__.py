"""Runs the command `albert`: `python -m albert`, or this folder as a program."""

import os
import sys

if not __package__:
    # Python looks for modules in this folder then.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if __name__ == "__main__":
    from albert.cli.main import main

    main()
