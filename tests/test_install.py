"""`make install`: the packages that it installs, and those that it does not touch."""

import ast
import collections
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

try:
    import tomllib
except ImportError:  # Before Python 3.11.
    import tomli as tomllib

from tests.helpers.files import write_files
from tests.helpers.forking import ROOT
from tests.helpers.locks import pinned, requirements
from tests.helpers.running import run, succeed
from tools.near import tracked
from tools.rooms import sources


def make(*arguments, env=os.environ):
    # Without the variables of an outer `make test DEVICE=...`, which would name its folder.
    outer = ("MAKEFLAGS", "MAKELEVEL", "DEVICE", "BASE_PYTHON")
    env = {name: value for name, value in env.items() if name not in outer}
    return run(["make", *arguments], cwd=ROOT, env=env)


@pytest.mark.parametrize(
    ("file", "arguments", "planned"),
    [
        ("dev/nvidia0", [], ["install.sh {0}/bin/python -r requirements/lock-gpu.txt"]),
        ("dev/hl0", [], ["install.sh {0}/bin/python -r requirements/lock-gaudi.txt", "horovod.sh"]),
        # As in a container that has no card.
        ("sys/module/habanalabs/version", [], ["{0}/bin/python -r requirements/lock-cpu.txt"]),
        ("dev/null", [], ["-r requirements/lock-cpu.txt", "-r requirements/lock-build.txt"]),
        # On top of an image that has TensorFlow.
        (
            "dev/nvidia0",
            ["horovod", "SYSTEM=1"],
            ["python3 -m venv --system-site-packages {0}", "{0}/bin/python requirements/system.py"]
            + ["{0}/bin/python requirements/system.py horovod gpu"],
        ),
    ],
)
def test_the_device_selects_what_is_installed(file, arguments, planned, tmp_path):
    # Without an `nvidia-smi` of this machine.
    write_files(tmp_path, {file: "", "nvidia-smi": "#!/bin/sh\n"})
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    own = f"SYSROOT={tmp_path}", f"VENV={tmp_path}"
    plan = make("-n", "install", *own, *arguments, env=environment).stdout
    assert [words for words in planned if words.format(tmp_path) not in plan] == []
    assert ("horovod" in plan) == ("horovod" in str(planned))
    assert ("lock-" in plan) == (not arguments)


@pytest.mark.parametrize(
    ("setting", "uv_works", "installers"),
    [
        ("global.extra-index-url='x'", "true", ["uv"]),
        ("global.index-url='https://mirror/simple'", "true", ["pip"]),
        (":env:.no-index='1'", "true", ["pip"]),
        ("", "false", ["uv", "pip"]),
    ],
)
def test_pip_installs_where_uv_would_not(setting, uv_works, installers, tmp_path):
    """uv ignores the settings of pip, such as another index."""
    script = f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
case "$*" in
  *"config list"*) echo "{setting}" ;;
  "-m uv"*) {uv_works} ;;
