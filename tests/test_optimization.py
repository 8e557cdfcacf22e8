"""The optimizers compared with golden training runs and with NumPy in float64."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import optimization
from albert.core.errors import NOT_FINITE
from albert.optimization import OptimizerOptions, build_train_step
from albert.optimizers import loss_scale
from tests.helpers.golden import FOLDER, assert_training_v1


@pytest.mark.each_python
@pytest.mark.parametrize(("model", "optimizer"), [("albert", "lamb"), ("bert", "adamw")])
def test_squad_training_equals_the_references(model, optimizer):
    """tasks/squad/test_head.py has ALBERT with AdamW. Segments count in the norm, as for Google."""
    assert_training_v1(FOLDER / f"{model}_tiny", optimizer)


@pytest.fixture
def graph(request):
    is_resource = getattr(request, "param", True)
    with tf.Graph().as_default() as graph, tf.variable_scope("", use_resource=is_resource):
        yield graph


INITIAL = {
    "dense/kernel": np.array([[0.5, -1.0], [2.0, 0.3], [-0.7, 1.1]]),
    "dense/bias": np.array([0.4, -0.2]),
    "LayerNorm/gamma": np.array([1.0, 0.9]),
    # As the target, so that its updates are zero.
    "LayerNorm/beta": np.cos(np.arange(2.0)),
    "layer_norm/scale": np.array([1.5, -0.5, 0.8]),
    "zeros": np.zeros(3),
}
TARGET = {name: np.cos(np.arange(v.size)).reshape(v.shape) for name, v in INITIAL.items()}
CURVATURE = {name: np.linspace(0.5, 2, v.size).reshape(v.shape) for name, v in INITIAL.items()}
# By the names in the reference's rule.
NOT_DECAYED = ["dense/bias", "LayerNorm/gamma", "LayerNorm/beta", "layer_norm/scale"]


def quadratic_problem(scale=1.0):
    """Returns variables, and a loss with the gradient scale * curvature * (x - target) at x."""
    variables = {
        name: tf.get_variable(name, initializer=tf.constant(value, tf.float32))
        for name, value in INITIAL.items()
    }
    loss = sum(
        tf.reduce_sum(CURVATURE[name].astype("f4") * tf.square(v - TARGET[name].astype("f4")))
        for name, v in variables.items()
    )
    return variables, 0.5 * scale * loss


def numpy_steps(
    rates, name, scale=1.0, decay=0.0, not_decayed=NOT_DECAYED, not_adapted=NOT_DECAYED, eps=1e-6
):
    """Returns the variables after every step, in float64; the lists have names, not patterns."""
    x = {name: value.copy() for name, value in INITIAL.items()}
    m, v = ({name: np.zeros_like(value) for name, value in INITIAL.items()} for _ in range(2))
    history = []
    for step, rate in enumerate(rates, start=1):
        # The sums of the gradients' weights in the moments.
        is_corrected = name == "adamw_corrected"
        sums = (1 - 0.9**step, 1 - 0.999**step) if is_corrected else (1, 1)
        gradients = {n: scale * CURVATURE[n] * (x[n] - TARGET[n]) for n in x}
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        for key, gradient in gradients.items():
            gradient = gradient * min(1, 1 / norm)
            m[key] = 0.9 * m[key] + 0.1 * gradient
            v[key] = 0.999 * v[key] + 0.001 * gradient**2
            update = m[key] / sums[0] / (np.sqrt(v[key] / sums[1]) + eps)
            if key not in not_decayed:
                update = update + decay * x[key]
            trust = 1.0
            if name == "lamb" and key not in not_adapted:
                norms = np.linalg.norm(x[key]), np.linalg.norm(update)
                trust = norms[0] / norms[1] if min(norms) > 0 else 1.0
            x[key] = x[key] - rate * trust * update
        history.append({key: value.copy() for key, value in x.items()})
    return history


def run_steps(variables, train_op, count):
    """Returns the variables after every step; the product's variables are of the same kind."""
    assert len({v.op.type for v in tf.global_variables()}) == 1
    history = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(count):
            session.run(train_op)
            history.append(session.run(variables))
    return history


def assert_same_history(actual, expected):
    for step, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        for name, value in theirs.items():
            np.testing.assert_allclose(
                ours[name], value, rtol=0, atol=2e-6, err_msg=f"{name} after step {step}"
            )


