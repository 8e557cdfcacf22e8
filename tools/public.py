"""What others build on, as text: flags with defaults, functions of `albert`, and keys on disk.

python -m tools.public    writes tests/golden/public.txt, which tests/test_public.py compares
"""

import argparse
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import albert
from albert.cli import command_line
from albert.cli.main import COMMANDS, command_of
from albert.core.arguments import Parser
from albert.settings.fields import IGNORED
from tests.helpers.forking import ROOT

FILE = ROOT / "tests/golden/public.txt"
WRITES = "ALBERT_WRITES_PUBLIC"
_HEAD = """What others build on, see docs/installing.md. A change here is a change for users.
`make public` writes it.
"""
# Of commands of a task, those of the training come first; the others only have what differs.
_LIKE = {"check": "{}", "squad": "squad"}
# Defaults that depend on the machine.
_OF_MACHINE = {os.path.join(os.environ.get("HOME", "."), "tmp"): "$HOME/tmp"}
_CORES = "preprocess_workers"
_ID = re.compile(r"\d+(-\d+)+")


def sections() -> dict[str, str]:
    """Returns the texts of the file by their titles."""
    _, *parts = FILE.read_text(encoding="utf-8").split("\n## ")
    return dict(part.split("\n\n", 1) for part in parts)


def write(title: str, text: str) -> None:
    """Replaces the text of a section."""
    texts = {**(sections() if FILE.exists() else {}), title: text}
    content = "".join(f"\n## {name}\n\n{body}" for name, body in sorted(texts.items()))
    FILE.write_text(_HEAD + content, encoding="utf-8")


def flags() -> str:
    """Returns the flags of each command with their defaults."""
    known: dict[str, list[str]] = {}
    for name in COMMANDS:
        words = getattr(command_of(name), "WORDS", ())
        for word in ("", *words) if name == "squad" else words or ("",):
            known[f"{name} {word}".strip()] = sorted(_flags_of(name, word))
    lines = []
    for name, listed in known.items():
        command, _, word = name.partition(" ")
        like = _LIKE.get(command, "").format(word) if word else ""
        if like in known:
            listed = [flag for flag in listed if flag not in known[like]]
            missing = [f"  not{flag[1:]}" for flag in known[like] if flag not in known[name]]
            lines += [f"albert {name}, as albert {like} and", *listed, *missing, ""]
        else:
            lines += [f"albert {name}", *listed, ""]
    return "\n".join(lines)


def _flags_of(name: str, word: str) -> set[str]:
    """Returns a line for each flag of a command: what its help would show."""
    lines, (settings, actions) = set[str](), in_help(name, word)
    for one in settings:
        value = "(cores)" if one.name == _CORES else one.default
        mark = "  (ignored)" if one.flag.theme == IGNORED else ""
        lines.add(_line(f"--{one.name}", value) + mark)
    for action in actions:
        for option in action.option_strings or [action.dest.upper()]:
            if option not in ("-h", "--help", "--version"):
                is_flag = bool(action.option_strings)
                lines.add(_line(option, action.default) if is_flag else f"  {option}")
    return lines


def in_help(name: str, word: str = "") -> tuple[list[Any], list[argparse.Action]]:
    """Returns what the help of a command shows: flags of settings, and arguments of argparse."""
    settings, actions = list[Any](), list[argparse.Action]()

    def note_settings(text: str, classes: command_line.Classes, full: bool) -> None:
        settings.extend(command_line._flags_of(classes))

    def note_parser(parser: Parser, file: object = None) -> None:
        actions.extend(one for one in parser._actions if one.help != argparse.SUPPRESS)

    command = command_of(name)
    with (
        mock.patch.object(command_line, "show_help", note_settings),
        mock.patch.object(Parser, "print_help", note_parser),
        mock.patch("sys.argv", [f"albert {name}"]),
        mock.patch("sys.stdout"),
    ):
        try:
            words = [word] if word else []
            # The flags of `albert download` depend on its first word, so `main` parses them.
            command.main(command.parse([f"albert {name}", *words, "--helpfull"]))
        except SystemExit:
            pass
    return settings, actions


def _line(name: str, default: object) -> str:
    if isinstance(default, bool):
        return f"  --[no]{name[2:]}={str(default).lower()}"
    text = _OF_MACHINE.get(str(default), default)
    return f"  {name}" + ("" if default in (None, (), "") else f"={text}")


def functions() -> str:
    """Returns the public functions and classes of `albert`, with their arguments."""
    from albert.inference import classification, embedding, entities, squad
    from albert.report import spans

    lines = [f"albert.{name}{_arguments(getattr(albert, name))}" for name in _FUNCTIONS]
    answers = (squad.QuestionAnswer, spans.Span, embedding.Embedding, albert.Result)
    labels = (classification.LabelPrediction, classification.LabelSetPrediction)
    models = (squad.QuestionAnswerer, classification.TextClassifier, classification.OptionChooser)
    for kind in (*models, entities.EntityFinder, embedding.Embedder, *answers, *labels):
        members = _members(kind)
        lines += ["", kind.__name__, *(f"  {member}" for member in sorted(members))]
    return "\n".join(lines) + "\n"


_FUNCTIONS = ("TextClassifier", "evaluate", "load", "train")


def _members(kind: type) -> Iterator[str]:
    for name, member in inspect.getmembers(kind):
        of_package = str(getattr(member, "__module__", "")).startswith("albert")
        if name[0] != "_" and (
            name in getattr(kind, "_fields", ()) or isinstance(member, property)
        ):
            yield name
        elif name[0] != "_" and inspect.isfunction(member) and of_package:
            yield f"{name}{_arguments(member)}"


def _arguments(function: object) -> str:
    """Returns the arguments of a function without their types."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def keys(folders: Iterable[pathlib.Path]) -> str:
    """Returns the keys of all JSON files in folders, by the names of the files."""
    lines = list[str]()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".json", ".jsonl") and path.stat().st_size:
                text = path.read_text(encoding="utf-8")
                values = json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)
                name = path.relative_to(folder)
                # A key with several values is named once.
                lines += [str(name), *(f"  {key}" for key in dict.fromkeys(_keys(values))), ""]
    return "\n".join(lines)


def _keys(value: object, prefix: str = "") -> Iterator[str]:
    """Yields the keys of objects in a value; keys that are data, such as ids, are one mark."""
    if isinstance(value, list) and value:
        yield from _keys(value[0], f"{prefix}[]." if prefix else "[].")
    elif isinstance(value, dict):
        for key in sorted(value):
            name = prefix + ("(id)" if _ID.fullmatch(key) else key)
            yield name
            yield from _keys(value[key], f"{name}.")


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/test_public.py"]
    sys.exit(subprocess.call(command, cwd=ROOT, env={**os.environ, WRITES: "1"}))
