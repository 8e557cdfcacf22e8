"""deploy/mpirun.sh: the command that it composes for a machine, and jobs that it runs."""

import itertools
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.files import write_files
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.running import MPIRUN, run

SCRIPT = ROOT / "deploy" / "mpirun.sh"
FOUND = {**os.environ, "PATH": f"{MPIRUN.parent}:{os.environ['PATH']}"}


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """Returns an environment with some mpirun in its path; --dry-run does not run it."""
    write_files(tmp_path, {"bin/mpirun": "#!/bin/sh\nexit 99\n"})
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path)}


@pytest.fixture
def plan(environment, tmp_path):
    """Calls mpirun.sh --dry-run for the machine in `tmp_path`; the result also has its words."""

    def plan(*options: str, command=("program", "--use_horovod=true"), **variables: str):
        words = [str(SCRIPT), "--dry-run", "--sysroot", str(tmp_path), *options, *command]
        result = run(words, env=environment | variables)
        result.words = shlex.split(result.stdout)
        return result

    return plan


def make_machine(root: pathlib.Path, sockets: int, cores: int, allowed: str = "") -> None:
    """Writes the parts of /proc and /sys that describe cores, each of two threads."""
    places, cpus = sockets * cores, range(2 * sockets * cores)
    files = {
        "sys/devices/system/cpu/possible": f"0-{cpus[-1]}\n",
        "proc/self/status": f"Cpus_allowed_list:\t{allowed or f'0-{cpus[-1]}'}\n",
        "proc/cpuinfo": "".join(f"processor\t: {cpu}\nmodel name\t: A\n\n" for cpu in cpus),
    }
    for cpu in cpus:
        for name, size in (("thread_siblings", 1), ("core_siblings", cores)):
            mask = sum(1 << c for c in cpus if c % places // size == cpu % places // size)
            files[f"sys/devices/system/cpu/cpu{cpu}/topology/{name}"] = f"{mask:x}\n"
    write_files(root, files)


def add_cards(root: pathlib.Path, count: int, kind: str = "GAUDI2") -> None:
    for card in range(count):
        about = f"sys/class/accel/accel{card}/device"
        nodes = f"dev/accel/accel{card}", f"dev/accel/accel_controlD{card}"
        state = {f"{about}/device_type": f"{kind}\n", f"{about}/status": "operational\n"}
        write_files(root, {**dict.fromkeys(nodes, ""), **state})


@pytest.fixture
def hls(tmp_path) -> pathlib.Path:
    make_machine(tmp_path, sockets=2, cores=28)
    add_cards(tmp_path, 8)
    return tmp_path


def follows(words: list[str], option: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == option]


class TestComposedCommand:
    def test_eight_cards_give_the_command_of_the_habana_readme(self, hls, plan):
        root = "" if os.geteuid() else "--allow-run-as-root "
        expected = f"{hls}/bin/mpirun --tag-output --merge-stderr-to-stdout {root}--bind-to core "
        expected += "--map-by socket:PE=7 -np 8 -x PATH program --use_horovod=true\n"
        assert plan().stdout == expected

    @pytest.mark.parametrize(
        ("sockets", "cores", "allowed", "workers", "each"),
        [
            (1, 2, "", 2, 1),
            (1, 2, "", 1, 2),
            (2, 24, "", 8, 6),
            (2, 28, "", 1, 28),  # A worker stays on its socket.
            (2, 5, "", 3, 2),  # Two of them share a socket of five cores.
            (4, 12, "", 8, 6),
            (2, 28, "0-27,56-83", 8, 3),  # One socket, both threads of each core.
            (2, 28, "0-3,28-31", 2, 4),  # Four cores of each socket.
            (2, 28, "0-1,56,57", 2, 1),  # Two cores, four threads.
        ],
    )
    def test_cores_are_distributed_to_workers(
        self, tmp_path, plan, sockets, cores, allowed, workers, each
    ):
        make_machine(tmp_path, sockets, cores, allowed)
        words = plan("-n", str(workers)).words
        assert follows(words, "--map-by") == [f"socket:PE={each}"]
        assert "--oversubscribe" not in words

    def test_more_workers_than_cores_share_them_with_a_notice(self, tmp_path, plan):
        make_machine(tmp_path, 1, 2)
        result = plan("-n", "4")
        assert result.returncode == 0 and "4 workers share 2 cores" in result.stderr
        assert "--oversubscribe" in result.words
        assert follows(result.words, "--bind-to") == ["core:overload-allowed"]

    @pytest.mark.usefixtures("hls")
    def test_known_variables_are_passed_to_all_hosts(self, plan):
        passed = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "GC_KERNEL_PATH", "TF_BF16_CONVERSION"}
        passed |= {f"{maker}_LEVEL" for maker in ("HOROVOD", "HABANA", "HCCL", "NCCL", "OMP")}
        variables = dict.fromkeys(passed - {"PATH"}, "1") | {"SECRET": "no", "MY_TF_LEVEL": "no"}
        words = plan("-x", "LEVEL=3", **variables).words
        assert sorted(follows(words, "-x")) == sorted({"LEVEL=3", *passed})

    @pytest.mark.usefixtures("hls")
    def test_hosts_get_workers_and_a_keepalive(self, plan):
        keepalive = "--mca oob_tcp_keepalive_"
        expected = f" -H one:8,two:8 {keepalive}time 10 {keepalive}intvl 5 {keepalive}probes 3"
        expected += " --bind-to core --map-by socket:PE=7 -np 16 "
        assert expected in " ".join(plan("-H", "one:8,two:8").words)

    @pytest.mark.usefixtures("hls")
    def test_words_of_the_command_stay_whole(self, plan):
        command = ["bash", "-c", "cd 'a b'; $PYTHON x --use_horovod=true", "", "--dry-run"]
        assert plan(command=command).words[-5:] == command


