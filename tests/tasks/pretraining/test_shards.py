"""Whole jobs in this process, and jobs whose processes share the work: equal bytes in every way."""

import itertools
import json
import logging
import os
import pathlib
import resource
import shutil
import signal
import socket
import string
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import locks, record
from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.distributed import launcher
from albert.tasks.pretraining import shards
from albert.tasks.pretraining.blocks import DataOptions
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import make_shards, plan_shards
from albert.tokenization import FullTokenizer
from benchmarks.parts import plain_pretraining_data as plain
from tests.helpers.files import contents, limited
from tests.helpers.running import exit_code, fork
from tests.helpers.tiny_runs import write_topics

DUPE_FACTOR = 4


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(shards, "_MOST_BLOCK_BYTES", 4000)


def make(files, outputs, tokenizer, workers=1, one_of_each_file=False, **changes) -> int:
    parts = {"pairs": PairOptions(64, 0.1, False), "masking": MaskingOptions(5, 0.15)}
    options = DataOptions(**{"dupe_factor": DUPE_FACTOR, "random_seed": 1, **parts, **changes})
    plan = plan_shards(list(map(str, files)), list(map(str, outputs)), 4, one_of_each_file)
    return make_shards(plan, tokenizer, options, workers)["records"]


def examples(path) -> list[dict]:
    records = map(tf.train.Example.FromString, tf.io.tf_record_iterator(str(path)))
    return [
        {k: f.int64_list.value or f.float_list.value for k, f in record.features.feature.items()}
        for record in records
    ]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_bytes_are_those_of_version_0_2(tmp_path, small_blocks, workers):
    """The vocabulary and the text do not depend on a library."""
    letters = string.ascii_lowercase
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters]
    pieces += [f"##{letter}" for letter in letters]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    write_topics(tmp_path / "text", 1, 60)
    names = [tmp_path / f"shard-{k}" for k in range(3)]
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"), True, None)
    assert make([tmp_path / "text"], names, tokenizer, workers) == 721
    assert [sha256_of(str(name))[:16] for name in names] == [
        *("95b3446214ab45e5", "e621bbb5622f2402", "893a227c3213120e")
    ]


def test_only_missing_shards_are_made(corpus, tokenizer, tmp_path, small_blocks):
    names = [tmp_path / f"shard-{k}" for k in range(3)]
    total = make([corpus / "dev.txt"], names, tokenizer)
    contents, times = ([name.read_bytes() for name in names], [n.stat().st_mtime_ns for n in names])
    names[1].unlink()
    assert make([corpus / "dev.txt"], names, tokenizer, workers=2) == total
    assert [name.read_bytes() for name in names] == contents
    same = [name.stat().st_mtime_ns == time for name, time in zip(names, times, strict=True)]
    assert same == [True, False, True]


def test_a_shard_of_other_options_or_without_count_is_rebuilt(corpus, tokenizer, tmp_path):
    name, header = tmp_path / "shard", tmp_path / "shard.json"
    total = make([corpus / "dev.txt"], [name], tokenizer)
    before, good = name.read_bytes(), header.read_bytes()
    content = json.loads(good)
    del content["header_sha256"], content["facts"]["in_order"]
    header.write_text(json.dumps(content))
    assert make([corpus / "dev.txt"], [name], tokenizer) == total
    assert header.read_bytes() == good
    for changes in (
        {"random_seed": 2},
        {"dupe_factor": 3},
        {"masking": MaskingOptions(5, 0.1)},
        {"pairs": PairOptions(64, 0.1, True)},
    ):
        make([corpus / "dev.txt"], [name], tokenizer, **changes)
        assert name.read_bytes() != before
        before = name.read_bytes()


def test_a_failed_job_leaves_the_finished_shards(corpus, tokenizer, tmp_path, small_blocks):
    (tmp_path / "text.txt").write_bytes((corpus / "dev.txt").read_bytes() + b"\xff\n")
    names = [tmp_path / f"shard-{k}" for k in range(3)]
    with pytest.raises(UserError):
        make([tmp_path / "text.txt"], names, tokenizer)
    left = sorted(name for name in os.listdir(tmp_path) if "shard" in name)
    assert left == ["shard-0", "shard-0.json", "shard-1", "shard-1.json"]


def test_each_file_can_get_its_own_shard(tokenizer, tmp_path):
    for topic in "ab":
        text = f"{topic}xono {topic}yono\n{topic}zono {topic}xono\n\n" * 50
        (tmp_path / f"{topic}.txt").write_text(text)
    files, names = ([tmp_path / f"{topic}{end}" for topic in "ab"] for end in (".txt", ".made"))
    make(files, names, tokenizer, one_of_each_file=True)
    first, second = (
        {i for e in examples(name) for i in e["masked_lm_ids"] if i > 4} for name in names
    )
    # Apart from punctuation, they only share the tokens of word endings.
    assert first - second and second - first


