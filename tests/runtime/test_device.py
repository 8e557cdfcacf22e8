"""Which device is taken, and what is said where one is missing."""

import fnmatch
import sys
import types

import pytest
import tensorflow as tf

from runtime import device, distributed, habana
from runtime.device import Device
from runtime.errors import UserError


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs that lacks something for the HPU, or nothing."""

    def make(no_hpu, gpus):
        monkeypatch.setattr(habana, "why_not", lambda: no_hpu)
        monkeypatch.setattr(habana, "count_cards", lambda: 8)
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"] * gpus)

    return make


class TestFind:
    def test_auto_prefers_the_hpu(self, machine):
        machine(None, gpus=2)
        assert device.find("auto") == Device("hpu", "habana-tensorflow and 8 cards are there")

    def test_auto_then_takes_a_gpu(self, machine):
        machine("no driver", gpus=2)
        assert device.find("auto") == Device("gpu", "TensorFlow sees 2; no HPU: no driver")

    def test_auto_then_takes_the_cpu(self, machine):
        machine("no driver", gpus=0)
        assert device.find("auto") == Device("cpu", "no HPU: no driver; TensorFlow sees no GPU")

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


class TestWhyNot:
    """Each thing that is missing is named, the first one first."""

    @pytest.fixture
    def has(self, monkeypatch):
        def make(python=(3, 10, 13), package="1.14.0.493", tensorflow="2.15.0", files=()):
            monkeypatch.setattr(habana, "sys", types.SimpleNamespace(version_info=python))
            monkeypatch.setattr(habana, "installed_version", lambda: package)
            monkeypatch.setattr(habana.tf, "__version__", tensorflow)
            glob = types.SimpleNamespace(glob=lambda pattern: fnmatch.filter(files, pattern))
            monkeypatch.setattr(habana, "glob", glob)

        return make

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


def test_this_environment():
    """The real facts, where they can be known."""
    if sys.version_info[:2] != (3, 10):
        assert "needs CPython 3.10" in habana.why_not()
    assert device.find("cpu").kind == "cpu"
