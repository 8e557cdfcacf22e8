"""The training graphs of a Gaudi card, built with the real bridge, which needs no card for that.

make test-gaudi        (needs CPython 3.10; runs in a separate environment, .venv-gaudi)
"""

import collections
from unittest import mock

import pytest

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

import tensorflow.compat.v1 as tf  # isort: skip

from albert import modeling
from albert.core import estimators
from albert.devices import device, habana, ops
from albert.devices.device import Device
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.records.sequences import SEQUENCE_KEYS
from albert.settings.run_settings import RunSettings
from albert.tasks.classification.head import make_head
from albert.tasks.squad.features import ANSWER_KEYS
from albert.tasks.squad.head import make_v1_head
from albert.training import model_fn as model_fns
from albert.training.loop import make_estimator
from tests.helpers.forking import ROOT
from tests.helpers.running import run_text

# ALBERT on two tasks, and BERT on the first: the base models with fewer layers and words.
STATIC = ("squad", "mrpc", "bert_squad")
# As with --length_buckets.
IN_BUCKETS = "squad_in_buckets"
BATCH, LENGTH, LAYERS = 8, 384, 3
HPU = "/device:HPU:0"
TRAIN = estimators.ModeKeys.TRAIN
LEGACY = {"Variable", "VariableV2", "Assign", "AssignAdd", "AssignSub"}


def make_model_fn(task: str):
    name = "bert_base_uncased" if task.startswith("bert") else "albert_base_v1"
    config = modeling.read_config(str(ROOT / f"configs/{name}.json"))
    config.num_hidden_layers, config.vocab_size = LAYERS, 1000
    head = make_head(2, 0.1) if task == "mrpc" else make_v1_head(mask_padding_in_loss=True)
    options = ModelOptions(OptimizerOptions(5e-5, 100, 10))
    return model_fns.make_model_fn(config, head, options)


def features_of(task: str) -> dict[str, tf.Tensor]:
    answer = [k for k in ANSWER_KEYS if k != "is_impossible"]
    numbers = ["label_ids"] if task == "mrpc" else answer
    length = None if task == IN_BUCKETS else LENGTH
    shapes = {**{k: [BATCH, length] for k in SEQUENCE_KEYS}, **{k: [BATCH] for k in numbers}}
    return {name: tf.placeholder(tf.int32, shape, name) for name, shape in shapes.items()}


def build(task: str, kind: str, mode: str) -> tf.Graph:
    with (
        mock.patch.object(device, "_device", Device(kind, "for the test")),
        tf.Graph().as_default() as graph,
        tf.device(HPU if kind == "hpu" else None),
    ):
        tf.set_random_seed(1)
        make_model_fn(task)(features=features_of(task), labels=None, mode=mode, params={})
    return graph


@pytest.fixture(scope="module", autouse=True)
def bridge():
    """Loads the bridge's operations; without a driver, loading stops there."""
    assert habana.installed_version() == "1.14.0.493"
    if habana.count_cards():
        habana.load()
    else:
        with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'split'"):
            habana.load_operations()


@pytest.fixture(scope="module", params=(*STATIC, IN_BUCKETS))
def training(request):
    """Returns the task, its training graph on the HPU and the one on the CPU."""
    task = request.param
    return task, build(task, "hpu", TRAIN), build(task, "cpu", TRAIN)


def counts(graph: tf.Graph) -> collections.Counter:
    """Counts each operation, except in what gives variables their initial values."""
    return collections.Counter(
        o.type for o in graph.get_operations() if "/Initializer" not in o.name
    )


def variables(graph: tf.Graph) -> dict[str, tuple]:
    found = graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
    return {v.op.name: (tuple(v.shape.as_list()), v.dtype.base_dtype) for v in found}


def is_static(graph: tf.Graph) -> bool:
    return all(o.shape.is_fully_defined() for op in graph.get_operations() for o in op.outputs)


def needed_by(operation: tf.Operation) -> set[tf.Operation]:
    found, new = {operation}, [operation]
    while new:
        op = new.pop()
        before = {*op.control_inputs, *(tensor.op for tensor in op.inputs)} - found
        found |= before
        new += before
    return found


