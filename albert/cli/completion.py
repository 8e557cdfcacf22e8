r"""Prints what lets bash or zsh complete commands and flags with the tab key.

eval "$(albert completion bash)"       for ~/.bashrc
eval "$(albert completion zsh)"        for ~/.zshrc
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Sequence

from albert.cli.main import COMMANDS, EntryPoint, module_of, parse_word
from albert.core.errors import FlagError
from albert.settings.fields import WITHOUT_USE

ENTRY_POINT = EntryPoint("albert.cli.completion", needs_tensorflow=False)
WORDS = ("bash", "zsh")
# Bash's way of completing, which zsh has too once it is asked for.
_ZSH = """autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""
# What the script asks for: the words that are typed follow.
_TYPED = "words"
_COMMON = ("flagfile", "help", "helpfull", "version")
_SCRIPT = """_albert() {
  local IFS=$'\\n'
  COMPREPLY=($(albert completion words "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _albert albert"""


def parse(argv: list[str]) -> list[str]:
    """Returns the shell, or what is typed so far.

    Raises:
      FlagError: it is neither.
      SystemExit: help or the version was asked for, and printed.
    """
    return parse_word(argv, __doc__, WORDS, unlisted=[_TYPED])


def main(asked: list[str]) -> None:
    """Prints the script of a shell, or what may stand for the last of the words typed so far."""
    shell, *typed = asked
    if shell != _TYPED:
        print(_ZSH * (shell == "zsh") + _SCRIPT)
        return
    *before, last = typed or [""]
    possible: Sequence[str]
    if not before:
        possible = COMMANDS
    elif last.startswith("-"):
        possible = flags_of(*before)
    else:
        # Files, if it is no word of the command; the shell knows them.
        possible = words_of(*before)
    print("\n".join(word for word in possible if word.startswith(last)))


def words_of(name: str, *before: str) -> Sequence[str]:
    """Returns the words that may follow a command, such as the version of SQuAD."""
    if name not in COMMANDS or before:
        return ()
    return getattr(importlib.import_module(module_of(name)), "WORDS", ())


def flags_of(name: str, *before: str) -> list[str]:
    """Returns the flags of a command, those that are ignored left out."""
    if name not in COMMANDS:
        return []
    module = importlib.import_module(module_of(name))
    given = [word for word in before if not word.startswith("-")][:2]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit, FlagError):
        asked = module.parse([f"albert {name}", *given, "--helpfull"])
        # It has flags for each word, which it parses when it knows that.
        importlib.import_module(module.ENTRY_POINT.module).main(asked)
    of_use = text.getvalue().split(f"{WITHOUT_USE}:")[0]
    found = re.findall(r"(?m)^  (?:-\w, )?--(?:\[no\])?([\w-]+)", of_use)
    return [f"--{flag}" for flag in sorted({*found, *_COMMON})]
