r"""Prints a script with which bash or zsh completes commands and flags when you press Tab.

eval "$(albert completion bash)"       for ~/.bashrc
eval "$(albert completion zsh)"        for ~/.zshrc
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence

from albert.cli.main import COMMANDS, command_of, parse_word
from albert.core.errors import FlagError
from albert.settings.fields import IGNORED

NEEDS_TENSORFLOW = False
WORDS = ("bash", "zsh")
# With these lines, zsh accepts completion scripts for bash.
_ZSH = """autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""
# The script passes this word, and then the words that the user has typed.
_TYPED = "words"
_COMMON = ("flagfile", "help", "helpfull", "version")
_SCRIPT = """_albert() {
  local IFS=$'\\n'
  COMPREPLY=($(albert completion words "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _albert albert"""


def parse(argv: list[str]) -> list[str]:
    """Returns the name of the shell, or the words that the user has typed so far."""
    return parse_word(argv, __doc__, WORDS, unlisted=[_TYPED])


def main(arguments: list[str]) -> None:
    """Prints the script for a shell, or the completions of the last typed word."""
    shell, *typed = arguments
    if shell != _TYPED:
        print(_ZSH * (shell == "zsh") + _SCRIPT)
        return
    *before, last = typed or [""]
    possible: Sequence[str]
    if not before:
        possible = COMMANDS
    elif last.startswith("-"):
        possible = flags_of(*before)
        if "-" in last[2:]:
            # Hyphens and underscores are the same in the names of flags.
            possible = [flag.replace("_", "-") for flag in possible]
    else:
        # If there are no words, the shell completes file names.
        possible = words_of(*before)
    print("\n".join(word for word in possible if word.startswith(last)))


def words_of(name: str, *before: str) -> Sequence[str]:
    """Returns the words that may follow a command, such as the version of SQuAD."""
    if name not in COMMANDS or before:
        return ()
    return getattr(command_of(name), "WORDS", ())


def flags_of(name: str, *before: str) -> list[str]:
    """Returns the flags of a command, except the ignored ones."""
    if name not in COMMANDS:
        return []
    command = command_of(name)
    words = [word for word in before if not word.startswith("-")][:2]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit, FlagError):
        request = command.parse([f"albert {name}", *words, "--helpfull"])
        # The flags of `albert download` depend on its first word, so `main` parses them.
        command.main(request)
    usable = text.getvalue().split(f"{IGNORED}:")[0]
    names = re.findall(r"(?m)^  (?:-\w, )?--(?:\[no\])?([\w-]+)", usable)
    return [f"--{flag}" for flag in sorted({*names, *_COMMON})]
