"""Whole jobs in this process: the same bytes however they are made, and against the plain way."""

from __future__ import annotations

import collections
import itertools
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from benchmarks import plain_pretraining_data as plain
from pretraining import shards
from pretraining.blocks import DataOptions
from pretraining.masking import MaskingOptions
from pretraining.pairs import PairOptions
from pretraining.shards import ShardMaker, plan_shards
from runtime.errors import UserError
from tests.helpers.files import change_header

DUPE_FACTOR = 4


def options(**changes) -> DataOptions:
    values = {
        "dupe_factor": DUPE_FACTOR,
        "random_seed": 1,
        "pairs": PairOptions(64, 0.1, False),
        "masking": MaskingOptions(5, 0.15),
    }
    return DataOptions(**{**values, **changes})


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 4 kB, so that a small text has many."""
    monkeypatch.setattr(shards, "_LEAST_BLOCK_BYTES", 4000)
    monkeypatch.setattr(shards, "_MOST_BLOCK_BYTES", 4000)


def make(files, outputs, tokenizer, workers=1, one_of_each_file=False, **changes) -> int:
    plan = plan_shards(list(map(str, files)), list(map(str, outputs)), 4, one_of_each_file)
    return ShardMaker(tokenizer, options(**changes), workers).make(plan)["records"]


def examples(path) -> list[dict]:
    """The records of a file as lists by key."""
    found = []
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        found.append(
            {k: list(f.int64_list.value or f.float_list.value) for k, f in features.items()}
        )
    return found


def test_the_bytes_do_not_depend_on_the_workers(corpus, tokenizer, tmp_path, small_blocks):
    contents = []
    for workers in (1, 2, 3):
        names = [tmp_path / f"{workers}-{k}" for k in range(3)]
        make([corpus / "train.txt"], names, tokenizer, workers)
        contents.append([name.read_bytes() for name in names])
    assert contents[0] == contents[1] == contents[2]
    assert len(set(contents[0])) == 3


def test_only_missing_shards_are_made(corpus, tokenizer, tmp_path, small_blocks, monkeypatch):
    names = [tmp_path / f"shard-{k}" for k in range(3)]
    total = make([corpus / "train.txt"], names, tokenizer)
    before = [(name.read_bytes(), name.stat().st_mtime_ns) for name in names]
    names[1].unlink()
    made = []
    write = shards._write
    monkeypatch.setattr(
        shards, "_write", lambda path, *rest: made.append(path) or write(path, *rest)
    )
    assert make([corpus / "train.txt"], names, tokenizer, workers=2) == total
    assert [name.read_bytes() for name in names] == [content for content, _ in before]
    assert len(made) == 1
    assert [names[k].stat().st_mtime_ns == before[k][1] for k in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    "changes",
    [
        {"random_seed": 2},
        {"dupe_factor": 3},
        {"masking": MaskingOptions(5, 0.1)},
        {"pairs": PairOptions(64, 0.1, True)},
    ],
)
def test_other_options_make_shards_anew(corpus, tokenizer, tmp_path, changes):
    name = tmp_path / "shard"
    make([corpus / "dev.txt"], [name], tokenizer)
    before = name.read_bytes()
    make([corpus / "dev.txt"], [name], tokenizer, **changes)
    assert name.read_bytes() != before


@pytest.mark.parametrize("with_hash", [True, False])
@pytest.mark.parametrize("key", ["records", "in_order"])
def test_a_shard_whose_header_lacks_a_count_is_made_anew(
    corpus, tokenizer, tmp_path, key, with_hash
):
    name = tmp_path / "shard"
    total = make([corpus / "dev.txt"], [name], tokenizer)
    good = (tmp_path / "shard.json").read_bytes()
    change_header(tmp_path / "shard.json", f'"{key}"', f'"{key}_"', with_hash)
    assert make([corpus / "dev.txt"], [name], tokenizer) == total
    assert (tmp_path / "shard.json").read_bytes() == good


def test_a_failed_job_leaves_the_shards_that_are_ready(corpus, tokenizer, tmp_path, small_blocks):
    """The text goes wrong in the last shard."""
    text = (corpus / "train.txt").read_bytes()
    (tmp_path / "text.txt").write_bytes(text + b"\xff\n")
    names = [tmp_path / f"shard-{k}" for k in range(3)]
    with pytest.raises(UserError, match="not UTF-8"):
        make([tmp_path / "text.txt"], names, tokenizer)
    left = sorted(name for name in os.listdir(tmp_path) if "shard" in name)
    assert left == ["shard-0", "shard-0.json", "shard-1", "shard-1.json"]


def test_a_foreign_file_is_not_replaced(corpus, tokenizer, tmp_path):
    (tmp_path / "shard").write_text("mine")
    with pytest.raises(UserError, match="not written by this program"):
        make([corpus / "dev.txt"], [tmp_path / "shard"], tokenizer)
    assert (tmp_path / "shard").read_text() == "mine"


def test_a_shard_of_each_file(corpus, tokenizer, tmp_path):
    """Each has the topics of its own file's documents."""
    texts = []
    for number, topic in enumerate("ab"):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"{topic}xono {topic}yono\n{topic}zono {topic}xono\n\n" * 50)
        texts.append(path)
    names = [tmp_path / f"{number}.tfrecord" for number in range(2)]
    make(texts, names, tokenizer, one_of_each_file=True)
    first, second = (
        {i for e in examples(name) for i in e["masked_lm_ids"] if i > 4} for name in names
    )
    # Signs apart, they share no token but those of the words' ends.
    assert first - second and second - first


