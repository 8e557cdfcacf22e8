"""Asks a trained model questions about texts, or for the labels of texts or of their entities.

  albert ask MODEL --context_file article.txt --question "Who wrote it?"
  albert ask MODEL --context_file *.txt                      prompts for questions
  cat article.txt | albert ask MODEL - --question "Who?"
  albert ask MODEL "A text to label." ["A second text."]     a GLUE model, or one for your own task
  albert ask MODEL "A text." ["Another text." ...]           a model of named entities
  albert ask MODEL --context_file passage.txt --question "It is _ ." \\
    --option red --option blue --option green --option grey     a RACE model

MODEL is an export or the --output_dir of a run. Texts may have any length.
"""

from __future__ import annotations

import argparse

from albert.cli.main import EntryPoint
from albert.core.arguments import Parser
from albert.settings.engines import ENGINES, TENSORFLOW
from albert.settings.run_settings import ENGINE_HELP

ENTRY_POINT = EntryPoint("albert.commands.ask")


def parse(argv: list[str]) -> argparse.Namespace:
    """Parses a command line; raises a `FlagError` if the arguments are invalid."""
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add("model", metavar="MODEL", help="export or --output_dir of a run")
    add(
        "text",
        nargs="*",
        default=[],
        help="text to label, pair of texts, or texts to find entities in; - reads standard input",
    )
    add(
        "--context",
        action="append",
        default=[],
        metavar="TEXT",
        help="text that contains the answer; repeat it for several texts",
    )
    add(
        "--context_file",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="UTF-8 files that contain the answer; - reads standard input",
    )
    add(
        "--question",
        action="append",
        default=[],
        help="question to answer; repeat it for several questions",
    )
    add("--option", action="append", default=[], help="possible answer, for a RACE model")
    add(
        "--n_best",
        type=int,
        default=1,
        metavar="N",
        help="number of answers to show for each question (default: 1)",
    )
    add("--engine", choices=ENGINES, default=TENSORFLOW, help=ENGINE_HELP)
    add("--json", action="store_true", help="print one JSON object per line, for programs")
    args = parser.parse_intermixed_args(argv[1:])
    if args.n_best < 1:
        parser.error("--n_best must be positive")
    for question in args.question:
        if not question.strip():
            parser.error("--question is empty")
    return args
