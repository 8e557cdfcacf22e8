"""The choice of the device, and the error where it is missing."""

import contextlib
import fnmatch
import logging
import os
import types

import pytest
import tensorflow as tf

from albert.core.errors import FlagError, UserError
from albert.devices import device, habana
from albert.devices.device import Device
from albert.devices.machine import LIMIT, Cpu
from albert.preflight import report
from albert.preflight.report import Report
from albert.settings.run_settings import RunSettings
from albert.training import job
from albert.training.loop import make_estimator


@pytest.fixture
def machine(monkeypatch):
    """Returns a machine with `gpus` GPUs, with a reason against the HPU or None."""

    def make(no_hpu, gpus, cards=8):
        monkeypatch.setattr(habana, "why_unavailable", lambda: no_hpu)
        monkeypatch.setattr(habana, "count_cards", lambda: cards)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"] * gpus)
        monkeypatch.setattr(device, "count_nvidia_cards", lambda: 0)

    return make


@pytest.mark.parametrize(
    ("no_hpu", "gpus", "requested", "expected"),
    [
        (None, 2, "auto", Device("hpu", "found habana-tensorflow and 8 cards")),
        ("no driver", 2, "auto", Device("gpu", "TensorFlow sees 2")),
        ("no driver", 0, "auto", Device("cpu", "no Gaudi card, no GPU found")),
        (None, 1, "gpu", Device("gpu", "TensorFlow sees 1")),
        (None, 1, "cpu", Device("cpu", "--device=cpu")),
        ("no driver", 2, "hpu", "--device=hpu: no driver"),
        (None, 0, "gpu", "requirements-gpu.txt"),
    ],
)
def test_the_best_available_device_is_chosen(machine, no_hpu, gpus, requested, expected):
    machine(no_hpu, gpus, cards=8 if no_hpu is None else 0)
    if isinstance(expected, Device):
        assert device.find(requested) == expected
    else:
        with pytest.raises(UserError, match=expected):
            device.find(requested)


@pytest.mark.parametrize(
    ("kind", "capability", "precision", "message"),
    [
        ("gpu", (7, 0), "bfloat16", "compute capability 7.0, and bfloat16 needs 8.0"),
        ("gpu", (8, 0), "bfloat16", None),
        ("gpu", None, "bfloat16", None),
        ("gpu", (6, 0), "float16", None),
        ("hpu", None, "float16", "pass --precision=bfloat16"),
        ("hpu", None, "bfloat16", None),
        ("cpu", None, "float16", None),
    ],
)
def test_a_missing_precision_is_an_error(
    machine, on_device, monkeypatch, log, kind, capability, precision, message
):
    details = {"compute_capability": capability} if capability else {}
    on_device(kind)
    machine(None, gpus=1)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    if message:
        with pytest.raises(FlagError, match=f"^--precision={precision}: .*{message}"):
            job.check_precision(precision)
    else:
        job.check_precision(precision)
    assert any("emulate" in line for line in log(logging.WARNING)) == (kind == "cpu")


@pytest.mark.parametrize("onednn", ["0", "1"])
def test_bfloat16_that_would_end_the_process_is_an_error(on_device, monkeypatch, onednn):
    limited = Cpu("AMD", ("AVX2",), f"{LIMIT}=AVX2")
    monkeypatch.setattr("albert.devices.machine.find_processor", lambda: limited)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", onednn)
    on_device("cpu")
    expects = pytest.raises(FlagError, match="ONEDNN_MAX_CPU_ISA=AVX2 rules out .* unset it")
    with expects if onednn == "1" else contextlib.nullcontext():
        job.check_onednn("bfloat16")


@pytest.fixture
def has(monkeypatch):
    def make(python=(3, 10, 13), package="1.14.0.493", tensorflow="2.15.0", files=()):
        monkeypatch.setattr(habana, "sys", types.SimpleNamespace(version_info=python))
        monkeypatch.setattr(habana, "installed_version", lambda: package)
        monkeypatch.setattr(habana.tf, "__version__", tensorflow)
        glob = types.SimpleNamespace(glob=lambda pattern: fnmatch.filter(files, pattern))
        monkeypatch.setattr(habana, "glob", glob)

    return make


