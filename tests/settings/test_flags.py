"""What no flag's value may be, whatever its bounds, and what flags say of themselves."""

import os
import sys

import pytest
from absl import flags

from albert.cli import command_line
from albert.core.errors import FlagError
from albert.settings import flags as run_flags
from albert.settings.flags import DATA, TRAINING, Settings, Shapes


@pytest.fixture
def parse(monkeypatch):
    """Parses flags of every type and checks their values."""
    values = flags.FlagValues()
    flags.DEFINE_float("number", float("nan"), "A default that is none.", flag_values=values)
    flags.DEFINE_multi_float("numbers", None, "Several.", flag_values=values)
    where = {"flag_values": values, "module_name": TRAINING}
    flags.DEFINE_integer("count", 1, "Whole.", **where)
    flags.DEFINE_bool("switch", True, "On or off.", flag_values=values)
    flags.DEFINE_string("path", None, "Text.", flag_values=values)
    flags.DEFINE_list("paths", [], "Texts.", flag_values=values)
    flags.DEFINE(run_flags._LengthsParser(), "lengths", None, "Ascending.", flag_values=values)
    flags.DEFINE_alias("other", "count", flag_values=values)
    monkeypatch.setattr(run_flags, "FLAGS", values)
    monkeypatch.setattr(command_line, "FLAGS", run_flags.FLAGS)
    return lambda *arguments: command_line.parse(["program", *arguments], "")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--number=nan", "--number must be a finite number, not nan"),
        ("--number=-1e999", "--number must be a finite number, not -inf"),
        ("--numbers=inf", "--numbers must be a finite number"),
        (f"--count={10**30}", f"--count must be below {2**31}, not {10**30}"),
        (f"--other=-{2**31}", "--.* must be below"),
        ("--path=a/" + os.fsdecode(b"\xff"), r"--path='a/\\udcff' is not UTF-8 text"),
        ("--paths=a," + os.fsdecode(b"\xe4"), r"--paths='\\udce4' is not UTF-8 text"),
        *(
            (f"--lengths={bad}", f"--lengths={bad}: must be ascending numbers of tokens from 1")
            for bad in ("0,64", "64,32", "32,32", "-1,64", "a,64", "32.5,64", "64,", "")
        ),
        ("--no_such_flag=1", "--no_such_flag is not a flag; see --help"),
        ("--cuont=1", r"--cuont is not a flag: did you mean --count\? See --help"),
        # absl has --only_check_args.
        ("--onyl_check_args", "--onyl_check_args is not a flag; see --help"),
        ("word", "'word' is not a flag"),
        ("--flagfile=/no/such/file", "--flagfile: no file of flags"),
        (f"--flagfile={sys.executable}", "--flagfile: no file of flags"),
    ],
)
def test_what_no_value_may_be(parse, flag, message):
    with pytest.raises(FlagError, match=message):
        parse(flag)


def test_what_values_may_be(parse):
    parse()
    parse("--number=-1e300", f"--count={2**31 - 1}", "--noswitch", "--path=ä/😀", "--paths=")
    parse("--lengths=1,128,384")
    assert run_flags.FLAGS.lengths == [1, 128, 384]


def define_all() -> None:
    run_flags.define(TRAINING, Shapes.WEIGHTS).integer("steps", 3, "Whole.")
    run_flags.define(TRAINING, Shapes.FEATURES).integer("length", 4, "Whole.")
    run_flags.define(TRAINING, Shapes.WEIGHTS | Shapes.SCORES).number("rate", 0.5, "A number.")
    run_flags.define(TRAINING, Shapes.SCORES).switch("switch", True, "On or off.")
    run_flags.define(DATA, Shapes.JOB).choice("kind", "a", ["a", "b"], "One of them.")
    run_flags.define(DATA, Shapes.NOTHING).text("name", None, "Text.")
    run_flags.define(DATA, Shapes.FEATURES).path("file", None, "A path.")
    flags.DEFINE_bool("ignored", False, "Of the reference.", module_name=run_flags.WITHOUT_USE)
    run_flags.define_alias("other_steps", "steps")


class TestSettings:
    @pytest.fixture
    def settings(self, set_flags):
        def settings(*arguments: str) -> Settings:
            set_flags([define_all], *arguments)
            return Settings()

        return settings

    def test_shaping(self, settings):
        """Features shape weights and scores; of paths the contents count, which are not here."""
        for flag in ("--other_steps=3", "--steps=7"):
            found = settings(flag)
            assert found.is_given("steps") and not found.is_given("length")
        assert found.shaping(Shapes.WEIGHTS) == {"steps": 7, "length": 4, "rate": 0.5}
        assert found.shaping(Shapes.SCORES) == {"length": 4, "rate": 0.5, "switch": True}
        assert found.shaping(Shapes.JOB) == {"kind": "a"}

    def test_required(self, settings):
        settings("--name=x").require("name", "steps", ("file", "name"))
        with pytest.raises(FlagError, match="--name is required"):
            settings().require("steps", "name")
        with pytest.raises(FlagError, match="^--file or --name, --steps are required"):
            settings("--steps=0").require(("file", "name"), "kind", "steps")


def test_help_is_by_theme(set_flags, capsys):
    """In the order of the themes, whatever the order of the definitions."""
    set_flags([define_all])
    with pytest.raises(SystemExit) as caught:
        command_line.parse(["program", "--helpfull"], "")
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    expected = f"\n{DATA}:", "--file", f"\n{TRAINING}:", "--steps"
    assert sorted(expected, key=shown.index) == [*expected]
    assert "  --steps: Whole. Also called --other_steps.\n    (default: 3)\n" in shown
    assert "  --[no]switch: On or off.\n    (default: true)\n" in shown
    assert "(default: 'a')" in shown
    assert shown.index("--[no]ignored") > shown.index("--steps")
    assert "  --other_steps: Alias for --steps.\n    (default: 3)\n" in shown