esac
"""
    write_files(tmp_path, {"python": script})
    succeed([str(ROOT / "requirements/install.sh"), f"{tmp_path}/python", "-r", "some.txt"])
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[1] for call in calls if "some.txt" in call] == installers


@pytest.mark.parametrize("url", ["http://user:secret@mirror.invalid/simple", "http://127.0.0.1:9/"])
def test_the_last_line_names_the_host_that_does_not_answer(url, env):
    variables = {"PIP_INDEX_URL": url, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    variables |= {"NO_PROXY": "*", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    command = [str(ROOT / "requirements/install.sh"), str(env / "bin/python"), "no-such-package"]
    result = run(command, env={**os.environ, **variables})
    assert result.returncode == 1
    line = result.stderr.splitlines()[-1]
    host = url.partition("//")[2].rpartition("@")[2].partition("/")[0].partition(":")[0]
    assert line.startswith(f"install.sh: error: cannot reach {host}: it does not answer"), line


def test_without_a_suitable_python_make_is_one_error_line(tmp_path):
    result = make("install", "BASE_PYTHON=", f"VENV={tmp_path}", "DEVICE=gaudi")
    assert result.returncode != 0
    assert "there is no Python 3.10 with venv; name one with BASE_PYTHON=..." in result.stdout


def test_locks_are_exact_and_name_no_registry():
    for path in (ROOT / "requirements").glob("lock-*.txt"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?:|--(extra-)?index-url|--find-links", text), path
        for block in re.split(r"\n(?=\w)", text):
            assert re.match(r"[\w.-]+==\S+.*\\\n +--hash=sha256:", block), block


def test_make_installs_packages_without_hashes_only_where_the_pages_say_so():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    calls = re.findall(r"(?:INSTALL\)|install\.sh \S+|pip install) (?:--no-deps )?(.+)", makefile)
    loose = [words for words in calls if not re.search(r"lock-|\$\(LOCK\)|--editable \.", words)]
    assert {words.partition(" ||")[0] for words in loose} == {
        "torch==2.13.0",
        # `make test-oldest`, `make test-newest` and `make lock`.
        "--quiet --resolution=$(RESOLUTION) -r requirements.txt \\",
        "--quiet --disable-pip-version-check -r requirements/uv.txt",
    }


def test_an_environment_for_gaudi_is_not_changed():
    """`pip install -r requirements.txt` only adds what predicts on a CPU, and changes none."""
    there = pinned("gaudi", "3.10")
    assert there["tensorflow-cpu"] == "2.15.0" and there["habana-tensorflow"] == "1.14.0.493"
    for requirement in requirements(ROOT / "requirements.txt"):
        if requirement.name not in ("onnx", "openvino"):
            assert requirement.specifier.contains(there[requirement.name]), requirement


PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
EXTRAS = PROJECT["optional-dependencies"]


# For contributors, notebooks and a script of the user, or what a user's data is in.
_OF_USERS = ("torch", "notebook", "optuna", "pyarrow", "scikit-learn", "tf-keras", "pre-commit")
_INSTALLS = re.compile(r"pip install ((?:[^`#,;&|)]|,(?=\w))*?)(?:`|#|,\s|;|$)", re.M)


def named_to_install() -> Iterator[str]:
    """Yields the packages that messages and pages tell users to install."""
    for call in (n for source in sources() for n in source.nodes if isinstance(n, ast.Call)):
        first = {"optional": 0, "require": 1}.get(ast.unparse(call.func), len(call.args))
        yield from (text.value for text in call.args[first:] if isinstance(text, ast.Constant))
    for name in tracked("README.md", ".github/CONTRIBUTING.md", "docs", "deploy", "albert"):
        if not name.endswith((".png", ".svg", ".xz")):
            text = (ROOT / name).read_text(encoding="utf-8")
            text = re.sub(r"\\\n|\s*#.*", " ", text) if name.endswith("file") else text
            for line in _INSTALLS.findall(text):
                yield from line.replace("'", "").split()


def test_packages_to_install_are_those_of_the_project():
    known = collections.defaultdict(list)
    for requirement in map(Requirement, (*PROJECT["dependencies"], *sum(EXTRAS.values(), []))):
        known[canonicalize_name(requirement.name)].append(requirement.specifier)

    def is_known(word: str) -> bool:
        if word.startswith((".", "albert-tf[")):
            return {*re.findall(r"\w+", word.partition("[")[2])} <= EXTRAS.keys()
        if word.startswith("requirements"):
            return (ROOT / word).is_file()
        named = Requirement(word)
        versions = [pin.version for pin in named.specifier]
        return any(all(map(s.contains, versions)) for s in known[canonicalize_name(named.name)])

    words = [word for word in named_to_install() if word[0] != "-" and "{" not in word]
    assert len(words) > 30
    assert [word for word in words if word not in _OF_USERS and not is_known(word)] == []


def test_the_table_of_extras_has_each_extra():
    page = (ROOT / "docs/installing.md").read_text(encoding="utf-8")
    table = page.partition("| extra |")[2].partition("\n\n")[0]
    assert {*re.findall(r"^\| `(\w+)` \|", table, re.M)} == EXTRAS.keys()


def test_the_packages_requirements_are_those_of_the_locks():
    stated = {*map(Requirement, (*PROJECT["dependencies"], *EXTRAS["serve"]))}
    needed = {*requirements(ROOT / "requirements/common.txt")}
    on_cpu = {*requirements(ROOT / "requirements.txt")}
    built = tomllib.loads(PYPROJECT)["build-system"]["requires"]
    assert built == [*map(str, requirements(ROOT / "requirements/build.txt"))]
    (tensorflow,) = (r for r in stated if r.name == "tensorflow")
    (of_cpu,) = (r for r in on_cpu if r.name == "tensorflow-cpu")
    assert tensorflow.specifier == of_cpu.specifier
    assert stated - {tensorflow} == on_cpu - {of_cpu} >= needed
    of_gaudi = {str(r.specifier) for r in map(Requirement, EXTRAS["gaudi"])}
    file = {*requirements(ROOT / "requirements-gaudi.txt")} - needed
    assert of_gaudi == {str(r.specifier) for r in file}


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_the_tests_have_the_packages_of_optional_extras(python):
    there, others = pinned("dev", python), pinned("cpu", python)
    for requirement in map(Requirement, EXTRAS["track"]):
        assert requirement.specifier.contains(there[requirement.name]), requirement
    assert {n: v for n, v in there.items() if others.get(n, v) != v} == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    succeed([*build, f"--wheel-dir={folder}", str(ROOT)])
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        yield wheel


def test_the_wheel_has_the_package_and_its_files_without_tests(wheel):
    expected = {*tracked("albert"), *(f"albert/{f}" for f in tracked("configs", "bf16_config"))}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


def test_links_and_pictures_of_the_long_description_work_on_a_package_index(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    links = re.findall(r"\]\(([^)\s]+)", wheel.read(name).decode())
    assert len(links) > 50
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_packages_files_are_found_in_clone_and_wheel(wheel, tmp_path):
    wheel.extractall(tmp_path / "wheel")
    text = "from albert.core import files; print(files.resource('bf16_config/albert.json'))"
    for root, expected in ((ROOT, ROOT), (tmp_path / "wheel", tmp_path / "wheel/albert")):
        environment = {**os.environ, "PYTHONPATH": str(root)}
        actual = run([sys.executable, "-c", text], cwd=tmp_path, env=environment)
        assert actual.stdout == f"{expected / 'bf16_config/albert.json'}\n", actual.stderr
        # A program, and its file of flags; it finds its modules without help.
        command = [sys.executable, str(root / "albert"), "squad", "--only_check_args"]
        succeed([*command, "--flagfile=configs/squad_v1.1.flags"], cwd=tmp_path)


@pytest.mark.parametrize("removed", [False, True])
def test_modules_of_another_distribution_are_one_error_line(wheel, tmp_path, removed):
    """Each program that is still this project's says so, also after pip has removed the other."""
    other = "" if removed else "albert-tensorflow "
    what = "lacks files" if removed else f"also has files of {other.strip()}"
    message = f"{what}: run `pip uninstall {other}albert-tf`, then install albert-tf again"
    wheel.extractall(tmp_path)
    for path in (tmp_path / "albert/__init__.py", tmp_path / "albert/modeling.py"):
        path.unlink() if removed else path.write_text("FOREIGN = True\n")
    records = {"albert_pytorch-1.0.dist-info/RECORD": "albert_pytorch/__init__.py,,\n"}
    if not removed:
        records["albert_tensorflow-1.1.dist-info/RECORD"] = "x.py,,\nalbert/modeling.py,,\n"
    write_files(tmp_path, {"albert_tensorflow-1.1.dist-info/METADATA": "", **records})
    # The other packages, without the editable installation of this one.
    paths = f"{tmp_path}:{sysconfig.get_path('purelib')}"
    environment = {**os.environ, "PYTHONPATH": paths}
    for program in ("albert", "albert.run_race"):
        command = [sys.executable, "-S", "-m", program, "--help"]
        result = run(command, cwd=tmp_path, env=environment)
        assert result.returncode == 1 and result.stdout == ""
        assert result.stderr.endswith(f"{tmp_path}/albert {message}\n"), result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = run([sys.executable, "-S", "-m", "albert", "--version"], cwd=ROOT, env=environment)
    assert (result.returncode, result.stderr) == (0, "")


