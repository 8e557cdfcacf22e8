"""A job on two hosts: network namespaces of this machine, each with its address, name and sshd.

  make test-multihost        (as root; needs iproute2, util-linux, openssh-server, openssh-client)

Both see the same files, like hosts of a cluster with a network volume. Shared memory between them
is off, so that all data between the workers goes through the network.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.helpers.checkpoints import losses
from tests.helpers.running import MPIRUN, at_step, run, under_mpirun
from tests.helpers.squad import squad_command

HOSTS = {"albert-host-1": "10.213.77.1", "albert-host-2": "10.213.77.2"}
NETWORK = "10.213.77.0/24"
# Not in every user's PATH; the daemon requires its full path.
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "sshd"


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)


def on(host: str, *command: str) -> list[str]:
    """Returns a command that runs on a host, under its name."""
    script = f'hostname {host} && exec "$@"'
    return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", script, "sh", *command]


def why_unavailable() -> str:
    """Returns why two hosts with an sshd cannot be made here, or an empty string."""
    for program in ("ip", "unshare", SSHD, "ssh-keygen"):
        if not shutil.which(program):
            return f"{program} is missing"
    attempt = ["ip", "netns", "add", "albert-try"]
    result = subprocess.run(attempt, capture_output=True, text=True)
    ip("netns", "delete", "albert-try", check=False)
    return result.stderr.strip()


def remove_hosts() -> None:
    for host in HOSTS:
        ip("netns", "delete", host, check=False)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory) -> Iterator[str]:
    """Starts both hosts and yields the ssh command from one to the other."""
    if reason := why_unavailable():
        pytest.skip(f"no network namespaces with an sshd each, which root can make: {reason}")
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name])
    (folder / "key.pub").rename(folder / "authorized_keys")
    (folder / "sshd_config").write_text(
        f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\n"
        "PermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\n"
    )
    os.makedirs("/run/sshd", exist_ok=True)
    remove_hosts()
    first, second = HOSTS
    for host in HOSTS:
        ip("netns", "add", host)
        ip("-n", host, "link", "set", "lo", "up")
    pair = f"link add albert-1 netns {first} type veth peer albert-2 netns {second}"
    ip(*pair.split())
    for (host, address), link in zip(HOSTS.items(), ("albert-1", "albert-2"), strict=True):
        ip("-n", host, "address", "add", f"{address}/24", "dev", link)
        ip("-n", host, "link", "set", link, "up")
    daemons = [
        subprocess.Popen(on(host, SSHD, "-D", "-e", "-f", str(folder / "sshd_config")))
        for host in HOSTS
    ]
    for address in HOSTS.values():
        attempt = on(first, "bash", "-c", f"exec 3<>/dev/tcp/{address}/22")
        while subprocess.run(attempt, capture_output=True).returncode:
            assert all(daemon.poll() is None for daemon in daemons), "an sshd did not start"
            time.sleep(0.05)
    known = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    yield f"ssh -i {folder / 'key'} {known}"
    for daemon in daemons:
        daemon.terminate()
        daemon.wait()
    remove_hosts()


def job(ssh: str, command: list[str]) -> list[str]:
    """Returns a command as one worker per host, started from the first."""
    # A lost host is noticed after 10 + 3 x 5 seconds instead of eight minutes.
    options = (
        f"--mca btl tcp,self --mca btl_tcp_if_include {NETWORK} --mca oob_tcp_if_include {NETWORK} "
        "--mca oob_tcp_keepalive_time 10 --mca oob_tcp_keepalive_intvl 5 "
        "--mca oob_tcp_keepalive_probes 3 --bind-to none"
    )
    words = ["--mca", "plm_rsh_agent", ssh, *options.split()]
    places = ",".join(f"{address}:1" for address in HOSTS.values())
    start = [str(MPIRUN), "--allow-run-as-root", "--prefix", str(MPIRUN.parent.parent)]
    return on(next(iter(HOSTS)), *start, *words, "-H", places, *command)


@pytest.mark.usefixtures("mpirun")
def test_two_hosts_equal_two_workers_on_one_host(ssh, squad_dir, tmp_path):
    alone, apart = tmp_path / "alone", tmp_path / "apart"
    flags = ["--use_horovod=true", "--deterministic_run"]
    result = run(under_mpirun(2, squad_command(squad_dir, alone, *flags)))
    assert result.returncode == 0, result.stderr
    result = run(job(ssh, squad_command(squad_dir, apart, *flags)))
    assert result.returncode == 0, result.stderr
    assert "2 workers" in result.stderr
    assert losses(apart).tolist() == losses(alone).tolist()
    for name in ("predictions.json", "nbest_predictions.json"):
        assert (apart / name).read_bytes() == (alone / name).read_bytes()


@pytest.mark.usefixtures("mpirun")
@pytest.mark.parametrize("fault", ["kill", "network gone"])
def test_a_lost_host_ends_the_job_and_the_command_resumes(ssh, squad_dir, tmp_path, fault):
    """At step 15, the worker on the second host is killed, or waits until its network is cut."""
    flags = ["--use_horovod=true", "--train_steps=30", "--save_checkpoints_steps=10"]
    command = squad_command(squad_dir, tmp_path, *flags, "--do_predict=False")
    broken = at_step("kill" if fault == "kill" else "stall", 15, command, rank=1)
    process = subprocess.Popen(job(ssh, broken), stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "model.ckpt-10.index").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    if fault == "network gone":
        ip("-n", "albert-host-2", "link", "set", "albert-2", "down")
    started = time.time()
    try:
        process.communicate(timeout=60)
    finally:
        ip("-n", "albert-host-2", "link", "set", "albert-2", "up")
        process.kill()
    assert process.returncode != 0
    assert time.time() - started < 60
    result = run(job(ssh, command))
    assert result.returncode == 0, result.stderr
    assert "Training from step 10 to 30" in result.stderr
