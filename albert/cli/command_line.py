"""Parsing and help of command lines that consist of flags."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from albert.core.arguments import with_underscores
from albert.core.errors import NO_UTF8, FlagError, see_help
from albert.core.files import packaged
from albert.core.text import is_utf8
from albert.core.version import VERSION
from albert.settings.fields import IGNORED, OWN, THEMES, Flag, Settings

_HELP = frozenset(("--help", "-help", "-h", "--helpshort", "-helpshort"))
_FULL_HELP = frozenset(("--helpfull", "-helpfull"))
_WIDTH = 100

Classes = Sequence[type[Settings]]


def parse(
    argv: list[str], text: str | None, *settings: type[Settings], arguments: bool = False
) -> list:
    """Parses the flags of a command line; returns the arguments that are not flags, if allowed.

    `Settings.from_flags` then returns the values of the flags of `settings`. `text` is the help,
    with examples that begin with "albert COMMAND". Raises a `FlagError` for an unknown flag or an
    invalid value, and a `SystemExit` once the help or the version is printed.
    """
    argv = [_with_package_paths(word) for word in argv]
    words = set(argv)
    if words & (_HELP | _FULL_HELP):
        # With PYTHONOPTIMIZE=2, there are no docstrings.
        show_help(text or "", settings, full=bool(words & _FULL_HELP))
        sys.exit(0)
    if "--version" in argv:
        print(os.path.basename(argv[0]), VERSION)
        sys.exit(0)
    for one in settings:
        one.define_flags()
    rest = _parsed(argv, settings, arguments)[1:]
    if rest and not arguments:
        raise FlagError(f"{rest[0]!r} is not a flag; flags are --name=value, see --help")
    for argument in rest:
        if not is_utf8(argument):
            raise FlagError(f"{argument!r} {NO_UTF8}")
    return rest


def request_of(command: Any, argv: list[str]) -> Any:
    """Parses the command line of a command, see `albert.cli.main`; raises as `parse`."""
    if hasattr(command, "parse"):
        return command.parse(argv)
    takes_arguments = getattr(command, "TAKES_ARGUMENTS", False)
    arguments = parse(argv, command.__doc__, command.SETTINGS, arguments=takes_arguments)
    settings = command.SETTINGS.from_flags()
    return (settings, arguments) if takes_arguments else settings


def _parsed(argv: list[str], settings: Classes, arguments: bool) -> list[str]:
    """Parses absl's flags; returns the program's name and the arguments that are not flags."""
    # `app` defines flags, too, such as --pdb_post_mortem and --verbosity.
    from absl import app, flags

    app.define_help_flags()
    flags.FLAGS.set_gnu_getopt(arguments)
    known = {*flags.FLAGS, *(f"no{name}" for name in flags.FLAGS if flags.FLAGS[name].boolean)}
    try:
        words = flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=arguments)
        words = [_with_package_paths(word) for word in words]
        return flags.FLAGS([argv[0], *with_underscores(words, known)])
    except SystemExit:
        # absl has printed a help text, which it reports as a failure.
        sys.exit(0)
    except (flags.CantOpenFlagFileError, OSError, UnicodeDecodeError) as e:
        raise FlagError(f"--flagfile: not a file of flags: {e}") from e
    except flags.UnrecognizedFlagError as e:
        known_flags = [f"--{one.name}" for one in _flags_of(settings) if one.flag.theme != IGNORED]
        advice = see_help(f"--{e.flagname}", known_flags)
        raise FlagError(f"--{e.flagname} is not a flag{advice}") from e
    except (flags.Error, ValueError) as e:
        raise FlagError(f"{e}; see --help") from e


def _with_package_paths(word: str) -> str:
    """Returns a word with a package file's full path, so that configs/ works without a clone."""
    name, mark, path = word.rpartition("=")
    return name + mark + packaged(path)


class _FlagHelp(NamedTuple):
    """A flag as the help shows it."""

    name: str
    kind: str
    default: Any
    flag: Flag


def show_help(text: str, settings: Classes, full: bool) -> None:
    """Prints the help of a command: its text, and its basic flags, or all of them."""
    shown = list(_flags_of(settings))
    lines = [with_program(text).rstrip(), ""]
    if not full:
        own = [one for one in shown if one.flag.theme == OWN]
        few = own or [one for one in shown if one.flag.is_basic] or shown
        if len(few) < len(shown):
            lines.append("The most important flags. Pass --helpfull to see all of them.")
        shown = few
    for theme in THEMES:
        themed = [one for one in shown if one.flag.theme == theme]
        if not themed or (theme == IGNORED and not full):
            continue
        lines.append(f"{theme}:")
        for one in sorted(themed):
            lines += _explained(one) if full else _in_short(one)
        lines += [""] * full
    lines.append("  --version, --flagfile=FILE")
    print("\n".join(lines))


def with_program(text: str) -> str:
    """Returns a help text whose examples start the program in the way the user started it."""
    program = os.path.basename(sys.argv[0])
    if program.endswith(".py"):
        return re.sub(r"(?m)^  albert [\w-]+( 2\.0)?", f"  python {program}", text)
    return text


def _flags_of(settings: Classes) -> Iterator[_FlagHelp]:
    for one in settings:
        flags = one.flags()
        for field in dataclasses.fields(one):
            if field.name in flags:
                kind = str(field.type).removesuffix(" | None")
                flag = flags[field.name]
                yield _FlagHelp(field.name, kind, field.default, flag)
                text = f"Alias for --{field.name}."
                alias_flag = flag._replace(help=text, aliases=(), is_basic=False)
                for alias in flag.aliases:
                    yield _FlagHelp(alias, kind, field.default, alias_flag)


def _in_short(shown: _FlagHelp) -> list[str]:
    """Formats a flag for the short help: its first phrase, and whether it is required."""
    phrases = re.split(r"\. (?=[A-Z])|; |\.$", shown.flag.help)
    said = [phrases[0], *(f"; {p.lower()}" for p in phrases[1:] if p.startswith("Required"))]
    text = f"--{shown.name}:{_choices(shown.flag)} {''.join(said)}"
    default = "on" if shown.default is True else _as_text(shown.default)
    if default and shown.default is not False:
        text += f" ({default})"
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ")


def _explained(shown: _FlagHelp) -> list[str]:
    name = f"--{'[no]' if shown.kind == 'bool' else ''}{shown.name}"
    also = "".join(f" Also called --{alias}." for alias in shown.flag.aliases)
    text = f"{name}:{_choices(shown.flag)} {shown.flag.help}{also}"
    lines = textwrap.wrap(text, 80, initial_indent="  ", subsequent_indent="    ")
    if default := _as_text(shown.default):
        quoted = repr(default) if shown.kind == "str" else default
        lines.append(f"    (default: {quoted})")
    bounds = (shown.flag.lower, "at least"), (shown.flag.upper, "at most")
    if said := [f"{words} {bound:,}" for bound, words in bounds if bound is not None]:
        lines.append(f"    ({', '.join(said)})")
    return lines


def _choices(flag: Flag) -> str:
    return f" <{'|'.join(flag.choices)}>" if flag.choices else ""


def _as_text(default: Any) -> str:
    """Returns a default as a user would type it; empty if there is no default."""
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None or default == () else str(default)
