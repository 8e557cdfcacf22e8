"""Pretraining in phases: each starts from the last weights of the one before.

The optimizer and the learning rate start again in each phase, as in NVIDIA's BERT:
`run_pretraining_lamb_phase2.sh` passes the last checkpoint of phase 1 as --init_checkpoint.
"""

from __future__ import annotations

from albert.checkpoints.checkpoint_files import newest_checkpoint
from albert.core.errors import UserError
from albert.distributed import collectives
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.training.run import Run, download, start
from albert.training.several_runs import in_sequence


def run_phases(settings: PretrainingSettings) -> None:
    """Runs the phases of --phases, or resumes in the phase in which an earlier job was stopped.

    Raises:
      UserError: the flags, the input or the environment are not valid.
    """
    if settings.download_only:
        download(PretrainingTask, settings)
        return
    start(PretrainingTask, settings)
    phases = settings.runs()
    # The flags of all phases are checked before a folder is made.
    tasks = {name: PretrainingTask(one) for name, one in phases.items()}
    prepared = {name: Run(task) for name, task in tasks.items()}
    # The data of finished phases would stay in memory.
    del tasks
    for run in prepared.values():
        run.prepare_all()
    for name, run in in_sequence(prepared, settings.stall_seconds):
        if follows := phases[name].follows:
            # The other ranks get the weights from rank 0.
            run.start_from(_last_checkpoint(follows) if collectives.is_chief() else "")
        run.finish()


def _last_checkpoint(folder: str) -> str:
    """Returns the newest checkpoint of a finished phase."""
    newest = newest_checkpoint(folder)
    if newest is None:
        raise UserError(f"{folder} has no checkpoint for the next phase to start from")
    return newest[1]
