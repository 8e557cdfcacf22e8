"""Settings as frozen dataclasses, whose fields are flags on the command line.

A field says where it is defined what it affects. The record of a run, the comparison of workers and
the reuse of features follow from that. absl is imported only where flags are parsed: help needs
none.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from albert.core.errors import NO_UTF8, FlagError, is_utf8

if TYPE_CHECKING:
    from absl.flags import FlagValues

# Headings of the help, in this order; what counts most comes first.
OWN = "flags"
DATA = "data and results"
MODEL = "model and tokenizer"
TRAINING = "training"
FEATURES = "features"
ANSWERS = "answers and scores"
CHECKPOINTS = "checkpoints and log"
DEVICE = "device, workers and precision"
WITHOUT_USE = "without use here, accepted for compatibility"
THEMES = (OWN, DATA, MODEL, TRAINING, FEATURES, ANSWERS, CHECKPOINTS, DEVICE, WITHOUT_USE)
# What --device may say.
DEVICES = ("auto", "hpu", "gpu", "cpu")
# What is counted in 32 bits somewhere below.
TOO_LARGE = 2**31
# Far beyond any use; the graph and its batches are made all the same, until memory runs out.
LONGEST_SEQUENCE = 2**16
LARGEST_BATCH = 2**20

Value = TypeVar("Value")
AnySettings = TypeVar("AnySettings", bound="Settings")


class Affects(enum.Flag):
    """Which results depend on the value of a setting.

    Attributes:
      NOTHING: no result; how something is shown, where it lies, how fast it goes.
      WEIGHTS: the trained weights. A run is resumed with the same value only.
      SCORES: scores and answers, given the weights. They are made anew with another value.
      FEATURES: the features, and through them weights and scores.
      JOB: no result, but all workers of a job need the same value.
    """

    NOTHING = 0
    WEIGHTS = 1
    SCORES = 2
    FEATURES = 4 | WEIGHTS | SCORES
    JOB = 8


class Flag(NamedTuple):
    """Describes a setting on the command line.

    Attributes:
      help: the text that explains it.
      theme: its heading in the help.
      affects: which results depend on it.
      is_basic: whether the short help has it.
      is_path: whether it is a file or a folder. What counts is its content, so that it may be
        moved: see `Task.contents`.
      lower, upper: bounds of a number, both included.
      choices: the words that it may be; empty for any.
      aliases: its other names.
      parser: makes its value of a text, where the type of the field is not enough to know how;
        raises a `ValueError`.
    """

    help: str
    theme: str
    affects: Affects
    is_basic: bool
    is_path: bool
    lower: float | None
    upper: float | None
    choices: Sequence[str]
    aliases: Sequence[str]
    parser: Callable[[str], object] | None


def setting(
    default: Value,
    help: str,
    theme: str = OWN,
    affects: Affects = Affects.NOTHING,
    *,
    basic: bool = False,
    path: bool = False,
    lower: float | None = None,
    upper: float | None = None,
    choices: Sequence[str] = (),
    aliases: Sequence[str] = (),
    parser: Callable[[str], object] | None = None,
) -> Value:
    """Defines a field of a `Settings` class and its flag, see `Flag`."""
    flag = Flag(help, theme, affects, basic, path, lower, upper, choices, aliases, parser)
    return dataclasses.field(default=default, metadata={"flag": flag})


def redefined(base: type[Settings], name: str, default: Value, **changed: Any) -> Value:
    """Defines a field as a base class has it, with another default.

    Args:
      base: the class.
      name: the field.
      default: its default.
      changed: attributes of `Flag` that are others, too.
    """
    flag = base.flags()[name]._replace(**changed)
    return dataclasses.field(default=default, metadata={"flag": flag})


# `__init__` of a generated kind and the like take longer to make than to run once.
_as_dataclass = dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Settings:
    """Holds the values that a program runs under; its subclasses are frozen dataclasses, too.

    Attributes:
      given: names of the fields that were set, and not left at their defaults.
    """

    given: frozenset[str] = frozenset()

    def __init_subclass__(cls) -> None:
        """Makes fields of the annotations of a subclass."""
        _as_dataclass(cls)

    def __init__(self, **values: Any):
        """Takes values as they are, by field; `of` and `from_flags` check them."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, values.pop(field.name, field.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in sorted(self.given))
        return f"{type(self).__name__}({', '.join(shown)})"

    def replaced(self: AnySettings, **values: Any) -> AnySettings:
        """Returns a copy with other values, which count as given as before."""
        return dataclasses.replace(self, **values)

    @classmethod
    def flags(cls) -> dict[str, Flag]:
        """Returns the flags of all fields that have one, by name."""
        fields = dataclasses.fields(cls)
        return {f.name: f.metadata["flag"] for f in fields if "flag" in f.metadata}

    @classmethod
    def define_flags(cls, values: FlagValues | None = None) -> None:
        """Defines the flags; those of the command line unless others are given."""
        from albert.settings import absl_flags

        for field in dataclasses.fields(cls):
            if flag := field.metadata.get("flag"):
                absl_flags.define(field.name, str(field.type), field.default, flag, values)

    @classmethod
    def from_flags(cls: type[AnySettings], values: FlagValues | None = None) -> AnySettings:
        """Returns the values of the flags, which have been parsed.

        Raises:
          FlagError: a number is not finite or does not fit into 32 bits, or a text is not UTF-8.
        """
        from albert.settings import absl_flags

        found, given = absl_flags.values_of(cls, values)
        _check(cls.flags(), found, given)
        return cls(given=frozenset(given), **found)

    @classmethod
    def of(cls: type[AnySettings], **values: Any) -> AnySettings:
        """Returns settings with some values, and defaults for the rest.

        Raises:
          FlagError: there is no such setting, or a value is impossible.
        """
        from albert.settings import absl_flags

        return cls.from_flags(absl_flags.with_values(cls, values))

    def affecting(self, what: Affects) -> dict[str, Any]:
        """Returns the values that results depend on, except paths, by name."""
        named = [n for n, flag in self.flags().items() if flag.affects & what and not flag.is_path]
        return {name: _recorded(getattr(self, name)) for name in named}

    def defaults(self) -> dict[str, Any]:
        """Returns the defaults, except those of paths, by name."""
        fields, flags = dataclasses.fields(self), self.flags()
        return {
            field.name: _recorded(field.default)
            for field in fields
            if field.name in flags and not flags[field.name].is_path
        }

    def require(self, *names: str | tuple[str, ...]) -> None:
        """Raises a `FlagError` that lists all without a value; of a tuple one needs to have one."""
        missing = []
        for name in names:
            either = (name,) if isinstance(name, str) else name
            # An alias has no field.
            if not any(getattr(self, one, None) for one in either):
                missing.append(" or ".join(f"--{one}" for one in either))
        if missing:
            raise FlagError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} required")


