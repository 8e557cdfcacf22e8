"""Command lines of flags: their parsing, and their help."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator

from absl import flags

from albert.core.errors import NO_UTF8, FlagError, is_utf8
from albert.core.locations import found
from albert.core.version import VERSION
from albert.settings.flags import FLAGS, THEMES, TOO_LARGE, WITHOUT_USE

_HELP = frozenset(("--help", "-help", "-h", "--helpshort", "-helpshort"))
_FULL_HELP = frozenset(("--helpfull", "-helpfull"))
_WIDTH = 100


def parse(argv: list[str], text: str, takes_arguments: bool = False) -> list[str]:
    """Parses the flags of a command line and checks their values.

    Args:
      argv: the command line.
      text: what the command does, for its help, with examples that begin with "albert COMMAND".
      takes_arguments: whether it has arguments that are not flags.

    Returns:
      The program's name, and its arguments that are not flags.

    Raises:
      FlagError: there is no such flag, or a value is impossible.
      SystemExit: help or the version was asked for, and printed.
    """
    argv = [_of_the_package(word) for word in argv]
    asked = set(argv)
    if asked & (_HELP | _FULL_HELP):
        show_help(text, full=bool(asked & _FULL_HELP))
        sys.exit(0)
    if "--version" in argv:
        print(os.path.basename(argv[0]), VERSION)
        sys.exit(0)
    # Its flags, such as --pdb_post_mortem, and --verbosity of the log.
    from absl import app

    app.define_help_flags()

    FLAGS.set_gnu_getopt(takes_arguments)
    try:
        rest = FLAGS(argv)
    except SystemExit:
        # Other help was asked for and given; absl takes that for a failure.
        sys.exit(0)
    except (flags.CantOpenFlagFileError, OSError, UnicodeDecodeError) as e:
        raise FlagError(f"--flagfile: no file of flags: {e}") from e
    except RecursionError as e:
        raise FlagError("--flagfile: files of flags that name each other, or too many") from e
    except flags.UnrecognizedFlagError as e:
        raise FlagError(_no_flag(e.flagname)) from e
    except flags.Error as e:
        raise FlagError(f"{e}; see --help") from e
    if len(rest) > 1 and not takes_arguments:
        raise FlagError(f"{rest[1]!r} is not a flag; flags are --name=value, see --help")
    for argument in rest[1:]:
        if not is_utf8(argument):
            raise FlagError(f"{argument!r} {NO_UTF8}")
    _check_values()
    return rest


def _of_the_package(word: str) -> str:
    """Returns a word of the command line, in which a file of the package has its whole path.

    So --flagfile=configs/squad_v1.1.flags works without a clone too.
    """
    name, mark, path = word.rpartition("=")
    return name + mark + found(path)


def require_parsed() -> None:
    """Parses flags of nothing but a program's name unless they have been parsed: absl needs it."""
    if not FLAGS.is_parsed():
        FLAGS(sys.argv[:1])


def show_help(text: str, full: bool) -> None:
    """Prints what a command does, and its flags: those that count, or all."""
    lines = [with_program(text).rstrip(), ""]
    by_theme = _flags_by_theme(with_ignored=full)
    if not full:
        own = {theme: of_theme for theme, of_theme in by_theme.items() if theme not in THEMES}
        basic = {theme: [*filter(is_basic, of_theme)] for theme, of_theme in by_theme.items()}
        by_theme = own or {t: of_theme for t, of_theme in basic.items() if of_theme} or by_theme
        if not own:
            lines.append("The flags that count; --helpfull explains all:")
    for theme, of_theme in by_theme.items():
        lines.append(f"{theme}:" if theme in THEMES else "flags:")
        for flag in sorted(of_theme, key=lambda flag: flag.name):
            lines += _explained(flag) if full else _in_short(flag)
        lines += [""] * full
    lines.append("  --version, --flagfile=FILE")
    print("\n".join(lines))


def with_program(text: str) -> str:
    """Returns a help text whose examples call the program as it has been called."""
    program = os.path.basename(sys.argv[0])
    if program.endswith(".py"):
        return re.sub(r"(?m)^  albert [\w-]+( 2\.0)?", f"  python {program}", text)
    return text


def known_flags() -> Iterator[flags.Flag]:
    """Yields the command's flags, without those of libraries, and those without use here."""
    for of_theme in _flags_by_theme(with_ignored=False).values():
        yield from of_theme


def is_basic(flag: flags.Flag) -> bool:
    """Tells whether a flag is one of those that count most, where some are marked."""
    return getattr(flag, "is_basic", False)


def _flags_by_theme(with_ignored: bool) -> dict[str, list[flags.Flag]]:
    """Returns the command's flags; those of a module that has no themes first."""
    modules = FLAGS.flags_by_module_dict()
    own = [module for module in modules if module.split(".")[0] == "albert"]
    themes = [theme for theme in THEMES if theme in modules]
    names = [*own, *themes]
    return {name: modules[name] for name in names if with_ignored or name != WITHOUT_USE}


def _in_short(flag: flags.Flag) -> list[str]:
    """Returns the first sentence of a flag's help, and the one that says it is required."""
    sentences = re.split(r"(?<=\.) (?=[A-Z])", " ".join(flag.help.split()))
    said = [sentences[0], *(s for s in sentences[1:] if s.startswith("Required"))]
    # absl begins the help of a choice with what it chooses from.
    text = f"--{flag.name}: {' '.join(said)}".replace(">: ", "> ")
    if flag.default is not None and not flag.boolean:
        text += f" ({flag.default_as_str[1:-1]})"
    elif flag.boolean:
        text += " (on)" if flag.default else ""
    return flags.text_wrap(text, _WIDTH, "      ", "  ").split("\n")


def _explained(flag: flags.Flag) -> list[str]:
    text = f"--{'[no]' if flag.boolean else ''}{flag.name}: {flag.help}"
    lines = [flags.text_wrap(text, indent="    ", firstline_indent="  ")]
    if flag.default_as_str:
        lines.append(f"    (default: {_default_of(flag)})")
    if flag.parser.syntactic_help:
        lines.append(f"    ({flag.parser.syntactic_help})")
    return lines


def _default_of(flag: flags.Flag) -> str:
    # absl quotes all of them.
    quoted = flag.default_as_str
    return quoted if isinstance(flag.default, str) else quoted[1:-1]


def _no_flag(name: str) -> str:
    """Says that there is no such flag, and which ones are called almost so."""
    import difflib

    near = difflib.get_close_matches(name, [flag.name for flag in known_flags()], cutoff=0.75)
    advice = f": did you mean {' or '.join(f'--{one}' for one in near)}? See" if near else "; see"
    return f"--{name} is not a flag{advice} --help"


def _check_values() -> None:
    """Checks what the value of no flag may be, whatever its own bounds.

    Raises:
      FlagError: a number is not finite or does not fit into 32 bits, or a text is not UTF-8.
    """
    for name in FLAGS:
        values = FLAGS[name].value
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, float):
                # A default may say by it that there is none.
                if not (math.isfinite(value) or FLAGS[name].using_default_value):
                    raise FlagError(f"--{name} must be a finite number, not {value}")
            # A size of memory is an integer too, but comes of another parser.
            elif isinstance(FLAGS[name].parser, flags.IntegerParser):
                if value is not None and not -TOO_LARGE < value < TOO_LARGE:
                    raise FlagError(f"--{name} must be below {TOO_LARGE}, not {value}")
            elif isinstance(value, str) and not is_utf8(value):
                raise FlagError(f"--{name}={value!r} {NO_UTF8}")
