"""The optimizer shared out over workers: what it gives and sends, next to one that is not."""

from __future__ import annotations

import functools
import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import losses, weights
from tests.helpers.forking import ROOT
from tests.helpers.running import at_step, run, run_as_workers, under_mpirun
from tests.helpers.squad import squad_command
from tests.programs.sharded_steps import WAYS, Found, Way

pytestmark = pytest.mark.usefixtures("mpirun")
WORKERS = 2
# The loss does not depend on it: its gradients are rounding, which Adam scales up to whole steps.
ANY = "cls/squad/output_bias"


@pytest.fixture(scope="module")
def ways(shared, tmp_path_factory):
    """Trains a model by its ways, once; gives final weights and what was seen, by way."""

    @functools.cache
    def train(model: str) -> tuple[dict, dict]:
        folder, golden = tmp_path_factory.mktemp("ways"), shared / "golden" / f"{model}_tiny"
        program = str(ROOT / "tests/programs/sharded_steps.py")
        result = run_as_workers(WORKERS, [sys.executable, program, str(golden), str(folder)])
        assert result.returncode == 0, result.stderr
        values = {way: dict(np.load(folder / f"{way}.npz")) for way in WAYS[model]}
        found = json.loads((folder / "found.json").read_text())
        return values, {way: Found(*found[str(way)]) for way in WAYS[model]}

    return train


@pytest.fixture(params=WAYS)
def trained(ways, request):
    """Final weights, and what was seen, by way."""
    return ways(request.param)


def test_the_weights_are_those_of_an_optimizer_that_is_not_shared_out(trained):
    weights, _ = trained
    for way, found in weights.items():
        expected = weights[way._replace(shard="none")]
        assert found.keys() == expected.keys()
        for name in found.keys() - {ANY} if way.wire == "float32" else ():
            np.testing.assert_allclose(
                found[name], expected[name], rtol=0, atol=1e-6, err_msg=f"{way} {name}"
            )


def test_gradients_are_clipped_by_the_norm_over_all_shares(trained):
    _, found = trained
    for way in (way for way in found if way.batches == 1 and way.wire == "float32"):
        norms = found[way].norms
        assert max(norms) > 1, "some are clipped"
        np.testing.assert_allclose(norms, found[way._replace(shard="none")].norms, rtol=1e-4)


def test_float16_on_the_wire_costs_no_more_than_without_sharing(trained):
    """What is rounded is another sum, or another number of them."""
    weights, _ = trained

    def error(way: Way) -> float:
        expected = weights[Way("none", way.batches)]
        names = expected.keys() - {ANY}
        return np.sqrt(sum(np.sum((weights[way][n] - expected[n]) ** 2) for n in names))

    for way in weights:
        if way.wire == "float16" and Way("none", way.batches) in weights:
            assert 0 < error(way) < 1.5 * error(way._replace(shard="none")), way


def test_what_is_sent_is_what_the_documents_say(trained):
    """The formula of docs/workers.md; negotiation and facts of a step are some KB."""
    weights, found = trained
    for way in found:
        values = sum(value.size for value in weights[way].values())
        wire = {"float32": 4, "float16": 2}[way.wire]
        expected = (
            {
                "none": wire + wire,
                "state": wire + 4,
                "gradients": way.batches * wire + 4,
            }[way.shard]
            * values
            * (WORKERS - 1)
            / WORKERS
        )
        assert found[way].sent == pytest.approx(expected, rel=0.02), way


def test_sending_does_not_wait_for_the_whole_backward_pass(ways):
    """The last layer's gradients are sent first, those of the embeddings last."""
    _, found = ways("bert")
    for way in (Way("state", 1, "lamb"), Way("gradients", 2)):
        first, *others, last = sorted(set(found[way].waits_for))
        assert first < last / 4, way
        assert sum(part < 0.8 * last for part in others) >= 3, way


def test_memory_for_gathering_is_bounded_by_a_variable(tmp_path):
    """Of 16 moments alike. Each session's run that restores one keeps some MB besides."""
    program = str(ROOT / "tests/programs/gathered_state.py")
    result = run_as_workers(WORKERS, [sys.executable, program, str(tmp_path)])
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["state"] == 16 * found["moment"]
    assert found["saving"] < 3 * found["moment"]
    assert found["restoring"] < 5 * found["moment"]


