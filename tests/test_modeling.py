"""The encoder against golden figures, against `transformers`, and against NumPy in float64."""

import math
import os
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from runtime.devices import mask_seeds
from runtime.errors import UserError

SMALL = {
    "vocab_size": 50,
    "embedding_size": 12,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "initializer_range": 0.1,
}
# What the tests of names and checkpoints need is fast to build.
TINY = {**SMALL, "hidden_size": 12, "num_hidden_layers": 1, "intermediate_size": 6}
BLOCK = "bert/encoder/transformer/group_{}/inner_group_0"


def make_config(**changes):
    return modeling.AlbertConfig(**{**SMALL, **changes})


def make_inputs(batch=4, length=15, seed=0):
    """Ids, mask and segments; the masks have holes in the middle, padding, or neither."""
    rng = np.random.default_rng(seed)
    mask = (rng.random([batch, length]) > 0.3).astype("i4")
    mask[0] = 1
    mask[1:, 0] = 1
    mask[2:, length - 4 :] = 0
    ids = rng.integers(0, SMALL["vocab_size"], [batch, length]).astype("i4")
    return ids, mask, rng.integers(0, 2, [batch, length]).astype("i4")


def random_values(variables, seed):
    """Values by name: no bias, beta or gamma is left where a mix-up would not show."""
    rng = np.random.default_rng(seed)
    return {
        v.op.name: (rng.normal(0, 0.1, v.shape.as_list()) + v.op.name.endswith("gamma")).astype(
            "f4"
        )
        for v in variables
    }


def run_model(config, inputs, save_to=None, seed=1, **options):
    """What the model makes of `inputs` with random weights, and those weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        model = modeling.AlbertModel(config, False, *map(tf.constant, inputs), **options)
        variables = tf.trainable_variables()
        values = random_values(variables, seed)
        for variable in variables:
            variable.load(values[variable.op.name], session)
        if save_to:
            saver = tf.train.Saver(variables)
            saver.save(session, save_to, write_meta_graph=False, write_state=False)
        outputs = session.run(
            {
                "words": model.get_word_embedding_output(),
                "embedding": model.get_embedding_output(),
                "layers": model.get_all_encoder_layers(),
                "sequence": model.get_sequence_output(),
                "pooled": model.get_pooled_output(),
                "table": model.get_embedding_table(),
            }
        )
    return types.SimpleNamespace(values=values, **outputs)


# An ALBERT in float64.


def numpy_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


NUMPY_ACTIVATIONS = {
    "gelu": numpy_gelu,
    "gelu_erf": np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


def numpy_layer_norm(x, w, scope):
    centered = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
    return centered / scale * w[f"{scope}/gamma"] + w[f"{scope}/beta"]


def numpy_dense(x, w, scope):
    return x @ w[f"{scope}/kernel"] + w[f"{scope}/bias"]


def numpy_softmax(x):
    exps = np.exp(x - x.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True)


def numpy_attention(x, mask, w, scope, heads):
    batch, length, width = x.shape
    query, key, value = (
        numpy_dense(x, w, f"{scope}/{name}").reshape(batch, length, heads, width // heads)
        for name in ("query", "key", "value")
    )
    scores = np.einsum("bqnd,bknd->bnqk", query, key) / np.sqrt(width // heads)
    weights = numpy_softmax(np.where(mask[:, None, None, :] == 1, scores, -np.inf))
    return np.einsum("bnqk,bknd->bqnd", weights, value).reshape(x.shape)


def numpy_block(x, mask, w, scope, config):
    context = numpy_attention(x, mask, w, f"{scope}/attention_1/self", config.num_attention_heads)
    attention = numpy_dense(context, w, f"{scope}/attention_1/output/dense")
    x = numpy_layer_norm(x + attention, w, f"{scope}/LayerNorm")
    wide = numpy_dense(x, w, f"{scope}/ffn_1/intermediate/dense")
    wide = NUMPY_ACTIVATIONS[config.hidden_act](wide)
    output = numpy_dense(wide, w, f"{scope}/ffn_1/intermediate/output/dense")
    return numpy_layer_norm(x + output, w, f"{scope}/LayerNorm_1")


def numpy_encode(config, values, ids, mask, segments):
    """The embedding output, the states after every block, and the pooled output."""
    w = {name: value.astype("f8") for name, value in values.items()}
    total = w["bert/embeddings/word_embeddings"][ids]
    # Segments that the table has no row for add nothing, as with the reference's one-hot product.
    types = w["bert/embeddings/token_type_embeddings"]
    total = total + np.concatenate([types, np.zeros_like(types)])[segments]
    total = total + w["bert/embeddings/position_embeddings"][: ids.shape[1]]
    embedding = state = numpy_layer_norm(total, w, "bert/embeddings/LayerNorm")
    if config.embedding_size != config.hidden_size:
        state = numpy_dense(state, w, "bert/encoder/embedding_hidden_mapping_in")
    layers = []
    for layer in range(config.num_hidden_layers):
        group = layer // (config.num_hidden_layers // config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            scope = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
            state = numpy_block(state, mask, w, scope, config)
            layers.append(state)
    return embedding, layers, np.tanh(numpy_dense(state[:, 0], w, "bert/pooler/dense"))


def assert_close(actual, expected, atol):
    np.testing.assert_allclose(np.asarray(actual, "f8"), expected, rtol=0, atol=atol)


# Golden figures.


@pytest.fixture(scope="module")
def golden(shared):
    """The golden inputs and figures, the product's outputs, and a reader of the checkpoint."""
    folder = shared / "golden" / "albert_tiny"
    figures = np.load(folder / "encoder.npz")
    config = modeling.AlbertConfig.from_json_file(str(folder / "albert_config.json"))
    inputs = [figures[name] for name in ("input_ids", "input_mask", "segment_ids")]
    with tf.Graph().as_default(), tf.Session() as session:
        model = modeling.AlbertModel(config, False, *map(tf.constant, inputs))
        variables = tf.trainable_variables()
        summary = modeling.initialize_from_checkpoint(variables, str(folder))
        session.run(tf.global_variables_initializer())
        embedding, sequence, pooled = session.run(
            [model.get_embedding_output(), model.get_sequence_output(), model.get_pooled_output()]
        )
    return types.SimpleNamespace(
        figures=figures,
        embedding=embedding,
        sequence=sequence,
        pooled=pooled,
        summary=summary,
        shapes={v.op.name: v.shape.as_list() for v in variables},
        reader=tf.train.load_checkpoint(str(folder / "model.ckpt-best")),
    )


