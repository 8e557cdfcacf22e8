"""What no flag's value may be, whatever its bounds."""

from __future__ import annotations

import os

import pytest
from absl import flags

from runtime import flags as run_flags
from runtime.errors import FlagError


@pytest.fixture
def parse(monkeypatch):
    """Parses flags of every type and checks their values."""
    values = flags.FlagValues()
    flags.DEFINE_float("number", float("nan"), "A default that is none.", flag_values=values)
    flags.DEFINE_multi_float("numbers", None, "Several.", flag_values=values)
    flags.DEFINE_integer("count", 1, "Whole.", flag_values=values)
    flags.DEFINE_bool("switch", True, "On or off.", flag_values=values)
    flags.DEFINE_string("path", None, "Text.", flag_values=values)
    flags.DEFINE_list("paths", [], "Texts.", flag_values=values)
    flags.DEFINE_alias("other", "count", flag_values=values)
    monkeypatch.setattr(run_flags, "FLAGS", values)

    def parse(*arguments):
        values(["program", *arguments])
        run_flags.check_values()

    return parse


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--number=nan", "--number must be a finite number, not nan"),
        ("--number=-inf", "--number must be a finite number, not -inf"),
        ("--number=1e999", "--number must be a finite number, not inf"),
        ("--numbers=inf", "--numbers must be a finite number"),
        (f"--count={10**30}", f"--count must be below {2**31}, not {10**30}"),
        (f"--count={2**31}", "--count must be below"),
        (f"--other=-{2**31}", "--.* must be below"),
        ("--path=a/" + os.fsdecode(b"\xff"), r"--path='a/\\udcff' is not UTF-8 text"),
        ("--paths=a," + os.fsdecode(b"\xe4"), r"--paths='\\udce4' is not UTF-8 text"),
    ],
)
def test_what_no_value_may_be(parse, flag, message):
    with pytest.raises(FlagError, match=message):
        parse(flag)


def test_what_values_may_be(parse):
    parse()
    parse("--number=-1e300", f"--count={2**31 - 1}", "--noswitch", "--path=ä/😀", "--paths=")


@pytest.mark.parametrize(
    ("do_eval", "kept"),
    [(True, 0), (False, 3)],
    ids=["all are scored first", "as training goes on"],
)
def test_old_checkpoints_go_when_nobody_needs_them(monkeypatch, do_eval, kept):
    values = flags.FlagValues()
    flags.DEFINE_bool("do_eval", do_eval, "Score.", flag_values=values)
    flags.DEFINE_integer("keep_checkpoint_max", 3, "Keep.", flag_values=values)
    for name in ("train_batch_size", "gradient_accumulation_steps", "save_checkpoints_steps"):
        flags.DEFINE_integer(name, 2, "A number.", flag_values=values)
    for name in ("save_summary_steps", "log_steps", "save_checkpoints_minutes"):
        flags.DEFINE_integer(name, 7, "A number.", flag_values=values)
    values(["program"])
    monkeypatch.setattr(run_flags, "FLAGS", values)
    plan = run_flags.training_plan(100)
    assert plan.keep_checkpoints == kept
    assert plan.save_checkpoints_minutes == 7
