r"""Prints what lets bash or zsh complete commands and flags with the tab key.

eval "$(albert completion bash)"       for ~/.bashrc
eval "$(albert completion zsh)"        for ~/.zshrc
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys

from albert.cli.commands import COMMANDS, Work, module_of
from albert.core.errors import FlagError
from albert.core.version import VERSION

WORK = Work("albert.cli.completion", needs_tensorflow=False)
_SHELLS = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}
_SCRIPT = """_albert() {
  local IFS=$'\\n'
  COMPREPLY=($(albert completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _albert albert"""


def parse(argv: list[str]) -> list[str]:
    """Returns the shell, or what is typed so far.

    Raises:
      FlagError: it is neither.
      SystemExit: help or the version was asked for, and printed.
    """
    words = argv[1:] or ["--help"]
    if words[0] == "--version":
        print(argv[0], VERSION)
    elif words[0] in ("-h", "--help", "--helpfull"):
        print(__doc__, end="")
    elif words[0] not in (*_SHELLS, "words"):
        raise FlagError(f"{words[0]} is not one of {', '.join(_SHELLS)}")
    else:
        return words
    sys.exit(0)


def main(asked: list[str]) -> None:
    """Prints the script of a shell, or what may stand for the last of the words typed so far."""
    if asked[0] in _SHELLS:
        print(_SHELLS[asked[0]] + _SCRIPT)
    else:
        *before, last = asked[1:] or [""]
        found = flags_of(*before) if before else COMMANDS
        print("\n".join(word for word in found if word.startswith(last)))


def flags_of(name: str, *words: str) -> list[str]:
    """Returns the flags of a command, as its help names them."""
    if name not in COMMANDS:
        return []
    given = [word for word in words if not word.startswith("-")][:2]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit, FlagError):
        importlib.import_module(module_of(name)).parse([f"albert {name}", *given, "--helpfull"])
    return sorted(
        {f"--{flag}" for flag in re.findall(r"(?m)^ +--(?:\[no\])?(\w[\w-]*)", text.getvalue())}
    )
