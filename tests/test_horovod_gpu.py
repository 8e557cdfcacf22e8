"""Horovod with NCCL: TensorFlow's CUDA packages have all symbols that it needs."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.locks import pinned
from tests.helpers.running import MPIRUN

# Undefined symbols of other names are Horovod's own, CUDA's and the C++ library's.
_OF_TENSORFLOW = re.compile(r"tensorflow|stream_executor|tsl|4absl|6google")


def call(*command: object) -> str:
    return subprocess.run([*map(str, command)], check=True, stdout=-1, text=True).stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """Returns the folder of the patched source that `make horovod` builds."""
    folder = tmp_path_factory.mktemp("source")
    call(ROOT / "requirements/horovod-source.sh", sys.executable, folder)
    return folder


def unpack_packages(python: str, folder: Path) -> str:
    """Unpacks TensorFlow and CUDA's headers as locked for GPUs; returns TensorFlow's version."""
    versions = pinned("gpu", python)
    names = "tensorflow", "nvidia-cuda-runtime-cu12", "nvidia-cuda-nvcc-cu12"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    pip += ["--python-version", python, "--dest", folder]
    call(*pip, *(f"{name}=={versions[name]}" for name in names))
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            wanted = re.compile(r"nvidia/|tensorflow/(include/|lib[^/]*\.so)")
            archive.extractall(folder, filter(wanted.match, archive.namelist()))
        wheel.unlink()
    return versions["tensorflow"]


def compile_operations(source: Path, packages: Path, version: str) -> Path:
    major, minor, patch = map(int, version.split("."))
    definitions = {
        "TENSORFLOW_VERSION": major * 10**9 + minor * 10**6 + patch * 10**3,
        **dict.fromkeys(("HAVE_MPI", "HAVE_GPU", "HAVE_CUDA", "HAVE_NCCL", "EIGEN_MPL2_ONLY"), 1),
        **{f"HOROVOD_GPU_{name}": "'N'" for name in ("ALLREDUCE", "ALLGATHER", "BROADCAST")},
        "HOROVOD_GPU_REDUCESCATTER": "'N'",
    }
    folders = [
        packages / "tensorflow/include",
        *(packages / "nvidia" / name / "include" for name in ("cuda_runtime", "cuda_nvcc")),
        *source.glob("third_party/boost/*/include"),
        *(source / "third_party" / name / "include" for name in ("HTTPRequest", "lbfgs")),
    ]
    call(
        *("g++", "-std=c++17", "-w", "-fPIC", "-c", "-o", packages / "operations.o"),
        *(f"-D{name}={value}" for name, value in definitions.items()),
        *(f"-I{folder}" for folder in folders),
        *call(MPIRUN.with_name("mpicc"), "--showme:compile").split(),
        source / "horovod/tensorflow/mpi_ops.cc",
    )
    return packages / "operations.o"


# The oldest and the newest Python have all versions of TensorFlow in the lock.
@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.10", "3.13"])
def test_cuda_packages_have_the_symbols_of_horovods_operations(source, python, tmp_path):
    version = unpack_packages(python, tmp_path)
    operations = compile_operations(source, tmp_path, version)
    needed = set(re.findall(r" U (\S+)", call("nm", "--undefined-only", operations)))
    needed = set(filter(_OF_TENSORFLOW.search, needed))
    assert len(needed) > 60
    libraries = (tmp_path / "tensorflow").glob("*.so*")
    defined = call("nm", "--dynamic", "--defined-only", *libraries)
    assert not needed - {line.split()[-1].split("@")[0] for line in defined.splitlines() if line}
