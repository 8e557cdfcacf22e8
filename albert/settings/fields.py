"""Settings as frozen dataclasses, whose fields are flags on the command line.

The definition of a field says which results it affects. The record of a run, the comparison of
workers and the reuse of features depend on that. absl is imported only where flags are parsed, so
that the help is fast.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from albert.core.errors import NO_UTF8, FlagError
from albert.core.files import check_local
from albert.core.text import is_utf8

if TYPE_CHECKING:
    from absl.flags import FlagValues

# Headings of the help, in this order: the most important ones come first.
OWN = "flags"
DATA = "data and results"
MODEL = "model and tokenizer"
TRAINING = "training"
FEATURES = "features"
ANSWERS = "answers and scores"
CHECKPOINTS = "checkpoints and log"
DEVICE = "device, workers and precision"
IGNORED = "accepted for compatibility"
THEMES = (OWN, DATA, MODEL, TRAINING, FEATURES, ANSWERS, CHECKPOINTS, DEVICE, IGNORED)
# Values of --device.
DEVICES = ("auto", "hpu", "gpu", "cpu")
# Some lower layers count in 32 bits.
TOO_LARGE = 2**31
# Far beyond any use. Up to these limits, only the memory bounds graphs and batches.
LONGEST_SEQUENCE = 2**16
LARGEST_BATCH = 2**20

Value = TypeVar("Value")
AnySettings = TypeVar("AnySettings", bound="Settings")


class Affects(enum.Flag):
    """The results that depend on the value of a setting.

    Attributes:
      NOTHING: no result; the setting changes only the output, a path or the speed.
      WEIGHTS: the trained weights. A run can only be resumed with the same value.
      SCORES: scores and answers, for given weights. A new value makes the run score again.
      FEATURES: the features, and through them the weights and scores.
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
      theme: the setting's heading in the help.
      is_basic: whether the short help shows the setting.
      is_path: whether the value is a file or a folder. Its content is compared, not its path, so
        that it may be moved; see `Task.contents`.
      lower, upper: bounds of a number, both inclusive.
      choices: the allowed words; empty to allow any.
      parser: makes the value from a string if the type of the field does not determine how;
        raises a `ValueError`.
    """

    help: str
    theme: str = OWN
    affects: Affects = Affects.NOTHING
    is_basic: bool = False
    is_path: bool = False
    lower: float | None = None
    upper: float | None = None
    choices: Sequence[str] = ()
    aliases: Sequence[str] = ()
    parser: Callable[[str], object] | None = None


def setting(
    default: Value,
    help: str,
    theme: str | None = None,
    affects: Affects | None = None,
    *,
    basic: bool = False,
    path: bool = False,
    **more: Any,
) -> Value:
    """Defines a field of a `Settings` class and its flag; `more` are attributes of `Flag`.

    By default, `theme` and `affects` are those of the class; see `Settings`.
    """
    own = {name: v for name, v in (("theme", theme), ("affects", affects)) if v is not None}
    flag = Flag(help, is_basic=basic, is_path=path, **{**own, **more})
    return dataclasses.field(default=default, metadata={"flag": flag, "own": own})


def redefined(base: type[Settings], name: str, default: Value, **changed: Any) -> Value:
    """Redefines a base class's field with another default, and `changed` attributes of `Flag`."""
    flag = base.flags()[name]._replace(**changed)
    return dataclasses.field(default=default, metadata={"flag": flag, "own": flag._asdict()})