def test_every_shard_gets_a_part_of_a_small_text(corpus, tokenizer, tmp_path):
    names = [tmp_path / str(k) for k in range(60)]
    total = make([corpus / "dev.txt"], names, tokenizer)
    shards = list(map(examples, names))
    assert all(shards) and total == sum(map(len, shards))
    plan = plan_shards([str(corpus / "dev.txt")], list(map(str, names)), DUPE_FACTOR, False)
    sizes = [sum(span.end - span.start for span in block) for block in plan.blocks]
    assert sum(sizes) == (corpus / "dev.txt").stat().st_size


def test_short_text_and_foreign_files_are_errors(corpus, tokenizer, tmp_path):
    with pytest.raises(UserError, match="too short for 61 output files: .* 60 documents"):
        make([corpus / "dev.txt"], [tmp_path / str(k) for k in range(61)], tokenizer)
    (tmp_path / "text.txt").write_text("axono ayono")
    with pytest.raises(UserError, match="shard: its text has no pair of sentences"):
        make([tmp_path / "text.txt"], [tmp_path / "shard"], tokenizer)
    assert os.listdir(tmp_path) == ["text.txt"]
    (tmp_path / "shard").write_text("mine")
    with pytest.raises(UserError, match="not written by this program"):
        make([corpus / "dev.txt"], [tmp_path / "shard"], tokenizer)
    assert (tmp_path / "shard").read_text() == "mine"


def test_a_single_sentence_is_paired_across_blocks(tokenizer, tmp_path, small_blocks):
    """One block is a document of one sentence; the others are in separate blocks."""
    lines = [f"{topic}xono {topic}yono " * 400 for topic in "abc"]
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    assert len(plan_shards([str(tmp_path / "text.txt")], ["x"], 4, False).blocks) == 3
    plain = MaskingOptions(5, 0.0)
    made = make([tmp_path / "text.txt"], [tmp_path / "shard"], tokenizer, masking=plain)
    assert made == 3 * DUPE_FACTOR
    for example in examples(tmp_path / "shard"):
        assert example["next_sentence_labels"] == [1]
        ids, used = list(example["input_ids"]), sum(example["input_mask"])
        begin = used - sum(example["segment_ids"])
        texts = map(tokenizer.sp_model.decode, (ids[1 : begin - 1], ids[begin : used - 1]))
        # No word has the letter of another topic.
        first, second = (set(text) & set("abc") for text in texts)
        assert len(first) == len(second) == 1 and first != second


def statistics(records: list[dict]) -> dict[str, float]:
    positions = [e["masked_lm_positions"][: int(sum(e["masked_lm_weights"]))] for e in records]
    return {
        "length": np.mean([sum(e["input_mask"]) for e in records]),
        "first segment": np.mean([sum(e["input_mask"]) - sum(e["segment_ids"]) for e in records]),
        "label": np.mean([e["next_sentence_labels"] for e in records]),
        "predictions": np.mean([sum(e["masked_lm_weights"]) for e in records]),
        "word starts": np.mean([sum(e["token_boundary"]) for e in records]),
        "mask tokens": np.mean([list(e["input_ids"]).count(4) for e in records]),
        "neighbours": np.mean(
            [sum(b - a == 1 for a, b in itertools.pairwise(p)) for p in positions]
        ),
        "positions": np.mean([p for e in records for p in e["masked_lm_positions"] if p]),
    }


@pytest.mark.slow
def test_records_match_the_plain_way_statistically(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "MAX_SEQ_LENGTH", 64)
    monkeypatch.setattr(plain, "MAX_PREDICTIONS", 5)
    plain.convert(str(corpus / "train.txt"), str(tmp_path / "plain"), tokenizer, DUPE_FACTOR)
    make([corpus / "train.txt"], [tmp_path / "ours"], tokenizer)
    expected, ours = (examples(tmp_path / name) for name in ("plain", "ours"))
    assert len(expected) > 3000
    assert len(ours) == pytest.approx(len(expected), rel=0.03)
    assert statistics(ours) == pytest.approx(statistics(expected), rel=0.03)


@pytest.fixture
def share(corpus, tokenizer, tmp_path, monkeypatch):
    """Makes four shards of several blocks in a folder, as a worker of a job."""
    monkeypatch.setattr(shards, "_MOST_BLOCK_BYTES", 1000)
    monkeypatch.setattr(shards, "_POLL_SECONDS", 0.02)

    def share(folder, rank=0, size=1, workers=1, text=corpus / "dev.txt", seed=1) -> int:
        monkeypatch.setattr(launcher, "started", launcher.Worker(rank, size))
        names = [tmp_path / folder / f"shard-{k}" for k in range(4)]
        return make([text], names, tokenizer, workers, dupe_factor=2, random_seed=seed)

    return share


@pytest.fixture
def expected(share, tmp_path) -> dict[str, bytes]:
    share("alone")
    return contents(tmp_path / "alone")


