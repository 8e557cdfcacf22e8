"""The search space of a sweep, from its flags."""

import pytest

from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.sweep.space import Choice, Range, SweepSettings, make_space
from tests.helpers.files import settings_of


def space(*flags: str, **of_task):
    settings = RunSettings(given=frozenset(of_task), **of_task)
    return make_space(settings_of(SweepSettings, *flags), settings)


def test_the_defaults_are_those_of_the_papers():
    rates, epochs = Range(1e-5, 1e-4, is_whole=False), Range(2, 5)
    expected = {"learning_rate": rates, "num_train_epochs": epochs}
    assert space() == {**expected, "train_batch_size": Choice((16, 32)), "seed": Range(1, 5)}


def test_a_flag_of_the_task_is_not_searched():
    """A number of steps fixes the epochs."""
    assert space(train_steps=100, seed=7).keys() == {"learning_rate", "train_batch_size"}
    found = space("--learning_rates=3e-5,3e-5", "--batch_sizes=8", train_steps=1, seed=0)
    expected = {"learning_rate": Range(3e-5, 3e-5, is_whole=False)}
    assert found == {**expected, "train_batch_size": Choice((8,))}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--learning_rates=1e-4,1e-5", "the lowest number is above the highest; swap them"),
        ("--learning_rates=1e-4", "must be two numbers: the lowest and the highest"),
        ("--learning_rates=a,b", "must be numbers separated by commas"),
        ("--learning_rates=0,1", "must be positive numbers"),
        ("--learning_rates=nan,1", "must be positive numbers"),
        ("--learning_rates=1,inf", "must be positive numbers"),
        ("--epochs=5,2", "the lowest number is above the highest; swap them"),
        ("--epochs=0,2", "must be whole numbers from 1 to"),
        ("--epochs=1.5,2", "must be whole numbers separated by commas"),
        ("--seed_range=-1,2", "must be whole numbers from 0 to"),
        ("--seed_range=1,99999999999", "must be whole numbers from 0 to 2147483647"),
        ("--batch_sizes=16,16", "must be different numbers from 1 to"),
        ("--batch_sizes=0", "must be different numbers from 1 to"),
        ("--batch_sizes=", "must be whole numbers separated by commas"),
    ],
)
def test_an_invalid_range_is_an_error(flag, message):
    with pytest.raises(FlagError) as caught:
        space(flag)
    assert str(caught.value).startswith(flag) and message in str(caught.value)


def test_contradictions_are_errors():
    with pytest.raises(FlagError, match="--epochs and --train_steps contradict each other"):
        space("--epochs=1,2", train_steps=3)
    fixed = {"learning_rate": 1e-5, "num_train_epochs": 1, "train_batch_size": 1, "seed": 1}
    with pytest.raises(FlagError, match="nothing to search"):
        space(**fixed)
