"""Feature files of SQuAD: their content, reasons to rebuild them, and foreign ones.

Whole, damaged and foreign cached files in general are in `tests/data/test_cached_file.py`.
"""

import json
import logging
import os
import shutil
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import squad_utils, tokenization
from albert.core.errors import UserError
from albert.data import cached_file
from albert.data.tf_example import serialize
from albert.distributed import launcher
from albert.squad_utils import FeatureWriter
from albert.tasks.squad import feature_files
from albert.tasks.squad.feature_files import FeatureOptions, SquadFeatures
from albert.tasks.squad.features import WindowMaker, feature_spec
from albert.tasks.squad.questions import QuestionSource
from tests.helpers.files import write_records

OPTIONS = FeatureOptions(64, 16, 20)


class Place:
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
        """Returns the source of the files."""
        paths = [str(path) for path in (self.records, self.left)[: 1 if self.training else 2]]
        source = QuestionSource(str(self.input))
        return SquadFeatures(source, paths, self.tokenizer, self.options, self.workers)

    def make(self):
        """Makes the files; returns the feature file and the remaining features, None in
        training."""
        source = self.source()
        file = source.made()
        questions = source.source_of(file)
        return file, None if self.training else list(questions.features)

    def features(self):
        """Returns what `convert_examples_to_features` makes of the same input."""
        features = []
        squad_utils.convert_examples_to_features(
            squad_utils.read_squad_examples(str(self.input), self.training),
            self.tokenizer,
            *self.options,
            self.training,
            features.append,
            self.tokenizer.do_lower_case,
        )
        return features

    def write(self, features):
        """Writes a file as the reference does, without a header."""
        writer = FeatureWriter(str(self.records), self.training)
        for feature in features:
            writer.process_feature(feature)
        writer.close()
        assert (writer.num_features, writer.is_training) == (len(features), self.training)

    def edit_input(self, edit):
        """Changes the content of the input with a function of its articles."""
        content = json.loads(self.input.read_text(encoding="utf-8"))
        edit(content["data"])
        self.input.write_text(json.dumps(content), encoding="utf-8")

    def listing(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir()}


@pytest.fixture
def training(tmp_path, squad_dir, tokenizer):
    return Place(tmp_path, squad_dir, tokenizer, True)


@pytest.fixture
def prediction(tmp_path, squad_dir, tokenizer):
    return Place(tmp_path, squad_dir, tokenizer, False)


@pytest.fixture(params=["training", "prediction"])
def place(request):
    return request.getfixturevalue(request.param)


def fields(record):
    """Returns the values of a record, read by TensorFlow's own classes."""
    found = tf.train.Example.FromString(record).features.feature
    return {key: list(value.int64_list.value) for key, value in found.items()}


def records_of(place):
    return list(tf.io.tf_record_iterator(str(place.records)))


class TestWritten:
    def test_records_are_the_features(self, place):
        file, _ = place.make()
        features = place.features()
        assert file[:3] == (str(place.records), 12, len(features)) and len(features) > 20
        names = {"f.tf_record", "f.tf_record.json"} | (set() if place.training else {"left.npz"})
        assert place.listing().keys() == names
        records = records_of(place)
        rows = list(map(fields, records))
        for row, feature in zip(rows, features, strict=True):
            keys = ("input_ids", "input_mask", "segment_ids", "p_mask")
            values = {"unique_ids": [feature.unique_id], **{k: getattr(feature, k) for k in keys}}
            if place.training:
                values["start_positions"] = [feature.start_position]
                values["end_positions"] = [feature.end_position]
                values["is_impossible"] = [int(feature.is_impossible)]
            assert row == values
        for with_p_mask in (True, False):
            spec = feature_spec(64, place.training, with_p_mask)
            assert rows[0].keys() - spec.keys() == (set() if with_p_mask else {"p_mask"})
            for key, found in tf.io.parse_example(records, spec).items():
                assert found.shape[1:] == ([64] if len(rows[0][key]) > 1 else [])
                assert np.reshape(found, [len(rows), -1]).tolist() == [row[key] for row in rows]
        place.write(features)
        assert list(map(fields, records_of(place))) == rows

    def test_the_left_file_has_the_rest_and_needs_no_pickle(self, prediction):
        """A paragraph without words has no feature."""
        prediction.edit_input(lambda data: data[0]["paragraphs"][0].update(context=" "))
        file, left = prediction.make()
        assert file.num_examples == 12
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

    def test_skipped_questions_are_logged_and_counted(self, training, log):
        training.edit_input(lambda data: data[0]["paragraphs"][0]["qas"][1].update(answers=[]))
        assert training.make()[0].num_examples == 11
        assert any("skipped 1 questions: there is no answer" in line for line in log())
        facts = json.loads(training.header.read_text(encoding="utf-8"))["facts"]
        assert facts["left_out"] == {"there is no answer": 1}

    def test_the_bytes_depend_only_on_the_input(self, place, monkeypatch):
        """Neither the number of workers nor the date matters."""
        monkeypatch.setattr(SquadFeatures, "chunk", 5)
        now, listings = time.time(), []
        for place.workers in (1, 2, 3):
            monkeypatch.setattr(time, "time", lambda day=place.workers: now + 86400 * day)
            place.make()
            listings.append(place.listing())
            for path in place.out.iterdir():
                path.unlink()
        assert listings[0] == listings[1] == listings[2]
        monkeypatch.setattr(WindowMaker, "windows", lambda *args: os._exit(3))
        with pytest.raises(UserError, match="worker process died"):
            place.make()


