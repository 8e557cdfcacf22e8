"""Shards that several processes make together: equal bytes, kills, failures, and reruns."""

from __future__ import annotations

import logging
import os
import pathlib
import resource
import shutil
import signal
import socket
import time
from collections.abc import Callable

import pytest

from albert.core import locks, record
from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.data import claims
from albert.distributed import launcher
from albert.tasks.pretraining import shards
from albert.tasks.pretraining.blocks import DataOptions
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import ShardMaker, plan_shards
from tests.helpers.files import limited

SHARDS = 4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Sets blocks of 1 kB, so that a shard has several, and short waits."""
    monkeypatch.setattr(shards, "_LEAST_BLOCK_BYTES", 1000)
    monkeypatch.setattr(shards, "_MOST_BLOCK_BYTES", 1000)
    monkeypatch.setattr(claims, "_POLL_SECONDS", 0.02)


@pytest.fixture
def expected(make, tmp_path) -> dict[str, bytes]:
    make("alone")
    return contents(tmp_path / "alone")


@pytest.fixture
def make(corpus, tokenizer, tmp_path):
    """Makes the shards in a folder, as a worker of a job; returns the number of records."""

    def made(folder, rank=0, size=1, workers=1, text=corpus / "dev.txt", seed=1):
        launcher.started = launcher.Worker(rank, size)
        options = DataOptions(2, seed, PairOptions(64, 0.1, False), MaskingOptions(5, 0.15))
        plan = plan_shards([str(text)], names(tmp_path / folder), 2, False)
        return ShardMaker(tokenizer, options, workers).make(plan)["records"]

    before = launcher.started
    yield made
    launcher.started = before


def names(folder: pathlib.Path) -> list[str]:
    return [str(folder / f"shard-{k}") for k in range(SHARDS)]


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def at_second_block(monkeypatch, shard: str, action) -> None:
    write = shards._write

    def interrupted(path, results, bar):
        def noticed():
            for number, result in enumerate(results):
                if number == 1 and f".{shard}." in path:
                    action()
                yield result

        return write(path, noticed(), bar)

    monkeypatch.setattr(shards, "_write", interrupted)


def started(work: Callable[[], int]) -> int:
    """Forks a child; its exit code is the number of records that it counts, modulo 200."""
    child = os.fork()
    if not child:
        try:
            os._exit(work() % 200)
        finally:
            os._exit(201)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_processes_makes_the_same_bytes(make, expected, tmp_path, workers):
    children = [started(lambda rank=rank: make("shared", rank, 3, workers)) for rank in (1, 2)]
    records = make("shared", 0, 3, workers)
    assert [exit_code(child) for child in children] == [records % 200] * 2
    assert records == make("alone") and contents(tmp_path / "shared") == expected


@pytest.mark.parametrize("host", ["this", "another"])
def test_the_shard_of_a_killed_process_is_taken_over(make, expected, monkeypatch, tmp_path, host):
    """A process on another host cannot be checked; its lock expires."""
    monkeypatch.setattr(locks, "STALE_SECONDS", 1.0 if host == "another" else 1e6)
    monkeypatch.setattr(locks, "REFRESH_SECONDS", 0.1)
    is_half, written = os.pipe()

    def stop_halfway():
        if host == "another":
            monkeypatch.setattr(socket, "gethostname", lambda: "another-host")
        at_second_block(monkeypatch, "shard-2", lambda: [os.write(written, b"x"), time.sleep(1e3)])
        return make("shared", 1, 2)

    def kill():
        assert len(list((tmp_path / "shared").glob(".shard-2.*"))) == 1
        os.kill(child, signal.SIGKILL)
        exit_code(child)

    child = started(stop_halfway)
    os.close(written)
    assert os.read(is_half, 1) == b"x"
    # This process meanwhile makes another shard.
    at_second_block(monkeypatch, "shard-1", kill)
    make("shared", 0, 2)
    assert contents(tmp_path / "shared") == expected


def test_a_shard_that_another_process_took_from_a_paused_one_is_made(
    make, expected, monkeypatch, tmp_path
):
    """The unfinished file is gone when this process continues."""

    def take_over():
        monkeypatch.setattr(shards, "_write", write)
        (unfinished,) = (tmp_path / "shared").glob(".shard-1.*")
        unfinished.unlink()

    write = shards._write
    at_second_block(monkeypatch, "shard-1", take_over)
    make("shared")
    assert contents(tmp_path / "shared") == expected


def test_a_shard_that_was_removed_meanwhile_is_an_error(make, monkeypatch, tmp_path):
    shard = tmp_path / "shared/shard-1"
    at_second_block(monkeypatch, "shard-2", shard.unlink)
    with pytest.raises(UserError, match=f"{shard} was removed meanwhile; run the command again"):
        make("shared")


def test_the_other_shards_are_made_if_the_text_of_one_is_wrong(make, corpus, tmp_path, log):
    """Each error is named; the last line has that of the last file."""
    text = (corpus / "dev.txt").read_bytes()
    half = text.index(b"\n", len(text) // 2)
    (tmp_path / "text").write_bytes(b"\xff" + text[:half] + b"\xff" + text[half:])
    message = r"text, line \d{2,}: .*not UTF-8.* \(2 files were not made\)$"
    with pytest.raises(UserError, match=message):
        make("shared", text=tmp_path / "text")
    warnings = log(logging.WARNING)
    assert len(warnings) == 2 and "text, line 1: " in warnings[0]
    assert all("Continuing with the other files" in warning for warning in warnings)
    made = {f"shard-{k}{end}" for k in (1, 3) for end in ("", ".json")}
    assert contents(tmp_path / "shared").keys() == made


def test_a_process_without_disk_space_leaves_its_shards_to_others(make, expected, tmp_path):
    with limited(resource.RLIMIT_FSIZE, 10_000):
        with pytest.raises(UserError, match=r"shard-3 cannot be written: .*\(4 files were not"):
            make("shared")
        assert not contents(tmp_path / "shared")
        child = started(lambda: make("shared", 1, 2))
    records = make("shared", 0, 2)
    assert exit_code(child) == records % 200
    assert contents(tmp_path / "shared") == expected


def test_only_the_own_part_is_read_again(make, expected, monkeypatch, tmp_path):
    make("shared")
    read = []
    for name in ("shard-0", "shard-3"):
        (tmp_path / "shared" / name).write_bytes(b"damaged")

    def noted(path):
        read.append(path)
        return sha256_of(path)

    monkeypatch.setattr(record, "sha256_of", noted)
    for rank, own in enumerate([{"shard-0", "shard-1"}, {"shard-2", "shard-3"}]):
        make("shared", rank, 2)
        assert {pathlib.Path(path).name for path in read if "/." not in path} == own
        read.clear()
    assert contents(tmp_path / "shared") == expected


def test_processes_with_different_flags_are_an_error(make, monkeypatch, tmp_path):
    make("other", seed=2)

    def finish_another():
        for end in (".json", ""):
            shutil.copy(tmp_path / f"other/shard-3{end}", tmp_path / f"shared/shard-3{end}")

    at_second_block(monkeypatch, "shard-0", finish_another)
    message = r"shard-3 was made by another .* random_seed \(was 2, is 1\); give"
    with pytest.raises(UserError, match=message):
        make("shared")
    assert len(contents(tmp_path / "shared")) == 2 * SHARDS