def at_first_record(monkeypatch, shard: str, action) -> None:
    """Does something once, when a shard has its first record."""
    due = [shard]

    class Writer(tf.io.TFRecordWriter):
        def __init__(self, path):
            self.path = path
            super().__init__(path)

        def write(self, record):
            super().write(record)
            if due and f".{due[0]}." in self.path:
                due.clear()
                action()

    monkeypatch.setattr(tf.io, "TFRecordWriter", Writer)


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_processes_makes_the_same_bytes(share, expected, tmp_path, workers):
    children = [fork(lambda rank=rank: share("shared", rank, 3, workers)) for rank in (1, 2)]
    records = share("shared", 0, 3, workers)
    assert [exit_code(child) for child in children] == [records % 100] * 2
    assert records == share("alone") and contents(tmp_path / "shared") == expected


@pytest.mark.parametrize("host", ["this", "another"])
def test_the_shard_of_a_killed_process_is_taken_over(share, expected, monkeypatch, tmp_path, host):
    """A process on another host cannot be checked; its lock expires."""
    monkeypatch.setattr(locks, "STALE_SECONDS", 1.0 if host == "another" else 1e6)
    monkeypatch.setattr(locks, "REFRESH_SECONDS", 0.1)
    is_half, written = os.pipe()

    def stop_halfway():
        if host == "another":
            monkeypatch.setattr(socket, "gethostname", lambda: "another-host")
        at_first_record(monkeypatch, "shard-2", lambda: [os.write(written, b"x"), time.sleep(1e3)])
        return share("shared", 1, 2)

    def kill():
        assert len(list((tmp_path / "shared").glob(".shard-2.*"))) == 1
        os.kill(child, signal.SIGKILL)
        exit_code(child)

    child = fork(stop_halfway)
    os.close(written)
    assert os.read(is_half, 1) == b"x"
    # This process meanwhile makes another shard.
    at_first_record(monkeypatch, "shard-1", kill)
    share("shared", 0, 2)
    assert contents(tmp_path / "shared") == expected


def test_a_shard_that_another_process_took_from_a_paused_one_is_made(
    share, expected, monkeypatch, tmp_path
):
    """The unfinished file is gone when this process continues."""

    def take_over():
        (unfinished,) = (tmp_path / "shared").glob(".shard-1.*")
        unfinished.unlink()

    at_first_record(monkeypatch, "shard-1", take_over)
    share("shared")
    assert contents(tmp_path / "shared") == expected


def test_the_other_shards_are_made_if_the_text_of_one_is_wrong(share, corpus, tmp_path, log):
    text = (corpus / "dev.txt").read_bytes()
    half = text.index(b"\n", len(text) // 2)
    (tmp_path / "text").write_bytes(b"\xff" + text[:half] + b"\xff" + text[half:])
    message = r"text, line \d{2,}: .*not UTF-8.* \(2 files were not made\)$"
    with pytest.raises(UserError, match=message):
        share("shared", text=tmp_path / "text")
    warnings = log(logging.WARNING)
    assert len(warnings) == 2 and "text, line 1: " in warnings[0]
    assert all("Continuing with the other files" in warning for warning in warnings)
    made = {f"shard-{k}{end}" for k in (1, 3) for end in ("", ".json")}
    assert contents(tmp_path / "shared").keys() == made


def test_a_process_without_disk_space_leaves_its_shards_to_others(share, expected, tmp_path):
    with limited(resource.RLIMIT_FSIZE, 10_000):
        with pytest.raises(UserError, match=r"shard-3 cannot be written: .*\(4 files were not"):
            share("shared")
        assert not contents(tmp_path / "shared")
        child = fork(lambda: share("shared", 1, 2))
    records = share("shared", 0, 2)
    assert exit_code(child) == records % 100
    assert contents(tmp_path / "shared") == expected


def test_only_the_own_part_is_read_again(share, expected, monkeypatch, tmp_path):
    share("shared")
    read = []
    for name in ("shard-0", "shard-3"):
        (tmp_path / "shared" / name).write_bytes(b"damaged")

    def noted(path):
        read.append(path)
        return sha256_of(path)

    monkeypatch.setattr(record, "sha256_of", noted)
    for rank, own in enumerate([{"shard-0", "shard-1"}, {"shard-2", "shard-3"}]):
        share("shared", rank, 2)
        assert {pathlib.Path(path).name for path in read if "/." not in path} == own
        read.clear()
    assert contents(tmp_path / "shared") == expected


def test_a_removed_shard_and_processes_with_different_flags_are_errors(
    share, monkeypatch, tmp_path
):
    shard = tmp_path / "shared/shard-1"
    at_first_record(monkeypatch, "shard-2", shard.unlink)
    with pytest.raises(UserError, match=f"{shard} was removed meanwhile; run the command again"):
        share("shared")
    shutil.rmtree(tmp_path / "shared")
    share("other", seed=2)

    def finish_another():
        for end in (".json", ""):
            shutil.copy(tmp_path / f"other/shard-3{end}", tmp_path / f"shared/shard-3{end}")

    at_first_record(monkeypatch, "shard-0", finish_another)
    message = r"shard-3 was made by another .* random_seed \(was 2, is 1\); give"
    with pytest.raises(UserError, match=message):
        share("shared")
    assert len(contents(tmp_path / "shared")) == 2 * 4
