"""The page of all flags, made from the settings: `python -m tools.flags_page --write`."""

import argparse
import contextlib
import dataclasses
import inspect
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

from albert.cli import command_line
from albert.cli.main import COMMANDS, GROUPS, command_of
from albert.core.arguments import Parser
from albert.settings.fields import IGNORED, THEMES, Settings
from albert.settings.text_settings import TokenizerSettings
from albert.tasks import by_name
from tests.helpers.forking import ROOT

PAGE = ROOT / "docs/flags.md"
# Larger bounds, and those on one side, only exclude what nobody means.
_MEANT = 1000
_ON_TEXTS = "squad", "squad 2.0", "classify", "race", "entities"
HEAD = """# Flags

Look up the flags of each command here; `albert COMMAND --helpfull` shows the same in the terminal.
This page is made from the settings in the code: do not edit it.

In the names of flags, hyphens and underscores are the same: `--train-file` is `--train_file`.
`--train_file FILE` works as well as `--train_file=FILE`. `--nodo_train`, `--no-do-train` and
`--do_train=false` are the same. `--flagfile=FILE` reads flags from a file, in which each line is
one flag with an equals sign. A flag without a default has no value, or its text says which one.
Each flag has one row; other commands link to it.
"""
NEXT = """Next: [compare the flags with those of the reference](differences.md), or [search for the
best values](python.md#search-for-hyperparameters).
"""


class Row(NamedTuple):
    """A flag or an argument as the page shows it."""

    name: str
    default: str
    text: str


# The title of a part of the page, the text below it, and all its flags.
Section = tuple[str, str, list[Row]]


def rows_of(settings: type[Settings]) -> list[Row]:
    """Returns the flags of a class, the most important theme first, except ignored ones."""
    flags, rows = settings.flags(), []
    for field in dataclasses.fields(settings):
        if field.name in flags and flags[field.name].theme != IGNORED:
            flag = flags[field.name]
            choices = ", ".join(filter(None, flag.choices))
            words = [f"One of {choices}."] if choices else []
            if flag.lower is not None and flag.upper is not None and flag.upper <= _MEANT:
                words += [f"From {flag.lower:g} to {flag.upper:g}."]
            words += [f"Also called `--{alias}`." for alias in flag.aliases]
            text = " ".join([flag.help, *words])
            # A default that depends on the machine is in the text.
            default = "" if "Default:" in text else shown(field.default)
            rows.append((THEMES.index(flag.theme), Row(f"--{field.name}", default, text)))
    return [row for _, row in sorted(rows)]


def shown(default: Any) -> str:
    """Returns a default as a user would type it; "" for none."""
    if isinstance(default, bool):
        return str(default).lower()
    if default is None or default in ("", (), []) or default != default:
        return ""
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return str(default).replace(os.path.expanduser("~"), "$HOME")


def rows_of_parser(name: str, word: str) -> list[Row]:
    """Returns the arguments of a command that uses argparse; they may depend on its first word."""
    rows = list[Row]()
    for action in actions_of(name, word):
        if action.help and action.default != argparse.SUPPRESS:
            title = [action.metavar or action.dest.upper(), *action.option_strings][-1]
            # The table has a column for the default.
            has_default = bool(shown(action.default))
            text = re.sub(r" \(default: .*\)$", "", action.help) if has_default else action.help
            rows.append(Row(str(title), shown(action.default), text))
    return rows


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
        request = [f"albert {name}", *words, "--helpfull"]
        command.main(command_line.request_of(command, request))
    return actions


def usage(text: str, summary: str) -> str:
    """Returns the summary of a command, and the commands in its help without their comments."""
    lines = re.findall(r"^ +(.*?\balbert .*)$", re.sub(r"\s*\\\n\s*", " ", text), re.MULTILINE)
    commands = [f"- `{re.split(' {3,}', line)[0]}`" for line in lines]
    return "\n".join([f"{summary[0].upper()}{summary[1:]}.", "", *commands])


def sections() -> Iterator[Section]:
    """Yields the parts of the page; those that several trainings share come first."""
    tasks = {name: rows_of(entry.load("settings")) for name, entry in by_name().items()}
    shared = [row for row in tasks["squad"] if all(row in tasks[name] for name in _ON_TEXTS)]
    common = [row for row in shared if row in tasks["pretrain"]]
    yield ("All trainings", "All commands that train have these flags:", common)
    tokenizer = [row for row in shared if row in rows_of(TokenizerSettings)]
    yield ("Tokenizer", "Commands that read text have these flags:", tokenizer)
    names = ", ".join(f"`albert {name}`" for name in _ON_TEXTS)
    yield ("Trainings on texts", f"These commands share the flags below: {names}.", shared)
    for name, entry in by_name().items():
        text = usage(inspect.getdoc(entry.load("settings")) or "", entry.summary)
        yield (f"albert {name}", text, tasks[name])
    summaries = {name: line for group in GROUPS.values() for name, line in group.items()}
    for name in (name for name in COMMANDS if name not in tasks):
        module, text = command_of(name), summaries[name]
        settings = getattr(module, "SETTINGS", None)
        words = [] if settings else getattr(module, "WORDS", [])
        rows = [] if words else rows_of(settings) if settings else rows_of_parser(name, "")
        yield (f"albert {name}", usage(module.__doc__, text), rows)
        for word in words:
            yield (f"albert {name} {word}", "", rows_of_parser(name, word))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the lines of a table of flags."""
    yield from ("| flag | default | effect |", "|---|---|---|")
    for name, default, text in rows:
        cells = f"`{name}`", f"`{default}`" if default else "", " ".join(text.split())
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def references(rows: Sequence[Row], printed: Sequence[Section]) -> Iterator[str]:
    """Yields links to the earlier sections that have some of these flags."""
    for title, _, own in printed:
        if names := [f"`{row.name}`" for row in own if row in rows]:
            which = "all" if len(names) == len(own) else ", ".join(names)
            yield f"- {which} of [{title}](#{title.lower().replace(' ', '-').replace('.', '')})"


def page() -> str:
    """Returns the text of the page, which has each flag once."""
    lines, printed = [HEAD.strip()], list[Section]()
    for title, text, rows in sections():
        own = [row for row in rows if all(row not in section[2] for section in printed)]
        links = [*references(rows, printed)] if title.startswith("albert ") else []
        lines += [f"## {title}", text, "Shared flags:" if links else "", "\n".join(links)]
        lines += ["\n".join(table(own)) if own else ""]
        printed.append((title, "", own))
    return "\n\n".join([*filter(None, lines), NEXT])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
