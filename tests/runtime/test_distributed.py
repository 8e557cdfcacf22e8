"""Workers: what their launcher tells them, and what they do together under a real mpirun."""

from __future__ import annotations

import json
import os
import re
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime import distributed, launcher
from runtime.distributed import Worker
from runtime.errors import FlagError, UserError
from tests.helpers.forking import ROOT
from tests.helpers.running import run, run_as_workers, under_mpirun
from tests.programs import collectives


@pytest.fixture
def environment(monkeypatch):
    """Sets variables of launchers, with all others taken away."""
    for pattern, names in launcher._LAUNCHERS.values():
        for name in names:
            monkeypatch.delenv(pattern.format(name), raising=False)

    def set_variables(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


class TestEnvironment:
    def test_alone(self, environment):
        assert launcher._from_environment() == Worker(0, 1, 0, 1, None)

    @pytest.mark.parametrize(
        ("prefix", "name"), [("OMPI_COMM_WORLD", "mpirun"), ("HOROVOD", "horovodrun")]
    )
    def test_mpi(self, environment, prefix, name):
        environment(
            **{f"{prefix}_RANK": "9", f"{prefix}_SIZE": "16"},
            **{f"{prefix}_LOCAL_RANK": "1", f"{prefix}_LOCAL_SIZE": "8"},
        )
        assert launcher._from_environment() == Worker(9, 16, 1, 8, name)

    @pytest.mark.parametrize("tasks", ["8", "8(x2)", "8,4"])
    def test_slurm(self, environment, tasks):
        environment(
            SLURM_PROCID="3",
            SLURM_STEP_NUM_TASKS="16",
            SLURM_LOCALID="3",
            SLURM_STEP_TASKS_PER_NODE=tasks,
        )
        assert launcher._from_environment() == Worker(3, 16, 3, 8, "srun")

    @pytest.mark.parametrize("rank", ["a", "", "-1", "1.5"])
    def test_what_is_no_number(self, environment, rank):
        """It is read when the module is imported, so that the program ends there."""
        variables = {"RANK": rank, "SIZE": "2", "LOCAL_RANK": "0", "LOCAL_SIZE": "2"}
        environment(**{f"OMPI_COMM_WORLD_{name}": value for name, value in variables.items()})
        with pytest.raises(SystemExit, match=f"error: OMPI_COMM_WORLD_RANK={rank}, .* no numbers"):
            launcher._from_environment()

    def test_a_slurm_job_is_no_step_yet(self, environment):
        """What runs in the batch script itself is one process, however many tasks the job has."""
        environment(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NTASKS="16")
        assert launcher._from_environment() == Worker()

    def test_several_processes_without_horovod_are_refused(self, monkeypatch):
        monkeypatch.setattr(launcher, "started", Worker(1, 2, 1, 2, "mpirun"))
        with pytest.raises(FlagError, match="mpirun started 2 processes, but --use_horovod is off"):
            distributed.start(use_horovod=False)


class TestConnect:
    """What the communication is told before it starts, by a user or by us."""

    @pytest.fixture
    def connected(self, monkeypatch):
        """Connects the second of two workers; returns the variables Horovod found then."""
        monkeypatch.setattr(distributed, "_worker", Worker(1, 2, 1, 2, "mpirun"))
        monkeypatch.setattr(distributed, "_horovod", None)
        for name in distributed._SPARING:
            # Also such that it is taken away again at the end.
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)

        def connect(on_cpu=True):
            found = {}
            module = types.ModuleType("horovod.tensorflow")
            module.init = lambda: found.update(os.environ)
            module.rank, module.size = lambda: 1, lambda: 2
            package = types.ModuleType("horovod")
            package.tensorflow = module
            monkeypatch.setitem(sys.modules, "horovod", package)
            monkeypatch.setitem(sys.modules, "horovod.tensorflow", module)
            distributed.connect(on_cpu)
            return {name: found.get(name) for name in distributed._SPARING}

        return connect

    def test_on_the_cpu_it_spares_the_cores(self, connected):
        expected = {
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "HOROVOD_CYCLE_TIME": "50",
            "HOROVOD_FUSION_THRESHOLD": "0",
        }
        assert connected() == expected

    def test_elsewhere_it_is_as_horovod_has_it(self, connected):
        assert set(connected(on_cpu=False).values()) == {None}

    @pytest.mark.parametrize("name", distributed._SPARING)
    def test_what_the_user_has_set_stays(self, connected, monkeypatch, name):
        monkeypatch.setenv(name, "7")
        found = connected()
        assert found.pop(name) == "7"
        assert found.popitem()[1] in distributed._SPARING.values()


class TestCheckAlike:
    @pytest.fixture
    def ranks(self, monkeypatch):
        """What each rank's host has, as rank 0 gathers it."""

        def gather(*facts):
            hosts = [[f"host{rank}", found] for rank, found in enumerate(facts)]
            monkeypatch.setattr(distributed, "gather_json", lambda own: hosts)
            distributed.check_alike(facts[0])

        return gather

    def test_the_same(self, ranks):
        ranks({"a": 1, "b": 2}, {"b": 2, "a": 1})

    @pytest.mark.parametrize(
        ("facts", "difference"),
        [
            (({"a": 1}, {"a": 2}), "rank 1 on host1 differs from rank 0 on host0 in a (2, not 1)"),
            (({"a": 1, "b": 2}, {"a": 1}), "in b (None, not 2)"),
            (({"a": 1}, {"a": 1, "b": 2}), "in b (2, not None)"),
            (({"a": 1}, {"a": 1}, {"a": 3}), "rank 2 on host2 differs"),
        ],
    )
    def test_the_first_difference_is_named(self, ranks, facts, difference):
        with pytest.raises(UserError, match=re.escape(difference)):
            ranks(*facts)


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
            groups = [[t.shape[0] for t in group] for group in distributed.groups(tensors)]
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
@pytest.mark.parametrize(("transport", "size"), [("Gloo", 2), ("MPI", 3)])
def test_workers_together(tmp_path, transport, size):
    if transport == "Gloo":
        program = str(ROOT / "tests" / "programs" / "collectives.py")
        result = run_as_workers(size, [sys.executable, program, str(tmp_path)])
    else:
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
