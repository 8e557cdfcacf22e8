"""Definition of settings as absl flags, which parse the command line and files of flags."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from albert.core.errors import FlagError, see_help

if TYPE_CHECKING:
    from albert.settings.fields import Flag, Settings

FLAGS = flags.FLAGS
_DEFINES: Mapping[str, Callable] = {
    "bool": flags.DEFINE_bool,
    "int": flags.DEFINE_integer,
    "float": flags.DEFINE_float,
    "str": flags.DEFINE_string,
    "tuple[str, ...]": flags.DEFINE_multi_string,
}


def define(
    name: str, kind: str, default: Any, flag: Flag, values: flags.FlagValues | None = None
) -> None:
    """Defines the flag of a field; `kind` is the field's type as in the source code."""
    kind = kind.removesuffix(" | None")
    values = FLAGS if values is None else values
    where: dict[str, Any] = {"module_name": flag.theme, "flag_values": values}
    if flag.parser:
        flags.DEFINE(_Parser(flag.parser), name, default, flag.help, **where)
    elif flag.choices:
        flags.DEFINE_enum(name, default, list(flag.choices), flag.help, **where)
    else:
        if kind in ("int", "float"):
            where |= {"lower_bound": flag.lower, "upper_bound": flag.upper}
        # An empty default is no default for absl's help.
        _DEFINES[kind](name, None if default == "" else default, flag.help, **where)
    for alias in flag.aliases:
        flags.DEFINE_alias(alias, name, flag_values=values, module_name=flag.theme)


class _Parser(flags.ArgumentParser):
    """Parses the values of a flag with a function."""

    def __init__(self, function: Callable[[str], object]):
        super().__init__()
        self._function = function

    def parse(self, argument: Any) -> Any:
        if isinstance(argument, Iterable) and not isinstance(argument, str):
            argument = ",".join(map(str, argument))
        return self._function(str(argument))


def values_of(
    settings: type[Settings], values: flags.FlagValues | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Returns the values of a class's flags by name, and the names of those that were given."""
    values = FLAGS if values is None else values
    by_name = {}
    for field in dataclasses.fields(settings):
        if "flag" in field.metadata:
            value = values[field.name].value
            value = "" if value is None and field.default == "" else value
            by_name[field.name] = tuple(value) if isinstance(value, list) else value
    return by_name, [name for name in by_name if values[name].present]


def with_values(settings: type[Settings], settings_by_name: Mapping[str, Any]) -> flags.FlagValues:
    """Returns a class's flags, set to values; raises a `FlagError` if one is unknown or invalid."""
    values = flags.FlagValues()
    settings.define_flags(values)
    fields = dataclasses.fields(settings)
    optional = {field.name for field in fields if str(field.type).endswith("| None")}
    for name, value in settings_by_name.items():
        if name not in values:
            raise FlagError(f"unknown setting {name}{see_help(name, values, 'docs/flags.md')}")
        if value is None and name not in optional and values[name].default is not None:
            raise FlagError(f"{name} needs a value, not None; omit it for the default")
        try:
            if value is None:
                values[name].value = None
            else:
                values[name].parse(os.fspath(value) if isinstance(value, os.PathLike) else value)
        except (flags.Error, TypeError) as e:
            raise FlagError(f"{name}={value!r}: {e}") from e
        values[name].present = 1
    values.mark_as_parsed()
    return values
