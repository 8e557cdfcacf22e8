"""The pages for people: their commands, their links, and which commands nothing runs, and why."""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from tests.helpers.forking import ROOT

README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

_IS_RUN_BY_CI = "CI runs it itself"
_DOWNLOADS = "downloads"
_NEEDS_MODEL = "needs a downloaded model"
_NEEDS_CLUSTER = "needs a cluster or a container engine"
_IS_A_FORM = "stands for any job"
_NEEDS_CARD = "needs a card"
_INSTALLS = "installs a driver's or a device's packages"
# By page: what a command that the walk-through does not run is known by, and why it is not.
NOT_RUN = {
    "README.md": {
        "make demo": _IS_RUN_BY_CI,
        "make test": _IS_RUN_BY_CI,
        "make install": _IS_RUN_BY_CI,
        "download_pretrained_model.py": _DOWNLOADS,
        "download_dataset.py": _DOWNLOADS,
        "--output_dir=out/squad": _NEEDS_MODEL,
        "show_predictions.py out/squad": _NEEDS_MODEL,
        "evaluate.py out/squad": _NEEDS_MODEL,
        "ask.py out/squad": _NEEDS_MODEL,
    },
    "bert.md": {
        "download_pretrained_model.py": _DOWNLOADS,
        "--output_dir=out/squad-bert": _NEEDS_MODEL,
        "--model_type=bert": _NEEDS_MODEL,
        "--output_dir=out/bert": _NEEDS_MODEL,
    },
    "bfloat16.md": {"run_squad_v1.py ...": _IS_A_FORM},
    "checking.md": {
        "check_setup.py run_classifier.py FLAGS-OF-THE-JOB": _IS_A_FORM,
        "compare_devices.py": _NEEDS_CARD,
    },
    "clusters.md": {
        "deploy/preset.sh": _NEEDS_MODEL,
        "sbatch": "needs a cluster; tests/deploy has one that is made up",
    },
    "gaudi.md": {
        "hl-smi": _NEEDS_CARD,
        "ls /dev/accel": _NEEDS_CARD,
        "make install": _INSTALLS,
        "check_setup.py": _IS_A_FORM,
        "compare_devices.py": _NEEDS_CARD,
        "--output_dir=out/first_step": _NEEDS_CARD,
        "deploy/mpirun.sh": _NEEDS_CARD,
    },
    "glue.md": {"download_glue_data.py": _DOWNLOADS, "--output_dir=out/mrpc": _NEEDS_MODEL},
    "gpu.md": {
        "make install": _INSTALLS,
        "list_physical_devices": _NEEDS_CARD,
        "FLAGS-OF-THE-JOB": _IS_A_FORM,
        "compare_devices.py": _NEEDS_CARD,
        "make horovod": _INSTALLS,
        "check_setup.py": _NEEDS_CARD,
        "deploy/mpirun.sh": _NEEDS_CARD,
    },
    "race.md": {"download_dataset.py": _DOWNLOADS, "--output_dir=out/race": _NEEDS_MODEL},
    "results.md": {"--output_dir=out/xxlarge_64": _NEEDS_MODEL},
    "squad.md": {"download_dataset.py": _DOWNLOADS, "--output_dir=out/squad2": _NEEDS_MODEL},
    "serving.md": {
        "--host 0.0.0.0": "goes on until it is stopped; tests/test_serve.py starts and stops it",
        "kubectl": _NEEDS_CLUSTER,
        "docker": _NEEDS_CLUSTER,
        "8501": _NEEDS_CLUSTER,
    },
    "weights.md": {"run_squad_v1.py": _NEEDS_MODEL},
    "workers.md": {
        "make horovod": _IS_RUN_BY_CI,
        "deploy/mpirun.sh": _IS_A_FORM,
        "mpirun --allow-run-as-root": _IS_A_FORM,
    },
}


class Block(NamedTuple):
    """A fenced block of a page: the word behind its fence, and its text without indentation."""

    page: pathlib.Path
    language: str
    text: str

    def reasons(self) -> dict[str, list[str]]:
        """Returns by command of the block what it is known by among those that are not run."""
        marks = NOT_RUN.get(self.page.name, {})
        return {
            command: [mark for mark in marks if mark in command]
            for command in map(" ".join, commands_of(self.text))
            # What follows may use it, wherever that is run.
            if not command.startswith("export ")
        }

    def is_run(self) -> bool:
        """Returns whether the walk-through runs the block: nothing speaks against any command."""
        return not any(self.reasons().values())


def blocks_of(page: pathlib.Path) -> Iterator[Block]:
    """Yields the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for language, body in re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", text, flags=re.S | re.M):
        yield Block(page, language, textwrap.dedent(body))


def files_of(text: str) -> dict[str, str]:
    """Returns the files that shell text writes as here-documents, by name."""
    written = re.findall(r"^cat > (\S+) <<(\w+)\n(.*?)^\2$", text, flags=re.S | re.M)
    return {name: content for name, _, content in written}


BLOCKS = [block for page in PAGES for block in blocks_of(page) if block.language == "bash"]


def commands_of(text: str) -> Iterator[list[str]]:
    """Yields the words of each command in shell text; loops, here-documents, comments are gone."""
    text = re.sub(r"<<'?(\w+)'?.*?\n\1$", "", text.replace("\\\n", " "), flags=re.S | re.M)
    text = re.sub(r"(^|[ \t])#.*", "", text, flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    is_end = re.compile(r"[;&\n]+|do").fullmatch
    for ends, words in itertools.groupby(lexer, key=lambda word: bool(is_end(word))):
        command = list(words)
        if not ends and command[0] not in ("for", "done"):
            yield command


def prose_of(page: pathlib.Path) -> str:
    """Returns the text of a page without its blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M)


def links_of(page: pathlib.Path) -> list[str]:
    """Returns the targets of a page's links, those to the web apart."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    return [target for target in targets if not re.match(r"https?:", target)]


def anchors_of(page: pathlib.Path) -> list[str]:
    """Returns what links to the headings of a page end in, as GitHub makes it."""
    titles = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
