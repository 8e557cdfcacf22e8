"""Which device is taken, and what is said where one is missing."""

import fnmatch
import sys
import types

import pytest
import tensorflow as tf

from runtime import distributed
from runtime.devices import device, habana
from runtime.devices.device import Device
from runtime.distributed import Worker
from runtime.errors import UserError
from runtime.preflight import report
from runtime.preflight.report import Report


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs that lacks something for the HPU, or nothing."""

    def make(no_hpu, gpus, cards=8):
        monkeypatch.setattr(habana, "why_not", lambda: no_hpu)
        monkeypatch.setattr(habana, "count_cards", lambda: cards)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"] * gpus)
        monkeypatch.setattr(device, "_NVIDIA_DEVICE_FILES", "/nowhere")

    return make


class TestFind:
    def test_auto_prefers_the_hpu(self, machine):
        machine(None, gpus=2)
        assert device.find("auto") == Device("hpu", "habana-tensorflow and 8 cards are there")

    def test_auto_then_takes_a_gpu(self, machine):
        machine("no driver", gpus=2, cards=0)
        assert device.find("auto") == Device("gpu", "TensorFlow sees 2")

    def test_auto_then_takes_the_cpu(self, machine):
        machine("no driver", gpus=0, cards=0)
        assert device.find("auto") == Device("cpu", "no Gaudi card, no GPU found")

    def test_hpu_names_what_is_missing(self, machine):
        machine("no driver", gpus=2)
        with pytest.raises(UserError, match="--device=hpu: no driver"):
            device.find("hpu")

    def test_gpu_without_one(self, machine):
        machine(None, gpus=0)
        with pytest.raises(UserError, match="requirements-gpu.txt"):
            device.find("gpu")

    @pytest.mark.parametrize("kind", ["gpu", "cpu"])
    def test_what_is_asked_for(self, machine, kind):
        machine(None, gpus=1)
        assert device.find(kind).kind == kind


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

    CARDS = ("/sys/module/habanalabs", "/dev/hl0", "/dev/hl1")

    @pytest.mark.parametrize(
        ("software", "fault"),
        [
            ({"python": (3, 12, 1)}, "needs CPython 3.10, this is 3.12.1"),
            ({"package": None}, "the package habana-tensorflow is not installed"),
            ({"tensorflow": "2.15.1"}, "needs TensorFlow 2.15.0, this is 2.15.1"),
        ],
    )
    def test_gaudi(self, has, software, fault):
        has(**software, files=self.CARDS)
        with pytest.raises(UserError) as error:
            device.find("auto")
        message = str(error.value)
        assert message.startswith("--device=auto: Gaudi cards here (2) cannot be used: ")
        assert fault in message and "install requirements-gaudi.txt" in message
        assert message.endswith("; --device=cpu insists on the CPU")
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

    def test_nvidia(self, nvidia):
        with pytest.raises(UserError) as error:
            device.find("auto")
        assert str(error.value) == (
            f"--device=auto: NVIDIA cards here (2) cannot be used: TensorFlow {tf.__version__} "
            "sees none; install requirements-gpu.txt and NVIDIA's driver; --device=cpu insists on "
            "the CPU"
        )
        assert device.find("cpu").kind == "cpu"

    @pytest.mark.parametrize("hidden", ["", "-1"])
    def test_nvidia_cards_that_the_user_has_hidden(self, nvidia, monkeypatch, hidden):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert device.find("auto").kind == "cpu"

    def test_a_gpu_that_tensorflow_sees(self, nvidia, monkeypatch):
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
        assert device.find("auto").kind == "gpu"

    def test_check_setup_says_it(self, nvidia, monkeypatch):
        found = Report()
        monkeypatch.setattr(report.job, "start", lambda settings: device.choose("auto"))
        report.describe_environment(found, settings=None)
        assert ("cards", "NVIDIA cards", "2", True, False) in found.rows
        assert ("cards", "HPU", "no driver", True, False) in found.rows
        (failed,) = [row for row in found.rows if not row.ok]
        assert (failed.part, failed.item) == ("job", "error")
        assert "--device=auto: NVIDIA cards here (2) cannot be used" in failed.value


class TestWhyNot:
    """Each thing that is missing is named, the first one first."""

    def test_another_python(self, has):
        has(python=(3, 11, 7))
        assert "needs CPython 3.10, this is 3.11.7" in habana.why_not()

    def test_no_package(self, has):
        has(package=None)
        assert "habana-tensorflow is not installed" in habana.why_not()

    def test_another_tensorflow(self, has):
        has(tensorflow="2.15.1")
        assert "needs TensorFlow 2.15.0, this is 2.15.1" in habana.why_not()

    def test_no_driver(self, has):
        has()
        assert "driver is not loaded" in habana.why_not()

    def test_no_card(self, has):
        has(files=["/sys/module/habanalabs"])
        assert "no Gaudi card" in habana.why_not()

    def test_a_card_of_another_container(self, has):
        """Its type is in /sys, which all containers see."""
        has(files=["/sys/module/habanalabs", "/sys/class/accel/accel0/device/device_type"])
        assert "this container does not see it" in habana.why_not()

    def test_an_accelerator_of_another_maker(self, has):
        has(files=["/sys/module/habanalabs", "/dev/accel/accel0"])
        assert "no Gaudi card" in habana.why_not()

    @pytest.mark.parametrize(
        "files", [["/dev/hl0"], ["/dev/accel/accel0", "/sys/class/accel/accel0/device/device_type"]]
    )
    def test_nothing(self, has, files):
        has(files=["/sys/module/habanalabs", *files])
        assert habana.why_not() is None
        assert habana.count_cards() == 1


def test_more_workers_than_cards(machine, monkeypatch):
    machine(None, gpus=0)
    monkeypatch.setattr(device, "_device", Device("hpu", "for the test"))
    monkeypatch.setattr(distributed, "local_size", lambda: 9)
    with pytest.raises(UserError, match="9 workers on this host, which has 8 Gaudi cards"):
        device.prepare()


@pytest.fixture
def two_gpus(monkeypatch):
    """A process on a machine with two GPUs; collects what is made visible and may grow."""
    calls = []
    config = types.SimpleNamespace(
        list_physical_devices=lambda kind: ["first", "second"],
        set_visible_devices=lambda gpus, kind: calls.append((gpus, kind)),
        experimental=types.SimpleNamespace(
            set_memory_growth=lambda gpu, on: calls.append((gpu, on))
        ),
    )
    monkeypatch.setattr(device.tf2, "config", config)
    return calls


@pytest.mark.parametrize(
    ("local_rank", "own"), [(0, "first"), (1, "second"), (2, "first"), (3, "second")]
)
def test_each_worker_takes_the_gpu_of_its_place_on_the_host(two_gpus, monkeypatch, local_rank, own):
    monkeypatch.setattr(device, "_device", Device("gpu", "for the test"))
    monkeypatch.setattr(distributed, "_worker", Worker(8, 16, local_rank, 4, "mpirun"))
    device.prepare()
    assert two_gpus == [([own], "GPU"), (own, True)]


def test_the_cpu_takes_no_gpu(two_gpus, monkeypatch):
    monkeypatch.setattr(device, "_device", Device("cpu", "for the test"))
    device.prepare()
    assert two_gpus == [([], "GPU")]


def test_this_environment():
    """The real facts, where they can be known."""
    if sys.version_info[:2] != (3, 10):
        assert "needs CPython 3.10" in habana.why_not()
    assert device.find("cpu").kind == "cpu"