@pytest.mark.parametrize("output", ["embedding", "sequence"])
@pytest.mark.each_python
def test_golden_outputs_of_real_tokens(golden, output):
    real = golden.figures["input_mask"] == 1
    assert_close(getattr(golden, output)[real], golden.figures[f"{output}_output"][real], 1e-5)


@pytest.mark.each_python
def test_golden_pooled_output(golden):
    assert_close(golden.pooled, golden.figures["pooled_output"], 1e-5)


@pytest.mark.each_python
def test_golden_masked_lm_loss(golden):
    """The head, in float64, on the product's sequence output."""
    figures, scope = golden.figures, "cls/predictions/transform"
    w = {
        name: golden.reader.get_tensor(name).astype("f8")
        for name in golden.reader.get_variable_to_shape_map()
    }
    rows = np.arange(len(golden.sequence))[:, None]
    states = golden.sequence.astype("f8")[rows, figures["masked_lm_positions"]]
    hidden = numpy_gelu(numpy_dense(states, w, f"{scope}/dense"))
    hidden = numpy_layer_norm(hidden, w, f"{scope}/LayerNorm")
    logits = hidden @ w["bert/embeddings/word_embeddings"].T + w["cls/predictions/output_bias"]
    places = np.arange(figures["masked_lm_ids"].shape[1])
    losses = -np.log(numpy_softmax(logits))[rows, places, figures["masked_lm_ids"]]
    weights = figures["masked_lm_weights"].astype("f8")
    loss = (weights * losses).sum() / (weights.sum() + 1e-5)
    assert_close(loss, figures["masked_lm_loss"], 1e-5)


@pytest.mark.each_python
def test_golden_sentence_order_loss(golden):
    """The head, in float64, on the product's pooled output."""
    read = golden.reader.get_tensor
    weights = read("cls/seq_relationship/output_weights").astype("f8")
    logits = golden.pooled.astype("f8") @ weights.T + read("cls/seq_relationship/output_bias")
    labels = golden.figures["next_sentence_labels"]
    losses = -np.log(numpy_softmax(logits))[np.arange(len(labels)), labels]
    assert_close(losses.mean(), golden.figures["sentence_order_loss"], 1e-5)


