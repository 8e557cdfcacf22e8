"""Random access to records. Batches are in `test_batches.py`."""

import mmap
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import UserError
from albert.optimization import TrainStep
from albert.records.batches import Data
from albert.records.records import RecordFile, reading_records, sequence_lengths
from albert.records.tf_example import serialize
from albert.settings.run_settings import RunSettings
from albert.training.log_hook import StepMonitor
from albert.training.loop import make_estimator, train
from albert.training.prediction import Predictor
from tests.helpers.files import write_records


def test_lengths_end_at_the_last_real_token(tmp_path):
    """Holes before the last token count, padding behind it does not."""
    rng = np.random.default_rng(3)
    masks = rng.integers(0, 2, (60, 2, 8)) * (np.arange(8) < rng.integers(0, 9, (60, 2, 1)))
    records = [serialize({"input_mask": mask.ravel().tolist()}) for mask in masks]
    files = {"a": records[:25], "b": records[25:]}
    paths = [write_records(tmp_path / name, part) for name, part in files.items()]
    expected = [["".join(map(str, row)).rstrip("0") for row in mask] for mask in masks]
    spec = {"input_mask": tf.io.FixedLenFeature([2, 8], tf.int64)}
    lengths = sequence_lengths(paths, spec)
    assert lengths.tolist() == [list(map(len, rows)) for rows in expected]
    assert lengths.min() == 0 and lengths.max() == 8


class TestRecordFile:
    def test_random_access_gives_what_reading_in_order_gives(self, tmp_path):
        rng = np.random.default_rng(1)
        records = [rng.bytes(length) for length in (5, 0, 1, 300, 70000, 12, 16, *range(2, 30))]
        files = {"a": records[:3], "empty": [], "b": records[3:]}
        paths = [write_records(tmp_path / name, part) for name, part in files.items()]
        file = RecordFile(paths)
        assert len(file) == len(records)
        order = rng.integers(0, len(records), 200)
        assert file.read(order) == [records[i] for i in order]
        assert len(RecordFile([paths[1]])) == len(RecordFile([])) == 0

    def test_a_file_truncated_anywhere_is_an_error(self, tmp_path):
        path = write_records(tmp_path / "f", [b"four", b"", b"a longer one"])
        content = (tmp_path / "f").read_bytes()
        whole = {0: 0, 20: 1, 36: 2, len(content): 3}  # lengths at which a record ends
        for length in range(len(content) + 1):
            (tmp_path / "f").write_bytes(content[:length])
            if length in whole:
                assert len(RecordFile([path])) == whole[length]
            else:
                last = max(n for end, n in whole.items() if end <= length)
                with pytest.raises(UserError, match=f"f ends inside record {last};"):
                    RecordFile([path])
        for content in (b"\xff" * 40, b"plain text, and not a short one" * 9):
            (tmp_path / "f").write_bytes(content)
            with pytest.raises(UserError, match="f ends inside record 0;"):
                RecordFile([path])


def flip(path, position, bit=0):
    """Flips a bit of a file in place; its size and times stay."""
    before = os.stat(path)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        content[position] ^= 1 << bit
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class TestDamage:
    def test_any_byte_changed_before_or_after_opening_is_detected(self, tmp_path):
        """In two files of three records each, of 4, 0 and 9 bytes."""
        paths = [write_records(tmp_path / n, [b"four", b"", b"nine byte"]) for n in "ab"]
        for position in range(61):
            flip(paths[1], position, bit=position % 8)
            number = sum(end <= position for end in (20, 36))
            reason = rf"(: record {number} does not match|ends inside record {number};)"
            with pytest.raises(UserError, match=paths[1] + ".*" + reason):
                RecordFile(paths).read(range(6))
            flip(paths[1], position, bit=position % 8)
        assert len(RecordFile(paths).read(range(6))) == 6
        file = RecordFile(paths)
        assert file.read([4, 5]) == [b"", b"nine byte"]
        flip(paths[1], 36 + 12 + 8)
        assert file.read([2, 4]) == [b"nine byte", b""]
        message = f"^{paths[1]}: record 2 does not match its checksum; make the file again$"
        with pytest.raises(UserError, match=message):
            file.read([0, 5])

    def test_other_errors_of_tensorflow_pass_through(self):
        with pytest.raises(tf.errors.InvalidArgumentError, match="^of a model$"), reading_records():
            raise tf.errors.InvalidArgumentError(None, None, "of a model")


def test_no_thread_tunes_the_pipeline(tmp_path):
    """The end of a session could wait for it: TensorFlow's cancellation may come too early."""
    path = write_records(tmp_path / "f", [serialize({"x": [1]})])
    spec = {"x": tf.io.FixedLenFeature([], tf.int64)}
    batches = Data([path], spec, 0, 0).input_fn(1)().map(lambda x: x)
    assert batches.options().autotune.enabled is False


def test_damage_during_a_run_is_a_one_line_error(tmp_path, capfd):
    """TensorFlow's error becomes the original one again, in training and in prediction."""
    path = write_records(tmp_path / "f", [serialize({"x": [k]}) for k in range(100)])
    spec = {"x": tf.io.FixedLenFeature([], tf.int64)}

    def model_fn(features, labels, mode, params):
        x = tf.cast(features["x"], tf.float32)
        loss = tf.reduce_sum(x)
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1).op
        carrier = estimators.GraphParts(TrainStep(step, loss, loss, loss))
        return estimators.EstimatorSpec(mode, {"x": x}, loss, step, training_hooks=[carrier])

    def input_fn(damage):
        batches = Data([path], spec, 0, 0).input_fn(1)()
        if damage:
            flip(path, os.path.getsize(path) - 5)
        return batches

    monitor = StepMonitor()
    settings = RunSettings(output_dir=str(tmp_path / "out"), save_checkpoints_steps=1000)
    estimator = make_estimator(monitor.watching(model_fn), settings)
    train(estimator, monitor, lambda: input_fn(False), settings, 1)
    message = f"^{path}: record 99 does not match its checksum; make the file again$"
    with pytest.raises(UserError, match=message):
        train(estimator, monitor, lambda: input_fn(True), settings, 101)
    flip(path, os.path.getsize(path) - 5)
    predictor = Predictor(estimator, lambda: input_fn(True), 1, 100)
    with pytest.raises(UserError, match=message):
        predictor.outputs(str(tmp_path / "out" / "model.ckpt-1"))
    # TensorFlow crashes if a process that is forked later collects an open session.
    predictor.close()
    # TensorFlow's core writes past Python.
    assert "Traceback" not in capfd.readouterr().err