def test_only_gaudi_cards_of_any_driver_count(tmp_path, plan):
    make_machine(tmp_path, 2, 28)
    add_cards(tmp_path, 1, kind="NPU")
    said = "mpirun.sh: error: no Gaudi card found; give the number of workers with -n WORKERS\n"
    result = plan()
    assert (result.returncode, result.stderr) == (2, said)
    for card in range(4):
        status = {f"sys/class/habanalabs/hl{card}/status": "Operational\n"}
        write_files(tmp_path, {f"dev/hl{card}": "", f"dev/hl_controlD{card}": "", **status})
    assert follows(plan().words, "-np") == ["4"]


def test_more_workers_than_working_cards_are_an_error(hls, plan):
    message = "9 workers need 9 operational Gaudi cards; this host has 8\n"
    for options in (["-n", "9"], ["-H", "one:9,two:7"]):
        result = plan(*options)
        assert result.returncode == 1 and message in result.stderr
    write_files(hls, {"sys/class/accel/accel3/device/status": "in reset\n"})
    assert "this host has 7 (/dev/accel/accel3 in reset)\n" in plan().stderr
    assert plan("-n", "7").returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("-n 0 x", 2, "-n 0: not a number of workers"),
        ("-n", 2, "-n needs a value"),
        ("-H one,two x", 2, "-H one,two: not HOST:N"),
        (f"-n {'9' * 20} x", 2, f"-n {'9' * 20}: not a number of workers"),
        (f"-H one:{'9' * 20} x", 2, f"-H one:{'9' * 20}: not HOST:N"),
        ("-H one:2 -n 3 x", 2, "-n 3: -H has room for 2"),
        ("-t soon x", 2, "-t soon: not a number of seconds"),
        ("--fast x", 2, "unknown option --fast"),
        ("-n 2 --", 2, "no command"),
        ("--sysroot /usr x", 2, "--sysroot is for --dry-run"),
        ("-n 2 nope", 1, "nope: no such program"),
        (f"-n 2 '{sys.executable}' nope.py", 1, "nope.py: no such file"),
        ("-n 1 -l /proc true", 1, "-l /proc: cannot write a log there"),
        ("-n 1 -l file true", 1, "-l file: cannot write a log there"),
    ],
)
def test_a_bad_option_is_one_line(environment, tmp_path, words, code, message):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "file").write_text("")
    result = run([str(SCRIPT), *shlex.split(words)], env=environment, cwd=folder)
    assert (result.returncode, result.stdout) == (code, "")
    assert re.fullmatch(rf"mpirun\.sh: error: {re.escape(message)}.*\n", result.stderr)
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_mpirun_is_found_in_the_environment_of_the_clone(tmp_path):
    path = "/usr/bin:/bin"
    if shutil.which("mpirun", path=path):
        pytest.skip("there is an mpirun of the system, which comes first")
    mpirun = tmp_path / ".venv" / "bin" / "mpirun"
    for file in (tmp_path / "deploy" / "mpirun.sh", mpirun):
        file.parent.mkdir(parents=True)
        shutil.copy(SCRIPT, file)
    start = ["bash", "-c", "cd deploy; bash mpirun.sh --dry-run -n 1 x"]
    result = run(start, cwd=tmp_path, env={"PATH": path})
    assert shlex.split(result.stdout)[0] == str(mpirun), result.stderr


