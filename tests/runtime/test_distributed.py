"""Workers: what their launcher tells them, and what they do together under a real mpirun."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime import distributed
from runtime.distributed import Worker
from runtime.errors import FlagError
from tests.conftest import ROOT, run, under_mpirun
from tests.programs import collectives


@pytest.fixture
def environment(monkeypatch):
    """Sets variables of launchers, with all others taken away."""
    for pattern, names in distributed._LAUNCHERS.values():
        for name in names:
            monkeypatch.delenv(pattern.format(name), raising=False)

    def set_variables(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


class TestEnvironment:
    def test_alone(self, environment):
        assert distributed._from_environment() == Worker(0, 1, 0, 1, None)

    @pytest.mark.parametrize(
        ("prefix", "launcher"), [("OMPI_COMM_WORLD", "mpirun"), ("HOROVOD", "horovodrun")]
    )
    def test_mpi(self, environment, prefix, launcher):
        environment(
            **{f"{prefix}_RANK": "9", f"{prefix}_SIZE": "16"},
            **{f"{prefix}_LOCAL_RANK": "1", f"{prefix}_LOCAL_SIZE": "8"},
        )
        assert distributed._from_environment() == Worker(9, 16, 1, 8, launcher)

    @pytest.mark.parametrize("tasks", ["8", "8(x2)", "8,4"])
    def test_slurm(self, environment, tasks):
        environment(
            SLURM_PROCID="3",
            SLURM_STEP_NUM_TASKS="16",
            SLURM_LOCALID="3",
            SLURM_STEP_TASKS_PER_NODE=tasks,
        )
        assert distributed._from_environment() == Worker(3, 16, 3, 8, "srun")

    def test_a_slurm_job_is_no_step_yet(self, environment):
        """What runs in the batch script itself is one process, however many tasks the job has."""
        environment(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NTASKS="16")
        assert distributed._from_environment() == Worker()

    def test_several_processes_without_horovod_are_refused(self, monkeypatch):
        monkeypatch.setattr(distributed, "_started", Worker(1, 2, 1, 2, "mpirun"))
        with pytest.raises(FlagError, match="mpirun started 2 processes, but --use_horovod is off"):
            distributed.start(use_horovod=False)


class TestAlone:
    def test_everything_is_the_worker_itself(self):
        assert (distributed.rank(), distributed.size()) == (0, 1)
        assert distributed.is_chief() and distributed.is_first()
        assert distributed.label() == ""
        assert distributed.starting_hooks() == []
        assert distributed.share({"a": 1}) == {"a": 1}
        arrays = [np.arange(3)]
        assert distributed.gather(arrays, np.dtype(int)) == [arrays]
        with tf.Graph().as_default():
            tensors = [tf.zeros([2]), tf.zeros([3])]
            assert distributed.mean(tensors, tf.float16) == tensors
            distributed.connect()


def test_groups_are_bounded_and_in_order():
    with tf.Graph().as_default():
        tensors = [tf.zeros([n]) for n in (1, 2, 5, 40, 1, 1)]
        distributed_bytes, distributed._VECTOR_BYTES = distributed._VECTOR_BYTES, 4 * 8
        try:
            groups = [[t.shape[0] for t in group] for group in distributed._groups(tensors)]
        finally:
            distributed._VECTOR_BYTES = distributed_bytes
    assert groups == [[1, 2, 5], [40], [1, 1]]


def test_mean_is_a_scope_of_its_own(monkeypatch):
    """With the same names on every worker: by them they find each other's vectors."""
    names = []
    for rank in range(2):
        monkeypatch.setattr(distributed, "_worker", Worker(rank, 2, rank, 2, "mpirun"))
        sent = []
        horovod = types.SimpleNamespace(
            Average=None, allreduce=lambda vector, op, name, sent=sent: sent.append(name) or vector
        )
        monkeypatch.setattr(distributed, "_horovod", horovod)
        with tf.Graph().as_default() as graph:
            given = [tf.zeros([n], name=f"a/{n}") for n in (2, 3)]
            before = len(graph.get_operations())
            distributed.mean(given), distributed.mean(given[:1])
            made = [op.name for op in graph.get_operations()[before:]]
        assert {name.split("/")[0] for name in made} == {"mean_over_workers", "mean_over_workers_1"}
        assert sent == ["a_2_and_1_0", "a_2_and_0_0"]
        names.append(made)
    assert names[0] == names[1]


def test_variables_get_rank_0s_values_when_a_session_begins(monkeypatch):
    """Nothing is added to the graph then, which is final."""

    def broadcast_global_variables(root):
        return tf.group(*(variable.assign([root + 7.0]) for variable in tf.global_variables()))

    horovod = types.SimpleNamespace(broadcast_global_variables=broadcast_global_variables)
    monkeypatch.setattr(distributed, "_horovod", horovod)
    monkeypatch.setattr(distributed, "_worker", Worker(1, 2, 1, 2, "mpirun"))
    with tf.Graph().as_default():
        variable = tf.get_variable("a", [1])
        with tf.train.SingularMonitoredSession(hooks=distributed.starting_hooks()) as session:
            assert session.run(variable) == [7.0]
            assert session.graph.finalized


@pytest.mark.usefixtures("mpirun")
@pytest.mark.parametrize("size", [2, 3])
def test_workers_together(tmp_path, size):
    command = [sys.executable, "-m", "tests.programs.collectives", str(tmp_path)]
    result = run(under_mpirun(size, command), cwd=ROOT)
    assert result.returncode == 0, result.stderr
    given = zip(*(collectives.values_of(rank) for rank in range(size)), strict=True)
    expected = [np.mean(values, axis=0, dtype=np.float64) for values in given]
    for rank in range(size):
        means = np.load(tmp_path / f"{rank}.npz")
        for name, tolerance in (("one_vector", 1e-6), ("several_vectors", 1e-6), ("float16", 2e-3)):
            for number, value in enumerate(expected):
                mean = means[f"{name}_{number}"]
                assert mean.shape == value.shape
                np.testing.assert_allclose(mean, value, rtol=0, atol=tolerance)
        results = json.loads((tmp_path / f"{rank}.json").read_text())
        assert results["shared"] == [None, 7, "Straße ☃", {"a": [1.5, None]}, "x" * 100000]
        assert len(results["gathered"]) == size
        assert results["gathered"][0] == [[0, 1], [], [0, 1, 2]]
        assert results["gathered"][-1] == []
        if size == 3:
            assert results["gathered"][1] == [[100, 101], [], [100, 101, 102, 103]]
