"""The optimizer shared out over workers: what it gives and sends, next to one that is not."""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.conftest import ROOT, at_step, run, run_as_workers, squad_command, under_mpirun
from tests.programs.sharded_steps import WAYS, Way
from tests.test_run_squad_v1 import weights
from tests.test_workers import losses

pytestmark = pytest.mark.usefixtures("mpirun")
WORKERS = 2
# The loss does not depend on it: its gradients are rounding, which Adam scales up to whole steps.
ANY = "cls/squad/output_bias"


@pytest.fixture(scope="module", params=WAYS)
def trained(request, shared, tmp_path_factory):
    """The ways of a model, final weights by way, and the bytes that a worker sent in a step."""
    folder, golden = tmp_path_factory.mktemp("ways"), shared / "golden" / f"{request.param}_tiny"
    program = str(ROOT / "tests/programs/sharded_steps.py")
    result = run_as_workers(WORKERS, [sys.executable, program, str(golden), str(folder)])
    assert result.returncode == 0, result.stderr
    ways = WAYS[request.param]
    weights = {way: dict(np.load(folder / f"{way}.npz")) for way in ways}
    sent = json.loads((folder / "sent.json").read_text())
    return weights, {way: sent[str(way)] for way in ways}


def test_the_weights_are_those_of_an_optimizer_that_is_not_shared_out(trained):
    weights, _ = trained
    for way, found in weights.items():
        expected = weights[way._replace(shard="none")]
        assert found.keys() == expected.keys()
        for name in found.keys() - {ANY} if way.wire == "float32" else ():
            np.testing.assert_allclose(
                found[name], expected[name], rtol=0, atol=1e-6, err_msg=f"{way} {name}"
            )


def test_float16_on_the_wire_costs_no_more_than_without_sharing(trained):
    """What is rounded is another sum, or another number of them."""
    weights, _ = trained

    def error(way: Way) -> float:
        expected = weights[way._replace(shard="none", wire="float32")]
        names = expected.keys() - {ANY}
        return np.sqrt(sum(np.sum((weights[way][n] - expected[n]) ** 2) for n in names))

    for way in weights:
        if way.wire == "float16":
            assert 0 < error(way) < 1.5 * error(way._replace(shard="none")), way


def test_what_is_sent_is_what_the_documents_say(trained):
    """The formula of docs/workers.md; negotiation and facts of a step are some KB."""
    weights, sent = trained
    for way, found in sent.items():
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
        assert found == pytest.approx(expected, rel=0.02), way


class TestResumed:
    """Steps of four batches of two examples, by 2 workers, then 1, then 2 again."""

    WHOLE = ((2, ["--accumulation=2"]),)
    PARTS = (
        (2, ["--accumulation=2", "--shard=state", "--until=6"]),
        (1, ["--accumulation=4", "--until=13"]),
        (2, ["--accumulation=2", "--shard=gradients"]),
    )

    @pytest.mark.parametrize("model", WAYS)
    def test_a_run_goes_on_by_another_way(self, shared, tmp_path, model):
        golden = shared / "golden" / f"{model}_tiny"
        program = str(ROOT / "tests/programs/golden_steps.py")
        prefix = write_first_values(golden, tmp_path / "first")
        flags = [f"--golden={golden}", f"--init_checkpoint={prefix}", "--optimizer=lamb"]
        command = [sys.executable, program, *flags, "--batch_size=2"]
        found = {}
        for name, parts in (("whole", self.WHOLE), ("parts", self.PARTS)):
            folder = tmp_path / name
            for workers, more in parts:
                given = [*command, f"--output_dir={folder}", *more]
                result = run_as_workers(workers, given) if workers > 1 else run(given)
                assert result.returncode == 0, result.stderr
            found[name] = weights(folder, "model.ckpt-20"), losses(folder)
        np.testing.assert_allclose(found["parts"][1], found["whole"][1], rtol=0, atol=1e-5)
        assert found["parts"][0].keys() == found["whole"][0].keys()
        for name, value in found["whole"][0].items():
            if not name.startswith(ANY):
                np.testing.assert_allclose(
                    found["parts"][0][name], value, rtol=0, atol=1e-6, err_msg=name
                )


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
        alone = command(parts, "--elastic_resume", "--shard_optimizer=gradients")
        result = run(at_step("kill", 10, alone))
        assert "Training from step 4 to 12" in result.stderr
        assert "begun by 2 workers: with 1, each has 2 batches a step" in result.stderr
        result = run_as_workers(2, command(parts, "--shard_optimizer=gradients"))
        assert result.returncode == 0, result.stderr
        assert "Training from step 8 to 12" in result.stderr
        np.testing.assert_allclose(losses(parts), losses(whole), rtol=0, atol=1e-5)
        expected, found = (weights(folder, "model.ckpt-12") for folder in (whole, parts))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if not name.startswith(ANY):
                np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6, err_msg=name)
