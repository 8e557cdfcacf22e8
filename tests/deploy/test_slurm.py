"""deploy/slurm/squad.sbatch: its command, composed from programs that record their calls."""

import re
from pathlib import Path

import pytest

from tests.helpers.files import fill, flags_in, write_files
from tests.helpers.forking import ROOT
from tests.helpers.running import run

SCRIPT = ROOT / "deploy" / "slurm" / "squad.sbatch"
# Launchers and containers: they end with 143 when they get SIGUSR1.
RECORD = """#!/bin/bash
trap 'exit 143' USR1
printf '%s\\n' "${0##*/}" "$@" > "$CALL"
env | grep -E '^(PMIX|OMPI)_MCA' > "$CALL.variables"
echo $$ > "$CALL.pid"
if [[ -n ${SIGNAL-} ]]; then
  # The job's shell sleeps when it waits; just before it would see the signal only afterwards.
  until read -r _ _ state _ < "/proc/$PPID/stat" && [[ $state == S ]]; do sleep 0.02; done
  kill -s "$SIGNAL" "$PPID"
fi
[[ -z ${WAIT_FOR-} ]] || until [[ -e $WAIT_FOR ]]; do sleep 0.02; done
exit "${CODE:-0}"
"""
# scancel and scontrol; if LATE is set, the launcher ends first.
TOLD = """#!/bin/bash
printf '%s\\n' "${0##*/} $*" >> "$CALL.told"
[[ -z ${LATE-} ]] || while kill -0 "$(<"$CALL.pid")" 2>/dev/null; do sleep 0.02; done
[[ ${0##*/} != scontrol ]] || exit "${REQUEUE_CODE:-0}"
"""


class Cluster:
    """A node of a job, with programs that record their arguments; without Sarus."""

    def __init__(self, root: Path):
        self.root, self.call = root, root / "call"
        for folder in ("albert/.venv", "data", "scratch"):
            (root / folder).mkdir(parents=True)
        for folder in ("configs", "deploy"):
            (root / "albert" / folder).symlink_to(ROOT / folder)
        fill(root / "data")
        (root / "data" / "python.sif").touch()
        self.install(RECORD, "srun", "mpirun", "apptainer", "singularity")
        self.install(TOLD, "scancel", "scontrol")
        self.variables = flags_in(
            f"PATH={root}/bin:/usr/bin:/bin CALL={root}/call PROJECT={root}/albert SLURM_NTASKS=4 "
            f"DATA={root}/data SCRATCH={root}/scratch SYSROOT={root} SLURM_JOB_ID=1 "
            "SLURM_NTASKS_PER_NODE=2 SLURM_CPUS_PER_TASK=16"
        )

    def install(self, content: str, *names: str) -> None:
        write_files(self.root / "bin", dict.fromkeys(names, content))

    def submit(self, variables: str, *flags: str):
        given = flags_in(variables.format(self.call))
        return run([str(SCRIPT), *flags], env=self.variables | given)


@pytest.fixture
def cluster(tmp_path) -> Cluster:
    return Cluster(tmp_path)


SRUN = "srun --mpi=pmix --kill-on-bad-exit=1 --cpu-bind=cores --label --ntasks=4"
SRUN += " --cpus-per-task=16"
MPIRUN = "mpirun -np 4 --bind-to core --map-by ppr:2:node:PE=16 --tag-output "
MPIRUN += "--merge-stderr-to-stdout"
BINDS = "exec --bind {0}/albert:/albert --bind {0}/data:/data:ro --bind {0}/scratch:/scratch "
BINDS += "--bind /tmp --pwd /albert"
INSIDE = "{0}/data/python.sif setsid --wait deploy/preset.sh"
MOUNT = "--mount=type=bind,source="
SARUS = f"sarus run {MOUNT}{{0}}/albert,destination=/albert {MOUNT}{{0}}/data,destination=/data,"
SARUS += f"readonly {MOUNT}{{0}}/scratch,destination=/scratch {MOUNT}/tmp,destination=/tmp "
SARUS += "--workdir=/albert python:3.11-bookworm deploy/preset.sh"
PYXIS = "--container-image=python:3.11 --container-workdir=/albert --container-mounts="
PYXIS += "{0}/albert:/albert,{0}/data:/data:ro,{0}/scratch:/scratch,/tmp:/tmp deploy/preset.sh"
SQUAD = "squad_v1.1 albert_base_v2 /data .venv/bin/python --output_dir=/scratch/squad_v1.1 "
SQUAD += "--use_horovod=true --device="
MRPC = SQUAD.replace("squad_v1.1", "glue_mrpc").replace("albert_base_v2", "bert_base")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("SLURM_GPUS_ON_NODE=2", f"{SRUN} apptainer {BINDS} {INSIDE} {SQUAD}cpu"),
        ("LAUNCHER=mpirun", f"{MPIRUN} apptainer {BINDS} {INSIDE} {SQUAD}cpu"),
        ("PRESET=glue_mrpc MODEL=bert_base", f"{SRUN} apptainer {BINDS} {INSIDE} {MRPC}cpu"),
        (
            "ENGINE=singularity DEVICE=gpu SLURM_GPUS_ON_NODE=2",
            f"{SRUN} --gres=gpu:2 singularity {BINDS} --nv {INSIDE} {SQUAD}gpu",
        ),
        # GPUs by --gpus-per-task, and by --constraint.
        (
            "DEVICE=gpu SLURM_GPUS_ON_NODE=2 SLURM_GPUS_PER_TASK=1",
            f"{SRUN} --gpus-per-task=1 apptainer {BINDS} --nv {INSIDE} {SQUAD}gpu",
        ),
        (
            "ENGINE=sarus IMAGE=python:3.11-bookworm DEVICE=gpu SLURMD_NODENAME=n1 CARD=nvidia0",
            f"{SRUN} {SARUS} {SQUAD}gpu",
        ),
        (
            "DEVICE=gpu GPU=amd SLURMD_NODENAME=n1 CARD=kfd",
            f"{SRUN} apptainer {BINDS} --rocm {INSIDE} {SQUAD}gpu",
        ),
        (
            "ENGINE=pyxis IMAGE=python:3.11 DEVICE=gpu SLURM_GPUS_ON_NODE=2",
            f"{SRUN} --gres=gpu:2 {PYXIS} {SQUAD}gpu",
        ),
        # An interactive allocation, in a shell of the login node.
        (
            "SLURM_NTASKS= SLURM_NTASKS_PER_NODE= SLURM_CPUS_PER_TASK= SLURM_NNODES=2 DEVICE=gpu "
            "SLURM_TASKS_PER_NODE=2(x2) SLURM_JOB_CPUS_PER_NODE=32(x2)",
            f"{SRUN} apptainer {BINDS} --nv {INSIDE} {SQUAD}gpu",
        ),
    ],
)
def test_the_launcher_starts_one_container_per_worker(cluster, variables, expected):
    """Flags of the submission come last, and the exit code is the launcher's."""
    cluster.install(RECORD, "sarus")
    flags = "--learning_rate=1e-4", "--output_dir=/scratch/a b"
    if card := flags_in(variables).get("CARD"):
        write_files(cluster.root, {f"dev/{card}": ""})
    assert cluster.submit(f"CODE=9 {variables}", *flags).returncode == 9
    *command, first, second = cluster.call.read_text().splitlines()
    assert " ".join(command) == expected.format(cluster.root)
    assert (first, second) == flags
    variables = Path(f"{cluster.call}.variables").read_text().split()
    # PMIx needs nothing of the host.
    assert {"PMIX_MCA_gds=hash", "PMIX_MCA_psec=native"} <= set(variables)


