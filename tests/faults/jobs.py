"""Tiny runs to interrupt: their programs, the settings under which they train, their inputs."""

import pathlib
import sys
from typing import NamedTuple

from tests.helpers.forking import ROOT
from tests.helpers.running import MPIRUN, at_step, under_mpirun
from tests.helpers.squad import make_squad_files
from tests.helpers.tiny_runs import FLAGS, write_input, write_topics

_LONGER = ("--train_steps=16", "--save_checkpoints_steps=8", "--seed=3", "--preprocess_workers=1")


class Job(NamedTuple):
    """A run of a program by workers, under a setting with its flags."""

    setting: str
    program: str
    workers: int = 1
    flags: str = ""

    def command(self, inputs: pathlib.Path, folder: pathlib.Path, *fault: str) -> list[str]:
        """Returns its command; with a fault, step and rank of `tests.programs.at_step`."""
        scratch = () if self.program == "run_pretraining" else ("--from_scratch",)
        given = (*FLAGS[self.program], *_LONGER, *scratch, *self.flags.split())
        flags = [flag.format(squad=inputs, folder=inputs) for flag in given]
        program = str(ROOT / f"{self.program}.py")
        command = [sys.executable, program, *flags, f"--output_dir={folder}"]
        if fault:
            name, step, rank = fault
            command = at_step(name, int(step), command, int(rank))
        if self.workers == 1:
            return command
        return under_mpirun(self.workers, [*command, "--use_horovod=true"])


_SCORING = "--evaluate_while_training --save_checkpoints_steps=4"
# Writes checkpoints that are only for resuming, every few steps.
_OFTEN = "--save_checkpoints_minutes=0.002"
_BUCKETS = "--max_seq_length=128 --doc_stride=100 --length_buckets=64,96,128 --train_batch_size=4"
_SHARDED = "--train_batch_size=2 --gradient_accumulation_steps=2 --shard_optimizer=gradients"
_PATIENT = f"{_SCORING} --train_steps=60 --patience=2"
_ALL = (
    Job("plain", "run_squad_v1"),
    Job("plain", "run_squad_v1", 2, "--train_batch_size=4"),
    Job("plain", "run_squad_v2"),
    Job("plain", "run_ner"),
    Job("plain", "run_pretraining"),
    Job("evaluate_while_training", "run_squad_v1", 1, f"{_SCORING} {_OFTEN}"),
    Job("evaluate_while_training", "run_classifier", 1, _SCORING),
    Job("patience", "run_squad_v1", 1, _PATIENT),
    Job("patience", "run_classifier", 1, _PATIENT),
    Job("length_buckets", "run_squad_v1", 1, _BUCKETS),
    Job("length_buckets", "run_race", 1, "--length_buckets=16,20,24"),
    Job("sharded", "run_squad_v1", 2, _SHARDED),
    Job("sharded", "run_classifier", 2, _SHARDED),
)
SETTINGS = tuple(dict.fromkeys(job.setting for job in _ALL))


def jobs_of(setting: str) -> list[Job]:
    """Returns the jobs of a setting that can run here: several workers need mpirun."""
    return [job for job in _ALL if job.setting == setting and (job.workers == 1 or MPIRUN.exists())]


def make_inputs(folder: pathlib.Path) -> None:
    folder.mkdir()
    make_squad_files(folder)
    for program in FLAGS:
        write_input(program, folder, folder)
    write_topics(folder / "topics.txt", 1, 60)
