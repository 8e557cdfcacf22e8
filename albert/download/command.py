"""Everything that `albert download` can download, with the flags for it."""

import argparse
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from albert.core.arguments import Parser
from albert.core.errors import FlagError
from albert.download.datasets import GLUE, download_glue, download_race, download_squad
from albert.download.mrpc import FILES
from albert.download.named_model import local_folder
from albert.download.pretrained import download_model
from albert.download.published import MODELS


def web_address(text: str) -> str:
    """Checks and returns an http or https address; an argparse type."""
    # This check comes first, because the next message would show the password.
    if re.match(r"([^/?#]*//)?[^/?#]*@", text):
        raise argparse.ArgumentTypeError("remove the user name or password from the address")
    if not re.match(r"https?://[^/?#\s]+[^\s]*$", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an http or https address")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a SHA-256 of 64 hexadecimal digits")
    return text.lower()


def _task_names(text: str) -> list[str]:
    known = {name.lower(): name for name in GLUE} | {"sst": "SST-2", "sts": "STS-B"}
    if text.lower() == "all":
        return GLUE
    names = [name.strip().lower() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(
            f"unknown task {unknown[0]!r}; use all, or some of {', '.join(GLUE)}"
        )
    return [known[name] for name in names]


class _Kind(NamedTuple):
    """A kind of download: its help, the arguments by name, and the function that takes them."""

    summary: str
    more: str
    arguments: Mapping[str, Mapping[str, Any]]
    run: Callable[..., None]


def _option(text: str, **more: Any) -> dict[str, Any]:
    return {"help": text, **more}


_DATA_DIR = _option(
    "folder for the data; it is created if it does not exist", type=Path, metavar="DIR"
)
_BASE_URL = _option(
    "address of a folder on a mirror that has all files", type=web_address, metavar="URL"
)
_SHA256 = _option(
    "expected hash of the archive; any other hash is an error", type=_sha256, metavar="HEX"
)
# The publisher of RACE gives no hash.
_RACE_URL = "http://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz"
_MODEL_HELP = """examples:
  %(prog)s albert_base_v2
  %(prog)s https://example.org/models/ my_albert

The first example makes albert_base_v2/ with the checkpoint, its albert_config.json and the
vocabulary. On a machine without a network, put NAME.tar.gz (or NAME.zip) in the folder where you
want NAME/; the command then unpacks it. These models from Google do not need a URL:
{}

Google does not publish hashes of these archives. The command prints the SHA-256 of the archive and
saves it in NAME/.download.json. Pass it as --sha256 to get the same archive on other machines.
"""
_MODELS = textwrap.indent(textwrap.fill(", ".join(MODELS), 96, break_on_hyphens=False), "  ")
_TASKS = f"all, or some of {', '.join(GLUE)}, separated by commas (default: all)"

_KINDS = {
    "model": _Kind(
        "Downloads a pretrained model and unpacks it to the folder NAME.",
        _MODEL_HELP.format(_MODELS),
        {
            "url": _option(
                "address of a folder that has NAME.tar.gz, or address of an archive",
                **{"type": web_address, "metavar": "URL", "nargs": "?"},
            ),
            "name": _option("name of the model, such as albert_base_v2", metavar="NAME"),
            "--output_dir": _option(
                "parent of the new folder NAME (default: %(default)s)",
                **{"type": Path, "metavar": "DIR", "default": Path()},
            ),
            "--sha256": _SHA256,
        },
        download_model,
    ),
    "squad": _Kind(
        "Downloads SQuAD's files train-v*.json and dev-v*.json, which have published hashes.",
        "example:\n  %(prog)s --version 1.1 --data_dir data/squad\n",
        {
            "--data_dir": {**_DATA_DIR, "required": True},
            "--base_url": _BASE_URL,
            # The version of the data, not that of the program.
            "--version": _option(
                "version of SQuAD (default: %(default)s)", choices=("1.1", "2.0"), default="1.1"
            ),
        },
        download_squad,
    ),
    "race": _Kind(
        "Downloads RACE: the folders train, dev and test in DIR/RACE, with one file per passage.",
        "example:\n  %(prog)s --data_dir data\n",
        {
            "--data_dir": {**_DATA_DIR, "required": True},
            "--sha256": _SHA256,
            "--url": _option(
                "address of the archive, for example on a mirror (default: %(default)s)",
                **{"type": web_address, "metavar": "URL", "default": _RACE_URL},
            ),
        },
        download_race,
    ),
    "glue": _Kind(
        "Downloads GLUE to one folder per task and checks it against the published hashes.",
        "example:\n  %(prog)s --data_dir data/glue --tasks MRPC,CoLA\n\n"
        "A task whose folder already exists is skipped.\n",
        {
            "--data_dir": {**_DATA_DIR, "default": Path("glue_data")},
            "--tasks": _option(_TASKS, type=_task_names, default="all", metavar="NAMES"),
            "--path_to_mrpc": _option(
                f"folder with {' and '.join(FILES)} (default: download them)",
                **{"type": Path, "metavar": "DIR"},
            ),
            "--base_url": _BASE_URL,
        },
        download_glue,
    ),
}


def main(words: Sequence[str]) -> None:
    """Downloads the model or dataset that the first word names, with the flags after it.

    If that is the name of a model, prints its folder, which `--model=NAME` then finds.
    """
    name, *flags = words
    if name in _KINDS:
        kind = _KINDS[name]
        more = f"{kind.more}\nTo resume a download that was stopped, run the same command again.\n"
        program = f"albert download {name}"
        parser = Parser(program, kind.summary, epilog=more, conflict_handler="resolve")
        for argument, options in kind.arguments.items():
            parser.add_argument(argument, **options)
        kind.run(**vars(parser.parse_args(flags)))
    elif flags:
        raise FlagError(f"{flags[0]!r} is too much: a model's name has no flags after it")
    else:
        print(local_folder(name))
