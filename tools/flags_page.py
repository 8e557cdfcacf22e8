"""The page of all flags, made from the settings: `python -m tools.flags_page --write`."""

import argparse
import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

from albert.cli import command_line
from albert.cli.main import COMMANDS, command_of
from albert.core.arguments import Parser
from albert.settings.fields import IGNORED, THEMES, Settings
from albert.tasks import by_name
from tests.helpers.forking import ROOT

PAGE = ROOT / "docs/flags.md"
HEAD = """# Flags

Look up the flags of each command here; `albert COMMAND --helpfull` shows the same in the terminal.
This page is made from the settings in the code: do not edit it.

In the names of flags, hyphens and underscores are the same: `--train-file` is `--train_file`.
`--train_file FILE` works as well as `--train_file=FILE`. `--nodo_train`, `--no-do-train` and
`--do_train=false` are the same. `--flagfile=FILE` reads flags from a file, in which each line is
one flag with an equals sign. A flag without a default has no value, or its text says which one.
"""
NEXT = """
Next: [compare the flags with those of the reference](differences.md), or [search for the best
values](python.md#search-for-hyperparameters).
"""


class Row(NamedTuple):
    """A flag as the page shows it."""

    name: str
    default: str
    text: str


def rows_of(settings: type[Settings]) -> list[Row]:
    """Returns the flags of a class, the most important theme first, except ignored ones."""
    flags, rows = settings.flags(), []
    for field in dataclasses.fields(settings):
        if field.name in flags and flags[field.name].theme != IGNORED:
            flag = flags[field.name]
            words = [f"One of {', '.join(flag.choices)}."] if flag.choices else []
            bounds = ("at least", flag.lower), ("at most", flag.upper)
            limits = " and ".join(
                f"{word} {limit:,}" for word, limit in bounds if limit is not None
            )
            words += [f"It must be {limits}."] if limits else []
            words += [f"Also called `--{alias}`." for alias in flag.aliases]
            text = " ".join([flag.help, *words])
            # A default that depends on the machine is in the text.
            default = "" if "Default:" in text else shown(field.default)
            rows.append((THEMES.index(flag.theme), Row(field.name, default, text)))
    return [row for _, row in sorted(rows)]


def shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default is None or default in ("", ()) or default != default:
        return ""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return str(default).replace(os.path.expanduser("~"), "$HOME")


def rows_of_parser(name: str, word: str) -> list[Row]:
    """Returns the flags of a command that uses argparse; they may depend on its first word."""
    return [
        Row(action.option_strings[-1].lstrip("-"), shown(action.default), action.help)
        for action in actions_of(name, word)
        if action.option_strings and action.help and action.default != argparse.SUPPRESS
    ]


def actions_of(name: str, word: str) -> list[argparse.Action]:
    """Returns the arguments that the help of a command shows."""
    actions = list[argparse.Action]()

    def note(parser: Parser, file: object = None) -> None:
        actions.extend(one for one in parser._actions if one.help != argparse.SUPPRESS)

    command = command_of(name)
    with (
        mock.patch.object(command_line, "show_help"),
        mock.patch.object(Parser, "print_help", note),
        mock.patch("sys.argv", [f"albert {name}"]),
        mock.patch("sys.stdout"),
        contextlib.suppress(SystemExit),
    ):
        words = [word] if word else []
        # The flags of `albert download` depend on its first word, so `main` parses them.
        command.main(command.parse([f"albert {name}", *words, "--helpfull"]))
    return actions


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "| flag | default | effect |", "|---|---|---|")
    for name, default, text in rows:
        cells = f"`--{name}`", f"`{default}`" if default else "", " ".join(text.split())
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """Returns the text of the page."""
    tasks = {name: rows_of(entry.load("settings")) for name, entry in by_name().items()}
    common = [row for row in tasks["squad"] if all(row in rows for rows in tasks.values())]
    text = "The trainings are " + ", ".join(f"`albert {name}`" for name in tasks) + "."
    lines = [HEAD, "## All trainings", "", text, *table(common)]
    for name, rows in tasks.items():
        first = "These flags, and [those of all trainings](#all-trainings):"
        rest = [row for row in rows if row not in common]
        lines += ["", f"## albert {name}", "", first, *table(rest)]
    for name in (name for name in COMMANDS if name not in {n.split()[0] for n in tasks}):
        module = command_of(name)
        settings = getattr(module, name.title().replace("-", "") + "Settings", None)
        for word in ("",) if settings else getattr(module, "WORDS", ("",)):
            rows = rows_of(settings) if settings else rows_of_parser(name, word)
            if rows:
                lines += ["", f"## albert {name} {word}".rstrip(), *table(rows)]
    return "\n".join(lines) + "\n" + NEXT


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
