"""The pages for people: commands are understood, and run or listed; links lead somewhere."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import sys

import pytest

from runtime.version import VERSION
from squad.examples import load_squad, read_examples
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.readme import pages
from tests.readme.pages import BLOCKS, NOT_RUN, PAGES, README, Block, commands_of

SCRIPTS = sorted((ROOT / "deploy").rglob("*.sbatch"))
# What stands for something else, FLAGS-OF-THE-JOB, "...", [--an-option], and the end of a command.
PROGRAM = re.compile(r"[\w/.-]+\.(py|sh|sbatch)")
PLACEHOLDER = re.compile(r"\.\.\.|[A-Z]+(-[A-Z]+)+|\[.*\]|\$@|&")


def shell_of(path: pathlib.Path) -> str:
    """The shell text of a document: its fenced blocks, and what stands in a line as a command."""
    if path.suffix != ".md":
        return path.read_text(encoding="utf-8")
    blocks = [block.text for block in BLOCKS if block.page == path]
    inline = re.findall(r"`([^`]+)`", pages.prose_of(path))
    inline = [" ".join(code.split()) for code in inline]
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
        # The program that check_setup.py is to check is an argument of it.
        if PROGRAM.fullmatch(word) and words[number - 1] != "check_setup.py":
            return word, flags
    return None


COMMANDS = [
    pytest.param(words, id=f"{path.name}-{number}")
    for path in (*PAGES, *SCRIPTS)
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
    if program == "deploy/preset.sh":
        # Behind preset, model, data and Python.
        program, flags = "run_squad_v1.py", flags[4:]
    names = {flag.split("=")[0] for flag in flags if flag.startswith("--")}
    source = (ROOT / program).read_text(encoding="utf-8")
    if "runtime import app" in source and "import argparse" not in source:
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
    """The tests above hold what the pages show, not nothing."""
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


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.page.stem)
def test_commands_are_run_or_listed(block):
    """A block is run as a whole by `tests/readme/walk_through.py`, or a reason is given for each
    command in it."""
    without = [command for command, marks in block.reasons().items() if not marks]
    assert block.is_run() or without == [], "give a reason, or a block of their own"


def test_reasons_are_of_commands_that_are_there():
    known = {(name, mark) for name, marks in NOT_RUN.items() for mark in marks}
    used = {
        (block.page.name, mark)
        for block in BLOCKS
        for marks in block.reasons().values()
        for mark in marks
    }
    assert known == used


def test_a_command_without_a_reason_is_found():
    block = Block(README, "bash", "make demo\n$PYTHON run_squad_v1.py --train_steps=1\n")
    with pytest.raises(AssertionError, match="give a reason"):
        test_commands_are_run_or_listed(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_say_what_they_are(page):
    """Commands would be missed in a block of another kind."""
    for block in pages.blocks_of(page):
        assert block.language in ("bash", "text", "python")
        if block.language == "text":
            assert not re.search(r"^(\$ |\$PYTHON|python3? |make )", block.text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in pages.links_of(page):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), target
        assert not anchor or anchor in pages.anchors_of(path), target


def test_the_readme_names_every_page():
    linked = {(ROOT / target.split("#")[0]).resolve() for target in pages.links_of(README)}
    assert set(PAGES) - {README} <= linked


def test_the_readme_is_for_the_first_hour():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_questions_of_ones_own_can_be_trained_on(tmp_path):
    """The files of the page on SQuAD: training leaves none of their questions out."""
    files = pages.files_of("".join(b.text for b in BLOCKS if b.page.name == "squad.md"))
    used = {}
    for path, content in files.items():
        file = tmp_path / pathlib.Path(path).name
        file.write_text(content)
        articles = load_squad(str(file))
        is_training = file.name.startswith("train")
        examples, left_out = read_examples(articles, str(file), is_training, unanswerable=True)
        assert not left_out.counts
        used[file.name] = [example.is_impossible for example in examples]
    assert used == {"train.json": [False] * 4, "dev.json": [False], "train-v2.json": [False, True]}


def test_no_page_repeats_another():
    """Flags of commands apart, which are short lines."""
    pages_by_line: dict[str, set[str]] = {}
    for page in PAGES:
        for line in pages.prose_of(page).splitlines():
            if len(line) > 60:
                pages_by_line.setdefault(line.strip(), set()).add(page.name)
    assert {line: on for line, on in pages_by_line.items() if len(on) > 1} == {}


def test_the_changelog_is_of_this_version():
    title = re.search(r"^## \[?([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert title.group(1) == VERSION