class TestMadeAnew:
    @staticmethod
    def check(place, reason):
        assert place.source().state().startswith(f"will be made again: {reason}")

    def test_another_source_causes_a_rebuild(self, place, squad_dir, monkeypatch):
        """In training, older rules do too; how answers are placed does not affect predictions."""
        with monkeypatch.context() as patch:
            patch.setattr(feature_files, "_TRAINING_VERSION", None)
            place.make()
        if place.training:
            self.check(place, "it was made with other values of rules of version (was None, is ")
            place.make()
        place.input = place.input.rename(place.input.with_name("renamed.json"))
        assert place.source().state() == "reused"
        for name, value in {"max_seq_length": 60, "doc_stride": 8, "max_query_length": 5}.items():
            place.options = OPTIONS._replace(**{name: value})
            was = getattr(OPTIONS, name)
            self.check(place, f"it was made with other values of {name} (was {was}, is {value})")
        place.options, tokenizer = OPTIONS, place.tokenizer
        place.tokenizer = tokenization.FullTokenizer(None, False, str(squad_dir / "spm.model"))
        self.check(place, "it was made with other values of do_lower_case (was True, is False)")
        place.tokenizer = tokenization.FullTokenizer(str(squad_dir / "vocab.txt"))
        self.check(place, "it was made with other values of tokenizer_sha256")
        place.tokenizer, place.training = tokenizer, not place.training
        self.check(place, f"it was made with other values of is_training (was {not place.training}")
        place.training = not place.training
        # White space counts as well.
        place.input.write_bytes(place.input.read_bytes() + b"\n")
        self.check(place, "it was made with other values of input_sha256")


def refused(place, match):
    """Asserts a one-line error, and that no file changes or appears."""
    before = place.listing()
    with pytest.raises(UserError, match=match) as caught:
        place.make()
    assert len(str(caught.value).splitlines()) == 1
    assert place.listing() == before


class TestForeign:
    """Files without a header of this program."""

    def test_foreign_files_are_used_and_rank_0_warns(self, place, log, monkeypatch):
        _, expected = place.make()
        place.header.unlink()
        place.left.unlink(missing_ok=True)
        place.write(place.features())
        before = place.listing()
        # The folder may not be writable, and on a Gaudi a session before the bridge is loaded ends
        # the process.
        monkeypatch.setattr(cached_file, "exclusive", None)
        monkeypatch.setattr(tf, "Session", None)
        log()
        for rank in (0, 1):
            monkeypatch.setattr(launcher, "started", launcher.Worker(rank, 2))
            file, left = place.make()
            assert file[:3] == (str(place.records), 12, len(place.features()))
            assert file.is_foreign and place.listing() == before
            warnings = [line.partition(": using")[0] for line in log(logging.WARNING)]
            assert warnings == [f"{place.records} has no header of this program"] * (rank == 0)
            if not place.training:
                for a, b in zip(left, expected, strict=True):
                    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        assert place.source().state() == "exists, not written by this program"

    def test_p_mask_is_not_needed(self, training):
        """Files for SQuAD 1.1 may lack it."""
        fields = {key: [1] * 64 for key in ("input_ids", "input_mask", "segment_ids")}
        numbers = ("unique_ids", "start_positions", "end_positions", "is_impossible")
        write_records(training.records, [serialize({**fields, **{key: [1] for key in numbers}})])
        assert training.make()[0].num_features == 1

    def test_ids_and_positions_out_of_range_are_refused(self, place):
        assert place.tokenizer.size == 200
        for key, value, limit in (
            ("input_ids", 200, 200),
            ("input_ids", -1, 200),
            *((key, 64, 64) for key in ("start_positions", "end_positions") if place.training),
        ):
            features = place.features()
            if key == "input_ids":
                features[5].input_ids[3] = value % 2**64
            else:
                setattr(features[5], key.removesuffix("s"), value)
            place.write(features)
            message = rf"\(record 5 has {value} in {key}, which must be below {limit}\)"
            refused(place, f"not a file of features.*{message}")

    def test_another_programs_files_are_refused(self, place):
        place.options = OPTIONS._replace(max_seq_length=48)
        place.write(place.features())
        message = "is not a file of features of length 64; pass another name or remove it "
        place.options = OPTIONS
        refused(place, message)
        place.write(place.features())
        content, (*records, _) = place.records.read_bytes(), records_of(place)
        # The content of the last one does not match its checksum.
        changed = content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]
        for other in (b"my notes\n" * 20, b"", content[:-10], changed):
            place.records.write_bytes(other)
            refused(place, str(place.records) if other == changed else message)
        for other in (serialize({"input_ids": [1] * 64, "label_ids": [1]}), b"\xff" * 30):
            write_records(place.records, [*records, other])
            refused(place, message)

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
    file, _ = prediction.make()
    first = prediction.source()
    prediction.options = OPTIONS._replace(doc_stride=8)
    prediction.make()
    with pytest.raises(UserError, match="was replaced while this job ran"):
        first.source_of(file)
