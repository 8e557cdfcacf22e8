"""The recipe `auto`: what it chooses, what the user chooses, and what a repeated command does."""

import json

import pytest

from albert.model.config import AlbertConfig, BertConfig
from albert.records import DEV, TRAIN
from albert.settings.run_settings import AUTO_RECIPE, REFERENCE
from albert.settings.text_settings import TextSettings
from albert.tasks.glue.settings import GlueSettings
from albert.training.recipe import Facts, with_recipe
from tests.helpers.files import settings_of

MINILM = BertConfig(vocab_size=100, hidden_size=384, max_position_embeddings=512)


@pytest.fixture
def chosen(tmp_path):
    def chosen(*flags, kind=TextSettings, config=MINILM, splits=(TRAIN, DEV), **facts):
        own = f"--output_dir={tmp_path}", "--recipe=auto"
        settings = settings_of(kind, *own, *flags)
        given = Facts(**{"examples": 1000, **facts})
        return with_recipe("glue", settings, config, splits, lambda: given)

    return chosen


def test_every_value_that_is_not_given_is_chosen_and_logged_with_its_reason(chosen, log):
    settings = chosen(lengths=[20] * 985 + [60] * 10 + [300] * 5, examples=5000)
    assert settings.optimizer == "adamw_corrected" and settings.warmup_proportion == 0.1
    assert settings.max_seq_length == 64, "99% of the texts are whole"
    assert (settings.train_steps, settings.save_checkpoints_steps) == (938, 94)
    assert settings.evaluate_while_training and settings.recipe == AUTO_RECIPE
    lines = log()
    for name in ("optimizer", "learning_rate", "train_batch_size", "train_steps", "max_seq_length"):
        (line,) = (line for line in lines if f"--{name}=" in line)
        assert line.startswith("--recipe=auto: ") and line.count(": ") == 2


def test_given_values_stay(chosen):
    flags = "--optimizer=lamb", "--learning_rate=1e-3", "--train_batch_size=5"
    flags += "--num_train_epochs=7", "--max_seq_length=50", "--save_checkpoints_steps=3"
    settings = chosen(*flags, "--evaluate_while_training=false", "--warmup_proportion=0")
    assert (settings.optimizer, settings.learning_rate) == ("lamb", 1e-3)
    assert (settings.train_batch_size, settings.max_seq_length) == (5, 50)
    assert (settings.train_steps, settings.num_train_epochs) == (-1, 7)
    assert (settings.save_checkpoints_steps, settings.warmup_proportion) == (3, 0)
    assert not settings.evaluate_while_training
    assert chosen(examples=5000).evaluate_while_training
    assert chosen("--recipe=reference").optimizer == "adamw"
    assert chosen(splits=[DEV]).optimizer == "adamw", "nothing is trained"


def test_rates_fall_with_the_width_and_small_tables_get_enough_steps(chosen):
    rates = [
        chosen(config=kind(vocab_size=100, hidden_size=width)).learning_rate
        for kind, width in ((BertConfig, 384), (BertConfig, 768), (AlbertConfig, 768))
    ]
    assert rates == sorted(rates, reverse=True) and len(set(rates)) == 3
    assert chosen(config=AlbertConfig(vocab_size=100, hidden_size=4096)).learning_rate == 1e-5
    steps = [chosen(examples=n).train_steps for n in (30, 1000, 3000, 30_000)]
    assert steps == [100, 188, 563, 2813]
    many = [chosen(examples=n, labels=77).train_steps for n in (500, 3000, 30_000)]
    assert many == [1925, 1925, 2813], "with many labels, three epochs learn nothing"
    few, many = (chosen(labels=n).learning_rate for n in (19, 20))
    assert (few, many) == pytest.approx((rates[0], 2 * rates[0]))
    wide = BertConfig(vocab_size=100, hidden_size=768)
    assert chosen(labels=20, config=wide).learning_rate == rates[1], "measured at 384 units"
    small = chosen(examples=500)
    assert (small.save_checkpoints_steps, small.evaluate_while_training) == (100, False)


def test_a_global_batch_is_shared_out(chosen, as_worker):
    whole = chosen().train_batch_size
    assert chosen("--gradient_accumulation_steps=2").train_batch_size == whole // 2
    steps = chosen().train_steps
    as_worker(0, 4)
    settings = chosen()
    assert (settings.train_batch_size, settings.train_steps) == (whole // 4, steps)


def test_a_repeated_command_takes_the_values_of_the_run(chosen, tmp_path, log):
    settings = chosen(examples=50)
    recorded = {
        name: getattr(settings, name)
        for name in settings.affecting(settings.flags()["seed"].affects)
    }
    (tmp_path / "run.json").write_text(json.dumps({"task": "glue", "settings": recorded}))
    log()
    again = chosen(examples=5000)
    assert again.train_steps == settings.train_steps
    assert again.train_batch_size == settings.train_batch_size
    assert again.save_checkpoints_steps == settings.save_checkpoints_steps
    assert log() == [f"--recipe=auto: the values are those of the run in {tmp_path}"]
    assert chosen("--overwrite_output_dir", examples=5000).train_steps != settings.train_steps
    # Epochs and a warm-up in steps replace values that a record always has.
    flags = "--overwrite_output_dir=false", "--num_train_epochs=3"
    assert (chosen(*flags).train_steps, chosen(*flags).save_checkpoints_steps) == (-1, 5000)
    flags = "--overwrite_output_dir=false", "--warmup_step=7"
    assert chosen(flags[0]).warmup_proportion == 0.1
    assert chosen(*flags, kind=GlueSettings).warmup_proportion == 0
    # A run without the recipe is another one.
    recorded["recipe"] = REFERENCE
    (tmp_path / "run.json").write_text(json.dumps({"task": "glue", "settings": recorded}))
    assert chosen(examples=5000).train_steps != settings.train_steps
