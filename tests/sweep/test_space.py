"""The search space of a sweep, from its flags."""

import pytest

from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.sweep.space import Choice, Range, SweepSettings, make_space
from tests.helpers.files import settings_of


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
