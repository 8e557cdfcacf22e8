"""A prepared run: a task in its folder, with its data. It needs no other worker and no device.

Everything that may fork comes here, before TensorFlow and MPI start threads, and faulty input is
reported before any training.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.core import locks
from albert.core.errors import UserError
from albert.core.files import content_of, make_writable_folder
from albert.distributed import collectives
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.records.records import sampled_shares
from albert.settings.run_settings import RunSettings
from albert.training import job, output_folder
from albert.training.loop import make_deterministic
from albert.training.plan import original_batch_settings
from albert.training.prediction import check_labels
from albert.training.task import Task
from albert.training.task_model import removes_padding, tokenizer_file

# With a larger share of unknown tokens there is a warning.
_MANY_UNKNOWN = 0.02


class PreparedRun(NamedTuple):
    """A run of a task in --output_dir.

    Attributes:
      contents: the `contents_of` each split, as they were when it was prepared.
      recorded: the settings that `run.json` records; empty if nothing is trained.
      facts: properties of flags and data, by name, which must be equal on all workers.
    """

    task: Task
    data: Mapping[str, Data]
    contents: Mapping[str, dict[str, Any]] = {}
    recorded: Mapping[str, Any] = {}
    facts: Mapping[str, Any] = {}

    @property
    def settings(self) -> RunSettings:
        """Returns the flags."""
        return self.task.settings


def contents_of(task: Task, split: str) -> dict[str, Any]:
    """Returns contents of files, and derived values, that a split's results depend on."""
    config = task.config
    contents: dict[str, Any] = {"albert_config_file": config.to_dict()}
    rates = task.dropout, config.hidden_dropout_prob, config.attention_probs_dropout_prob
    if split == TRAIN and any(rates):
        # A resumed run matches an uninterrupted one only if it draws the same dropout masks.
        last = "" if task.needs_all_states else ", in the last layer of the tokens that are needed"
        rows = " of real tokens" if removes_padding(task) else ""
        contents["dropout masks"] = f"by place{last}{rows}"
    contents |= task.contents(split)
    if task.tokenizer:
        files = tokenizer_file(task.settings)
        contents |= {flag: content_of(path) for flag, path in files.items()}
    return {**contents, "labels": task.labels} if task.labels else contents


def in_buckets(data: Data, settings: RunSettings) -> Data:
    """Returns data with the lengths of --length_buckets."""
    return data._replace(buckets=settings.length_buckets or ())


def _prepared(task: Task, split: str) -> Data:
    """Returns a split's data with its features made, and logs how well the tokenizer fits them."""
    data = in_buckets(task.split(split).prepared(), task.settings)
    if not (task.tokenizer and collectives.is_chief()):
        return data
    length = data.spec["input_mask"].shape[-1]
    unknown, full = sampled_shares(data.files, task.tokenizer.unk_id, length)
    text = f"{split}: {unknown:.1%} of the tokens are unknown"
    if unknown <= _MANY_UNKNOWN:
        tf.logging.info("%s", text)
    else:
        tf.logging.warning(
            "%s, so the tokenizer does not fit the text; are the model and --do_lower_case, "
            "--strip_accents or --keep_accents right?",
            text,
        )
    if task.against_truncation:
        tf.logging.info(
            f"{split}: {full:.1%} of the texts have at least {length} tokens; longer ones are "
            f"truncated, unless you {task.against_truncation}"
        )
    return data


def take_folder(task: Task) -> None:
    """Checks the initial checkpoint, locks the folder and removes leftovers of killed runs.

    Only rank 0 locks the folder, so that one run at a time works in it. Raises a `UserError` if the
    checkpoint or the folder cannot be used, or another run uses the folder.
    """
    settings, output_dir = task.settings, task.settings.output_dir
    job.configure_habana(task)
    if settings.init_checkpoint:
        resolve_checkpoint(settings.init_checkpoint)
    if collectives.is_chief():
        output_folder.check_weights(task)
        make_writable_folder(output_dir, "--output_dir")
        if "output_dir" not in settings.given:
            tf.logging.info("--output_dir is not given: results go to %s", output_dir)
        if settings.export_dir:
            make_writable_folder(settings.export_dir, "--export_dir")
        locks.hold_until_exit(os.path.join(output_dir, "run"), f"--output_dir {output_dir}")
        output_folder.clear_litter_of_runs(output_dir, output_folder.files_of_results(task))
    if settings.deterministic_run:
        make_deterministic()


def prepare(task: Task) -> PreparedRun:
    """Prepares the splits that the flags ask for, so that their features can be read.

    Raises a `FlagError` if the folder holds another run, and a `UserError` if the input is not
    valid, or a file of results was not written by this program.
    """
    data, contents, recorded = {}, {}, dict[str, Any]()
    facts: dict[str, Any] = {"bf16 configuration": output_folder.precision_digest(task)}
    for split in task.splits:
        contents[split] = contents_of(task, split)
        settings = output_folder.split_settings(task, split, contents[split])
        if split == TRAIN:
            recorded = _recorded(task, settings)
        elif split == TEST and collectives.is_chief():
            check_labels(task)
        data[split] = _prepared(task, split)
        if split == DEV and not recorded:
            _warn_of_training_data(task, contents[split])
        facts |= {**settings, f"{split} features": data[split].content}
    return PreparedRun(task, data, contents, recorded, facts)


def _warn_of_training_data(task: Task, contents: Mapping[str, Any]) -> None:
    """Logs a warning if the texts to score on are those of the training."""
    # Without a checkpoint, scoring it raises the error.
    with contextlib.suppress(UserError):
        trained_on = output_folder.model_to_use(task.settings).known.get("train_file")
        if trained_on and trained_on == contents.get("predict_file"):
            path = task.input_path(DEV)
            tf.logging.warning("The model was trained on %s: its scores are too high", path)


def _recorded(task: Task, current: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that `run.json` records, after checks that the folder has no other run.

    `current` are the `training_settings`. Only rank 0 needs the folder.
    """
    if not collectives.is_chief():
        return current
    recorded = original_batch_settings(task.settings, current)
    output_folder.check_output_dir(task.settings, recorded)
    if output_folder.init_checkpoint_forgotten(task.settings):
        tf.logging.warning(
            "--init_checkpoint is not given: this run starts from random weights instead of "
            "pretrained ones; if that is intended, pass --from_scratch"
        )
    return recorded