def test_lamb_excludes_layers_from_adaptation(graph):
    """Without that list, `exclude_from_weight_decay` serves for both. The weights of a layer whose
    update is zero stay."""
    variables, loss = quadratic_problem(0.05)
    excluded = {"exclude_from_weight_decay": ["LayerNorm", "^dense/b"]}
    excluded["exclude_from_layer_adaptation"] = ["scale", "kernel"]
    optimizer = optimization.LAMBOptimizer(0.01, weight_decay_rate=0.1, **excluded)
    not_decayed = ["LayerNorm/gamma", "LayerNorm/beta", "dense/bias"]
    not_adapted = ["layer_norm/scale", "dense/kernel"]
    theirs = numpy_steps([0.01] * 6, "lamb", 0.05, 0.1, not_decayed, not_adapted)
    pairs = zip(tf.gradients(loss, [*variables.values()]), variables.values(), strict=True)
    assert_same_history(run_steps(variables, optimizer.apply_gradients(pairs), 6), theirs)


@pytest.mark.parametrize(
    ("graph", "name", "scale", "options"),
    [
        (True, "lamb", 5.0, {}),
        (True, "adamw_corrected", 0.05, {"epsilon": 0.03}),
        (False, "adamw", 0.05, {"epsilon": 0.03, "weight_decay": 0.2}),
    ],
    indirect=["graph"],
)
def test_training_op_equals_numpy(graph, name, scale, options):
    """Over warm-up and decay. Resource variables are clipped; reference variables have options."""
    variables, loss = quadratic_problem(scale)
    train_op = build_train_step(loss, OptimizerOptions(0.02, 8, 3, name, **options)).op
    rates = [numpy_rate(k, 0.02, 8, 3) for k in range(9)]
    decay, epsilon = options.get("weight_decay", 0.01), options.get("epsilon", 1e-6)
    theirs = numpy_steps(rates, name, scale, decay, eps=epsilon)
    assert_same_history(run_steps(variables, train_op, 9), theirs)
    slots = {f"{v}/{slot}" for v in INITIAL for slot in ("adam_m", "adam_v")}
    assert {v.op.name for v in tf.global_variables()} == {*INITIAL, *slots, "global_step"}
    assert {v.op.name for v in tf.trainable_variables()} == set(INITIAL)


@pytest.mark.parametrize(
    ("kind", "theirs_name"), [("radam", "RAdam"), ("adamw_corrected", "AdamW")]
)
def test_an_accumulated_optimizer_equals_that_of_pytorch(graph, torch, kind, theirs_name):
    """Before and after the first rectified step, the 6th. A step's batches are equal."""
    scale, num_steps = 0.05, 60
    theirs = {n: torch.tensor(v, dtype=torch.float64).requires_grad_() for n, v in INITIAL.items()}
    decayed = [
        {"params": [v], "weight_decay": 0.1 * (n not in NOT_DECAYED)} for n, v in theirs.items()
    ]
    more = {"decoupled_weight_decay": True} if kind == "radam" else {}
    optimizer = getattr(torch.optim, theirs_name)(decayed, eps=1e-8, **more)
    expected = [INITIAL]
    for step in range(num_steps):
        for group, (name, value) in zip(optimizer.param_groups, theirs.items(), strict=True):
            group["lr"] = numpy_rate(step, 0.02, 80, 0)
            gradient = scale * CURVATURE[name] * (value.detach().numpy() - TARGET[name])
            value.grad = torch.from_numpy(gradient)
        optimizer.step()
        new = {name: value.detach().numpy().copy() for name, value in theirs.items()}
        expected += [new, new]
    variables, loss = quadratic_problem(scale)
    options = OptimizerOptions(0.02, 80, 0, kind, gradient_accumulation_steps=2)
    train_op = build_train_step(loss, options._replace(epsilon=1e-8, weight_decay=0.1)).op
    assert_same_history(run_steps(variables, train_op, 2 * num_steps), expected[:-1])


def test_excluded_and_unused_variables_stay(graph):
    """They do not count in the norm."""
    weights = tf.get_variable("w", initializer=[0.0])
    others = [tf.get_variable(name, initializer=[2.0]) for name in ("named", "given", "unused")]
    fixed = tf.get_variable("fixed", initializer=[1.0], trainable=False)
    loss = tf.reduce_sum(0.5 * weights * fixed + 100.0 * others[0] + 100.0 * others[1])
    excluded = {"excluded_tvars": ["named:0", others[1]]}
    train_op = optimization.create_optimizer(loss, 0.1, 10, 0, False, **excluded)
    variables, same = {v.op.name: v for v in tf.global_variables()}, ["named", "given", "unused"]
    assert variables.keys() == {*same, "fixed", "w", "w/adam_m", "w/adam_v", "global_step"}
    result = run_steps(variables, train_op, 1)[0]
    assert [result[name] for name in (*same, "fixed")] == [2, 2, 2, 1]
    # A tenth of the gradient, which is below the norm of 1 without the others.
    assert result["w/adam_m"] == pytest.approx(0.05) and result["w"] < -0.05


