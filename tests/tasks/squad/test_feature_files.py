"""Feature files of SQuAD; tests/records/test_cached_file.py has cached files in general."""

import json
import logging
import os
import shutil
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.distributed import launcher
from albert.records import cached_file
from albert.records.tf_example import serialize
from albert.squad_utils import FeatureWriter, read_squad_examples
from albert.tasks.squad.feature_files import FeatureOptions, SquadFeatures
from albert.tasks.squad.features import ANSWER_KEYS, WindowMaker, feature_spec
from albert.tasks.squad.questions import QuestionSource
from tests.helpers.files import contents, write_records
from tests.helpers.golden import convert, fields

OPTIONS = FeatureOptions(64, 16, 20)


class Files:
    """A folder with input, and the feature files of one kind in `out`."""

    def __init__(self, folder, squad_dir, tokenizer, training):
        self.training, self.tokenizer, self.options = training, tokenizer, OPTIONS
        self.workers = 1
        self.input, self.out = folder / "input.json", folder / "out"
        shutil.copy(squad_dir / "dev-v1.1.json", self.input)
        self.out.mkdir()
        self.records, self.header = self.out / "f.tf_record", self.out / "f.tf_record.json"
        self.left = self.out / "left.npz"

    def source(self):
        paths = [str(path) for path in (self.records, self.left)[: 1 if self.training else 2]]
        source = QuestionSource(str(self.input))
        return SquadFeatures(source, paths, self.tokenizer, self.options, self.workers)

    def make(self):
        """Makes the files; returns the data and, for prediction, the other features."""
        data = self.source().prepared()
        return data, None if self.training else list(data.source.features)

    def features(self):
        examples = read_squad_examples(str(self.input), self.training)
        return convert(examples, self.tokenizer, self.options, self.training)

    def write(self, features):
        """Writes a file as the reference does, without a header."""
        writer = FeatureWriter(str(self.records), self.training)
        for feature in features:
            writer.process_feature(feature)
        writer.close()
        assert writer.num_features == len(features)

    def edit_input(self, edit):
        content = json.loads(self.input.read_text(encoding="utf-8"))
        edit(content["data"])
        self.input.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def training(tmp_path, squad_dir, tokenizer):
    return Files(tmp_path, squad_dir, tokenizer, True)


@pytest.fixture
def prediction(tmp_path, squad_dir, tokenizer):
    return Files(tmp_path, squad_dir, tokenizer, False)


@pytest.fixture(params=["training", "prediction"])
def files(request):
    return request.getfixturevalue(request.param)


def records_of(files):
    return list(tf.io.tf_record_iterator(str(files.records)))


class TestWritten:
    def test_records_are_the_features(self, files):
        data, _ = files.make()
        features = files.features()
        counts = data.num_examples, data.num_records
        assert data.files == [str(files.records)] and counts == (12, len(features))
        assert len(features) > 20
        names = {"f.tf_record", "f.tf_record.json"} | (set() if files.training else {"left.npz"})
        assert contents(files.out).keys() == names
        records = records_of(files)
        rows = list(map(fields, records))
        for row, feature in zip(rows, features, strict=True):
            keys = ("input_ids", "input_mask", "segment_ids", "p_mask")
            values = {key: getattr(feature, key) for key in keys}
            numbers = {"unique_ids": feature.unique_id}
            if files.training:
                answer = feature.start_position, feature.end_position, int(feature.is_impossible)
                numbers |= dict(zip(ANSWER_KEYS, answer, strict=True))
            assert row == values | {key: [number] for key, number in numbers.items()}
        for with_p_mask in (True, False):
            spec = feature_spec(64, files.training, with_p_mask)
            assert rows[0].keys() - spec.keys() == (set() if with_p_mask else {"p_mask"})
            for key, values in tf.io.parse_example(records, spec).items():
                assert values.shape[1:] == ([64] if len(rows[0][key]) > 1 else [])
                assert np.reshape(values, [len(rows), -1]).tolist() == [row[key] for row in rows]
        files.write(features)
        assert list(map(fields, records_of(files))) == rows

    def test_the_left_file_has_the_rest_and_needs_no_pickle(self, prediction):
        prediction.edit_input(lambda data: data[0]["paragraphs"][0].update(context=" "))
        data, left = prediction.make()
        assert data.num_examples == 12
        assert {entry.example_index for entry in left} == set(range(3, 12))
        for entry, feature in zip(left, prediction.features(), strict=True):
            offset = feature.segment_ids.index(1)
            assert entry[:3] == (feature.unique_id, feature.example_index, offset)
            assert entry.starts.tolist() == feature.tok_start_to_orig_index
            assert entry.ends.tolist() == feature.tok_end_to_orig_index
            best = dict(enumerate(entry.max_context.tolist(), start=offset))
            assert best == feature.token_is_max_context
        with np.load(prediction.left, allow_pickle=False) as columns:
            assert {array.dtype.kind for array in columns.values()} <= {"i", "b"}
            np.savez(prediction.out / "again.npz", **columns)
        assert prediction.left.read_bytes() == (prediction.out / "again.npz").read_bytes()

    def test_the_bytes_depend_only_on_the_input(self, files, monkeypatch):
        """Neither the number of workers nor the date matters."""
        monkeypatch.setattr(SquadFeatures, "chunk", 5)
        now, listings = time.time(), []
        for files.workers in (1, 3):
            monkeypatch.setattr(time, "time", lambda day=files.workers: now + 86400 * day)
            files.make()
            listings.append(contents(files.out))
            for path in files.out.iterdir():
                path.unlink()
        assert listings[0] == listings[1]
        monkeypatch.setattr(WindowMaker, "windows", lambda *args: os._exit(3))
        with pytest.raises(UserError):
            files.make()


