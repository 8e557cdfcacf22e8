"""The MPIJobs: valid under the operator's schema, and consistent in what they ask for."""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.helpers.forking import ROOT
from tests.helpers.running import run

FOLDER = ROOT / "deploy" / "k8s"
JOBS = sorted(path.name for path in FOLDER.glob("mpijob-*.yaml"))
IMAGE = {
    "mpijob-squad-8gpu.yaml": "gpu",
    "mpijob-squad-8hpu.yaml": "gaudi",
    "mpijob-squad-cpu.yaml": "cpu",
}
WORKERS = {
    "mpijob-squad-8gpu.yaml": 8,
    "mpijob-squad-8hpu.yaml": 8,
    "mpijob-squad-cpu.yaml": 2,
}
# Of a server, what Kubernetes does not count itself: Habana's numbers for eight workers.
RESOURCES = {
    "mpijob-squad-8gpu.yaml": {"nvidia.com/gpu": 8, "cpu": "112", "memory": "256Gi"},
    "mpijob-squad-8hpu.yaml": {
        "habana.ai/gaudi": 8,
        "hugepages-2Mi": "42000Mi",
        "cpu": "112",
        "memory": "409Gi",
    },
    "mpijob-squad-cpu.yaml": {"cpu": "4", "memory": "16Gi"},
}
MEANT_TO_BE_CHANGED = ("REGISTRY/", "claimName: albert-data")


def load(name: str) -> dict:
    (job,) = yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
    return job


def strict(schema: Any) -> Any:
    """The JSON schema of what an API server takes over whole, made from its OpenAPI schema.

    An API server drops fields that the schema does not name; here they are errors. A quantity may
    be a number or a string; `null` only what is nullable.
    """
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items() if not key.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    if schema.get("nullable"):
        result["type"] = [result["type"], "null"]
    return result


@pytest.fixture(scope="module")
def validator(shared) -> jsonschema.Validator:
    """Of MPIJobs; the metadata that all Kubernetes objects have is not in the operator's schema."""
    file = shared / "schema" / "kubeflow.org_mpijobs.yaml"
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["apiVersion"] = {
        "const": f"{definition['spec']['group']}/{version['name']}"
    }
    schema["properties"]["kind"] = {"const": definition["spec"]["names"]["kind"]}
    schema["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def container(job: dict, role: str) -> dict:
    (only,) = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("name", JOBS)
def test_schema(validator, name):
    assert [error.message for error in validator.iter_errors(load(name))] == []


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kind",), "Job", "'MPIJob' was expected"),
        (("spec", "slotsPerWorker"), "8", "is not of type 'integer'"),
        (("spec", "slots"), 8, "'slots' was unexpected"),
        (("spec", "mpiImplementation"), "OpenMP", "is not one of"),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "container"), [], "unexpected"),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers"), None, "not of"),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "hostIPC"), "yes", "'boolean'"),
        (("spec", "runPolicy", "backoffLimit"), None, "is not of type 'integer'"),
    ],
)
def test_the_schema_finds_faults(validator, path, value, message):
    job = load("mpijob-squad-8hpu.yaml")
    place = job
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    errors = [error.message for error in validator.iter_errors(job)]
    assert len(errors) == 1 and message in errors[0], errors


