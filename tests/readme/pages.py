"""The pages of the documentation: commands, links, and which commands nothing runs, and why."""

import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from tests.helpers.forking import ROOT

README = ROOT / "README.md"
PAGES = [ROOT / name for name in ("README.md", ".github/CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))

_IS_RUN_BY_CI = "CI runs it itself"
_DOWNLOADS = "downloads"
_NEEDS_MODEL = "needs a downloaded model"
_NEEDS_CLUSTER = "needs a cluster or a container engine"
_IS_A_FORM = "stands for any job"
_NEEDS_CARD = "needs a card"
_INSTALLS = "installs a driver's or a device's packages"
# By page and reason: marks of the commands that the walk-through does not run.
NOT_RUN = {
    "README.md": {
        _IS_RUN_BY_CI: "make demo, make test",
        _DOWNLOADS: "python3 -m venv env, pip install",
        _NEEDS_MODEL: "out/tickets, examples/tickets",
    },
    "benchmark-log.md": {_NEEDS_CARD: "make install-dev, OPTIONS=, make bench"},
    "classify.md": {_NEEDS_MODEL: "albert classify reviews.csv"},
    "checking.md": {_NEEDS_CARD: "albert compare-devices"},
    "clusters.md": {
        _NEEDS_CARD: (
            "list_physical_devices, albert compare-devices, out/gpu_step, hl-smi, /dev/accel, "
            "deploy/mpirun.sh"
        ),
        _INSTALLS: "make install, make horovod",
        _IS_A_FORM: "albert check",
        _DOWNLOADS: "albert download",
        _NEEDS_MODEL: "deploy/preset.sh",
        _NEEDS_CLUSTER: "kubectl, docker, mkdir, cd $PROJECT, inside",
        "needs a cluster; tests/deploy has one that is made up": "sbatch",
    },
    "differences.md": {_IS_RUN_BY_CI: "make install", _IS_A_FORM: "albert.run_squad_v1"},
    "entities.md": {_NEEDS_MODEL: "albert entities texts.jsonl"},
    "glue-race.md": {
        _DOWNLOADS: "albert download",
        _NEEDS_MODEL: "--output_dir=out/mrpc, --output_dir=out/race, --output_dir=out/glue",
    },
    "installing.md": {"needs a vendor's image; tests/test_install.py has stand-ins": "SYSTEM=1"},
    "memory-and-speed.md": {_IS_A_FORM: "albert squad ..., --precision=bfloat16 ..."},
    "models-and-data.md": {
        _NEEDS_MODEL: (
            "--output_dir=out/squad-bert, --random_next_sentence, --output_dir=out/bert, "
            "--output_dir=out/from_transformers"
        )
    },
    "pretraining.md": {
        _DOWNLOADS: "wikipedia, books/, out/wiki",
        "needs records of a large text": "--flagfile=configs/pretrain",
    },
    "squad.md": {_DOWNLOADS: "albert download", _NEEDS_MODEL: "out/squad"},
    "serving.md": {
        "goes on until it is stopped; tests/test_serve.py starts and stops it": (
            "--host 0.0.0.0, echo $ALBERT_TOKEN"
        ),
        _NEEDS_CLUSTER: "kubectl, docker",
        _NEEDS_MODEL: "albert ask deepset/",
    },
    "tutorial.md": {_IS_RUN_BY_CI: "make demo", _NEEDS_MODEL: "questions.csv"},
    "workers.md": {
        _IS_RUN_BY_CI: "make install horovod",
        _IS_A_FORM: "deploy/mpirun.sh, mpirun --allow-run-as-root",
    },
}


def marks_of(page: str) -> list[str]:
    return [mark for marks in NOT_RUN.get(page, {}).values() for mark in marks.split(", ")]


class Block(NamedTuple):
    """A fenced block of a page: the word behind its fence, and its text without indentation."""

    page: pathlib.Path
    language: str
    text: str

    def reasons(self) -> dict[str, list[str]]:
        """Returns, for each command of the block, its marks among those that are not run."""
        marks = marks_of(self.page.name)
        return {
            command: [mark for mark in marks if mark in command]
            for command in map(" ".join, commands_of(self.text))
            # Later commands may use it, wherever they run.
            if not command.startswith(("export ", "source "))
        }

    def is_run(self) -> bool:
        """Returns whether the walk-through runs the block: no command has a reason against it."""
        return not any(self.reasons().values())


def blocks_of(page: pathlib.Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for language, body in re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", text, flags=re.S | re.M):
        yield Block(page, language, textwrap.dedent(body))


def files_of(text: str) -> dict[str, str]:
    """Returns the files that shell text writes as here-documents, by name."""
    written = re.findall(r"^cat > (\S+) <<(\w+)\n(.*?)^\2$", text, flags=re.S | re.M)
    return {name: content for name, _, content in written}


BLOCKS = [block for page in PAGES for block in blocks_of(page) if block.language == "bash"]


def commands_of(text: str) -> Iterator[list[str]]:
    """Yields the words of each command in shell text, without loops and comments."""
    text = re.sub(r"<<'?(\w+)'?.*?\n\1$", "", text.replace("\\\n", " "), flags=re.S | re.M)
    text = re.sub(r"(^|[ \t])#.*", "", text, flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    is_end = re.compile(r"[;&\n]+|do").fullmatch
    for ends, words in itertools.groupby(lexer, key=lambda word: bool(is_end(word))):
        command = list(words)
        if not ends and command[0] not in ("for", "done"):
            yield command


def run_in(folder: pathlib.Path, text: str) -> str:
    """Runs shell text as if the environment were active and had the command `albert`."""
    programs = folder / "bin"
    if not programs.exists():
        programs.mkdir()
        # Through a link, Python would not find the packages of its environment.
        for name, module in {"python": "", "albert": "-m albert "}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module}"$@"\n')
            (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    options = {"cwd": folder, "env": environment, "timeout": 1500}
    command = ["bash", "-euo", "pipefail", "-c", text]
    result = subprocess.run(command, **options, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def prose_of(page: pathlib.Path) -> str:
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M)


def links_of(page: pathlib.Path) -> list[str]:
    """Returns the targets of a page's links, except those to the web."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    return [target for target in targets if not re.match(r"https?:", target)]


def anchors_of(page: pathlib.Path) -> list[str]:
    titles = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
