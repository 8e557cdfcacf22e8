"""A job on two hosts: network namespaces of this machine, each with its address, name and sshd.

  make test-multihost        (as root; needs iproute2, util-linux, openssh-server, openssh-client)

Both see the same files, as hosts of a cluster with a network volume do. Shared memory between
them is switched off, so that everything between the workers goes through the network.
"""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.conftest import MPIRUN, run, squad_command
from tests.test_workers import losses

pytestmark = pytest.mark.usefixtures("mpirun")
HOSTS = {"albert-host-1": "10.213.77.1", "albert-host-2": "10.213.77.2"}
NETWORK = "10.213.77.0/24"
SSHD = "/usr/sbin/sshd"


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=not check)


def on(host: str, *command: str) -> list[str]:
    """A command that runs on a host, under its name."""
    script = f'hostname {host} && exec "$@"'
    return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", script, "sh", *command]


def remove_hosts() -> None:
    for host in HOSTS:
        ip("netns", "delete", host, check=False)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory) -> Iterator[str]:
    """The ssh command from one of the two hosts to the other; both are up meanwhile."""
    if os.geteuid() != 0:
        pytest.fail("test-multihost needs root, to make network namespaces")
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name])
    (folder / "key.pub").rename(folder / "authorized_keys")
    options = {
        "HostKey": folder / "host_key",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PermitRootLogin": "prohibit-password",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
    }
    (folder / "sshd_config").write_text("".join(f"{k} {v}\n" for k, v in options.items()))
    os.makedirs("/run/sshd", exist_ok=True)
    remove_hosts()
    first, second = HOSTS
    for host in HOSTS:
        ip("netns", "add", host)
        ip("-n", host, "link", "set", "lo", "up")
    ip(
        "link",
        "add",
        "albert-1",
        "netns",
        first,
        "type",
        "veth",
        "peer",
        "albert-2",
        "netns",
        second,
    )
    for (host, address), link in zip(HOSTS.items(), ("albert-1", "albert-2"), strict=True):
        ip("-n", host, "address", "add", f"{address}/24", "dev", link)
        ip("-n", host, "link", "set", link, "up")
    daemons = [
        subprocess.Popen(on(host, SSHD, "-D", "-e", "-f", str(folder / "sshd_config")))
        for host in HOSTS
    ]
    time.sleep(1)
    assert all(daemon.poll() is None for daemon in daemons), "an sshd did not start"
    known = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    yield f"ssh -i {folder / 'key'} {known}"
    for daemon in daemons:
        daemon.terminate()
        daemon.wait()
    remove_hosts()


def job(ssh: str, command: list[str]) -> list[str]:
    """A command as one worker a host, started from the first."""
    options = {
        "plm_rsh_agent": ssh,
        "btl": "tcp,self",
        "btl_tcp_if_include": NETWORK,
        "oob_tcp_if_include": NETWORK,
        # A host that is gone is noticed after 10 + 3 x 5 seconds, not after eight minutes.
        "oob_tcp_keepalive_time": "10",
        "oob_tcp_keepalive_intvl": "5",
        "oob_tcp_keepalive_probes": "3",
    }
    words = [word for name, value in options.items() for word in ("--mca", name, value)]
    places = ",".join(f"{address}:1" for address in HOSTS.values())
    start = [str(MPIRUN), "--allow-run-as-root", "--prefix", str(MPIRUN.parent.parent)]
    return on(next(iter(HOSTS)), *start, *words, "--bind-to", "none", "-H", places, *command)


def test_the_hosts_differ(ssh):
    result = run(job(ssh, ["hostname"]))
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == sorted(HOSTS)


def test_the_same_as_two_workers_on_one_host(ssh, squad_dir, tmp_path):
    alone, apart = tmp_path / "alone", tmp_path / "apart"
    flags = ["--use_horovod=true", "--deterministic_run"]
    local = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"]
    result = run([*local, *squad_command(squad_dir, alone, *flags)])
    assert result.returncode == 0, result.stderr
    result = run(job(ssh, squad_command(squad_dir, apart, *flags)))
    assert result.returncode == 0, result.stderr
    assert "2 workers" in result.stderr
    assert losses(apart).tolist() == losses(alone).tolist()
    for name in ("predictions.json", "nbest_predictions.json"):
        assert (apart / name).read_bytes() == (alone / name).read_bytes()


def test_a_host_without_a_file_is_named(ssh, squad_dir, tmp_path):
    command = squad_command(squad_dir, tmp_path / "out", "--use_horovod=true")
    missing = f"--spm_model_file={tmp_path / 'missing.model'}"
    script = '[ "$(hostname)" = albert-host-2 ] && set -- "$@" ' + missing + '; exec "$@"'
    result = run(job(ssh, ["bash", "-c", script, "bash", *command]))
    assert result.returncode == 1
    assert re.search(r"error: rank 1 of 2 on albert-host-2: .*missing.model", result.stderr)


@pytest.mark.parametrize("fault", ["worker killed", "network gone"])
def test_a_lost_host_ends_the_job_and_the_command_resumes(ssh, squad_dir, tmp_path, fault):
    flags = ["--use_horovod=true", "--train_steps=300", "--save_checkpoints_steps=10"]
    command = squad_command(squad_dir, tmp_path, *flags, "--do_predict=False")
    process = subprocess.Popen(job(ssh, command), stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("model.ckpt-*.index")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    if fault == "worker killed":
        os.kill(worker_on("albert-host-2", command), signal.SIGKILL)
    else:
        ip("-n", "albert-host-2", "link", "set", "albert-2", "down")
    started = time.time()
    try:
        process.communicate(timeout=60)
    finally:
        ip("-n", "albert-host-2", "link", "set", "albert-2", "up")
        process.kill()
    assert process.returncode != 0
    assert time.time() - started < 60
    assert not (tmp_path / "model.ckpt-300.index").exists(), "too late to show anything"
    result = run(job(ssh, command))
    assert result.returncode == 0, result.stderr
    assert re.search(r"Training from step [1-9]\d* to 300", result.stderr)


def worker_on(host: str, command: list[str]) -> int:
    """The process of a worker, found in the namespace of its host."""
    pids = subprocess.run(
        ["ip", "netns", "pids", host], capture_output=True, text=True, check=True
    ).stdout.split()
    for pid in pids:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if words[:2] == command[:2]:
            return int(pid)
    raise AssertionError(f"no worker on {host}: {sys.argv}")
