"""deploy/mpirun.sh: the command it composes for a machine, and jobs that it runs."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.running import MPIRUN, run

SCRIPT = ROOT / "deploy" / "mpirun.sh"
# An environment in which the real mpirun is found.
FOUND = {**os.environ, "PATH": f"{MPIRUN.parent}:{os.environ['PATH']}"}


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """An environment in which some mpirun is found; --dry-run does not run it."""
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text("#!/bin/sh\nexit 99\n")
    mpirun.chmod(0o755)
    return {"PATH": f"{mpirun.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}


class Machine:
    """A copy of the parts of /dev, /proc and /sys that tell of cores and cards."""

    def __init__(self, root: pathlib.Path, sockets: int, cores: int):
        self.root = root
        places, count = sockets * cores, 2 * sockets * cores  # two threads a core
        for cpu in range(count):
            socket, core = divmod(cpu % places, cores)
            on_core = [c for c in range(count) if c % places == cpu % places]
            on_socket = [c for c in range(count) if c % places // cores == socket]
            topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
            self.write(f"{topology}/core_id", core)
            self.write(f"{topology}/physical_package_id", socket)
            self.write(f"{topology}/thread_siblings", self.mask(on_core, count))
            self.write(f"{topology}/core_siblings", self.mask(on_socket, count))
        for name in ("online", "possible", "present"):
            self.write(f"sys/devices/system/cpu/{name}", f"0-{count - 1}")
        self.write("sys/devices/system/cpu/kernel_max", 8191)
        processors = (f"processor\t: {cpu}\nmodel name\t: Any\n\n" for cpu in range(count))
        self.write("proc/cpuinfo", "".join(processors))
        self.allow(f"0-{count - 1}")

    def write(self, path: str, content: str | int) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")

    def mask(self, cpus: list[int], count: int) -> str:
        """The kernel's notation: hexadecimal, 32 bits between commas."""
        digits = -(-count // 32) * 8
        return ",".join(re.findall(".{8}", f"{sum(1 << cpu for cpu in cpus):0{digits}x}"))

    def allow(self, cpus: str) -> None:
        self.write("proc/self/status", f"Name:\tcat\nCpus_allowed_list:\t{cpus}")

    def add_cards(self, count: int, kind: str = "GAUDI2") -> None:
        for card in range(count):
            self.write(f"dev/accel/accel{card}", "")
            self.write(f"dev/accel/accel_controlD{card}", "")
            self.write(f"sys/class/accel/accel{card}/device/device_type", kind)
            self.write(f"sys/class/accel/accel{card}/device/status", "operational")


@pytest.fixture
def hls(tmp_path) -> Machine:
    """A server as the Habana README has it."""
    machine = Machine(tmp_path / "hls", sockets=2, cores=28)
    machine.add_cards(8)
    return machine


@pytest.fixture
def plan(environment):
    """Calls mpirun.sh --dry-run for a machine; the result has the words of the command."""

    def call(machine: Machine, *options: str, **variables: str):
        words = [str(SCRIPT), "--dry-run", "--sysroot", str(machine.root), *options]
        result = run([*words, "program", "--use_horovod=true"], env=environment | variables)
        result.words = shlex.split(result.stdout)
        return result

    return call


def follows(words: list[str], option: str) -> list[str]:
    """The words after each occurrence of an option."""
    return [words[i + 1] for i, word in enumerate(words) if word == option]


class TestComposedCommand:
    def test_eight_cards_give_the_command_of_the_habana_readme(self, hls, plan, tmp_path):
        root = "" if os.geteuid() else "--allow-run-as-root "
        expected = f"{tmp_path}/bin/mpirun --tag-output --merge-stderr-to-stdout {root}--bind-to "
        expected += "core --map-by socket:PE=7 -np 8 -x PATH program --use_horovod=true\n"
        assert plan(hls).stdout == expected

    @pytest.mark.parametrize(
        ("sockets", "cores", "allowed", "workers", "each"),
        [
            (1, 2, None, 2, 1),
            (1, 2, None, 1, 2),
            (2, 24, None, 8, 6),
            (2, 28, None, 1, 28),  # A worker stays on its socket.
            (2, 5, None, 3, 2),  # Two of them share a socket of five cores.
            (4, 12, None, 8, 6),
            (2, 28, "0-27,56-83", 8, 3),  # One socket, both threads of each core.
            (2, 28, "0-3,28-31", 2, 4),  # Four cores of each socket.
            (2, 28, "0-1,56,57", 2, 1),  # Two cores, four threads.
        ],
    )
    def test_cores_of_a_worker(self, tmp_path, plan, sockets, cores, allowed, workers, each):
        machine = Machine(tmp_path / "machine", sockets, cores)
        if allowed:
            machine.allow(allowed)
        words = plan(machine, "-n", str(workers)).words
        assert follows(words, "--map-by") == [f"socket:PE={each}"]
        assert "--oversubscribe" not in words

    def test_more_workers_than_cores_share_and_are_told(self, tmp_path, plan):
        result = plan(Machine(tmp_path / "machine", 1, 2), "-n", "4")
        assert result.returncode == 0
        assert "4 workers share 2 cores" in result.stderr
        assert "--oversubscribe" in result.words
        assert follows(result.words, "--bind-to") == ["core:overload-allowed"]

    def test_variables_are_passed_and_help_says_so(self, hls, plan):
        passed = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "GC_KERNEL_PATH", "TF_BF16_CONVERSION"}
        passed |= {f"{maker}_LEVEL" for maker in ("HOROVOD", "HABANA", "HCCL", "NCCL", "OMP")}
        variables = dict.fromkeys(passed - {"PATH"}, "1") | {"SECRET": "no", "MY_TF_LEVEL": "no"}
        words = plan(hls, "-x", "LEVEL=3", **variables).words
        assert sorted(follows(words, "-x")) == sorted({"LEVEL=3", *passed})
        help_text = run([str(SCRIPT), "--help"]).stdout
        assert all(name in help_text for name in ("-n WORKERS", "--use_horovod=true", "TF_BF16"))

    def test_hosts(self, hls, plan):
        keepalive = "--mca oob_tcp_keepalive_"
        expected = f" -H one:8,two:8 {keepalive}time 10 {keepalive}intvl 5 {keepalive}probes 3"
        expected += " --bind-to core --map-by socket:PE=7 -np 16 "
        assert expected in " ".join(plan(hls, "-H", "one:8,two:8").words)

    def test_words_of_the_command_stay_whole(self, hls, environment):
        command = ["bash", "-c", "cd 'a b'; $PYTHON x --use_horovod=true", "", "--dry-run"]
        result = run([SCRIPT, "--dry-run", "--sysroot", hls.root, *command], env=environment)
        assert shlex.split(result.stdout)[-5:] == command


