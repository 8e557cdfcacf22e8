"""Flags: how they are defined, and their values as an object that is passed down.

A flag says where it is defined what it shapes. The record of a run, the comparison of workers and
the reuse of features follow from that. `FLAGS` is read here, where a program starts.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from absl import flags

from albert.core.errors import FlagError

FLAGS = flags.FLAGS
# Headings of `--help`, in this order; what counts most comes first.
DATA = "data and results"
MODEL = "model and tokenizer"
TRAINING = "training"
FEATURES = "features"
ANSWERS = "answers and scores"
CHECKPOINTS = "checkpoints and log"
DEVICE = "device, workers and precision"
WITHOUT_USE = "without use here, accepted for compatibility"
THEMES = (DATA, MODEL, TRAINING, FEATURES, ANSWERS, CHECKPOINTS, DEVICE, WITHOUT_USE)
# What --device may say.
DEVICES = ["auto", "hpu", "gpu", "cpu"]
# What is counted in 32 bits somewhere below.
TOO_LARGE = 2**31
# Far beyond any use; the graph and its batches are made all the same, until memory runs out.
LONGEST_SEQUENCE = 2**16
LARGEST_BATCH = 2**20


class Shapes(enum.Flag):
    """What depends on the value of a flag.

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


class define(NamedTuple):
    """Defines flags of a theme that all shape the same.

    Attributes:
      theme: a heading of `--help`.
      shapes: what depends on their values.
      is_basic: whether the short help has them.
    """

    theme: str
    shapes: Shapes
    is_basic: bool = False

    def integer(self, name: str, default: int | None, text: str, **bounds: int) -> None:
        """Defines a flag that is an integer, between bounds as in absl."""
        flags.DEFINE_integer(name, default, text, module_name=self.theme, **bounds)
        self._keep(name)

    def number(self, name: str, default: float | None, text: str, **bounds: float) -> None:
        """Defines a flag that is a number, between bounds as in absl."""
        flags.DEFINE_float(name, default, text, module_name=self.theme, **bounds)
        self._keep(name)

    def switch(self, name: str, default: bool, text: str) -> None:
        """Defines a flag that is on or off."""
        flags.DEFINE_bool(name, default, text, module_name=self.theme)
        self._keep(name)

    def text(self, name: str, default: str | None, text: str) -> None:
        """Defines a flag that is a text."""
        flags.DEFINE_string(name, default, text, module_name=self.theme)
        self._keep(name)

    def choice(self, name: str, default: str, values: Sequence[str], text: str) -> None:
        """Defines a flag that is one of some words."""
        flags.DEFINE_enum(name, default, list(values), text, module_name=self.theme)
        self._keep(name)

    def lengths(self, name: str, text: str) -> None:
        """Defines a flag that is a list of ascending lengths, or None."""
        flags.DEFINE(_LengthsParser(), name, None, text, module_name=self.theme)
        self._keep(name)

    def path(self, name: str, default: str | None, text: str) -> None:
        """Defines a flag that is a file or a folder.

        What counts is its content, so that it may be moved: see `Task.contents`.
        """
        flags.DEFINE_string(name, default, text, module_name=self.theme)
        self._keep(name, is_path=True)

    def _keep(self, name: str, is_path: bool = False) -> None:
        FLAGS[name].shapes = self.shapes
        FLAGS[name].is_basic = self.is_basic
        FLAGS[name].is_path = is_path


class _LengthsParser(flags.ArgumentParser):
    """Takes ascending numbers of tokens, with commas between them."""

    def parse(self, argument: str) -> list[int]:
        numbers = argument.split(",")
        lengths = [int(number) if number.isdecimal() else 0 for number in numbers]
        if lengths != sorted(set(lengths)) or not lengths[0]:
            raise ValueError("must be ascending numbers of tokens from 1 on, such as 128,256,384")
        return lengths


def define_alias(name: str, original: str) -> None:
    """Defines another name of a flag, with the default that it has by now."""
    flags.DEFINE_alias(name, original, module_name=_theme_of(original))
    FLAGS[original].help += f" Also called --{name}."


def _theme_of(name: str) -> str:
    return FLAGS.find_module_defining_flag(name)


def change(name: str, default: Any, shapes: Shapes | None = None) -> None:
    """Gives a flag that all programs have another default in this one, or lets it shape more."""
    FLAGS.set_default(name, default)
    if shapes is not None:
        FLAGS[name].shapes = shapes


class Settings:
    """The values of a program's flags at its start, as attributes with the names of the flags."""

    def __init__(self):
        """Reads the flags, which have been parsed."""
        vars(self).update(FLAGS.flag_values_dict())
        self._shaping = {
            name: FLAGS[name].shapes
            for name in FLAGS
            if hasattr(FLAGS[name], "shapes") and not FLAGS[name].is_path
        }
        self._given = frozenset(name for name in FLAGS if FLAGS[name].present)
        self._defaults = {name: FLAGS[name].default for name in self._shaping}

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value of a flag that some programs do not have."""
        return vars(self).get(name, default)

    def is_given(self, name: str) -> bool:
        """Returns whether the command line names the flag."""
        return name in self._given

    def shaping(self, what: Shapes) -> dict[str, Any]:
        """Returns the values of the flags that shape something, but for paths, by name."""
        named = [name for name, shapes in self._shaping.items() if shapes & what]
        return {name: getattr(self, name) for name in named}

    def defaults(self) -> dict[str, Any]:
        """Returns the defaults of all flags that say what they shape, but for paths, by name."""
        return self._defaults

    def require(self, *names: str | tuple[str, ...]) -> None:
        """Raises a `FlagError` that lists all without a value; of a tuple one needs to have one."""
        missing = []
        for name in names:
            either = (name,) if isinstance(name, str) else name
            if not any(getattr(self, one) for one in either):
                missing.append(" or ".join(f"--{one}" for one in either))
        if missing:
            raise FlagError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} required")
