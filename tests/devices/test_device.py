"""Which device is taken, and what is said where one is missing."""

import fnmatch
import types

import pytest
import tensorflow as tf

from albert.core.errors import UserError
from albert.devices import device, habana
from albert.devices.device import Device
from albert.distributed import collectives
from albert.distributed.collectives import Worker
from albert.preflight import report
from albert.preflight.report import Report


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs that lacks something for the HPU, or nothing."""

    def make(no_hpu, gpus, cards=8):
        monkeypatch.setattr(habana, "why_unavailable", lambda: no_hpu)
        monkeypatch.setattr(habana, "count_cards", lambda: cards)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"] * gpus)
        monkeypatch.setattr(device, "_NVIDIA_DEVICE_FILES", "/nowhere")

    return make


@pytest.mark.parametrize(
    ("no_hpu", "gpus", "asked", "found"),
    [
        (None, 2, "auto", Device("hpu", "habana-tensorflow and 8 cards are there")),
        ("no driver", 2, "auto", Device("gpu", "TensorFlow sees 2")),
        ("no driver", 0, "auto", Device("cpu", "no Gaudi card, no GPU found")),
        (None, 1, "gpu", Device("gpu", "TensorFlow sees 1")),
        (None, 1, "cpu", Device("cpu", "--device=cpu")),
        ("no driver", 2, "hpu", "--device=hpu: no driver"),
        (None, 0, "gpu", "requirements-gpu.txt"),
    ],
)
def test_which_is_found(machine, no_hpu, gpus, asked, found):
    machine(no_hpu, gpus, cards=8 if no_hpu is None else 0)
    if isinstance(found, Device):
        assert device.find(asked) == found
    else:
        with pytest.raises(UserError, match=found):
            device.find(asked)


@pytest.fixture
def has(monkeypatch):
    """A machine with this software for the HPU, and these files."""

    def make(python=(3, 10, 13), package="1.14.0.493", tensorflow="2.15.0", files=()):
        monkeypatch.setattr(habana, "sys", types.SimpleNamespace(version_info=python))
        monkeypatch.setattr(habana, "installed_version", lambda: package)
        monkeypatch.setattr(habana.tf, "__version__", tensorflow)
        glob = types.SimpleNamespace(glob=lambda pattern: fnmatch.filter(files, pattern))
        monkeypatch.setattr(habana, "glob", glob)

    return make


class TestCardsThatCannotBeUsed:
    """They are an error, unless the CPU is asked for."""

    def test_gaudi(self, has):
        has(package=None, files=["/sys/module/habanalabs", "/dev/hl0", "/dev/hl1"])
        start = (
            r"--device=auto: Gaudi cards here \(2\) cannot be used: the package habana-tensorflow "
        )
        end = "install requirements-gaudi.txt .*; --device=cpu insists on the CPU$"
        with pytest.raises(UserError, match=f"^{start}is not installed; {end}"):
            device.find("auto")
        assert device.find("cpu").kind == "cpu"

    def test_a_driver_without_a_card_is_no_card(self, has, monkeypatch):
        """As in a container beside others that have the cards."""
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
        monkeypatch.setattr(device, "_NVIDIA_DEVICE_FILES", "/nowhere")
        has(package=None, files=["/sys/module/habanalabs", "/dev/accel/accel0"])
        assert device.find("auto").kind == "cpu"

    @pytest.fixture
    def nvidia(self, machine, monkeypatch, tmp_path):
        machine("no driver", gpus=0, cards=0)
        for name in ("nvidia0", "nvidia1", "nvidiactl"):
            (tmp_path / name).touch()
        monkeypatch.setattr(device, "_NVIDIA_DEVICE_FILES", f"{tmp_path}/nvidia[0-9]*")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def test_nvidia(self, nvidia, monkeypatch):
        """`albert check` says it as a run does."""
        with pytest.raises(UserError) as error:
            device.find("auto")
        message = str(error.value)
        assert message == (
            f"--device=auto: NVIDIA cards here (2) cannot be used: TensorFlow {tf.__version__} "
            "sees none; install requirements-gpu.txt and NVIDIA's driver; --device=cpu insists on "
            "the CPU"
        )
        assert device.find("cpu").kind == "cpu"
        found = Report()
        monkeypatch.setattr(report.job, "start", lambda settings: device.choose("auto"))
        report.describe_environment(found, settings=None)
        assert ("cards", "NVIDIA cards", "2", True, False) in found.rows
        assert ("cards", "HPU", "no driver", True, False) in found.rows
        assert [row for row in found.rows if not row.ok] == [
            ("job", "error", message, False, False)
        ]

    def test_nvidia_cards_that_are_hidden_or_seen(self, nvidia, monkeypatch):
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
        ({"python": (3, 11, 7)}, "needs CPython 3.10, this is 3.11.7"),
        ({"package": None}, "habana-tensorflow is not installed"),
        ({"tensorflow": "2.15.1"}, "needs TensorFlow 2.15.0, this is 2.15.1"),
        ({}, "driver is not loaded"),
        ({"files": [DRIVER]}, "no Gaudi card"),
        # The type of a card of another container is in /sys, which all containers see.
        ({"files": [DRIVER, TYPE]}, "this container does not see it"),
        # Of another maker.
        ({"files": [DRIVER, "/dev/accel/accel0"]}, "no Gaudi card"),
        ({"files": [DRIVER, "/dev/hl0"]}, None),
        ({"files": [DRIVER, "/dev/accel/accel0", TYPE]}, None),
    ],
)
def test_what_is_missing_for_the_hpu(has, here, missing):
    has(**here)
    if missing:
        assert missing in habana.why_unavailable()
    else:
        assert habana.why_unavailable() is None
        assert habana.count_cards() == 1


def test_more_workers_than_cards(machine, monkeypatch):
    machine(None, gpus=0)
    monkeypatch.setattr(device, "_device", Device("hpu", "for the test"))
    monkeypatch.setattr(collectives, "local_size", lambda: 9)
    with pytest.raises(UserError, match="9 workers on this host, which has 8 Gaudi cards"):
        device.prepare()


@pytest.mark.parametrize(
    ("kind", "local_rank", "taken"),
    [
        # Each worker takes the GPU of its place on the host.
        *(("gpu", rank, [([own], "GPU"), (own, True)]) for rank, own in enumerate("abab")),
        ("cpu", 0, [([], "GPU")]),
    ],
)
def test_what_is_made_visible_and_may_grow(monkeypatch, kind, local_rank, taken):
    """On a machine with two GPUs."""
    calls = []
    config = types.SimpleNamespace(
        list_physical_devices=lambda kind: ["a", "b"],
        set_visible_devices=lambda gpus, kind: calls.append((gpus, kind)),
        experimental=types.SimpleNamespace(
            set_memory_growth=lambda gpu, on: calls.append((gpu, on))
        ),
    )
    monkeypatch.setattr(device.tf2, "config", config)
    monkeypatch.setattr(device, "_device", Device(kind, "for the test"))
    monkeypatch.setattr(collectives, "_worker", Worker(8, 16, local_rank, 4, "mpirun"))
    device.prepare()
    assert calls == taken