@pytest.mark.each_python
def test_variables_are_those_of_the_golden_checkpoint(golden):
    """Names, with the default scope "bert", and shapes."""
    stored = golden.reader.get_variable_to_shape_map()
    assert golden.shapes == {n: s for n, s in stored.items() if n.startswith("bert/")}


@pytest.mark.each_python
def test_golden_summary(golden):
    summary = golden.summary
    assert sorted(summary.taken) == sorted(golden.shapes)
    assert summary.new == []
    stored = golden.reader.get_variable_to_shape_map()
    assert summary.unused == sorted(n for n in stored if n.startswith("cls/"))
    assert os.path.basename(summary.checkpoint) == "model.ckpt-best"


# Other implementations.


def transformers_outputs(config, checkpoint, inputs):
    """The states after every layer and the pooled output, from PyTorch."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    albert = pytest.importorskip("transformers.models.albert.modeling_albert")
    values = {**config.to_dict(), "hidden_act": "gelu_new"}
    theirs = transformers.AlbertModel(transformers.AlbertConfig(**values)).eval()
    albert.load_tf_weights_in_albert(theirs, theirs.config, checkpoint)
    ids, mask, segments = (torch.from_numpy(array).long() for array in inputs)
    with torch.no_grad():
        outputs = theirs(ids, mask, segments, output_hidden_states=True)
    return [s.numpy() for s in outputs.hidden_states[1:]], outputs.pooler_output.numpy()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_hidden_layers": 4, "num_hidden_groups": 2},
        {"num_hidden_groups": 3, "num_attention_heads": 1, "embedding_size": 30},
        {"num_hidden_layers": 2, "num_attention_heads": 12, "intermediate_size": 10},
    ],
    ids=["1 group", "2 groups of 4 layers", "a group a layer, E > H", "12 heads"],
)
@pytest.mark.parametrize("remove_padding", [False, True], ids=["padded", "without padding"])
def test_equals_transformers(changes, remove_padding, tmp_path):
    config, inputs = make_config(**changes), make_inputs()
    ours = run_model(
        config, inputs, save_to=str(tmp_path / "model.ckpt"), remove_padding=remove_padding
    )
    layers, pooled = transformers_outputs(config, str(tmp_path / "model.ckpt"), inputs)
    assert len(ours.layers) == len(layers) == config.num_hidden_layers
    counted = inputs[1][..., np.newaxis] if remove_padding else 1
    assert_close(ours.layers, [layer * counted for layer in layers], 1e-4)
    assert_close(ours.pooled, pooled, 1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"inner_group_num": 2, "hidden_act": "relu"},
        {"inner_group_num": 2, "hidden_act": "tanh"},
        {"num_hidden_layers": 4, "num_hidden_groups": 2, "embedding_size": 24},
        {"hidden_act": "linear"},
    ],
    ids=["inner groups, relu", "inner groups, tanh", "E = H", "linear"],
)
def test_equals_numpy_in_float64(changes):
    config, inputs = make_config(**changes), make_inputs(seed=3)
    ours = run_model(config, inputs)
    embedding, layers, pooled = numpy_encode(config, ours.values, *inputs)
    assert len(ours.layers) == config.num_hidden_layers * config.inner_group_num
    assert_close(ours.embedding, embedding, 1e-4)
    assert_close(ours.layers, layers, 1e-4)
    assert_close(ours.pooled, pooled, 1e-4)
    np.testing.assert_array_equal(ours.sequence, ours.layers[-1])
    np.testing.assert_array_equal(ours.table, ours.values["bert/embeddings/word_embeddings"])
    np.testing.assert_array_equal(ours.words, ours.table[inputs[0]])


# Options and shapes.


@pytest.mark.parametrize("option", ["use_one_hot_embeddings", "use_einsum"])
def test_option_changes_no_result(option):
    on, off = (run_model(make_config(), make_inputs(), **{option: b}) for b in (True, False))
    assert_close(on.embedding, off.embedding, 1e-6)
    assert_close(on.layers, off.layers, 1e-5)
    assert_close(on.pooled, off.pooled, 1e-5)


@pytest.mark.parametrize(
    "option, op", [("use_one_hot_embeddings", "OneHot"), ("use_einsum", "Einsum")]
)
def test_option_decides_which_op_is_used(option, op):
    counts = []
    for value in (True, False):
        options = {"use_one_hot_embeddings": False, "use_einsum": False, option: value}
        with tf.Graph().as_default() as graph:
            ids = tf.zeros([2, 5], tf.int32)
            modeling.AlbertModel(modeling.AlbertConfig(**TINY), False, ids, **options)
            counts.append(sum(node.type == op for node in graph.get_operations()))
    assert counts[0] > 0
    assert counts[1] == 0


def test_a_single_row_of_segments_adds_nothing_to_segment_1():
    config, inputs = make_config(type_vocab_size=1), make_inputs()
    assert set(inputs[2].ravel()) == {0, 1}
    ours = run_model(config, inputs)
    assert_close(ours.embedding, numpy_encode(config, ours.values, *inputs)[0], 1e-4)


def test_without_mask_and_segments_all_is_attended_to_and_of_segment_0():
    ids = make_inputs()[0]
    ones, zeros = np.ones_like(ids), np.zeros_like(ids)
    left_out, given = (run_model(make_config(), i) for i in ([ids], [ids, ones, zeros]))
    np.testing.assert_array_equal(left_out.layers, given.layers)
    np.testing.assert_array_equal(left_out.pooled, given.pooled)


def test_unknown_batch_size_and_length_give_the_same_result():
    config, inputs = make_config(), make_inputs()
    expected = run_model(config, inputs)
    with tf.Graph().as_default(), tf.Session() as session:
        holders = [tf.placeholder(tf.int32, [None, None]) for _ in inputs]
        model = modeling.AlbertModel(config, False, *holders)
        for variable in tf.trainable_variables():
            variable.load(expected.values[variable.op.name], session)
        output = session.run(model.get_sequence_output(), dict(zip(holders, inputs, strict=True)))
    assert model.get_pooled_output().shape.as_list() == [None, config.hidden_size]
    # Other kernels for other shapes: a few units in the last place of values up to 3.
    assert_close(output, expected.sequence, 5e-6)


def test_longest_sequence_is_accepted_and_a_longer_one_is_an_error():
    config = modeling.AlbertConfig(**TINY)
    with tf.Graph().as_default():
        model = modeling.AlbertModel(config, False, tf.zeros([2, 20], tf.int32))
        assert model.get_sequence_output().shape.as_list() == [2, 20, 12]
        with pytest.raises(UserError, match="21.*max_position_embeddings 20"):
            modeling.AlbertModel(config, False, tf.zeros([2, 21], tf.int32))


def test_impossible_configuration_is_an_error_when_the_model_is_built():
    with tf.Graph().as_default(), pytest.raises(UserError, match="hidden_size 25"):
        modeling.AlbertModel(make_config(hidden_size=25), False, tf.zeros([2, 5], tf.int32))


def test_scope_renames_all_variables():
    with tf.Graph().as_default():
        config = modeling.AlbertConfig(**TINY)
        modeling.AlbertModel(config, False, tf.zeros([2, 5], tf.int32), scope="other")
        names = [v.op.name for v in tf.global_variables()]
    assert "other/embeddings/word_embeddings" in names
    assert all(name.startswith("other/") for name in names)


def test_every_variable_has_a_gradient():
    config = make_config(num_hidden_layers=2, num_hidden_groups=2, inner_group_num=2)
    with tf.Graph().as_default():
        model = modeling.AlbertModel(config, True, tf.zeros([2, 5], tf.int32))
        outputs = [model.get_sequence_output(), model.get_pooled_output()]
        variables = tf.trainable_variables()
        gradients = tf.gradients(outputs, variables)
    assert [v.op.name for v, g in zip(variables, gradients, strict=True) if g is None] == []


# Dropout.


def draw_masks(seed, steps, rate=0.3, shape=(200, 200)):
    """What dropout makes of ones at two places of a graph, a pair for every global step."""
    with tf.Graph().as_default(), tf.Session() as session:
        if seed is not None:
            tf.set_random_seed(seed)
        step = tf.train.get_or_create_global_step()
        places = [modeling.dropout(tf.ones(shape), rate) for _ in range(2)]
        results = []
        for number in steps:
            step.load(number, session)
            results.append(session.run(places))
    return results


def test_dropout_rate_and_scale():
    mask = draw_masks(seed=1, steps=[0])[0][0]
    kept = mask != 0
    # 40,000 draws: the standard deviation of the share is 0.0023.
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(mask[kept], 1 / 0.7, rtol=1e-6)


@pytest.mark.parametrize("rate", [0, 0.0, None])
def test_no_dropout_is_the_same_tensor(rate):
    with tf.Graph().as_default():
        x = tf.ones([3])
        assert modeling.dropout(x, rate) is x


def test_dropout_mask_is_a_function_of_seed_step_and_place():
    (at_5, elsewhere), (at_6, _), (again_at_5, _) = draw_masks(seed=1, steps=[5, 6, 5])
    ((other_graph, _),) = draw_masks(seed=1, steps=[5])
    ((other_seed, _),) = draw_masks(seed=2, steps=[5])
    np.testing.assert_array_equal(at_5, again_at_5)
    np.testing.assert_array_equal(at_5, other_graph)
    for other in (at_6, elsewhere, other_seed):
        # Masks that are independent agree where both keep or both drop: 0.58 of the places.
        assert abs(((at_5 != 0) == (other != 0)).mean() - 0.58) < 0.02


def test_dropout_without_a_seed_differs_between_draws_at_one_step():
    (first, _), (second, _) = draw_masks(seed=None, steps=[0, 0])
    assert (first != second).any()


def train_outputs(is_training, steps, **rates):
    """The sequence outputs, at some global steps, of a seeded model with dropout."""
    config = make_config(num_hidden_layers=1, **rates)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(5)
        step = tf.train.get_or_create_global_step()
        model = modeling.AlbertModel(config, is_training, tf.constant(make_inputs()[0]))
        variables = tf.trainable_variables()
        values = random_values(variables, seed=1)
        for variable in variables:
            variable.load(values[variable.op.name], session)
        outputs = []
        for number in steps:
            step.load(number, session)
            outputs.append(session.run(model.get_sequence_output()))
    return outputs


@pytest.mark.parametrize("kind", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_model_drops_out_in_training_only(kind):
    dropped, later = train_outputs(True, [3, 4], **{kind: 0.5})
    (again,) = train_outputs(True, [3], **{kind: 0.5})
    (plain,) = train_outputs(True, [3])
    (predicted,) = train_outputs(False, [3], **{kind: 0.5})
    np.testing.assert_array_equal(dropped, again)
    assert np.abs(dropped - plain).max() > 0.1
    assert np.abs(dropped - later).max() > 0.1
    np.testing.assert_array_equal(predicted, plain)


WITH_DROPOUT = make_config(
    num_hidden_groups=3,
    inner_group_num=2,
    hidden_dropout_prob=0.5,
    attention_probs_dropout_prob=0.5,
)


def test_every_dropout_of_the_model_has_a_place_of_its_own():
    """Two with one place would draw one mask."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        modeling.AlbertModel(WITH_DROPOUT, True, tf.zeros([2, 5], tf.int32))
        places = tf.get_collection(mask_seeds.PLACES)
    blocks = [f"bert/encoder/layer_{i}/inner_group_{k}" for i in range(3) for k in range(2)]
    roles = ["attention_probabilities", "attention_output", "output"]
    assert places == ["bert/embeddings/output", *(f"{b}/{r}" for b in blocks for r in roles)]


