"""Feature files: written, reused, made anew with a reason, and never ones of somebody else."""

import errno
import itertools
import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import sentencepiece as spm
import tensorflow.compat.v1 as tf

import squad_utils
import tokenization
from runtime import launcher
from runtime.data import cached_file
from runtime.data.tf_example import serialize
from runtime.errors import UserError
from squad import feature_files
from squad.feature_files import FeatureOptions, SquadFeatures
from squad.features import WindowMaker
from squad_utils import FeatureWriter
from tests.helpers.files import change_header
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.helpers.squad import squad_command

OPTIONS = FeatureOptions(64, 16, 20)
MAKE = """
import sys
from runtime.ending import quieten_tensorflow
from squad.feature_files import FeatureOptions, SquadFeatures
from tokenization import FullTokenizer
quieten_tensorflow()
tokenizer = FullTokenizer(None, True, sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
SquadFeatures(sys.argv[1], [sys.argv[2]], tokenizer, FeatureOptions(64, 16, 20)).made()
"""
# run_squad_v1.py, with features that are replaced as soon as they are prepared.
RUN = """
import os, runpy, shutil, sys
sys.path.insert(0, {root!r})
from squad.feature_files import SquadFeatures
prepare = SquadFeatures.prepared
def replaced(self):
    data = prepare(self)
    if self.name == {what!r}:
        (path,) = data.files
        shutil.copy(path, path + ".new")
        os.replace(path + ".new", path)
    return data
SquadFeatures.prepared = replaced
runpy.run_path({root!r} + "/run_squad_v1.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def tokenizer(squad_dir):
    return tokenization.FullTokenizer(None, True, str(squad_dir / "spm.model"))


@pytest.fixture(scope="module")
def other_tokenizer(squad_dir, tmp_path_factory):
    """One of another vocabulary."""
    prefix = str(tmp_path_factory.mktemp("other") / "letters")
    spm.SentencePieceTrainer.train(
        input=str(squad_dir / "text.txt"),
        model_prefix=prefix,
        model_type="char",
        vocab_size=40,
        hard_vocab_limit=False,
        control_symbols=["[CLS]", "[SEP]"],
        minloglevel=2,
    )
    return tokenization.FullTokenizer(None, True, prefix + ".model")


@pytest.fixture
def log(caplog, monkeypatch):
    """The log lines so far; clears them."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level(logging.INFO, tf.get_logger().name)

    def lines():
        messages = [f"{r.levelname}: {r.getMessage()}" for r in caplog.records]
        caplog.clear()
        return messages

    return lines


class Place:
    """A folder with input, and the feature files of one kind in `out`."""

    def __init__(self, folder, squad_dir, tokenizer, training):
        self.training = training
        self.tokenizer = tokenizer
        self.options = OPTIONS
        self.input = folder / "input.json"
        shutil.copy(squad_dir / "dev-v1.1.json", self.input)
        self.out = folder / "out"
        self.out.mkdir()
        self.records = self.out / "f.tf_record"
        self.header = self.out / "f.tf_record.json"
        self.left = self.out / "left.npz"
        self.spm = squad_dir / "spm.model"
        self.workers = 1

    def source(self):
        """What the files are made of."""
        paths = [str(path) for path in (self.records, self.left)[: 1 if self.training else 2]]
        return SquadFeatures(str(self.input), paths, self.tokenizer, self.options, self.workers)

    def make(self):
        """The feature file, and what is left of the features; None in training."""
        source = self.source()
        file = source.made()
        questions = source.source_of(file)
        return file, None if self.training else questions.features

    def command(self):
        """A program that does the same as `make`, with the log on standard error."""
        return [sys.executable, "-c", MAKE, str(self.input), str(self.records), str(self.spm)]

    def features(self):
        """What `convert_examples_to_features` gives for the same."""
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

    def write_as_the_reference(self):
        """A file of the same features without a header."""
        write_features(self, self.features())

    def listing(self):
        """The content of every file, so that what has changed can be told."""
        return {name: (self.out / name).read_bytes() for name in os.listdir(self.out)}


def write_features(place, features):
    writer = FeatureWriter(str(place.records), place.training)
    for feature in features:
        writer.process_feature(feature)
    writer.close()


