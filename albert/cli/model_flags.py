"""The flags of commands that load a model."""

from __future__ import annotations

import argparse

from albert.settings.engines import AUTO, ENGINES, LOADED_PRECISIONS
from albert.settings.run_settings import ENGINE_HELP, PRECISION_HELP


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Adds flags for how the model of a parser computes and answers."""
    add = parser.add_argument
    add("--engine", choices=ENGINES, default=AUTO, help=ENGINE_HELP)
    add("--precision", choices=LOADED_PRECISIONS, default=AUTO, help=PRECISION_HELP)
    add(
        "--handle_impossible_answer",
        action="store_const",
        const=True,
        help="for a model of transformers that was trained on SQuAD 2.0: it may say that a text "
        "has no answer (default: what its config.json says)",
    )


def model_of(args: argparse.Namespace) -> tuple[str, str, str, bool | None]:
    """Returns the arguments of `load_model` in a command line."""
    return args.model, args.engine, args.precision, args.handle_impossible_answer