def _recorded(value: Any) -> Any:
    """Returns a value as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def _check(flags: dict[str, Flag], values: dict[str, Any], given: Iterable[str]) -> None:
    """Raises a `FlagError` for what no value may be, whatever its own bounds."""
    for name, found in values.items():
        for value in found if isinstance(found, tuple) else [found]:
            if isinstance(value, float):
                # A default may say by it that there is none.
                if not math.isfinite(value) and name in given:
                    raise FlagError(f"--{name} must be a finite number, not {value}")
            # A size of memory is an integer too, but has a parser of its own.
            elif isinstance(value, int) and not flags[name].parser:
                if not -TOO_LARGE < value < TOO_LARGE:
                    raise FlagError(f"--{name} must be below {TOO_LARGE}, not {value}")
            elif isinstance(value, str) and not is_utf8(value):
                raise FlagError(f"--{name}={value!r} {NO_UTF8}")


def parse_lengths(text: str) -> tuple[int, ...]:
    """Returns ascending numbers of tokens, which commas separate; raises a `ValueError`."""
    numbers = text.split(",")
    lengths = tuple(int(number) if number.isdecimal() else 0 for number in numbers)
    if list(lengths) != sorted(set(lengths)) or not lengths[0]:
        raise ValueError("must be ascending numbers of tokens from 1 on, such as 128,256,384")
    return lengths
