"""Values that no setting may have, regardless of its bounds, and the help of flags."""

from __future__ import annotations  # Settings read them as text.

import os
import pathlib
import sys

import pytest
from absl import flags

from albert.cli import command_line
from albert.core.arguments import Parser
from albert.core.errors import FlagError
from albert.settings.fields import (
    DATA,
    IGNORED,
    TRAINING,
    Affects,
    Settings,
    parse_lengths,
    redefined,
    setting,
)
from tests.helpers.files import settings_of


class Values(Settings):
    number: float = setting(float("nan"), "A default that is none.")
    count: int = setting(1, "Whole.", TRAINING, aliases=("other",))
    least: int = setting(4, "Bounded.", lower=2, upper=8)
    switch: bool = setting(True, "On or off.")
    of_two_words: bool = setting(False, "On or off.")
    path: str | None = setting(None, "Text.")
    needed: str = setting("", "Text. Required.")
    texts: tuple[str, ...] = setting((), "Texts.")
    kind: str = setting("a", "One of them.", choices=("a", "b"))
    lengths: tuple[int, ...] | None = setting(None, "Ascending.", parser=parse_lengths)


@pytest.fixture
def parse(monkeypatch):
    def parse(*arguments: str) -> Values:
        # This process's flags have values of the tests.
        for name, value in vars(flags.FlagValues()).items():
            monkeypatch.setitem(vars(flags.FLAGS), name, value)
        command_line.parse(["program", *arguments], "", Values)
        return Values.from_flags()

    return parse


def test_hyphens_are_underscores_in_names_of_flags(parse, tmp_path):
    (tmp_path / "flags").write_text("--of-two-words\n--path=a-b\n")
    for given in ("--of-two-words", "--of_two-words=true", f"--flagfile={tmp_path}/flags"):
        assert parse(given).of_two_words
    for given in ("--noof-two-words", "--no-of-two-words", "--no_of_two_words"):
        values = parse("--of_two_words", given, "--path", "of-two-words")
        assert not values.of_two_words and values.path == "of-two-words"
    for unknown in ("--of-three-words", "--no-count"):
        with pytest.raises(FlagError, match=f"{unknown} is not a flag"):
            parse(unknown)
    parser = Parser()
    parser.add_argument("--context_file", nargs="+")
    parser.add_argument("text")
    parsed = parser.parse_args(["--context-file", "a-b", "c", "--", "--context-file"])
    assert parsed.context_file == ["a-b", "c"] and parsed.text == "--context-file"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--number=nan", "--number must be a finite number, not nan"),
        ("--number=-1e999", "--number must be a finite number, not -inf"),
        (f"--count={10**30}", f"--count must be below {2**31}, not {10**30}"),
        (f"--other=-{2**31}", "--count must be below"),
        ("--least=1", "--least=1: 1 is not an integer in the range"),
        ("--kind=c", "--kind=c: value should be one of <a"),
        ("--noswitch=3", "--noswitch=3 does not take an argument"),
        ("--path=a/" + os.fsdecode(b"\xff"), r"--path='a/\\udcff' is not UTF-8 text"),
        ("--path=gs://bucket/a", "--path=gs://bucket/a: paths are those of this machine; copy"),
        ("--texts=" + os.fsdecode(b"\xe4"), r"--texts='\\udce4' is not UTF-8 text"),
        *(
            (f"--lengths={bad}", f"--lengths={bad}: must be ascending positive numbers of tokens")
            for bad in ("0,64", "64,32", "32,32", "-1,64", "a,64", "32.5,64", "64,", "")
        ),
        ("--no_such_flag=1", "--no_such_flag is not a flag; see --help"),
        ("--cuont=1", r"--cuont is not a flag; did you mean --count\? See --help"),
        # absl has --only_check_args.
        ("--onyl_check_args", "--onyl_check_args is not a flag; see --help"),
        ("word", "'word' is not a flag"),
        ("--flagfile=/no/such/file", "--flagfile: not a file of flags"),
        (f"--flagfile={sys.executable}", "--flagfile: not a file of flags"),
    ],
)
def test_a_bad_value_is_named_with_its_flag(parse, flag, message):
    with pytest.raises(FlagError, match=message):
        parse(flag)


