"""Asks a trained model: questions on texts, or what label a text has.

  albert ask MODEL --context_file article.txt --question "Who wrote it?"
  albert ask MODEL --context_file *.txt                      prompts for questions
  cat article.txt | albert ask MODEL - --question "Who?"
  albert ask MODEL "A text to label." ["A second text."]     a model of GLUE or your own task
  albert ask MODEL --context_file passage.txt --question "It is _ ." \\
    --option red --option blue --option green --option grey     a model of RACE

MODEL is what --export_dir or --output_dir of a run has made. Texts may be of any length.
"""

from __future__ import annotations

import argparse

from albert.cli.main import EntryPoint
from albert.core.arguments import Parser

ENTRY_POINT = EntryPoint("albert.commands.ask")


def parse(argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of a command line.

    Raises:
      FlagError: they are none.
    """
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add("model", metavar="MODEL", help="folder of the model")
    add(
        "text",
        nargs="*",
        default=[],
        help="to label, perhaps a second one; - reads standard input",
    )
    add("--context", action="append", default=[], metavar="TEXT", help="text to answer from")
    add(
        "--context_file",
        "--context-file",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="files of text to answer from, UTF-8; - reads standard input",
    )
    add("--question", action="append", default=[], help="may be given several times")
    add("--option", action="append", default=[], help="a possible answer, for a model of RACE")
    add("--n_best", type=int, default=1, metavar="N", help="answers to show (1)")
    add("--json", action="store_true", help="a JSON object a line, for programs")
    args = parser.parse_intermixed_args(argv[1:])
    if args.n_best < 1:
        parser.error("--n_best must be positive")
    for question in args.question:
        if not question.strip():
            parser.error("--question is empty")
    return args
