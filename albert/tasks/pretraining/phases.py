"""Pretraining in phases: each starts from the last weights of the previous one.

The optimizer and the learning rate start again in each phase, as in NVIDIA's BERT:
`run_pretraining_lamb_phase2.sh` passes the last checkpoint of phase 1 as --init_checkpoint.
"""

from __future__ import annotations

from albert.checkpoints.checkpoint_files import newest_checkpoint
from albert.core.errors import UserError
from albert.distributed import collectives
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.training.run import finish, prepared_runs


def run_phases(settings: PretrainingSettings) -> None:
    """Runs the phases of --phases, or resumes in the phase in which an earlier job was stopped.

    Raises:
      UserError: the flags, the input or the environment is invalid.
    """
    for _, run in prepared_runs(PretrainingTask, settings):
        if follows := run.settings.follows:
            # The other ranks get the weights from rank 0.
            run = run.starting_from(_last_checkpoint(follows) if collectives.is_chief() else "")
        finish(run)


def _last_checkpoint(folder: str) -> str:
    """Returns the newest checkpoint of a finished phase."""
    newest = newest_checkpoint(folder)
    if newest is None:
        raise UserError(f"{folder} has no checkpoint for the next phase to start from")
    return newest[1]