@pytest.fixture(params=[True, False], ids=["train", "predict"])
def place(request, tmp_path, squad_dir, tokenizer):
    return Place(tmp_path, squad_dir, tokenizer, request.param)


@pytest.fixture
def training(tmp_path, squad_dir, tokenizer):
    return Place(tmp_path, squad_dir, tokenizer, True)


@pytest.fixture
def prediction(tmp_path, squad_dir, tokenizer):
    return Place(tmp_path, squad_dir, tokenizer, False)


def records_of(path):
    return [tf.train.Example.FromString(r) for r in tf.io.tf_record_iterator(str(path))]


def as_lists(example):
    return {k: list(v.int64_list.value) for k, v in example.features.feature.items()}


def change_byte(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


class TestWritten:
    def test_records_are_the_features(self, place):
        file, _ = place.make()
        features = place.features()
        assert file[:3] == (str(place.records), 12, len(features)) and len(features) > 20
        for record, feature in zip(records_of(place.records), features, strict=True):
            values = {
                "unique_ids": [feature.unique_id],
                "input_ids": feature.input_ids,
                "input_mask": feature.input_mask,
                "segment_ids": feature.segment_ids,
                "p_mask": feature.p_mask,
            }
            if place.training:
                values["start_positions"] = [feature.start_position]
                values["end_positions"] = [feature.end_position]
                values["is_impossible"] = [int(feature.is_impossible)]
            assert as_lists(record) == values

    def test_left_file_has_the_rest(self, prediction):
        _, left = prediction.make()
        for entry, feature in zip(left, prediction.features(), strict=True):
            offset = feature.segment_ids.index(1)
            assert entry[:3] == (feature.unique_id, feature.example_index, offset)
            assert entry.starts.tolist() == feature.tok_start_to_orig_index
            assert entry.ends.tolist() == feature.tok_end_to_orig_index
            best = dict(enumerate(entry.max_context.tolist(), start=offset))
            assert best == feature.token_is_max_context

    def test_left_file_needs_no_pickle(self, prediction):
        prediction.make()
        with np.load(prediction.left, allow_pickle=False) as columns:
            arrays = dict(columns)
        assert {a.dtype.kind for a in arrays.values()} <= {"i", "b"}

    def test_header_says_what_they_were_made_of(self, place):
        place.make()
        header = json.loads(place.header.read_text(encoding="utf-8"))
        source = header["source"]
        assert {k: source[k] for k in OPTIONS._fields} == OPTIONS._asdict()
        assert source["is_training"] == place.training
        assert header["facts"]["num_features"] == len(records_of(place.records))

    def test_features_of_older_rules_are_made_anew(self, place, monkeypatch, log):
        """In training alone: how answers are placed changes nothing of what is predicted."""
        with monkeypatch.context() as patch:
            patch.setattr(feature_files, "_TRAINING_VERSION", None)
            place.make()
        log()
        place.make()
        reason = f"{place.records} is made anew: it was made with rules of version None, now it is"
        assert any(reason in line for line in log()) == place.training

    def test_nothing_else_is_left_behind(self, place):
        place.make()
        names = {"f.tf_record", "f.tf_record.json"} | (set() if place.training else {"left.npz"})
        assert place.listing().keys() == names

    def test_questions_left_out_are_logged_and_counted(self, training, log):
        content = json.loads(training.input.read_text(encoding="utf-8"))
        content["data"][0]["paragraphs"][0]["qas"][1]["answers"] = []
        training.input.write_text(json.dumps(content), encoding="utf-8")
        file, _ = training.make()
        assert file.num_examples == 11
        assert any("1 questions left out: there is no answer" in line for line in log())
        header = json.loads(training.header.read_text(encoding="utf-8"))
        assert header["facts"]["left_out"] == {"there is no answer": 1}

    def test_two_builds_have_the_same_bytes(self, place, monkeypatch):
        place.make()
        first = place.listing()
        shutil.rmtree(place.out)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 86400)
        place.make()
        assert place.listing() == first

    def test_folders_are_made(self, place):
        place.records = place.out / "a" / "b" / "f"
        place.left = place.out / "c" / "left.npz"
        place.make()
        assert place.records.exists() and place.left.exists() != place.training

    def test_empty_paragraph_in_prediction(self, prediction):
        content = json.loads(prediction.input.read_text(encoding="utf-8"))
        content["data"][0]["paragraphs"][0]["context"] = " "
        prediction.input.write_text(json.dumps(content), encoding="utf-8")
        file, left = prediction.make()
        assert file.num_examples == 12
        assert {entry.example_index for entry in left} == set(range(3, 12))