@pytest.mark.parametrize(
    ("graph", "name"), [(True, "adamw"), (True, "lamb"), (False, "radam")], indirect=["graph"]
)
def test_non_finite_gradients_change_nothing(graph, name):
    """2e38 is finite, but the norm is not. The next step can be an ordinary one."""
    bad = tf.get_variable("bad", initializer=[1.0, 2.0])
    good = tf.get_variable("good", initializer=[3.0])
    factor = tf.placeholder(tf.float32, [])
    loss = tf.reduce_sum(bad * factor) + tf.reduce_sum(good)
    train_op = optimization.create_optimizer(loss, 0.1, 10, 0, False, name)
    everything = {v.op.name: v for v in tf.global_variables()}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train_op, {factor: 1.0})
        for number, slope in enumerate((np.nan, np.inf, -np.inf, 2e38), start=1):
            before = session.run(everything)
            with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
                session.run(train_op, {factor: slope})
            after = session.run(everything)
            session.run(train_op, {factor: 1.0})
            later = session.run(everything)
            assert before["global_step"] == number
            assert len(before) == 7
            np.testing.assert_equal(after, before)
            assert all((later[key] != value).all() for key, value in before.items())


def numpy_rate(step, init_lr, train_steps, warmup, power=1.0, start=0, schedule="linear"):
    """Returns the learning rate of a step, in float64; before the start it is 0, never negative."""
    if step < start + (warmup or 0):
        return init_lr * max(step - start, 0) / warmup
    if schedule == "constant":
        return init_lr
    return init_lr * (1 - min(step, train_steps) / train_steps) ** power


@pytest.mark.parametrize(
    ("init_lr", "train_steps", "warmup", "power", "start", "schedule"),
    [
        (5e-5, 20, None, 1.0, 0, "linear"),
        (1e-3, 30, 6, 0.5, 0, "linear"),
        (2e-3, 40, 10, 1.0, 15, "linear"),
        (1e-3, 5, 8, 1.0, 0, "linear"),
        (5e-5, 20, 0, 1.0, 0, "constant"),
        (5e-5, 20, 6, 1.0, 3, "constant"),
    ],
)
def test_the_schedule_equals_numpy(init_lr, train_steps, warmup, power, start, schedule):
    with tf.Graph().as_default(), tf.Session() as session:
        loss = tf.reduce_sum(tf.get_variable("w", initializer=[1.0]))
        numbers = init_lr, train_steps, warmup
        options = OptimizerOptions(*numbers, "adamw", power, start, schedule=schedule)
        rate = build_train_step(loss, options).learning_rate
        steps, rates = range(train_steps + 10), []
        for step in steps:
            tf.train.get_global_step().load(step, session)
            rates.append(session.run(rate))
    expected = [numpy_rate(k, init_lr, train_steps, warmup, power, start, schedule) for k in steps]
    np.testing.assert_allclose(rates, expected, rtol=1e-6, atol=1e-6 * init_lr)


def test_unknown_optimizers_and_variables_are_errors_and_defaults_those_of_adamw(graph):
    expected = (0.1, 9, 0, "adamw", 1.0, 0, 1, None, "none", 1e-6, 0.01, "linear", False)
    assert OptimizerOptions(0.1, 9) == expected
    loss = tf.reduce_sum(tf.get_variable("w", initializer=[1.0]))
    for name in ("sgd", "AdamW", ""):
        with pytest.raises(ValueError, match=f"{name}.*adamw.*lamb"):
            optimization.create_optimizer(loss, 0.1, 10, 0, False, optimizer=name)
    with pytest.raises(ValueError, match="not trainable variables: q, v"):
        optimization.create_optimizer(loss, 0.1, 10, 0, False, excluded_tvars=["v", "w", "q:0"])


def test_three_batches_report_the_mean_loss_and_all_tokens():
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("w", initializer=[0.0])
        batch, tokens = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
        loss = tf.reduce_sum(weights * 0.0) + batch
        options = OptimizerOptions(0.1, 10, gradient_accumulation_steps=3)
        step = build_train_step(loss, options, num_tokens=tokens)
        done = tf.train.get_global_step()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        actual = []
        for loss, count in ((1, 10), (2, 20), (6, 60), (4, 7), (4, 8), (7, 6)):
            fetches = [step.loss, step.tokens, step.op]
            *values, _ = session.run(fetches, {batch: loss, tokens: count})
            actual.append((*values, session.run(done)))
    assert actual == [(0, 0, 0), (0, 0, 0), (3, 90, 1), (0, 0, 1), (0, 0, 1), (5, 21, 2)]


