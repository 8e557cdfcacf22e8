"""Trains, predicts and scores on a made-up sample, with a separate command for each step.

  albert demo
  albert demo --squad=2.0

Writes articles about invented things, trains a SentencePiece model on them, and trains a small
ALBERT from scratch with `albert squad`. With --squad=2.0, some questions have no answer, and the
demo uses `albert squad 2.0`. The same command reuses the files of an earlier run.
"""

from __future__ import annotations

import argparse

from albert.core.arguments import Parser

NEEDS_TENSORFLOW, RESUMES = False, True


def parse(argv: list[str]) -> argparse.Namespace:
    """Parses a command line; raises a `FlagError` if the arguments are invalid."""
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add(
        "--output_dir",
        default="demo_output",
        help="folder for the data, the model and the runs (default: %(default)s)",
    )
    add(
        "--squad",
        choices=("1.1", "2.0"),
        default="1.1",
        help="version of SQuAD whose format the sample has (default: %(default)s)",
    )
    return parser.parse_args(argv[1:])


def main(args: argparse.Namespace) -> None:
    """Runs the demo; raises a `UserError` if a step fails or the scores are too low."""
    from albert.demo import demo

    demo.main(args)