class TestCards:
    def test_other_accelerators_do_not_count_and_those_of_an_older_driver_do(self, tmp_path, plan):
        machine = Machine(tmp_path / "machine", 2, 28)
        machine.add_cards(1, kind="NPU")
        said = "mpirun.sh: error: no Gaudi card here: say how many workers, -n WORKERS\n"
        result = plan(machine)
        assert (result.returncode, result.stderr) == (2, said)
        for card in range(4):
            machine.write(f"dev/hl{card}", "")
            machine.write(f"dev/hl_controlD{card}", "")
            machine.write(f"sys/class/habanalabs/hl{card}/status", "Operational")
        assert follows(plan(machine).words, "-np") == ["4"]

    def test_more_workers_than_cards_in_operation_on_a_host(self, hls, plan):
        message = "9 workers need 9 Gaudi cards in operation, this host has 8\n"
        for options in (["-n", "9"], ["-H", "one:9,two:7"]):
            result = plan(hls, *options)
            assert result.returncode == 1 and message in result.stderr
        hls.write("sys/class/accel/accel3/device/status", "in reset")
        result = plan(hls)
        assert result.returncode == 1
        assert "this host has 7 (/dev/accel/accel3 in reset)\n" in result.stderr
        assert plan(hls, "-n", "7").returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("-n two x", 2, "-n two: not a number of workers"),
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
        (f"-n 2 {sys.executable} nope.py", 1, "nope.py: no such file"),
        ("-n 1 -l /proc true", 1, "-l /proc: no log can be written there"),
        ("-n 1 -l file true", 1, "-l file: no log can be written there"),
        ("-n 1 -l file/below true", 1, "-l file/below: no log can be written there"),
    ],
)
def test_what_is_wrong_is_one_line(environment, tmp_path, words, code, message):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "file").write_text("")
    result = run([str(SCRIPT), *words.split()], env=environment, cwd=folder)
    assert (result.returncode, result.stdout) == (code, "")
    assert re.fullmatch(rf"mpirun\.sh: error: {re.escape(message)}.*\n", result.stderr)
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_mpirun_of_the_environment_beside_the_script(tmp_path):
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
        """Runs a command as two workers, from an empty folder."""

        def call(command: list[str], *options: str) -> subprocess.CompletedProcess:
            return run([SCRIPT, "-n", "2", *options, "--", *command], cwd=tmp_path, env=FOUND)

        return call

    def log(self, folder: pathlib.Path) -> str:
        (file,) = folder.iterdir()
        assert re.fullmatch(r"mpirun-\d{8}-\d{6}-\d+\.log", file.name)
        return file.read_text()

    def test_output_is_tagged_and_logged(self, start, tmp_path):
        """Of workers with cores of their own, or on the one there is."""
        script = "echo out; echo err >&2; grep Cpus_allowed_list /proc/self/status"
        result = start(["bash", "-c", script], "-l", "my logs")
        assert result.returncode == 0, result.stdout
        tagged = re.findall(r"\[1,([01])\]<std(out|err)>:(out|err)$", result.stdout, re.MULTILINE)
        assert sorted(tagged) == [(rank, kind, kind) for rank in "01" for kind in ("err", "out")]
        assert result.stderr == "" and self.log(tmp_path / "my logs") == result.stdout
        assert "-np 2 " in result.stdout.splitlines()[1]
        first, second = re.findall(r"Cpus_allowed_list:\s*(\S+)", result.stdout)
        assert (first != second) == (len(os.sched_getaffinity(0)) > 1)

    def test_a_reader_that_goes_away_does_not_end_the_log(self, tmp_path):
        command = shlex.join(["bash", "-c", "for n in {1..2000}; do echo line $n; done"])
        run(["bash", "-c", f"{SCRIPT} -n 1 {command} | head -n 1"], cwd=tmp_path, env=FOUND)
        deadline = time.time() + LONGEST
        while "line 2000\n" not in self.log(tmp_path / "logs"):
            assert time.time() < deadline
            time.sleep(0.05)

    def test_exit_code_of_the_worker_that_fails(self, start, tmp_path):
        result = start(["bash", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 7; sleep 1000"])
        assert result.returncode == 7
        assert self.log(tmp_path / "logs") == result.stdout

    def test_more_workers_than_cores(self, start):
        workers = 2 * os.cpu_count() + 1
        result = start(["bash", "-c", "echo rank $OMPI_COMM_WORLD_RANK"], "-n", str(workers))
        assert result.returncode == 0, result.stdout
        ranks = re.findall(r"rank (\d+)$", result.stdout, re.MULTILINE)
        assert sorted(map(int, ranks)) == list(range(workers))


# Writes its checkpoint for longer than mpirun gives a worker, 1 + 1 seconds.
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


class Case(NamedTuple):
    """A job that gets signals while it runs, and how it is to end.

    A signal is sent to the script alone, or to its process group, as a terminal does it.
    """

    signals: list[signal.Signals]
    code: int
    saved: bool = False
    by_terminal: bool = False
    options: tuple[str, ...] = ()
    seconds: float = 2.5
    worker_code: str = "143"


CASES = {
    "SIGTERM": Case([signal.SIGTERM], 143, saved=True),
    "Ctrl-C": Case([signal.SIGINT], 130, saved=True, by_terminal=True),
    "a terminal that is closed": Case([signal.SIGHUP], 129, saved=True, by_terminal=True),
    "a worker fails as it stops": Case([signal.SIGTERM], 5, saved=True, worker_code="5"),
    "all is done": Case([signal.SIGTERM], 0, saved=True, worker_code="0"),
    "a second signal": Case([signal.SIGINT] * 2, 130, by_terminal=True, seconds=1000),
    "no time left": Case([signal.SIGTERM], 143, options=("-t", "1"), seconds=1000),
    "the script is killed": Case([signal.SIGKILL], -9, seconds=1000),
}


@pytest.fixture(scope="module")
def ended(mpirun, tmp_path_factory) -> dict[str, tuple[int, str, list[str]]]:
    """Exit code, output and workers of each case; they run at the same time."""
    jobs, workers = {}, {name: [] for name in CASES}
    options = {"env": FOUND, "cwd": tmp_path_factory.mktemp("signals"), "start_new_session": True}
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    for name, case in CASES.items():
        program = WORKER.format(seconds=case.seconds, code=case.worker_code)
        command = [SCRIPT, "-n", "2", *case.options, "--", sys.executable, "-c", program]
        jobs[name] = subprocess.Popen(command, **options)
    for name, job in jobs.items():
        # Once they have handlers.
        while len(workers[name]) < 2:
            line = job.stdout.readline()
            assert line, "the job has ended"
            workers[name] += re.findall(r"ready (\d+)$", line)
    for number in range(2):
        for name, case in CASES.items():
            if number < len(case.signals):
                if number:
                    # The first has arrived; two of the same that wait are one.
                    next(line for line in jobs[name].stdout if "SIG" in line)
                send = os.killpg if case.by_terminal else os.kill
                send(jobs[name].pid, case.signals[number])
    output = {name: job.communicate(timeout=LONGEST)[0] for name, job in jobs.items()}
    return {name: (jobs[name].returncode, output[name], workers[name]) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_signals(ended, name):
    case = CASES[name]
    code, output, workers = ended[name]
    assert code == case.code, output
    # SIGUSR1, once.
    expected = [f"saved for [{int(signal.SIGUSR1)}]"] * 2 * case.saved
    assert re.findall(r"saved for .*", output) == expected, output
    deadline = time.time() + LONGEST
    while any(pathlib.Path(f"/proc/{pid}/cwd").exists() for pid in workers):
        assert time.time() < deadline, "workers are left behind"
        time.sleep(0.05)
