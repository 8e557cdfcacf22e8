"""The reference's batches and models of SQuAD and of classification, as its scripts call them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import classifier_utils, squad_utils
from albert.core import estimators
from albert.devices import ops
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.records.order import shuffled_numbers
from albert.records.sequences import TokenSequence
from albert.records.tf_example import serialize
from albert.reference_api import common, glue
from albert.tasks.classification.records import serialize as serialize_example
from albert.tasks.squad.head import outside_answers
from tests.helpers.files import write_records
from tests.helpers.sessions import batches_of, quick_session
from tests.helpers.squad_head import CONFIG, NUMBERS, SEQUENCES, make_batch

LENGTH = 64


def read(input_fn, key, count=100, **params):
    batches = batches_of(lambda: input_fn(params), count, seed=1)
    return batches, [batch[key].tolist() for batch in batches]


@pytest.fixture
def path(tmp_path):
    """Returns a file of 11 features, whose unique ids are their numbers."""
    mask = [1] * 20 + [0] * (LENGTH - 20)

    def record(number):
        sequences = {"input_ids": [(number + 1) * m for m in mask], "input_mask": mask}
        sequences |= {"segment_ids": [0] * LENGTH, "p_mask": [1 - m for m in mask]}
        values = (number, number + 20, number + 23, number % 2)
        numbers = {key: [value] for key, value in zip(NUMBERS, values, strict=True)}
        return serialize({**sequences, **numbers})

    return write_records(tmp_path / "records", map(record, range(11)))


def squad_batches(path, training, bsz, drop=False, v2=False):
    arguments = (path, LENGTH, training, drop, False, bsz, v2)
    batches, ids = read(squad_utils.input_fn_builder(*arguments), "unique_ids", 3)
    assert all(value.dtype == np.int32 for batch in batches for value in batch.values())
    return batches, ids


def test_squad_features_are_in_file_order(path):
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    got, ids = squad_batches(path, False, 4)
    assert ids == expected and got[0].keys() == {"unique_ids", *SEQUENCES}
    assert squad_batches([path], False, 4, drop=True)[1] == expected[:2]
    got, ids = squad_batches([path, path], False, 10, v2=True)
    assert ids[1:] == [[10, *range(9)], [9, 10]]
    assert got[2]["p_mask"].tolist() == [[0] * 20 + [1] * 44] * 2


def test_squad_training_is_in_a_shuffled_order(path):
    for v2 in (False, True):
        (batch, *_), _ = squad_batches(path, True, 5, drop=True, v2=v2)
        assert batch.keys() == {*NUMBERS, *SEQUENCES, *(["p_mask"] if v2 else [])}
        numbers = batch["unique_ids"]
        assert numbers.tolist() == shuffled_numbers(11, 5, 12345, 0).tolist()
        assert (batch["input_ids"][:, 0] == numbers + 1).all()
        assert (batch["start_positions"] == numbers + 20).all()
        assert (batch["end_positions"] == numbers + 23).all()
        assert (batch["is_impossible"] == numbers % 2).all()


def feature(number, label, length=LENGTH):
    """Returns a feature of 5 tokens and the number; the tenth only fills up a batch."""
    used = 5 + number
    sequences = ([20 + number] * used, [1] * used, [0] * 3 + [1] * (used - 3))
    sequences = (values + [0] * (length - used) for values in sequences)
    return classifier_utils.InputFeatures(*sequences, label, is_real_example=number != 9)


@pytest.fixture
def file_batches(tmp_path):
    def file_batches(labels, training=False, drop=False, task="mrpc", bsz=4, count=100, **more):
        records = []
        for number, label in enumerate(labels):
            sequence = TokenSequence([20 + number] * (5 + number), 3)
            records.append(serialize_example([sequence], label, LENGTH, number != 9))
        path, parts = write_records(tmp_path / "records", records), more.get("multiple", 1)
        arguments = (path, LENGTH // parts, training, drop, task, False, bsz)
        input_fn = classifier_utils.file_based_input_fn_builder(*arguments, **more)
        return read(input_fn, "label_ids", count)

    return file_batches


def in_memory(labels, training=False, drop=False, count=100):
    features = [feature(number, label) for number, label in enumerate(labels)]
    input_fn = classifier_utils.input_fn_builder(features, LENGTH, training, drop)
    return read(input_fn, "label_ids", count, batch_size=4)


def test_labeled_features_are_in_order(file_batches):
    """Features in memory give the same batches as a file."""
    got, labels = file_batches(range(10))
    assert labels == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert {key: value.dtype for key, value in got[0].items()} == dict.fromkeys(got[0], np.int32)
    for number in range(4):
        for key in SEQUENCES:
            assert got[0][key][number].tolist() == getattr(feature(number, number), key)
    assert got[2]["is_real_example"].tolist() == [1, 0]
    for ours, expected in zip(in_memory(range(10))[0], got, strict=True):
        assert {value.dtype for value in ours.values()} == {np.dtype(np.int32)}
        np.testing.assert_equal({**ours, "is_real_example": expected["is_real_example"]}, expected)
    assert file_batches(range(10), drop=True)[1] == in_memory(range(10), drop=True)[1] == labels[:2]
    (batch, *_), _ = file_batches(range(10), multiple=4)
    assert batch["input_ids"].shape == (4, LENGTH), "several sequences in a feature"


def test_labels_of_regression_are_floats_and_features_occur_once_an_epoch(file_batches):
    numbers = [0.5, 1.25, 3.0]
    for (batch,), labels in (file_batches(numbers, task="sts-b"), in_memory(numbers)):
        assert batch["label_ids"].dtype == np.float32 and labels == [numbers]
        assert batch["input_ids"].dtype == np.int32
    _, labels = file_batches(range(20), training=True, bsz=5, count=1)
    assert labels == [shuffled_numbers(20, 5, 12345, 0).tolist()]
    epochs = np.reshape(in_memory(range(8), training=True, count=6)[1], [3, 8]).tolist()
    assert [sorted(epoch) for epoch in epochs] == [list(range(8))] * 3
    assert len(set(map(tuple, epochs))) == 3


def v1_model_fn():
    arguments = (CONFIG, "model", 0.25, 10, 2, False, True, True, None)
    return squad_utils.v1_model_fn_builder(*arguments)


def v2_model_fn():
    arguments = (CONFIG, "model", 0.25, 10, 2, False, True, 32, 3, 4, 0.5, None)
    return squad_utils.v2_model_fn_builder(*arguments)


def test_arguments_reach_the_model(monkeypatch):
    built = []
    monkeypatch.setattr(common, "make_model_fn", lambda *parts: built.append(parts))
    monkeypatch.setattr(glue, "make_head", lambda *parts: parts)
    optimizer = OptimizerOptions(0.25, 10, 2, "adamw")
    expected = ModelOptions(optimizer, "model", use_one_hot_embeddings=True, use_einsum=True)
    for build in (v1_model_fn, v2_model_fn):
        build()
        config, _, options = built.pop()
        assert config is CONFIG and options == expected
    arguments = (CONFIG, 3, "model", 0.25, 10, 2, False, True, "mrpc")
    for name in ("adamw", "lamb"):
        classifier_utils.model_fn_builder(*arguments, optimizer=name)
        optimizer = OptimizerOptions(0.25, 10, 2, name)
        options = ModelOptions(optimizer, "model", use_one_hot_embeddings=True, use_einsum=False)
        assert built.pop() == (CONFIG, (3, 0.1), options)


def tensors():
    return {key: tf.constant(value, tf.int32) for key, value in make_batch(32).items()}


def outputs_of(create, *model_fns):
    """Returns the outputs of models, and those of `create` with equal weights."""
    with tf.Graph().as_default(), quick_session() as session:
        tf.set_random_seed(3)
        features, actual = tensors(), []
        for model_fn in model_fns:
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                actual.append(model_fn(features, None, estimators.ModeKeys.PREDICT, {}).predictions)
        with tf.variable_scope("", reuse=True):
            created = create(features, *(features[key] for key in SEQUENCES))
        session.run(tf.global_variables_initializer())
        return session.run([created, *actual])


def test_models_are_created_with_the_outputs_of_the_model_functions():
    def create_v1(_, *inputs):
        scores = squad_utils.create_v1_model(CONFIG, False, *inputs, True, True, None)
        return dict(zip(("start_log_prob", "end_log_prob"), scores, strict=True))

    scores, predictions = outputs_of(create_v1, v1_model_fn())
    for name, expected in scores.items():
        assert expected.shape == (4, 32) and np.std(expected) > 0.01
        np.testing.assert_allclose(predictions[name], expected, atol=1e-6)

    def create_v2(features, *inputs):
        arguments = (True, {"p_mask": outside_answers(features)}, 32, 3, 4, 0.5, None)
        return squad_utils.create_v2_model(CONFIG, False, *inputs, *arguments)

    outputs, predictions = outputs_of(create_v2, v2_model_fn())
    assert predictions.keys() == {*outputs, "unique_ids"}
    for key, expected in outputs.items():
        np.testing.assert_allclose(predictions[key], expected, atol=1e-6)
    assert outputs["end_top_index"].shape == (4, 3 * 4)


def create_classifier(is_training, labels, num_labels=2):
    features = [feature(number, 0, length=16) for number in range(3)]
    inputs = [tf.constant([getattr(f, key) for f in features]) for key in SEQUENCES]
    labels = None if labels is None else tf.constant(labels)
    arguments = (labels, num_labels, False, "mrpc", None)
    return classifier_utils.create_model(CONFIG, is_training, *inputs, *arguments)


def test_a_classifier_returns_the_references_values_without_labels_no_loss():
    labels = [0, 2, 1]
    with tf.Graph().as_default(), quick_session() as session:
        tf.set_random_seed(5)
        actual = list(create_classifier(False, labels, 3))
        session.run(tf.global_variables_initializer())
        loss, losses, probabilities, logits, predictions = session.run(actual)
    np.testing.assert_allclose(losses, -np.log(probabilities[range(3), labels]), rtol=1e-5)
    assert (logits < 0).any() and predictions.tolist() == logits.argmax(axis=1).tolist()
    assert loss == pytest.approx(losses.mean(), rel=1e-6)
    for is_training, sites in ((False, []), (True, ["classifier"])):
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            loss, losses, *others = create_classifier(is_training, None)
            assert tf.get_collection(ops.SITES) == sites
        assert loss is None and losses is None
        assert [value.shape.as_list() for value in others] == [[3, 2], [3, 2], [3]]


@pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason=f"TensorFlow {tf.__version__} has no TPUEstimator"
)
@pytest.mark.slow
def test_an_estimator_of_the_reference_takes_the_model_fn(tmp_path):
    """Scripts for the reference use `TPUEstimator` even without a TPU."""

    def input_fn(params):
        return tf.data.Dataset.from_tensors(tensors()).repeat()

    arguments = (CONFIG, None, 0.01, 10, 2, False, False, False, None)
    estimator = tf.estimator.tpu.TPUEstimator(
        use_tpu=False,
        model_fn=squad_utils.v1_model_fn_builder(*arguments),
        config=tf.estimator.tpu.RunConfig(model_dir=str(tmp_path)),
        train_batch_size=4,
        predict_batch_size=4,
    )
    estimator.train(input_fn, max_steps=2)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
    first = next(estimator.predict(input_fn))
    assert first.keys() == {"unique_ids", "start_log_prob", "end_log_prob"}
    assert first["start_log_prob"].shape == (32,)