@pytest.mark.usefixtures("mpirun")
class TestRealJobs:
    @pytest.fixture
    def start(self, tmp_path):
        def call(command: list[str], *options: str) -> subprocess.CompletedProcess:
            return run([SCRIPT, "-n", "2", *options, "--", *command], cwd=tmp_path, env=FOUND)

        return call

    def log(self, folder: pathlib.Path) -> str:
        (file,) = folder.iterdir()
        assert re.fullmatch(r"mpirun-\d{8}-\d{6}-\d+\.log", file.name)
        return file.read_text()

    def test_output_is_tagged_and_logged(self, start, tmp_path):
        """Each worker has its cores, or they share the only one."""
        script = "echo out; echo err >&2; grep Cpus_allowed_list /proc/self/status"
        result = start(["bash", "-c", script], "-l", "my logs")
        assert result.returncode == 0, result.stdout
        tagged = re.findall(r"\[1,([01])\]<std(out|err)>:(out|err)$", result.stdout, re.MULTILINE)
        assert sorted(tagged) == [(rank, kind, kind) for rank in "01" for kind in ("err", "out")]
        assert result.stderr == "" and self.log(tmp_path / "my logs") == result.stdout
        assert "-np 2 " in result.stdout.splitlines()[1]
        first, second = re.findall(r"Cpus_allowed_list:\s*(\S+)", result.stdout)
        assert (first != second) == (len(os.sched_getaffinity(0)) > 1)

    def test_a_closed_reader_does_not_end_the_log(self, tmp_path):
        # Open MPI reads 4096 bytes and drops what exceeds 8192 with the tags, so very short lines
        # would be lost in a burst.
        script = "for n in {1..2000}; do echo longer than its tag: line $n; done"
        command = shlex.join(["bash", "-c", script])
        run(["bash", "-c", f"{SCRIPT} -n 1 {command} | head -n 1"], cwd=tmp_path, env=FOUND)
        deadline = time.time() + LONGEST
        while "line 2000\n" not in self.log(tmp_path / "logs"):
            assert time.time() < deadline
            time.sleep(0.05)

    def test_the_exit_code_is_that_of_the_failed_worker(self, start, tmp_path):
        result = start(["bash", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 7; sleep 1000"])
        assert result.returncode == 7
        assert self.log(tmp_path / "logs") == result.stdout


# Saving takes longer than mpirun waits for a worker, 1 + 1 seconds.
WORKER = """
import os, signal, sys, time
got = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, _: got.append(number))
os.write(1, b"ready %d\\n" % os.getpid())
while not got:
    time.sleep(0.02)
time.sleep({seconds})
os.write(1, b"saved for %s\\n" % str(got).encode())
sys.exit({code})
"""


# The signals, how they are sent (only to the script, or to its group as by a terminal), the job's
# exit code; the seconds that a checkpoint takes, the workers' exit code, and the job's options.
JOBS = {
    "SIGTERM": ([signal.SIGTERM], os.kill, 143, 2.5, 143),
    "Ctrl-C": ([signal.SIGINT], os.killpg, 130, 2.5, 143),
    "a terminal that is closed": ([signal.SIGHUP], os.killpg, 129, 2.5, 143),
    "a worker fails as it stops": ([signal.SIGTERM], os.kill, 5, 2.5, 5),
    "all is done": ([signal.SIGTERM], os.kill, 0, 2.5, 0),
    "a second signal": ([signal.SIGINT] * 2, os.killpg, 130, 1000, 143),
    "no time left": ([signal.SIGTERM], os.kill, 143, 1000, 143, "-t", "1"),
    "the script is killed": ([signal.SIGKILL], os.kill, -9, 1000, 143),
}


@pytest.mark.usefixtures("mpirun")
def test_signals_reach_the_workers_and_end_the_job(tmp_path):
    """All jobs run at the same time."""
    options = {"env": FOUND, "cwd": tmp_path, "start_new_session": True, "text": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    jobs, workers = {}, []
    for name, (_, _, _, seconds, code, *flags) in JOBS.items():
        program = sys.executable, "-c", WORKER.format(seconds=seconds, code=code)
        jobs[name] = subprocess.Popen([SCRIPT, "-n", "2", *flags, "--", *program], **options)
    for job in jobs.values():
        # Once they have handlers.
        ready = (re.search(r"ready (\d+)$", line) for line in job.stdout)
        workers += itertools.islice(filter(None, ready), 2)
    assert len(workers) == 2 * len(jobs)
    for name, (signals, send, *_) in JOBS.items():
        send(jobs[name].pid, signals[0])
        for again in signals[1:]:
            # The first has arrived; two equal pending signals merge into one.
            next(line for line in jobs[name].stdout if "SIG" in line)
            send(jobs[name].pid, again)
    outputs = {name: job.communicate(timeout=LONGEST)[0] for name, job in jobs.items()}
    for name, (_, _, code, seconds, *_) in JOBS.items():
        assert jobs[name].returncode == code, (name, outputs[name])
        expected = [f"saved for [{int(signal.SIGUSR1)}]"] * 2 if seconds < 1000 else []
        assert re.findall(r"saved for .*", outputs[name]) == expected, name
    deadline = time.time() + LONGEST
    while any(pathlib.Path(f"/proc/{worker[1]}/cwd").exists() for worker in workers):
        assert time.time() < deadline, "workers are left behind"
        time.sleep(0.05)