class TestReused:
    def test_log_line_and_nothing_is_done(self, place, log, monkeypatch):
        built = place.make()
        before, times = place.listing(), [f.stat().st_mtime_ns for f in place.out.iterdir()]
        assert not any("Reusing" in line for line in log())
        monkeypatch.setattr(WindowMaker, "windows", None)
        again = place.make()
        assert any(f"INFO: Reusing {place.records}" in line for line in log())
        assert again[0] == built[0]
        assert place.listing() == before
        assert [f.stat().st_mtime_ns for f in place.out.iterdir()] == times
        if not place.training:
            for a, b in zip(built[1], again[1], strict=True):
                assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

    def test_header_of_an_earlier_version(self, place, log):
        """Without a hash of itself."""
        place.make()
        change_header(place.header, "", "", with_hash=False)
        log()
        place.make()
        assert any(f"INFO: Reusing {place.records}" in line for line in log())

    def test_same_input_under_another_name(self, place, log):
        place.make()
        log()
        place.input = place.input.rename(place.input.with_name("renamed.json"))
        place.make()
        assert any("Reusing" in line for line in log())

    def test_moved_together(self, place, log):
        place.make()
        log()
        moved = place.out.with_name("moved")
        place.out.rename(moved)
        place.out, place.records = moved, moved / "f.tf_record"
        place.header, place.left = moved / "f.tf_record.json", moved / "left.npz"
        place.make()
        assert any("Reusing" in line for line in log())


def made_anew(place, log, reason):
    """Asserts that the next run makes the files anew for the reason, and the one after does not."""
    log()
    place.make()
    lines = log()
    assert [line for line in lines if line.startswith(f"INFO: {place.records} is made anew: ")]
    assert any(reason in line for line in lines), lines
    made = place.listing()
    place.make()
    assert any("Reusing" in line for line in log())
    shutil.rmtree(place.out)
    place.make()
    assert place.listing().items() <= made.items()


