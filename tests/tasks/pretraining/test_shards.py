"""Whole jobs, and jobs whose processes make a part each: equal bytes in every way."""

import json
import os
import resource
import string

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.tasks.pretraining import shards
from albert.tasks.pretraining.masking import MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.shards import DataOptions, make_shards, plan_shards
from albert.tasks.pretraining.text import word_beginnings
from albert.tokenization import FullTokenizer
from tests.helpers.files import contents, limited
from tests.helpers.tiny_runs import write_topics

DUPE_FACTOR = 4


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(shards, "_MOST_BLOCK_BYTES", 4000)


def make(
    files, outputs, tokenizer, workers=1, one_of_each_file=False, part=(0, 1), **changes
) -> int:
    parts = {"pairs": PairOptions(64, 0.1, False), "masking": MaskingOptions(5, 0.15)}
    options = DataOptions(**{"dupe_factor": DUPE_FACTOR, "random_seed": 1, **parts, **changes})
    plan = plan_shards(list(map(str, files)), list(map(str, outputs)), 4, one_of_each_file)
    return make_shards(plan, tokenizer, options, workers, part)["records"]


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
    hashes = ["95b3446214ab45e5", "e621bbb5622f2402", "893a227c3213120e"]
    assert [sha256_of(str(name))[:16] for name in names] == hashes


def test_words_begin_at_special_tokens_too(files, tokenizer):
    for example in examples(files["plain"])[:20]:
        ids = np.array(example["input_ids"])
        starts = word_beginnings(tokenizer)[ids] | (ids == tokenizer.cls_id)
        starts = (starts | (ids == tokenizer.sep_id)) & np.array(example["input_mask"], bool)
        assert list(example["token_boundary"]) == starts.tolist()


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


def test_any_number_of_parts_makes_what_is_missing(corpus, tokenizer, tmp_path, small_blocks):
    total = make([corpus / "dev.txt"], [tmp_path / f"alone/{k}" for k in range(4)], tokenizer)
    names = [tmp_path / f"shared/{k}" for k in range(4)]
    counts = [make([corpus / "dev.txt"], names, tokenizer, part=(part, 3)) for part in (2, 0, 1, 0)]
    assert sum(counts[:3]) == total and counts[3] == counts[1]
    times = [name.stat().st_mtime_ns for name in names]
    names[1].unlink()
    assert make([corpus / "dev.txt"], names, tokenizer, workers=2) == total
    same = [name.stat().st_mtime_ns == time for name, time in zip(names, times, strict=True)]
    assert same == [True, False, True, True]
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


def test_a_full_disk_leaves_no_shard(corpus, tokenizer, tmp_path, small_blocks):
    names = [tmp_path / f"shared/{k}" for k in range(4)]
    full = pytest.raises(UserError, match="0 cannot be written: ")
    with full, limited(resource.RLIMIT_FSIZE, 10_000):
        make([corpus / "dev.txt"], names, tokenizer)
    assert not contents(tmp_path / "shared")
