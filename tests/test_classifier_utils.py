"""The reference's functions and processors of classification, as its scripts call them."""

import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import classifier_utils
from encoder_task import ModelOptions, make_model_fn
from glue.features import Feature, serialize
from glue.head import make_head
from modeling import AlbertConfig
from optimization import OptimizerOptions
from runtime import estimators
from runtime.data.sequences import TokenSequence

PROCESSORS = "Mnli MisMnli Mrpc Cola Sst2 Stsb Qqp Qnli Rte Wnli AX".split()  # noqa: SIM905


@pytest.mark.parametrize("name", PROCESSORS)
def test_processors(name):
    processor = getattr(classifier_utils, f"{name}Processor")(use_spm=True, do_lower_case=True)
    for method in ("get_train_examples", "get_dev_examples", "get_test_examples"):
        assert list(inspect.signature(getattr(processor, method)).parameters) == ["data_dir"]
    assert isinstance(processor, classifier_utils.DataProcessor)
    assert isinstance(processor.get_labels(), list)


LENGTH = 64


def feature(number, label):
    used = 5 + number
    ids = [100 + number] * used + [0] * (LENGTH - used)
    mask = [1] * used + [0] * (LENGTH - used)
    segments = [0] * 3 + [1] * (used - 3) + [0] * (LENGTH - used)
    return classifier_utils.InputFeatures(ids, mask, segments, label, is_real_example=number != 9)


def core_feature(number, label):
    sequence = TokenSequence([100 + number] * (5 + number), 3)
    return Feature(sequence, label, is_real_example=number != 9)


@pytest.fixture
def write(tmp_path):
    def write(labels):
        path = str(tmp_path / "records")
        with tf.io.TFRecordWriter(path) as writer:
            for number, label in enumerate(labels):
                writer.write(serialize(core_feature(number, label), LENGTH))
        return path

    return write


def batches(path, training=False, drop=False, task="mrpc", bsz=4, count=100, length=LENGTH, **more):
    arguments = (path, length, training, drop, task, False, bsz)
    input_fn = classifier_utils.file_based_input_fn_builder(*arguments, **more)
    result = []
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.data.make_one_shot_iterator(input_fn({})).get_next()
        try:
            while len(result) < count:
                result.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            pass
    return result


def labels(got):
    return [batch["label_ids"].tolist() for batch in got]


def test_one_pass_in_file_order(write):
    got = batches(write(range(10)))
    assert labels(got) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    first = got[0]
    assert {key: value.dtype for key, value in first.items()} == dict.fromkeys(first, np.int32)
    for number in range(4):
        expected = vars(feature(number, number))
        for key in ("input_ids", "input_mask", "segment_ids"):
            assert first[key][number].tolist() == expected[key]
    assert got[2]["is_real_example"].tolist() == [1, 0]
    assert labels(batches(write(range(10)), drop=True)) == labels(got)[:2]
    assert labels(batches(write(range(10)), pad_remainder=True))[2] == [8, 9, 9, 9]


def test_labels_of_regression_are_floats(write):
    path = write([0.5, 1.25, 3.0])
    for options in ({"task": "sts-b"}, {"task": "tsv", "is_regression": True}):
        (batch,) = batches(path, **options)
        assert batch["label_ids"].dtype == np.float32
        assert batch["label_ids"].tolist() == [0.5, 1.25, 3.0]
        assert batch["input_ids"].dtype == np.int32


def test_training_is_shuffled_and_without_end(write):
    path = write(range(20))
    got = labels(batches(path, training=True, bsz=5, count=8, seed=1))
    epochs = np.array(got).reshape(2, 20)
    assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(20))] * 2
    assert epochs[0].tolist() != epochs[1].tolist() != list(range(20))
    rest = batches(path, training=True, bsz=5, count=3, seed=1, start_batch=5)
    assert labels(rest) == got[5:]
    assert labels(batches(path, training=True, bsz=5, count=8, seed=2)) != got


def test_workers_share_the_batches(write):
    path = write(range(20))
    whole = labels(batches(path, training=True, count=6, seed=1))
    for rank in range(2):
        share = batches(path, training=True, count=3, seed=1, rank=rank, num_workers=2)
        assert labels(share) == whole[rank::2]


def test_padding_is_cut_off(write):
    path = write(range(20))
    whole, cut = batches(path, bsz=5), batches(path, bsz=5, trim_padding=True)
    assert [batch["input_ids"].shape[1] for batch in cut] == [16, 16, 32, 32]
    for a, b in zip(whole, cut, strict=True):
        length = b["input_ids"].shape[1]
        for key in a:
            np.testing.assert_array_equal(
                a[key][:, :length] if a[key].ndim == 2 else a[key], b[key]
            )
        assert not a["input_ids"][:, length:].any()