class TestMadeAnew:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_seq_length", 60),
            ("doc_stride", 8),
            ("max_query_length", 5),
        ],
    )
    def test_another_flag(self, place, log, name, value):
        place.make()
        place.options = OPTIONS._replace(**{name: value})
        made_anew(
            place, log, f"it was made with {name} {getattr(OPTIONS, name)}, now it is {value}"
        )

    def test_another_case(self, place, log):
        place.make()
        place.tokenizer = tokenization.FullTokenizer(None, False, str(place.spm))
        made_anew(place, log, "it was made with do_lower_case True, now it is False")

    def test_another_input(self, place, log):
        place.make()
        content = place.input.read_text(encoding="utf-8")
        place.input.write_text(content.replace("What comes", "What came"), encoding="utf-8")
        made_anew(place, log, "it was made with input_sha256")

    def test_white_space_in_the_input_counts(self, place, log):
        place.make()
        place.input.write_bytes(place.input.read_bytes() + b"\n")
        made_anew(place, log, "it was made with input_sha256")

    def test_another_tokenizer(self, place, log, other_tokenizer):
        place.make()
        place.tokenizer = other_tokenizer
        made_anew(place, log, "it was made with tokenizer_sha256")

    def test_for_the_other_use(self, place, log):
        place.make()
        place.training = not place.training
        made_anew(place, log, f"it was made with is_training {not place.training}")

    @pytest.mark.parametrize("length", [0, 1, 11, 12, 500, -1, "record"])
    def test_truncated_records(self, place, log, length):
        place.make()
        content = place.records.read_bytes()
        if length == "record":  # at the end of the first one
            length = int.from_bytes(content[:8], "little") + 16
        place.records.write_bytes(content[:length])
        made_anew(place, log, f"the content of {place.records} is not what was written")

    @pytest.mark.parametrize("position", [0, 9, 300, -1])
    def test_a_changed_byte(self, place, log, position):
        place.make()
        change_byte(place.records, position)
        made_anew(place, log, f"the content of {place.records} is not what was written")

    def test_missing_records(self, place, log):
        place.make()
        place.records.unlink()
        made_anew(place, log, f"{place.records} is missing")

    def test_missing_left_file(self, prediction, log):
        prediction.make()
        prediction.left.unlink()
        made_anew(prediction, log, f"{prediction.left} is missing")

    def test_a_left_file_of_another_name(self, prediction, log):
        prediction.make()
        prediction.left.unlink()
        prediction.left = prediction.out / "other_left.npz"
        made_anew(prediction, log, f"{prediction.left} is missing")

    @pytest.mark.parametrize("damage", ["empty", "half", "byte", "text", "pickle"])
    def test_damaged_left_file(self, prediction, log, damage):
        prediction.make()
        content = prediction.left.read_bytes()
        changed = {
            "empty": b"",
            "half": content[: len(content) // 2],
            "byte": content[:200] + bytes([content[200] ^ 4]) + content[201:],
            "text": b"text",
            "pickle": pickle.dumps([1, 2]),
        }
        prediction.left.write_bytes(changed[damage])
        made_anew(prediction, log, f"the content of {prediction.left} is not what was written")

    @pytest.mark.parametrize("length", [40, 300, -5])
    @pytest.mark.parametrize("flags", ["other flags", "the same flags"])
    def test_truncated_header(self, place, log, length, flags):
        """What the records were made with is not known any more."""
        place.make()
        place.header.write_bytes(place.header.read_bytes()[:length])
        if flags == "other flags":
            place.options = OPTIONS._replace(doc_stride=8)
        made_anew(place, log, f"its header {place.header} is damaged")

    @pytest.mark.parametrize("key", ["num_examples", "num_features"])
    @pytest.mark.parametrize("with_hash", [True, False])
    def test_header_without_a_number(self, place, log, key, with_hash):
        place.make()
        change_header(place.header, key, key[:-1] + "z", with_hash)
        made_anew(place, log, f"its header {place.header} is damaged")

    def test_header_with_a_changed_digit(self, place, log):
        place.make()
        change_header(place.header, '"num_examples": 12', '"num_examples": 13', with_hash=True)
        made_anew(place, log, f"its header {place.header} is damaged")

    def test_header_of_another_version(self, place, log):
        place.make()
        header = json.loads(place.header.read_text(encoding="utf-8"))
        place.header.write_text(json.dumps({**header, "version": 7}), encoding="utf-8")
        made_anew(place, log, "its header is version 7, this program writes 1")


class TestForeignFile:
    """What holds for both kinds of file without our header."""

    def test_is_used_in_a_folder_that_cannot_be_written(self, place, monkeypatch):
        place.write_as_the_reference()
        monkeypatch.setattr(cached_file, "one_at_a_time", None)
        assert place.make()[0].made_elsewhere

    def test_is_checked_without_a_session(self, place, monkeypatch):
        """On a Gaudi a session before the bridge is loaded ends the process."""
        place.write_as_the_reference()
        monkeypatch.setattr(tf, "Session", None)
        place.make()

    def test_only_the_first_worker_warns(self, place, monkeypatch, log):
        place.write_as_the_reference()
        for rank in (0, 1):
            monkeypatch.setattr(launcher, "started", launcher.Worker(rank, 2))
            place.make()
            assert sum("has no header of ours" in line for line in log()) == (rank == 0)

    @pytest.mark.parametrize("value", [200, 29999, -1])
    def test_ids_of_another_vocabulary(self, place, value):
        assert place.tokenizer.size == 200
        features = place.features()
        features[5].input_ids[3] = value % 2**64
        write_features(place, features)
        refused(place, rf"no file of features.*\(record 5 has {value} in input_ids, .* below 200\)")

    @pytest.mark.parametrize("key", ["start_position", "end_position"])
    def test_answers_beyond_the_end(self, training, key):
        features = training.features()
        setattr(features[0], key, 64)
        write_features(training, features)
        refused(training, rf"\(record 0 has 64 in {key}s, which must be below 64\)")

    def test_replaced_before_it_is_read(self, place):
        place.write_as_the_reference()
        file, _ = place.make()
        place.write_as_the_reference()
        with pytest.raises(UserError, match="f.tf_record was replaced while this job ran"):
            file.snapshot.check()


class TestState:
    """What check_setup.py says is what the job would find."""

    def test_of_ours(self, place):
        assert place.source().state() == "to be made"
        place.make()
        assert place.source().state() == "reused"

    def test_of_a_file_of_the_reference(self, place):
        place.write_as_the_reference()
        before = place.listing()
        assert place.source().state() == "there, without a header of ours"
        assert place.listing() == before

    def test_of_something_else(self, place):
        place.records.write_text("notes")
        with pytest.raises(UserError, match="is no file of features of length 64"):
            place.source().state()

    def test_of_other_questions(self, prediction):
        prediction.write_as_the_reference()
        prediction.options = OPTIONS._replace(doc_stride=17)
        with pytest.raises(UserError, match="holds other features than --predict_file"):
            prediction.source().state()

    def test_a_stray_left_file(self, prediction):
        prediction.left.write_text("notes")
        with pytest.raises(UserError, match="left.npz exists and was not written by this program"):
            prediction.source().state()


def test_left_file_replaced_before_it_is_read(prediction):
    """By a job with other flags, between the check of the files and their use."""
    file, _ = prediction.make()
    first = prediction.source()
    prediction.options = OPTIONS._replace(doc_stride=8)
    prediction.make()
    with pytest.raises(UserError, match="was replaced while this job ran"):
        first.source_of(file)


@pytest.mark.parametrize("what", ["training", "prediction"])
def test_a_run_whose_features_are_replaced(squad_dir, tmp_path, what):
    """By those of another job, after they were found right and before they are read."""
    program = tmp_path / "program.py"
    program.write_text(RUN.format(root=str(ROOT), what=what))
    flags = [] if what == "training" else ["--train_steps=1"]
    command = squad_command(squad_dir, tmp_path / "out", *flags)
    result = run([sys.executable, str(program), *command[2:]])
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert re.search(r"error: \S+ was replaced while this job ran; give each job", result.stderr)


class TestForeignTrainingFile:
    def test_read_with_a_warning(self, training, log):
        training.write_as_the_reference()
        before = training.listing()
        file, _ = training.make()
        assert file[:3] == (str(training.records), 12, len(training.features()))
        # TensorFlow's own come once a process, in whichever test is the first.
        warnings = [line for line in log() if line.startswith("WARNING") and "deprec" not in line]
        assert len(warnings) == 1 and f"{training.records} has no header of ours" in warnings[0]
        assert training.listing() == before

    def test_p_mask_is_not_needed(self, training):
        """Files for SQuAD 1.1 may lack it."""
        fields = {k: [1] * 64 for k in ("input_ids", "input_mask", "segment_ids")}
        fields |= {k: [1] for k in ("unique_ids", "start_positions", "end_positions")}
        fields["is_impossible"] = [0]
        with tf.io.TFRecordWriter(str(training.records)) as writer:
            writer.write(serialize(fields))
        assert training.make()[0].num_features == 1


class TestForeignPredictionFile:
    def test_read_with_a_warning(self, prediction, log):
        _, expected = prediction.make()
        shutil.rmtree(prediction.out)
        prediction.out.mkdir()
        prediction.write_as_the_reference()
        before = prediction.listing()
        log()
        file, left = prediction.make()
        assert file[:3] == (str(prediction.records), 12, len(expected))
        assert sum("has no header of ours" in line for line in log()) == 1
        assert prediction.listing() == before
        for a, b in zip(left, expected, strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

    @pytest.mark.parametrize("difference", ["question", "fewer", "more", "stride"])
    def test_of_other_data(self, prediction, difference):
        prediction.write_as_the_reference()
        content = json.loads(prediction.input.read_text(encoding="utf-8"))
        questions = content["data"][1]["paragraphs"][1]["qas"]
        if difference == "question":
            questions[-1]["question"] = "What came before?"
        elif difference == "fewer":
            questions.pop()
        elif difference == "more":
            questions.append({**questions[0], "id": "one more"})
        else:
            prediction.options = OPTIONS._replace(doc_stride=17)
        prediction.input.write_text(json.dumps(content), encoding="utf-8")
        refused(prediction, "holds other features than --predict_file and the flags give")

    @pytest.mark.parametrize("position", ["first", "last"])
    def test_damaged(self, prediction, position):
        """Some byte of a record is changed; TensorFlow's checksum would tell when it is read."""
        prediction.write_as_the_reference()
        size = prediction.records.stat().st_size
        change_byte(prediction.records, 40 if position == "first" else size - 40)
        refused(prediction, str(prediction.records))

    def test_record_that_cannot_be_parsed(self, prediction):
        prediction.write_as_the_reference()
        records = list(tf.io.tf_record_iterator(str(prediction.records)))
        with tf.io.TFRecordWriter(str(prediction.records)) as writer:
            for record in (*records[:-1], b"\xff" * 30):
                writer.write(record)
        refused(prediction, str(prediction.records))


def refused(place, match):
    """Asserts an error in one line, and that no file changes or appears."""
    before = place.listing()
    with pytest.raises(UserError, match=match) as caught:
        place.make()
    assert len(str(caught.value).splitlines()) == 1
    assert place.listing() == before


def write_wrong_length(place):
    place.options = OPTIONS._replace(max_seq_length=48)
    place.write_as_the_reference()
    place.options = OPTIONS


def write_other_keys(place):
    with tf.io.TFRecordWriter(str(place.records)) as writer:
        writer.write(serialize({"input_ids": [1] * 64, "label_ids": [1]}))


def write_no_examples(place):
    with tf.io.TFRecordWriter(str(place.records)) as writer:
        writer.write(b"no example at all")


def write_truncated(place):
    place.write_as_the_reference()
    place.records.write_bytes(place.records.read_bytes()[:-10])


FOREIGN = {
    "text": lambda place: place.records.write_text("my notes\n" * 20),
    "empty": lambda place: place.records.write_bytes(b""),
    "binary": lambda place: place.records.write_bytes(bytes(range(256)) * 4),
    "length": write_wrong_length,
    "keys": write_other_keys,
    "no example": write_no_examples,
    "truncated": write_truncated,
}


class TestOtherFiles:
    @pytest.mark.parametrize("kind", FOREIGN)
    def test_is_neither_read_nor_replaced(self, place, kind):
        FOREIGN[kind](place)
        refused(place, "is no file of features of length 64; it is neither read nor replaced")

    def test_prediction_records_are_not_for_training(self, training):
        training.training = False
        training.write_as_the_reference()
        training.training = True
        refused(training, "neither read nor replaced")

    def test_a_damaged_training_record(self, training):
        """The content of one record is not what its checksum says."""
        training.write_as_the_reference()
        change_byte(training.records, training.records.stat().st_size - 40)
        refused(training, str(training.records))

    @pytest.mark.parametrize("which", ["records", "left"])
    def test_a_folder(self, prediction, which):
        folder = getattr(prediction, which)
        folder.mkdir()
        with pytest.raises(UserError, match=f"{folder} is not a file"):
            prediction.make()
        assert folder.is_dir() and os.listdir(prediction.out) == [folder.name]

    def test_a_pickle_as_left_file_is_not_loaded(self, prediction):
        prediction.left.write_bytes(pickle.dumps(Trap(prediction.out / "sprung")))
        refused(prediction, f"{prediction.left} exists and was not written by this program")
        pickle.loads(prediction.left.read_bytes())
        assert (prediction.out / "sprung").exists(), "the trap does not work"

    def test_left_file_of_the_reference_beside_its_records(self, prediction):
        prediction.write_as_the_reference()
        prediction.left.write_bytes(pickle.dumps(Trap(prediction.out / "sprung")))
        refused(prediction, f"{prediction.left} exists and was not written by this program")

    def test_left_file_of_another_feature_file(self, prediction):
        prediction.make()
        prediction.records = prediction.out / "second"
        refused(prediction, f"{prediction.left} exists and was not written by this program for")


class Trap:
    """Makes a folder when it is loaded."""

    def __init__(self, path):
        self._path = str(path)

    def __reduce__(self):
        return os.mkdir, (self._path,)


class Broken(Exception):
    pass


def break_after(monkeypatch, number, error):
    """Makes the writing of record `number` fail."""
    write, written = tf.io.TFRecordWriter.write, itertools.count()

    def breaking(self, record):
        if next(written) == number:
            raise error
        write(self, record)

    monkeypatch.setattr(tf.io.TFRecordWriter, "write", breaking)


@pytest.mark.parametrize("old", [True, False], ids=["old file", "no file"])
class TestCrash:
    """An error in the middle leaves the old files, or none, and nothing temporary."""

    @pytest.fixture
    def before(self, place, old):
        """What is there when the building begins."""
        if old:
            place.make()
            place.options = OPTIONS._replace(doc_stride=8)
        return place.listing()

    @pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt()], ids=type)
    def test_error_while_writing(self, place, before, monkeypatch, error):
        break_after(monkeypatch, 7, error)
        with pytest.raises(type(error)):
            place.make()
        assert place.listing() == before

    @pytest.mark.parametrize(
        "error",
        [
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            tf.errors.ResourceExhaustedError(None, None, "f; No space left on device"),
        ],
        ids=["python", "tensorflow"],
    )
    def test_disk_full_while_writing(self, place, before, monkeypatch, error):
        break_after(monkeypatch, 7, error)
        with pytest.raises(UserError, match="cannot be written: .*No space left") as caught:
            place.make()
        assert str(place.records) in str(caught.value)
        assert place.listing() == before

    def test_disk_full_when_the_left_file_is_written(self, place, before, monkeypatch):
        if place.training:
            monkeypatch.setattr(tf.io.TFRecordWriter, "__exit__", full_disk)
        else:
            monkeypatch.setattr(np, "savez", full_disk)
        with pytest.raises(UserError, match="cannot be written: No space left"):
            place.make()
        assert place.listing() == before


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_folder_that_cannot_be_made(place):
    (place.out / "file").write_text("x")
    place.records = place.out / "file" / "f.tf_record"
    refused(place, "cannot be written: ")


