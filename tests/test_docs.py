"""The commands of the documents: programs, flags and targets that they name are there."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT, run

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SCRIPTS = sorted((ROOT / "deploy").rglob("*.sbatch"))
# What stands for something else, FLAGS-OF-THE-JOB, "...", [--an-option], and the end of a command.
PROGRAM = re.compile(r"[\w/.-]+\.(py|sh|sbatch)")
PLACEHOLDER = re.compile(r"\.\.\.|[A-Z]+(-[A-Z]+)+|\[.*\]|\$@|&")


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of every command in shell text; loops, here-documents and comments are gone."""
    text = re.sub(r"<<'?(\w+)'?.*?\n\1$", "", text.replace("\\\n", " "), flags=re.S | re.M)
    for line in re.split(r"\n|;|&&|\bdo\b", text):
        try:
            words = shlex.split(line.removeprefix("$ "), comments=True)
        except ValueError:
            # A string that goes on in the next line is no command of ours.
            continue
        if words:
            yield words


def shell_of(path: pathlib.Path) -> str:
    """The shell text of a document: its fenced blocks, and what stands in a line as a command."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md":
        return text
    blocks = re.findall(r"^ *```(?:bash|sh|console)\n(.*?)^ *```", text, flags=re.S | re.M)
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    inline = [code for code in inline if re.match(r"(make|python|\$PYTHON|deploy/\S+) ", code)]
    return "\n".join([*blocks, *inline])


def parts(words: list[str]) -> tuple[str, list[str]] | None:
    """The last program of ours that a command starts, and the program's flags."""
    for number, word in reversed(list(enumerate(words))):
        flags = [flag for flag in words[number + 1 :] if not PLACEHOLDER.fullmatch(flag)]
        if word == "-m" and words[number + 1] == "pip":
            return None
        if word == "-m":
            return words[number + 1].replace(".", "/") + ".py", flags[1:]
        if PROGRAM.fullmatch(word):
            return word, flags
    return None


COMMANDS = [
    pytest.param(words, id=f"{path.name}-{number}")
    for path in (*DOCUMENTS, *SCRIPTS)
    for number, words in enumerate(commands_of(shell_of(path)))
    if words[0] == "make" or parts(words)
]


@functools.cache
def targets() -> set[str]:
    """Of the Makefile."""
    (line,) = re.findall(
        r"^\.PHONY:(.*)", (ROOT / "Makefile").read_text().replace("\\\n", " "), re.MULTILINE
    )
    return set(line.split())


@functools.cache
def help_of(program: str) -> str:
    command = [str(ROOT / program), "--help"]
    python = [sys.executable] if program.endswith(".py") else []
    result = run([*python, *command], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert result.returncode == 0, result.stderr
    return result.stdout


def check(program: str, flags: list[str]) -> None:
    """Fails if a program does not take these flags."""
    assert (ROOT / program).is_file(), f"{program} is not there"
    if program.endswith(".sbatch"):
        program = "run_squad_v1.py"
    names = {flag.split("=")[0] for flag in flags if flag.startswith("--")}
    if "runtime import app" in (ROOT / program).read_text(encoding="utf-8"):
        # Values too, and files of flags.
        command = [sys.executable, str(ROOT / program), *flags, "--only_check_args"]
        command = [word.replace("$part", "part").replace("$DEVICE", "cpu") for word in command]
        result = run(command, cwd=ROOT)
        assert result.returncode == 0, result.stderr
    else:
        known = set(re.findall(r"--[\w-]+", help_of(program)))
        assert names <= known, f"{program} does not know {names - known}"


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_are_understood(words):
    if words[0] == "make":
        named = {word for word in words[1:] if re.fullmatch(r"[a-z][\w-]*", word)}
        assert named <= targets(), f"the Makefile has no {named - targets()}"
        return
    for word in filter(PROGRAM.fullmatch, words):
        assert (ROOT / word).is_file(), f"{word} is not there"
    check(*parts(words))


def test_there_are_commands():
    """The tests above hold what the README shows, not nothing."""
    programs = {parts(p.values[0])[0] for p in COMMANDS if p.values[0][0] != "make"}
    programs_of_tasks = {"run_squad_v1.py", "run_classifier.py", "run_pretraining.py"}
    assert programs >= {*programs_of_tasks, "deploy/slurm/squad.sbatch", "sample/generate.py"}


@pytest.mark.parametrize(
    "line",
    [
        "$PYTHON run_squad_v1.py --train_bach_size=3",
        "$PYTHON run_squad_v1.py --train_batch_size=many",
        "$PYTHON run_squad_v1.py --flagfile=configs/none.flags",
        "$PYTHON run_squad_v3.py --train_batch_size=3",
        "$PYTHON check_setups.py run_squad_v1.py --train_batch_size=3",
        "TF_BF16_CONVERSION=1 deploy/mpirun.sh -n 2 $PYTHON run_classifier.py --task=MRPC",
        "$PYTHON download/download_glue_data.py --task=MRPC",
        "$PYTHON -m sample.generate --folder=out",
        "make tests",
    ],
)
def test_what_is_wrong_is_found(line):
    (words,) = commands_of(line)
    with pytest.raises(AssertionError):
        test_commands_are_understood(words)