def test_good_values_are_parsed(parse):
    some = parse()
    assert some.given == set() and some.path is None and some.needed == "" and some.count == 1
    some = parse("--number=-1e300", f"--count={2**31 - 1}", "--noswitch", "--path=ä", "--needed=")
    assert (some.number, some.count, some.switch) == (-1e300, 2**31 - 1, False)
    assert some.given == {"number", "count", "switch", "path", "needed"}
    some = parse("--lengths=1,128,384", "--texts=a", "--texts=b", "--other=7")
    assert (some.lengths, some.texts, some.count) == ((1, 128, 384), ("a", "b"), 7)
    assert "count" in some.given


def test_settings_from_python_are_checked_and_constant():
    values = {"count": 7, "lengths": (16, 32), "path": pathlib.Path("a"), "switch": False}
    settings = Values.of(**values, number=2, texts=["a", "b"])
    expected = {**values, "path": "a", "number": 2.0, "texts": ("a", "b")}
    assert {name: getattr(settings, name) for name in expected} == expected
    assert "least" not in settings.given
    given = Values.of(lengths=iter([16, 32]), texts=iter("ab"), number=1, path=None, needed=None)
    assert (given.lengths, given.texts) == ((16, 32), ("a", "b"))
    assert given.path is None and given.needed == ""
    assert repr(Values.of(count=7, kind="b")) == "Values(count=7, kind='b')"
    assert settings.replaced(count=8).count == 8 and settings.count == 7
    with pytest.raises(AttributeError):
        settings.count = 8
    for wrong, message in {
        "cuont=1": "unknown setting cuont; did you mean count? See docs/flags.md",
        "least=1": "least",
        "count=x": "count",
        "number=nan": "--number must be a finite number, not nan",
        "kind=c": "kind",
    }.items():
        name, value = wrong.split("=")
        with pytest.raises(FlagError) as caught:
            Values.of(**{name: value})
        assert message in str(caught.value)
    for name, value in {"count": [1], "lengths": (32, 16), "least": None, "other": None}.items():
        with pytest.raises(FlagError, match=name):
            Values.of(**{name: value})


class Some(Settings):
    steps: int = setting(3, "Whole.", TRAINING, Affects.WEIGHTS, aliases=("other_steps",))
    length: int = setting(4, "Whole.", TRAINING, Affects.FEATURES)
    rate: float = setting(0.5, "A number.", TRAINING, Affects.WEIGHTS | Affects.SCORES)
    switch: bool = setting(True, "On or off.", TRAINING, Affects.SCORES)
    kind: str = setting("a", "One of them.", DATA, Affects.JOB, choices=("a", "b"))
    name: str | None = setting(None, "Text.", DATA)
    file: str | None = setting(None, "A path.", DATA, Affects.FEATURES, path=True)
    ignored: bool = setting(False, "Of the reference.", IGNORED)


class More(Some):
    rate: float = redefined(Some, "rate", 0.25, affects=Affects.WEIGHTS)


def test_settings_affect_features_weights_and_scores():
    """What affects features affects weights and scores. Of paths, contents count."""
    for flag in ("--other_steps=3", "--steps=7"):
        settings = settings_of(Some, flag)
        assert "steps" in settings.given and "length" not in settings.given
    assert settings.affecting(Affects.WEIGHTS) == {"steps": 7, "length": 4, "rate": 0.5}
    assert settings.affecting(Affects.SCORES) == {"length": 4, "rate": 0.5, "switch": True}
    assert settings.affecting(Affects.JOB) == {"kind": "a"}
    defaults = settings.defaults()
    assert defaults.keys() == {*Some.flags()} - {"file"} and defaults["steps"] == 3
    more = settings_of(More)
    assert more.rate == 0.25 and more.affecting(Affects.SCORES) == {"length": 4, "switch": True}


def test_a_missing_required_flag_is_an_error():
    settings_of(Some, "--name=x").require("name", "steps", ("file", "name"))
    with pytest.raises(FlagError, match="--name is required"):
        Some().require("steps", "name")
    with pytest.raises(FlagError, match="^--file or --name, --steps are required"):
        settings_of(Some, "--steps=0").require(("file", "name"), "kind", "steps")


def test_help_is_by_theme(capsys):
    with pytest.raises(SystemExit) as caught:
        command_line.parse(["program", "--helpfull"], "", Some)
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    expected = f"\n{DATA}:", "--file", f"\n{TRAINING}:", "--steps", "--[no]ignored"
    assert sorted(expected, key=shown.index) == [*expected]
    assert "  --steps: Whole. Also called --other_steps.\n    (default: 3)\n" in shown
    assert "  --[no]switch: On or off.\n    (default: true)\n" in shown
    assert "  --kind: <a|b> One of them.\n    (default: 'a')\n" in shown