SCALED = OptimizerOptions(0.02, 8, 3, scales_loss=True)


@pytest.mark.parametrize("options", [{}, {"optimizer": "lamb", "gradient_accumulation_steps": 2}])
def test_a_loss_scale_changes_no_bit(options):
    """It is a power of two. The gradient of the table has rows, which count in the norm."""
    actual = []
    for scales_loss in (False, True):
        with tf.Graph().as_default():
            variables, loss = quadratic_problem(5.0)
            variables["table"] = tf.get_variable("table", initializer=[[1.0, 2.0], [3.0, 4.0]])
            loss += tf.reduce_sum(tf.gather(variables["table"], [0, 1, 1]))
            step = SCALED._replace(scales_loss=scales_loss, **options)
            actual.append(run_steps(variables, build_train_step(loss, step).op, 6))
    np.testing.assert_equal(*actual)


class ScaledProblem:
    def __init__(self, **options):
        self._slope = tf.placeholder_with_default(1.0, [])
        weights = tf.get_variable("w", initializer=[1.0, 2.0])
        table = tf.get_variable("table", initializer=[[3.0]])
        loss = self._slope * (tf.reduce_sum(weights) + tf.reduce_sum(tf.gather(table, [0])))
        self._step = build_train_step(loss, SCALED._replace(**options))
        self._variables = {v.op.name: v for v in tf.global_variables()}
        self.session = tf.Session()
        self.session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])

    def run(self, *slopes):
        """Runs batches with these slopes; returns all variables afterwards."""
        for slope in slopes:
            self.session.run(self._step.op, {self._slope: slope})
        return self.session.run(self._variables)


@pytest.mark.parametrize("slopes", [(np.inf, 1.0), (1.0, np.nan), (2e36, 1.0)])
@pytest.mark.parametrize("optimizer", ["adamw", "adamw_corrected", "radam"])
def test_an_overflow_halves_the_scale_and_skips_the_step(graph, optimizer, slopes):
    """In any batch of a step; 2e36 overflows only when it is scaled. The step counts."""
    problem = ScaledProblem(optimizer=optimizer, gradient_accumulation_steps=2)
    before = problem.run(1.0, 1.0, 1.0, 1.0)
    after = problem.run(*slopes)
    changed = {"global_step": 3, "loss_scale": 2.0**14}
    changed |= {"loss_scale/good_steps": 0, "loss_scale/skipped_steps": 1}
    assert before["loss_scale"] == 2**15 and before["loss_scale/good_steps"] == 2
    assert {name: after[name] for name in changed} == changed
    same = before.keys() - changed.keys()
    assert len(same) == 6
    np.testing.assert_equal({n: after[n] for n in same}, {n: before[n] for n in same})
    later = problem.run(1.0, 1.0)
    assert later["loss_scale/good_steps"] == 1 and later["loss_scale"] == 2**14
    assert all((later[name] != after[name]).all() for name in same)


def test_many_steps_without_an_overflow_double_the_scale(graph, monkeypatch):
    monkeypatch.setattr(loss_scale, "STEPS_TO_DOUBLE", 3)
    problem = ScaledProblem()
    scales = [problem.run(slope)["loss_scale"] for slope in [1.0] * 4 + [np.inf] + [1.0] * 3]
    assert np.log2(scales).tolist() == [15, 15, 16, 16, 15, 15, 15, 16]


def test_an_overflow_at_the_smallest_scale_is_an_error(graph):
    problem = ScaledProblem()
    for _ in range(15):
        before = problem.run(np.inf)
    assert before["loss_scale"] == 1 and before["loss_scale/skipped_steps"] == 15
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        problem.run(np.inf)
    np.testing.assert_equal(problem.run(), before)


def test_a_skipped_step_does_not_count_for_radam(graph):
    """Its correction follows the number of updates that the moments have had."""
    options = {"optimizer": "radam", "schedule": "constant", "num_warmup_steps": 0}
    actual = [ScaledProblem(**options).run(np.inf, 1.0, 1.0)["w"]]
    with tf.Graph().as_default():
        actual.append(ScaledProblem(**options).run(1.0, 1.0)["w"])
    np.testing.assert_array_equal(*actual)