def test_several_sequences_in_a_feature(write):
    (batch,) = batches(write(range(3)), length=LENGTH // 4, multiple=4)
    assert batch["input_ids"].shape == (3, LENGTH)


def test_no_tpu(write):
    with pytest.raises(ValueError, match="TPU"):
        classifier_utils.file_based_input_fn_builder("x", 8, True, True, "mrpc", True, 2)


class TestInMemory:
    @staticmethod
    def batches(values, training=False, drop=False, count=100, length=LENGTH):
        features = [feature(number, value) for number, value in enumerate(values)]
        input_fn = classifier_utils.input_fn_builder(features, length, training, drop)
        result = []
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            batch = tf.data.make_one_shot_iterator(input_fn({"batch_size": 4})).get_next()
            try:
                while len(result) < count:
                    result.append(session.run(batch))
            except tf.errors.OutOfRangeError:
                pass
        return result

    def test_gives_what_a_file_gives(self, write):
        from_file = batches(write(range(10)))
        for ours, expected in zip(self.batches(range(10)), from_file, strict=True):
            assert ours.keys() == expected.keys() - {"is_real_example"}
            for key, value in ours.items():
                assert value.dtype == np.int32
                np.testing.assert_array_equal(value, expected[key])
        assert labels(self.batches(range(10), drop=True)) == labels(from_file)[:2]

    def test_training_gives_every_feature_once_an_epoch(self):
        got = np.ravel(labels(self.batches(range(8), training=True, count=6)))
        epochs = got.reshape(3, 8)
        assert [sorted(epoch) for epoch in epochs.tolist()] == [list(range(8))] * 3
        assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3

    def test_numbers(self):
        (got,) = self.batches([0.5, 2.0, 5.0])
        assert got["label_ids"].dtype == np.float32
        assert got["label_ids"].tolist() == [0.5, 2.0, 5.0]

    def test_another_length(self):
        with pytest.raises(ValueError, match="reshape"):
            self.batches(range(3), length=LENGTH // 2)


TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
CONFIG = AlbertConfig(
    vocab_size=200,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=LENGTH,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.3,
)
SEQUENCES = ("input_ids", "input_mask", "segment_ids")


def tensors(label_ids=(0, 1, 1)):
    """Three features, with labels."""
    given = {key: tf.constant([getattr(feature(n, 0), key) for n in range(3)]) for key in SEQUENCES}
    return {**given, "label_ids": tf.constant(label_ids)}


def create(is_training, labels, num_labels=2, hub_module=None, **options):
    features = tensors()
    inputs = [features[key] for key in SEQUENCES]
    labels = None if labels is None else tf.constant(labels)
    arguments = (labels, num_labels, False, "mrpc", hub_module)
    return classifier_utils.create_model(CONFIG, is_training, *inputs, *arguments, **options)


def with_fixed_weights(outputs, updates=()):
    """The outputs twice, with all variables from one seed; the updates come between."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        rng = np.random.RandomState(1)
        for variable in sorted(tf.trainable_variables(), key=lambda v: v.name):
            variable.load(0.2 * rng.standard_normal(variable.shape), session)
        first = session.run(outputs)
        session.run(list(updates))
        return first, session.run(outputs)


class TestCreateModel:
    @pytest.mark.parametrize("labels", [[0, 2, 1], [0.5, 2.0, 5.0]], ids=["classes", "numbers"])
    def test_what_it_returns_is_in_the_references_order(self, labels):
        num_labels = 1 if isinstance(labels[0], float) else 3
        with tf.Graph().as_default():
            found = list(create(False, labels, num_labels))
            (loss, losses, probabilities, logits, predictions), _ = with_fixed_weights(found)
        if num_labels == 1:
            assert logits.shape == (3,) and probabilities.shape == (3, 1)
            expected = np.square(logits - labels)
            np.testing.assert_array_equal(predictions, logits)
        else:
            odds = np.exp(logits)
            np.testing.assert_allclose(probabilities, odds / odds.sum(1, keepdims=True), rtol=1e-5)
            expected = -np.log(probabilities[range(3), labels])
            assert predictions.tolist() == logits.argmax(axis=1).tolist()
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert loss == pytest.approx(losses.mean(), rel=1e-6)

    def test_without_labels_there_is_no_loss(self):
        with tf.Graph().as_default():
            loss, losses, *others = create(False, None)
        assert loss is None and losses is None
        assert [value.shape.as_list() for value in others] == [[3, 2], [3, 2], [3]]

    def test_dropout_in_training_only(self):
        def are_alike(is_training, **options):
            with tf.Graph().as_default():
                tf.set_random_seed(5)
                logits = create(is_training, None, **options)[3]
                step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
                return np.array_equal(*with_fixed_weights(logits, [step]))

        assert are_alike(False) and are_alike(True, dropout=0.0)
        assert not are_alike(True)

    def test_no_hub_module(self):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="hub"):
            create(True, None, hub_module="hub")


class TestModelFnBuilder:
    @staticmethod
    def of_the_reference(num_labels=2, use_tpu=False, hub_module=None, **options):
        return classifier_utils.model_fn_builder(
            CONFIG,
            num_labels,
            init_checkpoint=None,
            learning_rate=0.01,
            num_train_steps=10,
            num_warmup_steps=0,
            use_tpu=use_tpu,
            use_one_hot_embeddings=False,
            task_name="mrpc",
            hub_module=hub_module,
            **options,
        )

    @pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
    def test_it_is_the_model_of_the_programs(self, optimizer):
        head = make_head(2, dropout=0.0)
        options = ModelOptions(OptimizerOptions(0.01, 10, optimizer=optimizer))
        of_ours = make_model_fn(CONFIG, head, options)
        of_the_reference = self.of_the_reference(optimizer=optimizer, dropout=0.0)
        losses = []
        for model_fn in (of_ours, of_the_reference):
            with tf.Graph().as_default():
                spec = model_fn(tensors(), None, TRAIN, {})
                losses.append(with_fixed_weights(spec.loss, [spec.train_op]))
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
        assert losses[0][1] != pytest.approx(losses[0][0], rel=1e-4)

    def test_threshold_is_exported(self):
        with tf.Graph().as_default(), tf.Session() as session:
            spec = self.of_the_reference(threshold=0.25)(tensors(), None, PREDICT, {})
            (exported,) = spec.export_outputs.values()
            assert session.run(exported.outputs["threshold"]) == 0.25

    @pytest.mark.parametrize(
        ("argument", "words"), [({"use_tpu": True}, "TPU"), ({"hub_module": "hub"}, "hub")]
    )
    def test_what_is_refused(self, argument, words):
        with pytest.raises(ValueError, match=words):
            self.of_the_reference(**argument)