def test_a_model_that_is_built_again_draws_the_same_masks():
    """With operations between the two, and in another name scope."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        ids = tf.constant(make_inputs()[0])
        outputs = []
        for reuse in (False, True):
            with tf.variable_scope("", reuse=reuse), tf.name_scope("copy"):
                model = modeling.AlbertModel(WITH_DROPOUT, True, ids, scope="bert")
            outputs.append(model.get_sequence_output())
            modeling.dropout(tf.random.normal([3]), 0.1)
        session.run(tf.global_variables_initializer())
        first, second = session.run(outputs)
    np.testing.assert_array_equal(first, second)


def test_dropout_does_not_put_the_global_step_into_the_models_scope():
    """A checkpoint's step is found under the name `global_step` only."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        config = modeling.AlbertConfig(**{**TINY, "hidden_dropout_prob": 0.1})
        modeling.AlbertModel(config, True, tf.zeros([2, 5], tf.int32))
        assert tf.train.get_or_create_global_step().op.name == "global_step"


# Small functions.


@pytest.mark.parametrize(
    "name, function",
    [("gelu", numpy_gelu), ("GELU", numpy_gelu), *NUMPY_ACTIVATIONS.items()],
)
def test_activation_equals_numpy(name, function):
    x = np.linspace(-6, 6, 101)
    activation = modeling.get_activation(name) or tf.identity
    with tf.Graph().as_default(), tf.Session() as session:
        assert_close(session.run(activation(tf.constant(x, tf.float32))), function(x), 1e-6)