def add_to_image(image: Path, name: str, version: str) -> None:
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    write_files(image, {f"{name.replace('-', '_')}-{version}.dist-info/METADATA": about})


def make_wheel(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {"METADATA": text, "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n", "RECORD": ""}
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, content in files.items():
            wheel.writestr(f"{name}-{version}.dist-info/{file}", content)


@pytest.fixture(scope="module")
def env(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=True, symlinks=True)
    return folder


@pytest.fixture
def image(env, tmp_path) -> Path:
    """Returns the folder of an image's packages; the environment is on top of it."""
    (site,) = env.glob("lib/python3*/site-packages")
    (site / "image.pth").write_text(f"{tmp_path / 'image'}\n")
    exact = {"filelock": "3.0", "tensorflow-estimator": "2.15.0"}
    for requirement in requirements(ROOT / "requirements/common.txt"):
        if requirement.name != "safetensors":
            # Newer than any that a requirement names, and with the local version of a vendor.
            version = exact.get(requirement.name, "99.0+nv25.2")
            add_to_image(tmp_path / "image", requirement.name, version)
    return tmp_path / "image"


def complete(env: Path, image: Path, *arguments: str) -> subprocess.CompletedProcess:
    variables = {"PIP_FIND_LINKS": f"{image.parent}/wheels", "PIP_NO_INDEX": "1"}
    command = [str(env / "bin/python"), str(ROOT / "requirements/system.py"), *arguments]
    return run(command, env={**os.environ, **variables})


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("tensorflow", "2.14.0+nv23.11", "has tensorflow 2.14.0+nv23.11, and this project needs"),
        ("tensorflow-rocm", "2.22.0", "has tensorflow-rocm 2.22.0, and this project needs 2.15 to"),
        ("torch", "2.0", "of this image has no TensorFlow; choose another image"),
    ],
)
@pytest.mark.slow
def test_an_image_whose_tensorflow_does_not_fit_is_one_line(env, image, name, version, message):
    add_to_image(image, name, version)
    result = complete(env, image)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("system.py: error: ") and message in line


