"""Trains, predicts and scores on a made-up sample, each step by its command.

  albert demo
  albert demo --squad=2.0

Writes articles about invented things, trains a SentencePiece model on them, and fine-tunes a small
ALBERT from scratch with `albert squad`, or with `albert squad 2.0` on the form with questions that
have no answer. The same command uses what an earlier one has made.
"""

from __future__ import annotations

import argparse

from albert.cli.main import EntryPoint
from albert.core.arguments import Parser

ENTRY_POINT = EntryPoint("albert.demo.demo", needs_tensorflow=False, resumes=True)


def parse(argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of a command line.

    Raises:
      FlagError: they are none.
    """
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add("--output_dir", default="demo_output", help="folder of data, model and runs (demo_output)")
    add("--seed", type=int, default=1, help="of the sample (1)")
    add("--squad", choices=("1.1", "2.0"), default="1.1", help="version of its form (1.1)")
    return parser.parse_args(argv[1:])