def test_more_files_than_documents(corpus, tokenizer, tmp_path):
    with pytest.raises(UserError, match="too short for 61 output files: .* 60 documents"):
        make([corpus / "dev.txt"], [tmp_path / str(k) for k in range(61)], tokenizer)


@pytest.mark.parametrize("count", [2, 60])
def test_small_text_is_shared_out_as_well(corpus, tokenizer, tmp_path, count):
    """It is less than a block of the usual size; every file gets some and all of it is there."""
    names = [tmp_path / str(k) for k in range(count)]
    assert make([corpus / "dev.txt"], names, tokenizer) == sum(len(examples(n)) for n in names)
    assert all(examples(name) for name in names)
    outputs = list(map(str, names))
    plan = plan_shards([str(corpus / "dev.txt")], outputs, DUPE_FACTOR, False)
    sizes = [sum(span.end - span.start for span in block) for block in plan.blocks]
    assert sum(sizes) == (corpus / "dev.txt").stat().st_size


def test_as_many_shards_as_outputs(corpus):
    files = [str(corpus / "dev.txt")]
    with pytest.raises(ValueError):
        plan_shards(files, ["a", "b"], DUPE_FACTOR, one_of_each_file=True)


def test_a_lonely_document_is_paired_with_another_blocks(tokenizer, tmp_path, small_blocks, corpus):
    """A block that is one document of one sentence; the others are in blocks of their own."""
    lines = [f"{topic}xono {topic}yono " * 400 for topic in "abc"]
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    assert len(plan_shards([str(tmp_path / "text.txt")], ["x"], 4, False).blocks) == 3
    assert make([tmp_path / "text.txt"], [tmp_path / "shard"], tokenizer) == 3 * DUPE_FACTOR
    found = examples(tmp_path / "shard")
    assert all(e["next_sentence_labels"] == [1] for e in found)
    for first, second in (topics(e, tokenizer) for e in found):
        assert len(first) == len(second) == 1 and first != second


def topics(example: dict, tokenizer) -> list[set[str]]:
    """The topics of the two segments: no word has the letter of another topic."""
    ids = np.array(example["input_ids"])
    count = int(sum(example["masked_lm_weights"]))
    ids[example["masked_lm_positions"][:count]] = example["masked_lm_ids"][:count]
    used, second = sum(example["input_mask"]), sum(example["segment_ids"])
    parts = ids[1 : used - second - 1], ids[used - second : used - 1]
    texts = (tokenizer.sp_model.decode(part.tolist()) for part in parts)
    return [set(text) & set("abc") for text in texts]


def test_a_single_sentence_makes_no_record(tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("axono ayono")
    with pytest.raises(UserError, match="shard: no pair of sentences"):
        make([tmp_path / "text.txt"], [tmp_path / "shard"], tokenizer)
    assert os.listdir(tmp_path) == ["text.txt"]


def statistics(found: list[dict]) -> dict[str, float]:
    """Means over examples."""
    first_segment = [sum(e["input_mask"]) - sum(e["segment_ids"]) for e in found]
    runs = collections.Counter()
    for e in found:
        places = e["masked_lm_positions"][: int(sum(e["masked_lm_weights"]))]
        runs["adjacent"] += sum(b - a == 1 for a, b in itertools.pairwise(places))
    return {
        "count": len(found),
        "length": np.mean([sum(e["input_mask"]) for e in found]),
        "first segment": np.mean(first_segment),
        "label": np.mean([e["next_sentence_labels"] for e in found]),
        "predictions": np.mean([sum(e["masked_lm_weights"]) for e in found]),
        "word starts": np.mean([sum(e["token_boundary"]) for e in found]),
        "mask tokens": np.mean([e["input_ids"].count(4) for e in found]),
        "neighbours": runs["adjacent"] / len(found),
        "places": np.mean([p for e in found for p in e["masked_lm_positions"] if p]),
    }


def test_records_are_like_those_of_the_plain_way(corpus, tokenizer, tmp_path, monkeypatch):
    """Two implementations with other random numbers agree in what they do on average."""
    monkeypatch.setattr(plain, "MAX_SEQ_LENGTH", 64)
    monkeypatch.setattr(plain, "MAX_PREDICTIONS", 5)
    plain.convert(str(corpus / "train.txt"), str(tmp_path / "plain"), tokenizer, DUPE_FACTOR)
    make([corpus / "train.txt"], [tmp_path / "ours"], tokenizer)
    expected, found = (statistics(examples(tmp_path / name)) for name in ("plain", "ours"))
    assert expected["count"] > 3000
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=0.03), name
