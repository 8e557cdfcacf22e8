"""Tiny runs to interrupt: their programs, the settings under which they train, their inputs."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import NamedTuple

from tests.helpers.entities import write_entities
from tests.helpers.forking import ROOT
from tests.helpers.glue import write_all
from tests.helpers.pretraining import write_topics
from tests.helpers.race import write_race
from tests.helpers.running import MPIRUN, at_step, under_mpirun
from tests.helpers.squad import make_squad_files, make_unanswerable

# Words of one piece each.
_WORDS = list("nrlscmegbpta")
_COMMON = (
    *("--albert_config_file={0}/albert.json", "--spm_model_file={0}/spm.model", "--from_scratch"),
    *("--learning_rate=1e-3", "--seed=3", "--preprocess_workers=1", "--save_checkpoints_steps=8"),
)
_SQUAD = (
    *(*_COMMON, "--max_seq_length=64", "--max_query_length=20", "--doc_stride=16"),
    *("--train_steps=16", "--train_batch_size=8"),
)
_CHOICES = (*_COMMON, "--do_train", "--do_eval", "--train_step=16", "--warmup_step=2")
_PRETRAINING = (
    *("--albert_config_file={0}/albert.json", "--input_file={0}/topics.tfrecord", "--do_train"),
    *("--eval_file={0}/topics.tfrecord", "--do_eval", "--max_seq_length=48", "--seed=3"),
    *("--max_predictions_per_seq=6", "--train_batch_size=8", "--max_eval_steps=4"),
    *("--num_train_steps=16", "--num_warmup_steps=2", "--save_checkpoints_steps=8"),
)
# Flags of each program's smallest run; {0} is the folder of `make_inputs`.
FLAGS = {
    "run_squad_v1": (
        *("--train_file={0}/train-v1.1.json", "--predict_file={0}/dev-v1.1.json", *_SQUAD),
    ),
    "run_squad_v2": (
        *("--train_file={0}/train-v2.0.json", "--predict_file={0}/dev-v2.0.json", *_SQUAD),
    ),
    "run_classifier": (
        *("--task_name=mrpc", "--data_dir={0}", "--max_seq_length=32", "--train_batch_size=4"),
        *(*_CHOICES, "--do_predict"),
    ),
    "run_race": (
        *("--data_dir={0}", "--max_seq_length=24", "--max_qa_length=8", "--train_batch_size=4"),
        *_CHOICES,
    ),
    "run_ner": (
        *("--train_file={0}/train.conll", "--predict_file={0}/dev.jsonl", *_COMMON),
        *("--test_file={0}/test.txt", "--max_seq_length=16", "--train_batch_size=4"),
        "--train_steps=16",
    ),
    "run_pretraining": _PRETRAINING,
}


class Job(NamedTuple):
    """A run of a program by workers, under a setting with its flags.

    With `flags_of_one`, a single worker resumes it with these flags, regardless of who began it.
    """

    setting: str
    program: str
    workers: int = 1
    flags: tuple[str, ...] = ()
    flags_of_one: tuple[str, ...] | None = None

    def first_command(self, inputs: pathlib.Path, folder: pathlib.Path, *fault: str) -> list[str]:
        """Returns the command that begins it; with a fault, step and rank of
        `tests.programs.at_step`."""
        command = self._command(inputs, folder, *self.flags)
        if fault:
            name, step, rank = fault
            command = at_step(name, int(step), command, int(rank))
        if self.workers == 1:
            return command
        return under_mpirun(self.workers, [*command, "--use_horovod=true"])

    def next_command(self, inputs: pathlib.Path, folder: pathlib.Path) -> list[str]:
        """Returns the command that resumes it: the same one, unless a single worker does."""
        if self.flags_of_one is None:
            return self.first_command(inputs, folder)
        return self._command(inputs, folder, *self.flags, *self.flags_of_one)

    def _command(self, inputs: pathlib.Path, folder: pathlib.Path, *flags: str) -> list[str]:
        given = [flag.format(inputs) for flag in (*FLAGS[self.program], *flags)]
        program = str(ROOT / f"{self.program}.py")
        return [sys.executable, program, *given, f"--output_dir={folder}"]


_SCORING = ("--evaluate_while_training", "--save_checkpoints_steps=4")
_BUCKETS = (
    *("--max_seq_length=128", "--doc_stride=100", "--length_buckets=64,96,128"),
    "--train_batch_size=4",
)
# Writes checkpoints that are only for resuming, every few steps.
_OFTEN = "--save_checkpoints_minutes=0.002"
_SHARDED = (
    *("--train_batch_size=2", "--gradient_accumulation_steps=2", "--shard_optimizer=gradients"),
)
# A run that one worker begins again also has steps of as many examples.
_ELASTIC = ("--elastic_resume", "--gradient_accumulation_steps=2")
_ALL = (
    Job("plain", "run_squad_v1"),
    Job("plain", "run_squad_v1", 2, ("--train_batch_size=4",)),
    Job("plain", "run_squad_v2"),
    Job("plain", "run_ner"),
    Job("plain", "run_pretraining"),
    Job("evaluate_while_training", "run_squad_v1", 1, (*_SCORING, _OFTEN)),
    Job("evaluate_while_training", "run_classifier", 1, _SCORING),
    # These end before their last step.
    Job("patience", "run_squad_v1", 1, (*_SCORING, "--train_steps=60", "--patience=2")),
    Job("patience", "run_classifier", 1, (*_SCORING, "--train_step=60", "--patience=2")),
    Job("length_buckets", "run_squad_v1", 1, _BUCKETS),
    Job("length_buckets", "run_race", 1, ("--length_buckets=16,20,24",)),
    Job("sharded", "run_squad_v1", 2, _SHARDED),
    Job("sharded", "run_classifier", 2, _SHARDED),
    Job("elastic", "run_squad_v1", 2, ("--train_batch_size=4",), _ELASTIC),
    Job("elastic", "run_classifier", 2, ("--train_batch_size=4",), _ELASTIC),
)
SETTINGS = tuple(dict.fromkeys(job.setting for job in _ALL))


def jobs_of(setting: str) -> list[Job]:
    """Returns the jobs of a setting that can run here: several workers need mpirun."""
    return [job for job in _ALL if job.setting == setting and (job.workers == 1 or MPIRUN.exists())]


def make_inputs(folder: pathlib.Path) -> None:
    """Writes the input of all jobs."""
    folder.mkdir()
    make_squad_files(folder)
    for part in ("train", "dev"):
        make_unanswerable(folder / f"{part}-v1.1.json", folder / f"{part}-v2.0.json")
    write_all(folder, _WORDS)
    write_race(folder, _WORDS[4:])
    write_entities(folder)
    write_topics(folder / "topics.txt", 1, 60)
    command = [
        *(sys.executable, str(ROOT / "create_pretraining_data.py")),
        *(f"--input_file={folder}/topics.txt", f"--output_file={folder}/topics.tfrecord"),
        *(f"--spm_model_file={folder}/spm.model", "--max_seq_length=48"),
        "--max_predictions_per_seq=6",
    ]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
