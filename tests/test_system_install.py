"""`make install SYSTEM=1`: an environment on top of an image, a folder with packages' metadata."""

import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.locks import requirements
from tests.helpers.running import run

COMMON = {r.name: r for r in requirements(ROOT / "requirements/common.txt")}
# Newer than any that a requirement names, and with the local version of a vendor.
FITS = "99.0+nv25.2"


def add_to_image(image: Path, name: str, version: str) -> None:
    folder = image / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def make_wheel(folder: Path, name: str, version: str) -> None:
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {"METADATA": text, "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n", "RECORD": ""}
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, content in files.items():
            wheel.writestr(f"{name}-{version}.dist-info/{file}", content)


class Machine:
    def __init__(self, env: Path, root: Path):
        self.env, self.image, self.wheels = env, root / "image", root / "wheels"
        self.wheels.mkdir()
        (self.site,) = env.glob("lib/python3*/site-packages")
        (self.site / "image.pth").write_text(f"{self.image}\n")

    def complete(self, *arguments: str) -> subprocess.CompletedProcess:
        variables = {"PIP_FIND_LINKS": str(self.wheels), "PIP_NO_INDEX": "1"}
        command = [str(self.env / "bin/python"), str(ROOT / "requirements/system.py"), *arguments]
        return run(command, env={**os.environ, **variables})

    def installed(self) -> set[str]:
        names = {path.name.removesuffix(".dist-info") for path in self.site.glob("*.dist-info")}
        return {name for name in names if not name.startswith(("pip-", "setuptools-"))}


@pytest.fixture(scope="module")
def env(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=True, symlinks=True)
    return folder


@pytest.fixture
def machine(env, tmp_path) -> Machine:
    machine = Machine(env, tmp_path)
    exact = {"filelock": "3.0", "tensorflow-estimator": "2.15.0"}
    for name in COMMON.keys() - {"safetensors"}:
        add_to_image(machine.image, name, exact.get(name, FITS))
    return machine


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("tensorflow", "2.14.0+nv23.11", "has tensorflow 2.14.0+nv23.11, and this project needs"),
        ("tensorflow-rocm", "2.22.0", "has tensorflow-rocm 2.22.0, and this project needs 2.15 to"),
        ("torch", "2.0", "of this image has no TensorFlow; choose another image"),
    ],
)
@pytest.mark.slow
def test_an_image_whose_tensorflow_does_not_fit_is_one_line(machine, name, version, message):
    add_to_image(machine.image, name, version)
    result = machine.complete()
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("system.py: error: ") and message in line


@pytest.mark.slow
def test_an_images_packages_stay_unless_they_do_not_fit(machine):
    add_to_image(machine.image, "tensorflow", "2.17.0+nv25.2")
    add_to_image(machine.image, "horovod", "0.28.1+nv25.2")
    unable = machine.complete()
    assert unable.returncode == 1 and "Traceback" not in unable.stderr
    error = "system.py: error: pip cannot add filelock, safetensors to the image's packages"
    assert unable.stderr.splitlines()[-1].startswith(error)
    # pip would take the newer numpy if it could.
    for name, version in (("filelock", "4.1.7"), ("safetensors", "0.8.0"), ("numpy", "999.0")):
        make_wheel(machine.wheels, name, version)
    result = machine.complete()
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "using tensorflow 2.17.0+nv25.2 of the image",
        f"filelock 3.0 of the image does not fit; installing filelock<4.2,>=4.1 into {machine.env}",
    ]
    assert machine.installed() == {"filelock-4.1.7", "safetensors-0.8.0"}
    again = machine.complete()
    assert again.stdout == "using tensorflow 2.17.0+nv25.2 of the image\n"
    horovod = machine.complete("horovod", "gpu")
    assert horovod.stdout.splitlines()[1:] == ["using the installed horovod 0.28.1+nv25.2"]
