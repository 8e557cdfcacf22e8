"""Defaults of all programs' flags, as `--help` and the pages show them."""

import configparser
import functools
import os
import re

import pytest

from tests.helpers.files import defaults_of, flags_in
from tests.helpers.forking import ROOT
from tests.helpers.running import command_of, run, task_of
from tools import flags_page

# By program: the reference's flags, and those that differ on purpose.
TABLES = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation())
TABLES.read(ROOT / "tests/golden/flags.ini", encoding="utf-8")
PROGRAMS = [name for name in TABLES.sections() if name != "common"]
DIFFERENT = [name for name in PROGRAMS if "different" in TABLES[name]]
OF_TPUS = TABLES["common"]["tpus"]
NO_USE = {*flags_in(OF_TPUS), "albert_hub_module_handle", "input_file_mode"}
VALUES = {
    "@home": os.path.join(os.environ.get("HOME", "."), "tmp"),
    "@cores": str(len(os.sched_getaffinity(0))),
}


@functools.cache
def help_of(program: str, flag: str = "--helpfull") -> str:
    result = run([*command_of(program.removesuffix(".py")), flag])
    assert result.returncode == 0, result.stderr
    return result.stdout


def defaults(text: str) -> dict[str, str | None]:
    actual = {}
    _, *entries = re.split(r"^  --(?:\[no\])?(?=\w+:)", text, flags=re.MULTILINE)
    for entry in entries:
        default = re.search(r"^    \(default: '?(.*?)'?\)$", entry, re.MULTILINE)
        actual[entry.split(":")[0]] = default and default.group(1)
    return actual


@pytest.mark.parametrize("program", PROGRAMS)
def test_defaults_are_the_references_or_listed(program):
    stated = flags_in(" ".join(TABLES[program].values()))
    expected = {name: VALUES.get(stated[name], stated[name]) for name in stated.keys() - NO_USE}
    shown = defaults(help_of(program))
    assert {name: shown.get(name, "is no flag") for name in expected} == expected


@pytest.mark.parametrize("program", DIFFERENT)
def test_unused_flags_are_accepted_and_hidden(program):
    assert not NO_USE & {*re.findall(r"--(\w+)", help_of(program, "--help"))}
    taken = defaults_of(program[:-3])
    expected = flags_in(f"albert_hub_module_handle {OF_TPUS}")
    shown = {name: None if taken[name] is None else str(taken[name]).lower() for name in expected}
    assert shown == expected


@pytest.mark.parametrize("program", DIFFERENT)
def test_required_flags_are_marked(program):
    shown = help_of(program)
    for either in task_of(program[:-3]).required:
        for name in [either] if isinstance(either, str) else either:
            text = re.search(rf"^  --{name}: (.*?)(?=^  --)", shown, re.MULTILINE | re.DOTALL)[1]
            assert re.search("[Rr]equired|Alias for|default: ", text), f"--{name}: {text}"


def value_of(text: str | None) -> float | str | None:
    """Returns a default in a form to compare: 5e-5 is 5e-05."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


@pytest.mark.parametrize(
    ("page", "part", "program", "at_least"),
    [
        ("glue-race", 0, "run_classifier", 3),
        ("glue-race", 1, "run_race", 8),
        ("entities", 0, "run_ner", 2),
    ],
)
def test_defaults_in_the_pages_are_the_programs(page, part, program, at_least):
    """A default follows its flag: `--learning_rate` (5e-5), or `--optimizer` (adamw; or lamb)."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split("\n## RACE")[part]
    stated = re.findall(r"`--(\w+)` \(`?([\w./-]+)`?[),;]", text)
    assert len(stated) >= at_least
    shown = defaults(help_of(f"{program}.py"))
    assert [value_of(shown.get(name)) for name, _ in stated] == [value_of(v) for _, v in stated]


def test_the_short_help_of_a_training_fits_on_a_screen():
    _, flags = help_of("run_squad_v1.py", "--help").split("Pass --helpfull to see all of them.\n")
    assert "\n  --model: " in flags and len(flags.splitlines()) <= 31


def test_the_page_of_flags_is_that_of_the_settings():
    assert flags_page.PAGE.read_text(encoding="utf-8") == flags_page.page(), (
        "run `python -m tools.flags_page --write`"
    )