class TestCardsThatCannotBeUsed:
    def test_gaudi_cards_without_software_are_an_error(self, has):
        has(package=None, files=["/sys/module/habanalabs", "/dev/hl0", "/dev/hl1"])
        start = r"--device=auto: found 2 Gaudi cards that cannot be used: the package habana-"
        end = "install requirements-gaudi.txt .*; pass --device=cpu to use the CPU$"
        with pytest.raises(UserError, match=f"^{start}tensorflow is not installed; {end}"):
            device.find("auto")
        assert device.find("cpu").kind == "cpu"

    @pytest.fixture
    def nvidia(self, machine, monkeypatch):
        count = device.count_nvidia_cards
        machine("no driver", gpus=0, cards=0)
        monkeypatch.setattr(device, "count_nvidia_cards", count)
        files = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
        glob = types.SimpleNamespace(glob=lambda pattern: fnmatch.filter(files, pattern))
        monkeypatch.setattr(device, "glob", glob)
        monkeypatch.setattr(device.os, "access", lambda file, mode: mode == os.R_OK | os.W_OK)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def test_nvidia_cards_without_software_are_an_error(self, nvidia, monkeypatch):
        with pytest.raises(UserError) as error:
            device.find("auto")
        message = str(error.value)
        assert message == (
            f"--device=auto: found 2 NVIDIA cards that cannot be used: TensorFlow {tf.__version__} "
            "is built for the CPU; install requirements-gpu.txt; pass --device=cpu to use the CPU"
        )
        assert device.find("cpu").kind == "cpu"
        shown = Report()
        monkeypatch.setattr(report.job, "begin_job", lambda settings: device.choose("auto"))
        report.describe_environment(shown, settings=None)
        assert ("cards", "NVIDIA cards", "2", True, False) in shown.rows
        assert ("cards", "HPU", "no driver", True, False) in shown.rows
        faults = [row for row in shown.rows if not row.ok]
        assert faults == [("job", "error", message, False, False)]

    def test_a_driver_or_libraries_that_do_not_fit_are_named(self, nvidia, monkeypatch):
        build = {"is_cuda_build": True, "cuda_version": "12.5.1"}
        monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)
        reason = "driver is too old for CUDA 12.5.1, or the libraries .* do not load; compare"
        with pytest.raises(UserError, match=f"^--device=auto: found 2 NVIDIA .* used: .*{reason}"):
            device.find("auto")
        monkeypatch.setattr(device, "count_nvidia_cards", lambda: 0)
        with pytest.raises(UserError, match="sees no GPU: this machine or container has no NVIDIA"):
            device.find("gpu")

    def test_hidden_nvidia_cards_do_not_count(self, nvidia, monkeypatch):
        for hidden in ("", "-1"):
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
            assert device.find("auto").kind == "cpu"
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
        assert device.find("auto").kind == "gpu"


DRIVER, TYPE = "/sys/module/habanalabs", "/sys/class/accel/accel0/device/device_type"


@pytest.mark.parametrize(
    ("here", "missing"),
    [
        ({"python": (3, 11, 7)}, "needs CPython 3.10, and this is 3.11.7"),
        ({"package": None}, "habana-tensorflow is not installed"),
        ({"tensorflow": "2.15.1"}, "needs TensorFlow 2.15.0, and this is 2.15.1"),
        ({}, "driver is not loaded"),
        ({"files": [DRIVER]}, "no Gaudi card"),
        # The type of another container's card is in /sys, which all containers see.
        ({"files": [DRIVER, TYPE]}, "this container does not see it"),
        ({"files": [DRIVER, "/dev/accel/accel0"]}, "no Gaudi card"),
        ({"files": [DRIVER, "/dev/hl0"]}, None),
        ({"files": [DRIVER, "/dev/accel/accel0", TYPE]}, None),
    ],
)
def test_the_hpus_first_missing_requirement_is_named(has, here, missing):
    has(**here)
    if missing:
        assert missing in habana.why_unavailable()
    else:
        assert habana.why_unavailable() is None
        assert habana.count_cards() == 1


def test_more_workers_than_cards_are_an_error(machine, on_device, as_worker):
    machine(None, gpus=0)
    on_device("hpu")
    as_worker(0, 9)
    with pytest.raises(UserError, match="9 workers on this host, which has 8 Gaudi cards"):
        device.prepare()


@pytest.mark.parametrize(
    ("kind", "local_rank", "own"),
    # Each worker takes the GPU of its local rank, modulo the number of GPUs.
    [("gpu", 0, 0), ("gpu", 1, 1), ("gpu", 2, 0), ("gpu", 3, 1), ("cpu", 0, None)],
)
def test_each_worker_uses_one_gpu(on_device, as_worker, monkeypatch, kind, local_rank, own):
    """Its memory grows. The machine has two GPUs. Sessions with options of their own do not see
    TensorFlow's."""
    calls = []
    config = types.SimpleNamespace(
        list_physical_devices=lambda kind: ["a", "b"],
        set_visible_devices=lambda *args: calls.append(args),
        experimental=types.SimpleNamespace(set_memory_growth=lambda *args: calls.append(args)),
    )
    monkeypatch.setattr(device.tf2, "config", config)
    on_device(kind)
    as_worker(8, 16, local_rank, 4)
    monkeypatch.setattr(device, "_own_gpu", None)
    device.prepare()
    model_fn = lambda features, labels, mode, params: None  # noqa: E731
    options = make_estimator(model_fn, RunSettings(output_dir="out")).config.session_config
    assert options.allow_soft_placement
    if own is None:
        assert calls == [([], "GPU")]
        assert options.device_count["GPU"] == 0
    else:
        assert calls == [(["ab"[own]], "GPU"), ("ab"[own], True)]
        assert options.gpu_options.visible_device_list == str(own)
        assert options.gpu_options.allow_growth and "GPU" not in options.device_count