@pytest.mark.slow
def test_an_images_packages_stay_unless_they_do_not_fit(env, image):
    add_to_image(image, "tensorflow", "2.17.0+nv25.2")
    add_to_image(image, "horovod", "0.28.1+nv25.2")
    unable = complete(env, image)
    assert unable.returncode == 1 and "Traceback" not in unable.stderr
    error = "system.py: error: pip cannot add filelock, safetensors to the image's packages"
    assert unable.stderr.splitlines()[-1].startswith(error)
    # pip would take the newer numpy if it could.
    for name, version in (("filelock", "4.1.7"), ("safetensors", "0.8.0"), ("numpy", "999.0")):
        make_wheel(image.parent / "wheels", name, version)
    result = complete(env, image)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "using tensorflow 2.17.0+nv25.2 of the image",
        f"filelock 3.0 of the image does not fit; installing filelock<4.2,>=4.1 into {env}",
    ]
    installed = {path.stem for path in env.glob("lib/*/site-packages/*.dist-info")}
    added = {name for name in installed if not name.startswith(("pip-", "setuptools-"))}
    assert added == {"filelock-4.1.7", "safetensors-0.8.0"}
    again = complete(env, image)
    assert again.stdout == "using tensorflow 2.17.0+nv25.2 of the image\n"
    horovod = complete(env, image, "horovod", "gpu")
    assert horovod.stdout.splitlines()[1:] == ["using the installed horovod 0.28.1+nv25.2"]
