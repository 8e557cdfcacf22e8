r"""Kills and signals at random moments: every run ends like an uninterrupted one.

  python -m tests.faults.kills_and_signals --kills=60 --signals=20 [--seed=N] [--keep_going]
      [--settings=plain,patience,...]

Tiny runs are killed before a random change of a file in their output folder, or in the middle of
every second write, or get a signal at a random time or step; every kind of file is equally likely.
The same command then finishes them, and the folder must equal that of an uninterrupted run byte for
byte: names and contents of all files except the curves. A signal's exit code is checked as well.
Where another number of workers resumes a run, the folder must be that of a run that was stopped in
good order at the same step.

Every setting gets an equal number of trials, and so does every program that trains under it. To
repeat a trial, run the same command with --trial=NUMBER.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import signal
import sys
import tempfile
import time

from tests.faults.jobs import SETTINGS, Job, jobs_of
from tests.faults.trials import KILL, SIGNAL, Failed, Trial, Trials


def planned(settings: list[str], kills: int, signals: int) -> list[Trial]:
    """Returns all trials; each kind cycles through the settings, and in each cycle through its
    jobs."""
    by_setting = {setting: jobs_of(setting) for setting in settings}
    missing = [setting for setting, jobs in by_setting.items() if not jobs]
    if missing:
        print(f"left out, for want of mpirun (make horovod): {', '.join(missing)}")
    able = [jobs for jobs in by_setting.values() if jobs]
    trials = []
    for kind, count in ((KILL, kills), (SIGNAL, signals)):
        for turn in range(count):
            round_, place = divmod(turn, len(able))
            job = able[place][round_ % len(able[place])]
            trials.append(Trial(len(trials) + 1, kind, job))
    return trials


def print_table(counts: dict[Job, collections.Counter]) -> None:
    """Prints how often each job was tried, and how often it ended as it must."""
    row = "{:<24} {:<16} {:>7} {:>6} {:>8} {:>6}"
    print(row.format("setting", "program", "workers", "kills", "signals", "equal"))
    for job, count in counts.items():
        of_all = f"{count['equal']}/{count[KILL] + count[SIGNAL]}"
        workers = f"{job.workers} to 1" if job.flags_of_one else job.workers
        print(row.format(job.setting, job.program, workers, count[KILL], count[SIGNAL], of_all))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--signals", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--settings", type=lambda text: text.split(","), default=list(SETTINGS))
    parser.add_argument("--trial", type=int, help="only this one")
    parser.add_argument("--keep_going", action="store_true", help="also when one has failed")
    arguments = parser.parse_args()
    for setting in set(arguments.settings) - set(SETTINGS):
        parser.error(f"--settings: {setting} is none of {', '.join(SETTINGS)}")
    return arguments


def main() -> None:
    """Runs all trials; ends with 1 if one has failed, at once unless told to keep going."""
    arguments = parsed()
    # A shell starts background jobs, and `nohup` all commands, with some of them ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    print(f"seed {arguments.seed}", flush=True)
    trials = planned(arguments.settings, arguments.kills, arguments.signals)
    chosen = [trial for trial in trials if arguments.trial in (None, trial.number)]
    counts: dict[Job, collections.Counter] = collections.defaultdict(collections.Counter)
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        runner = Trials(pathlib.Path(work), arguments.seed)
        for trial in chosen:
            _, kind, job = trial
            place = f"{trial.number}/{len(trials)}, {job.setting}, {job.program} x {job.workers}"
            try:
                outcome = runner.run(trial)
                counts[job]["equal"] += 1
            except Failed as e:
                failures += 1
                outcome = f"{e}\n{place}: failed; again: --trial={trial.number}, --seed, as above"
            counts[job][kind] += 1
            print(f"{place}: {outcome}", flush=True)
            if failures and not arguments.keep_going:
                break
    print_table(counts)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
