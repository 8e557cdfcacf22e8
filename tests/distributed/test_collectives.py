"""Workers: what their launcher tells them, and what they compute together."""

import contextlib
import json
import re
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError, UserError
from albert.distributed import collectives, exchange, launcher
from albert.distributed.launcher import Worker
from tests.helpers.files import write_files
from tests.helpers.forking import ROOT
from tests.helpers.running import run_as_workers
from tests.programs import collectives as program_of_workers


@pytest.fixture
def launched(monkeypatch):
    for pattern, names in launcher._LAUNCHERS.values():
        for name in names:
            monkeypatch.delenv(pattern.format(name), raising=False)

    def launched(form="{}", **variables):
        for name, value in variables.items():
            monkeypatch.setenv(form.format(name), value)
        return launcher._from_environment()

    return launched


class TestEnvironment:
    @pytest.mark.parametrize(
        "form, name", [("OMPI_COMM_WORLD_{}", "mpirun"), ("HOROVOD_{}", "horovodrun")]
    )
    def test_mpirun_and_horovodrun_set_the_rank(self, launched, form, name):
        actual = launched(form, RANK="9", SIZE="16", LOCAL_RANK="1", LOCAL_SIZE="8")
        assert actual == Worker(9, 16, 1, 8, name)

    @pytest.mark.parametrize("tasks", ["8", "8(x2)", "8,4"])
    def test_srun_sets_the_rank_and_a_batch_script_is_one_process(self, launched, tasks):
        assert launched("SLURM_{}", PROCID="3", LOCALID="3", NTASKS="16") == Worker()
        step = launched("SLURM_{}", STEP_NUM_TASKS="16", STEP_TASKS_PER_NODE=tasks)
        assert step == Worker(3, 16, 3, 8, "srun")

    @pytest.mark.parametrize("rank", ["a", "", "-1", "1.5"])
    def test_a_rank_that_is_no_number_is_an_error(self, launched, rank):
        """The program ends when the module is imported."""
        with pytest.raises(SystemExit, match=f"error: OMPI_COMM_WORLD_RANK={rank}, .* not the num"):
            launched("OMPI_COMM_WORLD_{}", RANK=rank, SIZE="2", LOCAL_RANK="0", LOCAL_SIZE="2")

    def test_several_processes_without_horovod_are_refused(self, monkeypatch):
        monkeypatch.setattr(launcher, "started", Worker(1, 2, 1, 2, "mpirun"))
        with pytest.raises(FlagError, match="mpirun started 2 processes, but --use_horovod is off"):
            collectives.join_job(use_horovod=False)


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_horovod_that_does_not_load_is_one_line(monkeypatch, tmp_path, is_missing):
    """Built for another TensorFlow, it needs a symbol that no library has."""
    text = "raise ImportError('there is none')\n" if is_missing else ""
    error = 'import tensorflow\nraise tensorflow.errors.NotFoundError(None, None, "no\\nsymbol")'
    files = {"horovod/__init__.py": text, "horovod/tensorflow/__init__.py": error}
    monkeypatch.syspath_prepend(write_files(tmp_path, files))
    for name in [name for name in sys.modules if name.split(".")[0] == "horovod"]:
        monkeypatch.delitem(sys.modules, name)
    if is_missing:
        message = r"needs Horovod \(there is none\); `make horovod` installs it"
        with pytest.raises(UserError, match=message):
            collectives.join_job(use_horovod=True)
        return
    monkeypatch.setattr(collectives, "_worker", Worker(0, 2))
    message = r"^Horovod cannot be loaded \(no symbol\); build it for .*make horovod`$"
    with pytest.raises(UserError, match=message):
        collectives.connect()
    assert re.match(message, collectives.description())


@pytest.mark.parametrize(
    ("facts", "difference"),
    [
        (({"a": 1, "b": 2}, {"b": 2, "a": 1}), None),
        (({"a": 1}, {"a": 2}), "rank 1 on host1 differs from rank 0 on host0 in a (2, not 1)"),
        (({"a": 1, "b": 2}, {"a": 1}), "in b (None, not 2)"),
        (({"a": 1}, {"a": 1, "b": 2}), "in b (2, not None)"),
        (({"a": 1}, {"a": 1}, {"a": 3}), "rank 2 on host2 differs"),
    ],
)
def test_the_first_difference_between_workers_is_named(monkeypatch, facts, difference):
    hosts = [[f"host{rank}", values] for rank, values in enumerate(facts)]
    monkeypatch.setattr(exchange, "all_gather_objects", lambda own: hosts)
    named = difference and pytest.raises(UserError, match=re.escape(difference))
    with named or contextlib.nullcontext():
        exchange.check_equal_on_all_workers(facts[0])


def test_fusion_buckets_are_bounded_and_in_order():
    with tf.Graph().as_default():
        tensors = [tf.zeros([n]) for n in (1, 2, 5, 40, 1, 1)]
        groups = [[t.shape[0] for t in group] for group in collectives.fusion_buckets(tensors, 32)]
    assert groups == [[1, 2, 5], [40], [1, 1]]


def test_all_reduce_has_equal_names_on_every_worker(monkeypatch, as_worker):
    """It has a separate scope. Workers match each other's vectors by name."""
    for rank in range(2):
        sent = []
        horovod = types.SimpleNamespace(
            Average=None, allreduce=lambda vector, op, name, sent=sent: sent.append(name) or vector
        )
        monkeypatch.setattr(collectives, "_horovod", horovod)
        as_worker(rank, 2)
        with tf.Graph().as_default() as graph:
            tensors = [tf.zeros([n], name=f"a/{n}") for n in (2, 3)]
            before = len(graph.get_operations())
            collectives.all_reduce_mean(tensors), collectives.all_reduce_mean(tensors[:1])
            scopes = {op.name.split("/")[0] for op in graph.get_operations()[before:]}
        assert scopes == {"mean_over_workers", "mean_over_workers_1"}
        assert sent == ["a_2_and_1_0", "a_2_and_0_0"]


@pytest.mark.usefixtures("mpirun")
def test_three_workers_reduce_broadcast_and_gather(tmp_path, monkeypatch):
    # What is already set stays.
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "7")
    for name in ("OMPI_MCA_mpi_yield_when_idle", "HOROVOD_CYCLE_TIME"):
        monkeypatch.delenv(name, raising=False)
    size, program = 3, str(ROOT / "tests" / "programs" / "collectives.py")
    result = run_as_workers(size, [sys.executable, program, str(tmp_path)])
    assert result.returncode == 0, result.stderr
    given = zip(*(program_of_workers.values_of(rank) for rank in range(size)), strict=True)
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
        of_others = [[0, 1], [], [0, 1, 2]], [[100, 101], [], [100, 101, 102, 103]]
        assert results["gathered"] == [*of_others, []]
        # Waiting workers yield where the cores also compute; on the last worker they do not.
        spared = {"OMPI_MCA_mpi_yield_when_idle": "1", "HOROVOD_CYCLE_TIME": "50"}
        expected_spared = spared if rank < 2 else {}
        assert results["spared"] == {"HOROVOD_FUSION_THRESHOLD": "7", **expected_spared}
