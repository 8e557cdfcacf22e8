"""The recipe `auto`: the values of a training that the user did not pass, from data and model.

docs/results.md#the-recipe-auto has the runs that its rules were chosen by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from albert.checkpoints.model_folder import read_run_record
from albert.core.log import LOG
from albert.distributed import collectives
from albert.model.config import AlbertConfig, EncoderConfig
from albert.prediction.engine import fastest_precision
from albert.records import DEV, TRAIN
from albert.settings.run_settings import AUTO_RECIPE, REFERENCE
from albert.settings.text_settings import AnyTextSettings

# What a run records; the rest follows from these values.
_RECORDED = (
    *("optimizer", "learning_rate", "warmup_proportion", "train_batch_size", "train_steps"),
    "max_seq_length",
)
_EPOCHS, _FEWEST_STEPS, _STEPS_OF_LABEL = 3, 100, 25
_CHECKPOINTS = 10
# The batch, and that from a number of examples on.
_BATCH, _LARGE_BATCH, _LARGE_DATA = 16, 32, 10_000
# The rate at a width of 384, and the bounds of others.
_RATE, _WIDTH, _RATES = 1e-4, 384, (1e-5, 1e-3)
# Models below this width get twice the rate from a number of labels on.
_WIDE, _MANY_LABELS = 768, 20
# Part of the texts that stay whole.
_WHOLE = 0.99


class Facts(NamedTuple):
    """What the recipe needs to know about the training data.

    Attributes:
      examples: number of training examples.
      lengths: numbers of tokens of a sample of the texts; empty if the task has windows on them.
      labels: number of labels of a text to choose from.
    """

    examples: int
    lengths: Sequence[int] = ()
    labels: int = 1


def with_recipe(
    task: str,
    settings: AnyTextSettings,
    config: EncoderConfig,
    splits: Collection[str],
    facts: Callable[[], Facts],
) -> AnyTextSettings:
    """Returns settings in which the recipe has chosen what the user did not pass, and logs it.

    If the folder has a run of the task with the recipe, the values are those of this run, also if
    the data has changed.
    """
    settings = settings.replaced(recipe=AUTO_RECIPE if settings.is_auto() else REFERENCE)
    if TRAIN not in splits or settings.recipe == REFERENCE:
        return settings
    given, values = settings.given, dict[str, Any]()
    record = {} if settings.overwrite_output_dir else read_run_record(settings.output_dir)
    begun = record["settings"] if record.get("task") == task else {}
    if begun.get("recipe") == AUTO_RECIPE:
        # Steps or a warm-up that the user gives in another way have no flag in the record.
        replaced = {"train_steps"} if "num_train_epochs" in given else set()
        replaced |= {"warmup_proportion"} if "warmup_step" in given else set()
        names = [name for name in _RECORDED if name not in given | replaced]
        values = {name: begun[name] for name in names}
        LOG.info("--recipe=auto: the values are those of the run in %s", settings.output_dir)
    else:
        for name, (value, reason) in _choices(settings, config, facts()).items():
            if name not in given:
                values[name] = value
                shown = f"{value:.3g}" if isinstance(value, float) else value
                LOG.info("--recipe=auto: --%s=%s: %s", name, shown, reason)
        if settings.precision is None and fastest_precision()[0] != "float32":
            LOG.info("--recipe=auto: --precision=bfloat16 would be faster on this processor")
    steps = values.get("train_steps", settings.train_steps if "train_steps" in given else 0)
    if steps > 0 and "save_checkpoints_steps" not in given:
        # A fifth of a small table says too little to choose a checkpoint by.
        count = _CHECKPOINTS if steps > _FEWEST_STEPS else 1
        values["save_checkpoints_steps"] = math.ceil(steps / count)
        if count > 1 and DEV in splits and "evaluate_while_training" not in given:
            values["evaluate_while_training"] = True
    return settings.replaced(given=given | values.keys(), **values)


def _choices(
    settings: AnyTextSettings, config: EncoderConfig, facts: Facts
) -> dict[str, tuple[Any, str]]:
    """Returns all values with their reasons by name, except those that given ones replace."""
    others = settings.gradient_accumulation_steps * collectives.size()
    size = _BATCH if facts.examples < _LARGE_DATA else _LARGE_BATCH
    batch = max(size // others, 1)
    if "train_batch_size" in settings.given:
        batch = settings.train_batch_size
    rate = _RATE * _WIDTH / config.hidden_size
    kind = "ALBERT" if isinstance(config, AlbertConfig) else "BERT"
    reason = f"for {kind} with {config.hidden_size} units"
    if facts.labels >= _MANY_LABELS and config.hidden_size < _WIDE:
        rate, reason = 2 * rate, f"{reason} and {facts.labels} labels"
    rate = min(max(rate * (0.6 if kind == "ALBERT" else 1), _RATES[0]), _RATES[1])
    chosen: dict[str, tuple[Any, str]] = {
        "optimizer": ("adamw_corrected", "with bias correction, few steps are enough"),
        "learning_rate": (rate, reason),
        "train_batch_size": (batch, f"for {facts.examples:,} examples"),
    }
    if not {"warmup_step", "warmup_proportion"} & settings.given:
        chosen["warmup_proportion"] = (0.1, "a tenth of the steps")
    if not {"num_train_epochs", "train_steps"} & settings.given:
        steps_of_epoch = facts.examples / (batch * others)
        for_labels = _STEPS_OF_LABEL * facts.labels
        steps = max(math.ceil(_EPOCHS * steps_of_epoch), _FEWEST_STEPS, for_labels)
        reason = f"{steps / steps_of_epoch:.3g} epochs of {facts.examples:,} examples"
        reason += f", for {facts.labels} labels" * (steps == for_labels)
        chosen["train_steps"] = (steps, reason)
    positions = config.max_position_embeddings
    if facts.lengths:
        whole = sorted(facts.lengths)[math.ceil(_WHOLE * len(facts.lengths)) - 1]
        length = min(max(-(-whole // 8) * 8, 16), positions)
        share = sum(one <= length for one in facts.lengths) / len(facts.lengths)
        chosen["max_seq_length"] = (length, f"{share:.1%} of the texts are whole")
    elif settings.max_seq_length > positions:
        chosen["max_seq_length"] = (positions, "as many tokens as the model takes")
    return chosen