def test_gradient_of_gelu_equals_numpy_in_float64():
    """Its own, which keeps fewer tensors."""
    x, dy = np.linspace(-6, 6, 1001), np.cos(np.arange(1001))
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(x, tf.float32)
        (gradient,) = tf.gradients(modeling.gelu(inputs), inputs, tf.constant(dy, tf.float32))
        found = session.run(gradient)
    scale, cubic = np.sqrt(2 / np.pi), 0.044715
    tanh = np.tanh(scale * (x + cubic * x**3))
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh**2) * scale * (1 + 3 * cubic * x**2)
    # Where the tanh is nearly 1, float32 has no more digits: TensorFlow's gradient errs by 4e-6.
    np.testing.assert_allclose(found, dy * slope, atol=5e-6)


@pytest.mark.parametrize("name", ["linear", "", None])
def test_no_activation_is_none(name):
    assert modeling.get_activation(name) is None


def test_function_as_activation_is_returned():
    assert modeling.get_activation(tf.nn.elu) is tf.nn.elu


def test_unknown_activation_is_an_error():
    with pytest.raises(ValueError, match="swoosh"):
        modeling.get_activation("swoosh")


def test_initializer_is_a_truncated_normal():
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        values = session.run(modeling.create_initializer(0.5)([100, 100]))
    assert 0.9 < np.abs(values).max() <= 1.0
    # A normal distribution cut at two standard deviations has 0.8796 of the standard deviation.
    assert abs(values.std() / 0.5 - 0.8796) < 0.02
    assert abs(values.mean()) < 0.02