# Generating `__init__` and similar methods would take longer than running the ones below.
_as_dataclass = dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class Settings:
    """Holds the settings of a program; subclasses are frozen dataclasses, too.

    `given` has the names of the fields that the user set, even if to their defaults. A subclass may
    name the `theme` of its flags and what they affect (`affects`), for those that do not.
    """

    given: frozenset[str] = frozenset()

    def __init_subclass__(cls, **common: Any) -> None:
        """Makes fields from the annotations of a subclass; `common` completes their flags."""
        for field in vars(cls).values() if common else ():
            if isinstance(field, dataclasses.Field):
                flag = field.metadata["flag"]._replace(**{**common, **field.metadata["own"]})
                field.metadata = types.MappingProxyType({"flag": flag})
        _as_dataclass(cls)

    def __init__(self, **values: Any):
        """Sets the fields without a check; `of` and `from_flags` check the values."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, values.pop(field.name, field.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in sorted(self.given))
        return f"{type(self).__name__}({', '.join(shown)})"

    def replaced(self: AnySettings, **values: Any) -> AnySettings:
        """Returns a copy with some values replaced and `given` unchanged."""
        return dataclasses.replace(self, **values)

    @classmethod
    def flags(cls) -> dict[str, Flag]:
        """Returns the flags of the fields that have one, by name."""
        fields = dataclasses.fields(cls)
        return {f.name: f.metadata["flag"] for f in fields if "flag" in f.metadata}

    @classmethod
    def define_flags(cls, values: FlagValues | None = None) -> None:
        """Defines the flags in `values`, by default the flags of the command line."""
        from albert.settings import absl_flags

        for field in dataclasses.fields(cls):
            if flag := field.metadata.get("flag"):
                absl_flags.define(field.name, str(field.type), field.default, flag, values)

    @classmethod
    def from_flags(cls: type[AnySettings], values: FlagValues | None = None) -> AnySettings:
        """Returns the settings of parsed flags.

        Raises a `FlagError` for a number that is not finite or 32 bits, or text that is not UTF-8.
        """
        from albert.settings import absl_flags

        values_by_name, given = absl_flags.values_of(cls, values)
        _check(cls.flags(), values_by_name, given)
        return cls(given=frozenset(given), **values_by_name)

    @classmethod
    def of(cls: type[AnySettings], **values: Any) -> AnySettings:
        """Returns these values and defaults; raises a `FlagError` if one is unknown or invalid."""
        from albert.settings import absl_flags

        return cls.from_flags(absl_flags.with_values(cls, values))

    @classmethod
    def from_file(cls: type[AnySettings], path: str) -> AnySettings:
        """Returns the settings in a file of flags of the package."""
        from absl import flags

        values = flags.FlagValues()
        cls.define_flags(values)
        values(["", f"--flagfile={path}"])
        return cls.from_flags(values)

    def affecting(self, what: Affects) -> dict[str, Any]:
        """Returns the values that affect certain results, except paths, by name."""
        named = [n for n, flag in self.flags().items() if flag.affects & what and not flag.is_path]
        return {name: _recorded(getattr(self, name)) for name in named}

    def defaults(self) -> dict[str, Any]:
        """Returns the defaults, except those of paths, by name."""
        named = {name for name, flag in self.flags().items() if not flag.is_path}
        fields = dataclasses.fields(self)
        return {field.name: _recorded(field.default) for field in fields if field.name in named}

    def require(self, *names: str | tuple[str, ...]) -> None:
        """Raises a `FlagError` that lists settings without a value; of a tuple, one needs it."""
        missing = []
        for name in names:
            either = (name,) if isinstance(name, str) else name
            # `getattr` has a default because an alias has no field.
            if not any(getattr(self, one, None) for one in either):
                missing.append(" or ".join(f"--{one}" for one in either))
        if missing:
            are = "is" if len(missing) == 1 else "are"
            model = "; --model=NAME sets those of a model" * ("config_file" in " ".join(missing))
            raise FlagError(f"{', '.join(missing)} {are} required{model}")


def argument(name: str, value: Any) -> str:
    """Returns a flag as an argument of a command line."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, tuple):
        value = ",".join(map(str, value))
    return f"--{name}={'' if value is None else value}"


def _recorded(value: Any) -> Any:
    """Returns a value as it is after writing it to JSON and reading it back."""
    return list(value) if isinstance(value, tuple) else value


def _check(flags: dict[str, Flag], values: dict[str, Any], given: Iterable[str]) -> None:
    """Raises a `FlagError` for values that no setting allows, within its bounds or not."""
    for name, field_value in values.items():
        for value in field_value if isinstance(field_value, tuple) else [field_value]:
            if isinstance(value, float):
                # NaN may be the default that means "not set".
                if not math.isfinite(value) and name in given:
                    raise FlagError(f"--{name} must be a finite number, not {value}")
            # Memory sizes are integers, too, but may be larger. They have their own parser.
            elif isinstance(value, int) and not flags[name].parser:
                if not -TOO_LARGE < value < TOO_LARGE:
                    raise FlagError(f"--{name} must be below {TOO_LARGE}, not {value}")
            elif isinstance(value, str) and not is_utf8(value):
                raise FlagError(f"--{name}={value!r} {NO_UTF8}")
            elif isinstance(value, str):
                check_local(value, f"--{name}={value}")


def parse_lengths(text: str) -> tuple[int, ...]:
    """Parses ascending numbers of tokens, separated by commas; raises a `ValueError`."""
    numbers = text.split(",")
    lengths = tuple(int(number) if number.isdecimal() else 0 for number in numbers)
    if list(lengths) != sorted(set(lengths)) or not lengths[0]:
        raise ValueError("must be ascending positive numbers of tokens, such as 128,256,384")
    return lengths