def test_another_input_or_use_causes_a_rebuild(files):
    """`tests/test_run_settings.py` has the flags."""
    files.make()
    files.input = files.input.rename(files.input.with_name("renamed.json"))
    assert files.source().state() == "reused"
    files.training = not files.training
    assert "other values of is_training" in files.source().state()
    files.training = not files.training
    # White space counts as well.
    files.input.write_bytes(files.input.read_bytes() + b"\n")
    assert "other values of input_sha256" in files.source().state()


def refused(files, match):
    """Asserts a one-line error, and that no file changes or appears."""
    before = contents(files.out)
    with pytest.raises(UserError, match=match) as caught:
        files.make()
    assert len(str(caught.value).splitlines()) == 1
    assert contents(files.out) == before


class TestForeign:
    def test_foreign_files_are_used_and_rank_0_warns(self, files, log, monkeypatch):
        _, expected = files.make()
        files.header.unlink()
        files.left.unlink(missing_ok=True)
        files.write(files.features())
        before = contents(files.out)
        # The folder may not be writable, and before Gaudi's bridge a session ends the process.
        monkeypatch.setattr(cached_file, "exclusive", None)
        monkeypatch.setattr(tf, "Session", None)
        log()
        for rank in (0, 1):
            monkeypatch.setattr(launcher, "started", launcher.Worker(rank, 2))
            data, left = files.make()
            counts = data.num_examples, data.num_records
            assert data.files == [str(files.records)] and counts == (12, len(files.features()))
            assert contents(files.out) == before
            warnings = [line.partition(": using")[0] for line in log(logging.WARNING)]
            assert warnings == [f"{files.records} has no header of this program"] * (rank == 0)
            if not files.training:
                for a, b in zip(left, expected, strict=True):
                    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        assert files.source().state() == "exists, not written by this program"

    def test_p_mask_is_not_needed(self, training):
        fields = {key: [1] * 64 for key in ("input_ids", "input_mask", "segment_ids")}
        fields |= {key: [1] for key in ("unique_ids", *ANSWER_KEYS)}
        write_records(training.records, [serialize(fields)])
        assert training.make()[0].num_records == 1

    def test_ids_and_positions_out_of_range_are_refused(self, files):
        assert files.tokenizer.size == 200
        for key, value, limit in (
            ("input_ids", 200, 200),
            ("input_ids", -1, 200),
            *((key, 64, 64) for key in ("start_positions", "end_positions") if files.training),
        ):
            features = files.features()
            if key == "input_ids":
                features[5].input_ids[3] = value % 2**64
            else:
                setattr(features[5], key.removesuffix("s"), value)
            files.write(features)
            message = rf"\(record 5 has {value} in {key}, which must be below {limit}\)"
            refused(files, f"not a file of features.*{message}")

    def test_another_programs_files_are_refused(self, files):
        files.options = OPTIONS._replace(max_seq_length=48)
        files.write(files.features())
        message = "is not a file of features of length 64; pass another name or remove it "
        files.options = OPTIONS
        refused(files, message)
        files.write(files.features())
        content, (*records, _) = files.records.read_bytes(), records_of(files)
        # The content of the last one does not match its checksum.
        changed = content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
        for other in (b"my notes\n" * 20, b"", content[:-10], changed):
            files.records.write_bytes(other)
            refused(files, str(files.records) if other == changed else message)
        for other in (serialize({"input_ids": [1] * 64, "label_ids": [1]}), b"\xff" * 30):
            write_records(files.records, [*records, other])
            refused(files, message)

    def test_features_of_other_questions_are_refused(self, prediction):
        prediction.write(prediction.features())
        content = prediction.input.read_bytes()
        message = "has other features than --predict_file and the flags give"
        for edit in (
            lambda questions: questions[-1].update(question="What came before?"),
            lambda questions: questions.pop(),
            lambda questions: questions.append({**questions[0], "id": "one more"}),
        ):
            prediction.edit_input(lambda data, edit=edit: edit(data[1]["paragraphs"][1]["qas"]))
            refused(prediction, message)
            prediction.input.write_bytes(content)
        prediction.options = OPTIONS._replace(doc_stride=17)
        refused(prediction, message)
        with pytest.raises(UserError, match=message):
            prediction.source().state()


def test_a_left_file_replaced_before_it_is_read_is_an_error(prediction):
    """A job with other flags may replace it between the check of the files and their use."""
    data, _ = prediction.make()
    first = prediction.source()
    prediction.options = OPTIONS._replace(doc_stride=8)
    prediction.make()
    with pytest.raises(UserError):
        first.source_of(data.snapshot, False)