TERM, REQUEUE = "scancel --signal=TERM 1", "scontrol requeue 1"


@pytest.mark.parametrize(
    ("variables", "code", "told", "printed"),
    [
        # Before its time limit, Slurm sends SIGUSR1 to the job's shell. The launcher ends once its
        # step has been signaled.
        (
            *("SIGNAL=USR1 WAIT_FOR={0}.told CODE=143", 143, [TERM, REQUEUE]),
            "the job writes a checkpoint and is requeued",
        ),
        # A finished or failed job is not requeued, even if it ends while it is being signaled.
        *(
            (f"SIGNAL=USR1 WAIT_FOR={{0}}.told CODE={code} LATE={late}", code, [TERM], "")
            for code in (0, 1)
            for late in ("", "yes")
        ),
        # A canceled job waits for its workers, to which Slurm has sent SIGTERM as well.
        ("SIGNAL=TERM CODE=143", 143, [], ""),
        # Ctrl-C after salloc; the allocation stays, so there is nothing to requeue.
        ("SIGNAL=INT WAIT_FOR={0}.told CODE=143", 143, [TERM], "interrupted; the job writes a"),
        (
            *("SIGNAL=USR1 WAIT_FOR={0}.told CODE=143 REQUEUE_CODE=1", 1, [TERM, REQUEUE]),
            "squad.sbatch: error: the job cannot be requeued; submit it again to resume\n",
        ),
        # The workers are signaled.
        ("LAUNCHER=mpirun SIGNAL=USR1 WAIT_FOR=/never", 143, [REQUEUE], ""),
    ],
)
def test_a_stopped_job_saves_and_is_requeued_if_it_can_be(cluster, variables, code, told, printed):
    result = cluster.submit(variables)
    assert result.returncode == code, result.stderr
    file = Path(f"{cluster.call}.told")
    assert (file.read_text().splitlines() if file.exists() else []) == told
    assert printed in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("ENGINE=docker", "ENGINE=docker: choose apptainer, singularity, sarus or pyxis"),
        ("ENGINE=sarus", "sarus: not found; try `module load sarus`"),
        ("LAUNCHER=ssh", "LAUNCHER=ssh: choose srun or mpirun"),
        ("MODEL=albert", "data/albert: no such folder"),
        ("SCRATCH=/nowhere", "/nowhere: no such folder"),
        ("IMAGE=/nowhere.sif", "IMAGE=/nowhere.sif: no such file"),
        ("SLURM_JOB_ID=", "submit it with `sbatch"),
        ("DEVICE=tpu", "DEVICE=tpu: choose cpu or gpu"),
        ("DEVICE=gpu SLURMD_NODENAME=n1", "the job has no GPU; submit it with `sbatch --gr"),
        ("DEVICE=gpu GPU=intel", "GPU=intel: choose nvidia or amd"),
        ("ENGINE=pyxis LAUNCHER=mpirun", "ENGINE=pyxis needs LAUNCHER=srun"),
        ("SLURM_NTASKS_PER_NODE=", "the job has no number of tasks; pass --ntasks-per-node"),
        ("SLURM_CPUS_PER_TASK= SLURM_JOB_CPUS_PER_NODE=1(x2)", "pass --cpus-per-task"),
    ],
)
def test_faults_are_reported_before_anything_starts(cluster, variables, message):
    result = cluster.submit(variables)
    assert result.returncode == 1
    assert re.fullmatch(r"(squad\.sbatch|preset\.sh): error: .*\n", result.stderr)
    assert message in result.stderr
    assert not cluster.call.exists()