def test_missing_input(training):
    training.input.unlink()
    refused(training, "input.json cannot be read: No such file")


class TestProcesses:
    def test_the_bytes_are_the_same_for_any_number_of_workers(self, place, monkeypatch):
        monkeypatch.setattr(SquadFeatures, "chunk", 5)
        listings = []
        for place.workers in (1, 2, 3):
            place.make()
            listings.append(place.listing())
            for path in list(place.out.iterdir()):
                path.unlink()
        assert len(listings[0]) == (2 if place.training else 3)
        assert listings[0] == listings[1] == listings[2]

    def test_workers_are_used(self, training, monkeypatch):
        monkeypatch.setattr(SquadFeatures, "chunk", 3)
        training.workers = 2
        monkeypatch.setattr(WindowMaker, "windows", lambda *args: os._exit(3))
        with pytest.raises(UserError, match="worker process died"):
            training.make()
        assert training.listing() == {}

    def test_two_that_start_together_build_once(self, training):
        """The one waits for the other, and then reads what it has made."""
        content = json.loads(training.input.read_text())
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for i, question in enumerate(list(paragraph["qas"])):
                    copies = [{**question, "id": f"{question['id']}-{i}-{n}"} for n in range(3000)]
                    paragraph["qas"] += copies
        training.input.write_text(json.dumps(content))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes = [
            subprocess.Popen(training.command(), cwd=ROOT, text=True, **pipes) for _ in range(2)
        ]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        logs = [process.communicate("go\n", timeout=60)[1] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], logs
        assert sorted("left out: none" in log for log in logs) == [False, True], logs
        assert sum("Reusing" in log for log in logs) == 1
        assert sorted(os.listdir(training.out)) == ["f.tf_record", "f.tf_record.json"]