class TestResumed:
    """Killed twice: steps of four batches of two examples by 2 workers, then 1, then 2 again."""

    PARTS = (
        (2, 7, ["--accumulation=2", "--shard=state"]),
        (1, 13, ["--accumulation=4"]),
        (2, None, ["--accumulation=2", "--shard=gradients"]),
    )

    @pytest.mark.parametrize("model", WAYS)
    def test_a_run_goes_on_by_another_way(self, ways, shared, tmp_path, model):
        golden, folder = shared / "golden" / f"{model}_tiny", tmp_path / "parts"
        program = str(ROOT / "tests/programs/golden_steps.py")
        prefix = write_first_values(golden, tmp_path / "first")
        flags = [f"--golden={golden}", f"--init_checkpoint={prefix}", f"--output_dir={folder}"]
        command = [sys.executable, program, *flags, "--batch_size=2", "--save_every=5"]
        for workers, killed_at, more in self.PARTS:
            given = [*command, *more]
            if killed_at:
                given = at_step("kill", killed_at, given)
            result = run_as_workers(workers, given) if workers > 1 else run(given)
            assert (result.returncode != 0) == bool(killed_at), result.stderr
        golden_losses = np.load(golden / "squad_v1_adamw.npz")["losses"]
        np.testing.assert_allclose(losses(folder), golden_losses, rtol=0, atol=1e-5)
        expected, found = ways(model)[0][Way("none", 2)], weights(folder, "model.ckpt-20")
        for name in expected.keys() - {ANY}:
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6, err_msg=name)
        trained = [name for name in expected if "/pooler/" not in name]
        moments = {f"{name}/{slot}" for name in trained for slot in ("adam_m", "adam_v")}
        assert found.keys() == {*expected, *moments, "global_step"}


def write_first_values(golden: pathlib.Path, folder: pathlib.Path) -> str:
    """A checkpoint of the golden steps' first weights, the head's among them."""
    (index,) = golden.glob("*.index")
    reader = tf.train.load_checkpoint(str(index.with_suffix("")))
    names = (name for name in reader.get_variable_to_shape_map() if name.startswith("bert/"))
    values = {name: reader.get_tensor(name) for name in names}
    values["cls/squad/output_weights"] = np.load(golden / "squad_v1_adamw.npz")["output_weights"]
    folder.mkdir()
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            tf.get_variable(name, initializer=value)
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(folder / "model.ckpt"))


class TestKilled:
    """The program itself, without dropout: killed after a checkpoint, it goes on elsewise."""

    FLAGS = (
        "--deterministic_run",
        *("--train_batch_size=4", "--train_steps=12", "--save_checkpoints_steps=4"),
        *("--do_predict=False", "--scale_learning_rate"),
    )

    def test_workers_that_are_killed_and_then_others(self, squad_dir, tmp_path):
        def command(folder, *more):
            return squad_command(squad_dir, folder, "--use_horovod=true", *self.FLAGS, *more)

        whole, parts = tmp_path / "whole", tmp_path / "parts"
        result = run_as_workers(2, command(whole))
        assert result.returncode == 0, result.stderr
        job = at_step("kill", 6, command(parts, "--shard_optimizer=state"), rank=1)
        assert run(under_mpirun(2, job)).returncode != 0
        alone = command(parts, "--elastic_resume", "--train_batch_size=2")
        result = run(at_step("kill", 10, alone))
        assert "Training from step 4 to 12" in result.stderr
        assert "begun by 2 workers: with 1, each has 4 batches a step" in result.stderr
        result = run_as_workers(2, command(parts, "--shard_optimizer=gradients"))
        assert result.returncode == 0, result.stderr
        assert "Training from step 8 to 12" in result.stderr
        np.testing.assert_allclose(losses(parts), losses(whole), rtol=0, atol=1e-5)
        expected, found = (weights(folder, "model.ckpt-12") for folder in (whole, parts))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if not name.startswith(ANY):
                np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6, err_msg=name)