@pytest.mark.parametrize("name", JOBS)
class TestMeaning:
    def words(self, name: str) -> list[str]:
        """What the launcher's shell reads."""
        launcher = container(load(name), "Launcher")
        assert launcher["command"] == ["bash", "-c"]
        (script,) = launcher["args"]
        assert run(["bash", "-n", "-c", script]).returncode == 0
        return shlex.split(script)

    def option(self, name: str, option: str) -> str:
        words = self.words(name)
        return words[words.index(option) + 1]

    def test_number_of_workers(self, name):
        spec = load(name)["spec"]
        servers = spec["mpiReplicaSpecs"]["Worker"]["replicas"]
        assert spec["mpiReplicaSpecs"]["Launcher"]["replicas"] == 1
        assert spec["slotsPerWorker"] * servers == WORKERS[name]
        assert int(self.option(name, "-np")) == WORKERS[name]

    def test_resources_of_a_server(self, name):
        slots = load(name)["spec"]["slotsPerWorker"]
        resources = container(load(name), "Worker")["resources"]
        assert resources["requests"] == resources["limits"]
        limits = resources["limits"]
        assert limits == RESOURCES[name]
        each = int(self.option(name, "--map-by").removeprefix("socket:PE="))
        # Kubernetes counts threads, of which a core has two.
        assert int(limits["cpu"]) == 2 * each * slots

    def test_mounted_volumes_are_there(self, name):
        for replica in load(name)["spec"]["mpiReplicaSpecs"].values():
            pod = replica["template"]["spec"]
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            mounts = {m["name"] for c in pod["containers"] for m in c.get("volumeMounts", [])}
            assert mounts == volumes

    def test_one_image(self, name):
        images = {container(load(name), role)["image"] for role in ("Launcher", "Worker")}
        assert images == {f"REGISTRY/albert:{IMAGE[name]}"}

    def test_a_preset_is_run_on_the_data_volume(self, name):
        """By the launcher's variables; tests/deploy/test_preset.py has what becomes of it."""
        job, words = load(name), self.words(name)
        launcher = container(job, "Launcher")
        assert f"WORKDIR {launcher['workingDir']}\n" in (FOLDER / "Dockerfile").read_text()
        assert "/data" in {m["mountPath"] for m in container(job, "Worker")["volumeMounts"]}
        start = words.index("deploy/preset.sh")
        assert words[start + 1 : start + 4] == ["$PRESET", "$MODEL", "/data"]
        assert words[start + 4] == ("$PYTHON" if name == "mpijob-squad-8hpu.yaml" else "python")
        flags = words[start + 5 :]
        assert flags[:2] == ["--output_dir=/data/out/$PRESET", "--use_horovod=true"]
        assert set(flags[2:]) <= {"--device=hpu", "--device=gpu"}
        given = {variable["name"]: variable["value"] for variable in launcher["env"]}
        assert (given["PRESET"], given["MODEL"]) == ("squad_v1.1", "albert_base_v2")

    def test_variables_that_are_set_are_passed(self, name):
        """Or read by the launcher's own shell."""
        words = self.words(name)
        passed = {words[i + 1] for i, word in enumerate(words) if word == "-x"}
        read = {word.removeprefix("$") for word in words if word.startswith("$")}
        given = {variable["name"] for variable in container(load(name), "Launcher")["env"]}
        assert "PATH" in passed and given <= passed | read

    def test_a_pod_that_has_to_go_has_time_for_a_checkpoint(self, name):
        job = load(name)
        pods = {r: s["template"]["spec"] for r, s in job["spec"]["mpiReplicaSpecs"].items()}
        hook = container(job, "Worker")["lifecycle"]["preStop"]["exec"]["command"]
        assert hook == ["bash", "-c", "pkill -USR1 python; while pgrep python; do sleep 1; done"]
        assert " procps " in (FOLDER / "Dockerfile").read_text(encoding="utf-8")
        assert pods["Worker"]["terminationGracePeriodSeconds"] >= 120
        words = self.words(name)
        assert words[0] == "exec", "mpirun is what the launcher's own hook tells"
        hook = container(job, "Launcher")["lifecycle"]["preStop"]["exec"]["command"]
        assert hook == ["bash", "-c", "kill -USR1 1; while kill -0 1; do sleep 1; done"]
        assert pods["Launcher"]["terminationGracePeriodSeconds"] >= 120
        assert job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] == "Never"
        assert job["spec"]["runPolicy"]["backoffLimit"] >= 5

    def test_workers_listen_before_the_launcher_calls(self, name):
        job = load(name)
        assert job["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
        worker = container(job, "Worker")
        assert worker["command"] == ["/usr/sbin/sshd", "-De"]
        assert worker["readinessProbe"] == {"tcpSocket": {"port": 22}}
        assert "Port 22" in (FOLDER / "Dockerfile").read_text(encoding="utf-8")


def test_the_jobs_differ_in_what_the_device_needs_alone():
    """The device's own numbers and options apart, one job is as the other."""
    texts = {name: (FOLDER / name).read_text(encoding="utf-8").splitlines() for name in JOBS}
    gpu, cpu = texts["mpijob-squad-8gpu.yaml"], texts["mpijob-squad-cpu.yaml"]
    matcher = difflib.SequenceMatcher(None, cpu, gpu, autojunk=False)
    changed = [
        "\n".join(gpu[start:end])
        for kind, _, _, start, end in matcher.get_opcodes()
        if kind != "equal"
    ]
    assert changed
    for text in changed:
        assert re.search(r"[gG]PU|gpu|PE=7|sizeLimit", text), text


class TestImage:
    """The steps of the Dockerfile."""

    @pytest.fixture(scope="class")
    def text(self) -> str:
        return (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")

    def steps(self, text: str, kind: str) -> list[str]:
        return re.findall(rf"^{kind} (.*)$", text, re.MULTILINE)

    def test_its_python_is_that_of_make(self, text):
        """The jobs call `python` and `mpirun`, which the Makefile puts into .venv."""
        (folder,) = self.steps(text, "WORKDIR")
        assert self.steps(text, "ENV") == [f"PATH={folder}/.venv/bin:$PATH"]
        assert (ROOT / "Makefile").read_text().splitlines().count("VENV := .venv") == 1

    @pytest.mark.parametrize(
        ("device", "call"),
        [
            ("cpu", "make install horovod DEVICE=cpu"),
            ("gpu", "make install horovod DEVICE=gpu"),
            ("gaudi", "habanas-python -m pip install -r requirements-gaudi.txt"),
        ],
    )
    def test_what_is_installed_for_a_device(self, text, tmp_path, device, call):
        (step,) = [step for step in self.steps(text, "RUN") if "requirements" in step]
        for name in ("make", "habanas-python"):
            (tmp_path / name).write_text('#!/bin/sh\necho "${0##*/}" "$@"\n')
            (tmp_path / name).chmod(0o755)
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHON": "habanas-python"}
        result = run(["sh", "-c", step], env={**variables, "DEVICE": device})
        assert (result.returncode, result.stdout) == (0, f"{call}\n"), result.stderr

    def test_a_device_can_be_named(self, text):
        """After FROM: what is before it is not seen later."""
        assert text.index("\nFROM ") < text.index("\nARG DEVICE=cpu\n") < text.index("\nRUN ")


def test_the_image_has_what_it_copies():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    sources = [
        source for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for source in line.split()
    ]
    assert len(sources) == 4
    assert all(list(Path(ROOT).glob(source)) for source in sources if source != ".")