def test_every_trainable_variable_has_a_gradient(training):
    """The pooler's in SQuAD have none, because no output depends on them."""
    task, graph, _ = training
    trained = {v.op.name for v in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    slots = {name[: -len("/adam_m")] for name in variables(graph) if name.endswith("/adam_m")}
    without = {name for name in trained if "/pooler/" in name} if task != "mrpc" else set()
    assert slots == trained - without
    step = needed_by(graph.get_operation_by_name("train_op"))
    updated = {op.inputs[0].op.name for op in step if op.type == "AssignVariableOp"}
    kinds = ("", "/adam_m", "/adam_v")
    assert updated >= {name + kind for name in slots for kind in kinds}
    assert not updated & without


def test_layers_are_habanas_operations_on_the_hpu(training):
    task, graph, plain = training
    found, is_mrpc = counts(graph), task == "mrpc"
    # After the embeddings, and twice a layer; forward and backward.
    assert found["HabanaLayerNorm"] == found["HabanaLayerNormGrad"] == 1 + 2 * LAYERS
    assert found["HabanaGelu"] == found["HabanaGeluGrad"] == LAYERS
    # The embeddings, and three a layer; the classifier has one more.
    assert found["HabanaDropout"] == found["HabanaDropoutGrad"] == 1 + 3 * LAYERS + is_mrpc
    # Nothing in the model places an operation on another device.
    placed = {o.device for o in graph.get_operations() if o.type.startswith("Habana")}
    assert placed == {HPU}
    # The one tanh that remains is the pooler's.
    assert (found["Tanh"], found["TanhGrad"]) == (1, is_mrpc)
    others = {"Rsqrt", "RsqrtGrad", "SquaredDifference", *LEGACY}
    assert not others & set(found)
    assert not [kind for kind in found if "Random" in kind or "GreaterEqual" in kind]
    of_plain = counts(plain)
    assert of_plain["Rsqrt"] and of_plain["Tanh"] > LAYERS and of_plain["StatelessRandomUniformV2"]
    assert not [kind for kind in of_plain if kind.startswith("Habana")]


def test_both_forms_of_gelu_are_habanas(on_device):
    on_device("hpu")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 8])
        of_tanh, exact = (apply(x).op.get_attr("approximate") for apply in (ops.gelu, ops.gelu_erf))
    assert of_tanh and not exact


def test_shapes_are_static_and_variables_fit_both_devices(training):
    """With buckets, the length is not static. Checkpoints have all variables of a graph."""
    task, graph, plain = training
    assert is_static(graph) == (task != IN_BUCKETS)
    assert variables(graph) == variables(plain)


@pytest.mark.parametrize("task", STATIC)
def test_prediction_is_static_with_habanas_layers(task):
    graph = build(task, "hpu", estimators.ModeKeys.PREDICT)
    found = counts(graph)
    assert found["HabanaLayerNorm"] == 1 + 2 * LAYERS and found["HabanaGelu"] == LAYERS
    assert not found["HabanaDropout"] and not found["Rsqrt"]
    assert is_static(graph)


PREPARATION = """
import sys
from albert import cli
import tensorflow.compat.v1 as tf
from albert.tasks.pretraining.input_pipeline import RecordOptions, check_files
from albert.devices import habana
from albert.core.errors import UserError
from albert.records.records import count_records_of_other_writers
feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2, 3]))
example = tf.train.Example(features=tf.train.Features(feature={"input_ids": feature}))
with tf.io.TFRecordWriter(sys.argv[1]) as writer:
    writer.write(example.SerializeToString())
spec = {"input_ids": tf.io.FixedLenFeature([3], tf.int64)}
assert count_records_of_other_writers(sys.argv[1], spec, 3, "", {"input_ids": 4}) == 1
try:
    check_files([sys.argv[1]], RecordOptions(4, 2, 5))
except UserError as e:
    assert "has 3 values" in str(e)
try:
    habana.load_operations()
except AttributeError as e:
    print("loaded as far as it goes:", e)
"""


def test_the_bridge_loads_after_input_was_checked(tmp_path):
    """A session before the bridge is loaded would end the process."""
    result = run_text(tmp_path, PREPARATION, str(tmp_path / "records"))
    assert result.returncode == 0, result.stderr
    assert habana.count_cards() or "loaded as far as it goes" in result.stdout


def test_the_estimator_is_habanas_and_an_export_is_plain(on_device, tmp_path):
    """The estimator places the input's iterator; the export must be servable on any device."""
    from habana_frameworks.tensorflow import HabanaEstimator

    on_device("hpu")
    model_fn, settings = make_model_fn("squad"), RunSettings(output_dir=str(tmp_path))
    assert isinstance(make_estimator(model_fn, settings), HabanaEstimator)
    with device.as_cpu(), tf.Graph().as_default() as graph:
        mode = estimators.ModeKeys.PREDICT
        model_fn(features=features_of("squad"), labels=None, mode=mode, params={})
        estimator = make_estimator(model_fn, settings)
    assert not [kind for kind in counts(graph) if kind.startswith("Habana")]
    assert type(estimator) is estimators.Estimator
    assert device.is_hpu()