@pytest.mark.parametrize(
    "x, w, inner, equation",
    [
        ([2, 3, 4], [4, 5], 1, "abc,cd->abd"),
        ([2, 3, 4], [4, 5, 6], 1, "abc,cde->abde"),
        ([2, 3, 4, 5], [4, 5, 6], 2, "abcd,cde->abe"),
        ([7, 4, 5], [4, 5, 2, 3], 2, "bcd,cdef->bef"),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_einsum_via_matmul(x, w, inner, equation, dynamic):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=x), rng.normal(size=w)
    with tf.Graph().as_default(), tf.Session() as session:
        batch = [None] * (len(x) - inner) if dynamic else x[: len(x) - inner]
        holder = tf.placeholder(tf.float32, batch + x[len(x) - inner :])
        product = modeling.einsum_via_matmul(holder, tf.constant(right, tf.float32), inner)
        result = session.run(product, {holder: left})
    assert_close(result, np.einsum(equation, left, right), 1e-5)


def test_shape_list_has_numbers_where_known_and_tensors_elsewhere():
    with tf.Graph().as_default(), tf.Session() as session:
        assert modeling.get_shape_list(tf.zeros([2, 3])) == [2, 3]
        holder = tf.placeholder(tf.float32, [None, 3, None])
        shape = modeling.get_shape_list(holder, expected_rank=[2, 3])
        assert shape[1] == 3
        sizes = session.run([shape[0], shape[2]], {holder: np.zeros([4, 3, 5])})
        assert sizes == [4, 5]


@pytest.mark.parametrize("expected", [2, [1, 2], (4,)])
def test_shape_list_of_another_rank_is_an_error(expected):
    with tf.Graph().as_default():
        tensor = tf.zeros([1, 2, 3], name="cube")
        with pytest.raises(ValueError, match="cube.* rank 3"):
            modeling.get_shape_list(tensor, expected_rank=expected)
        with pytest.raises(ValueError, match="my_name.* rank 3"):
            modeling.get_shape_list(tensor, expected, name="my_name")
