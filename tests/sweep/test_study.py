"""The search space of a sweep, and its study: trials after a kill, pruning, and states."""

import math
import random
import statistics

import pytest

from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.sweep.space import Choice, Range, SweepSettings, make_space
from albert.sweep.study import COMPLETE, FAILED, PRUNED, RUNNING, Study
from tests.helpers.files import settings_of

SPACE = {
    "learning_rate": Range(1e-5, 1e-4, is_whole=False),
    "num_train_epochs": Range(2, 5),
    "train_batch_size": Choice((16, 32)),
    "seed": Range(1, 5),
}


@pytest.fixture
def opened(tmp_path):
    def opened(folder="study", prunes=True, seed=0) -> Study:
        (tmp_path / folder).mkdir(exist_ok=True)
        return Study(str(tmp_path / folder), SPACE, seed, prunes)

    return opened


def run(trial) -> None:
    rate, seed = trial.flags["learning_rate"], trial.flags["seed"]
    trial.end(COMPLETE, -abs(math.log(rate / 3e-5)) + 0.01 * seed)


def test_a_killed_sweep_continues_as_if_it_had_not_been_killed(opened, tmp_path):
    whole = opened("whole")
    for _ in range(14):
        run(whole.next(14))
    assert whole.next(14) is None
    for number in range(14):
        killed = opened().next(14)
        assert killed.report(1, 0.5) is False
        (tmp_path / "study/study.log.lock").symlink_to("study.log")
        with open(tmp_path / "study/study.log", "ab") as file:
            file.write(b'{"op_code": 6')
        assert opened().results()[number] == (number, RUNNING, None, killed.flags)
        again = opened().next(14)
        assert (again.number, again.flags) == (killed.number, killed.flags)
        assert again.report(1, 0.25) is False, "the first report counts"
        run(again)
    assert opened().results() == whole.results()
    assert opened().next(14) is None and opened().next(15).number == 14
    assert opened("another", seed=1).next(1).flags != whole.results()[0].flags


def test_a_sweep_that_was_killed_at_any_line_makes_the_same_trials(opened, tmp_path):
    whole = opened("whole")
    for _ in range(12):
        run(whole.next(12))
    lines = (tmp_path / "whole/study.log").read_bytes().splitlines(keepends=True)
    for count in range(len(lines)):
        (tmp_path / f"killed-{count}").mkdir()
        (tmp_path / f"killed-{count}/study.log").write_bytes(b"".join(lines[:count]))
        resumed = opened(f"killed-{count}").next(12)
        assert resumed.flags == whole.results()[resumed.number].flags, lines[count]


def test_flags_are_within_their_bounds_and_can_be_typed(opened, tmp_path):
    space = {"learning_rate": Range(1.2345e-4, 1.2345e-4, is_whole=False)}
    assert Study(str(tmp_path), space, 0, True).next(1).flags == {"learning_rate": 1.2345e-4}
    sweep = opened()
    for _ in range(30):
        trial = sweep.next(30)
        flags = trial.flags
        assert 1e-5 <= flags["learning_rate"] <= 1e-4
        assert flags["learning_rate"] == float(f"{flags['learning_rate']:.3g}")
        assert flags["num_train_epochs"] in range(2, 6) and flags["seed"] in range(1, 6)
        assert flags["train_batch_size"] in (16, 32)
        trial.end(COMPLETE, 0.0)
    for name in ("num_train_epochs", "train_batch_size", "seed"):
        assert len({result.flags[name] for result in sweep.results()}) > 1


def test_a_trial_below_the_median_is_pruned(opened):
    """Of the scores at the same checkpoint, once five others are complete."""
    sweep, never = opened(), opened("never", prunes=False)
    rng, complete, pruned = random.Random(0), [], 0
    for number in range(20):
        scores = [rng.random() for _ in range(3)]
        trial, unpruned = sweep.next(20), never.next(20)
        state = COMPLETE
        for count, last in enumerate(scores, start=1):
            median = statistics.median(s[count - 1] for s in complete) if complete else 0
            expected = len(complete) >= 5 and max(scores[:count]) < median
            assert trial.report(count, last) == expected
            assert unpruned.report(count, last) is False
            if expected:
                state, pruned = PRUNED, pruned + 1
                break
        else:
            complete.append(scores)
        trial.end(state, max(scores))
        unpruned.end(COMPLETE, max(scores))
        result = sweep.results()[number]
        assert result.state == state
        assert result.score == (max(scores) if state == COMPLETE else last)
    assert pruned > 3


def test_without_a_finite_score_a_trial_has_failed(opened):
    for state, score in ((FAILED, None), (COMPLETE, math.nan), (COMPLETE, None)):
        opened().next(9).end(state, score)
    assert [(r.state, r.score) for r in opened().results()] == [(FAILED, None)] * 3


def space(*flags: str, **of_task):
    settings = RunSettings(given=frozenset(of_task), **of_task)
    return make_space(settings_of(SweepSettings, *flags), settings)


def test_the_defaults_are_those_of_the_papers_and_flags_of_the_task_are_not_searched():
    rates, epochs = Range(1e-5, 1e-4, is_whole=False), Range(2, 5)
    others = {"train_batch_size": Choice((16, 32)), "seed": Range(1, 5)}
    assert space() == {"learning_rate": rates, "num_train_epochs": epochs, **others}
    narrow = space("--learning_rates=3e-5,3e-5", "--batch_sizes=8", train_steps=1, seed=0)
    rates = Range(3e-5, 3e-5, is_whole=False)
    assert narrow == {"learning_rate": rates, "train_batch_size": Choice((8,))}


@pytest.mark.parametrize(
    ("flag", "values", "form"),
    [
        (
            "learning_rates",
            ("1e-4,1e-5", "1e-4", "a,b", "0,1", "nan,1", "1,inf", ""),
            "two positive numbers: the lowest and the highest",
        ),
        ("epochs", ("5,2", "0,2", "1.5,2"), "two whole numbers from 1 to 2147483647: the lowest"),
        ("seed_range", ("-1,2", "1,99999999999"), "two whole numbers from 0 to 2147483647: the "),
        ("batch_sizes", ("16,16", "0", "", "1.5"), "different whole numbers from 1 to "),
    ],
)
def test_an_invalid_range_is_an_error(flag, values, form):
    for value in values:
        with pytest.raises(FlagError, match=f"^--{flag}={value} must be {form}"):
            space(f"--{flag}={value}")


def test_contradictions_are_errors():
    with pytest.raises(FlagError, match="--epochs and --train_steps contradict each other"):
        space("--epochs=1,2", train_steps=3)
    fixed = {"learning_rate": 1e-5, "num_train_epochs": 1, "train_batch_size": 1, "seed": 1}
    with pytest.raises(FlagError, match="nothing to search"):
        space(**fixed)
