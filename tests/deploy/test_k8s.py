"""Manifests for Kubernetes: valid, consistent, and requests of the server's probes."""

import copy
import re
import shlex

import kubernetes_validate
import pytest
import yaml

from albert.cli import serve
from albert.cli.serve import TOKEN
from albert.serving.server import hosts_of, listen
from albert.serving.services import service_of
from tests.helpers.files import write_files
from tests.helpers.forking import ROOT
from tests.helpers.running import run
from tests.helpers.serving import Served, load_once

FOLDER = ROOT / "deploy" / "k8s"
JOBS = {path.name: yaml.safe_load(path.read_bytes()) for path in FOLDER.glob("mpijob-*.yaml")}
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_jobs_are_valid(job):
    """They have the operator's fields; an API server would drop unknown ones of the pods."""
    assert job.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec, replicas = job["spec"], job["spec"]["mpiReplicaSpecs"]
    fields = {"slotsPerWorker", "launcherCreationPolicy", "runPolicy", "mpiReplicaSpecs"}
    assert spec.keys() == fields and replicas.keys() == {"Launcher", "Worker"}
    assert spec["runPolicy"].keys() == {"cleanPodPolicy", "backoffLimit"}
    for replica in replicas.values():
        assert replica.keys() <= {"replicas", "restartPolicy", "template"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": job["metadata"]}
        pod |= replica["template"]
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize(
    ("name", "image", "cards"),
    [
        ("mpijob-squad-8gpu.yaml", "gpu", {"nvidia.com/gpu": 8}),
        ("mpijob-squad-8hpu.yaml", "gaudi", {"habana.ai/gaudi": 8}),
        ("mpijob-squad-cpu.yaml", "cpu", {}),
    ],
)
def test_workers_fit_the_requested_resources(name, image, cards):
    replicas, slots = JOBS[name]["spec"]["mpiReplicaSpecs"], JOBS[name]["spec"]["slotsPerWorker"]
    pods = {role: replica["template"]["spec"] for role, replica in replicas.items()}
    (launcher,), (worker,) = (pods[role]["containers"] for role in ("Launcher", "Worker"))
    (script,) = launcher["args"]
    assert run(["bash", "-n", "-c", script]).returncode == 0
    words = shlex.split(script)
    assert words[words.index("-np") + 1] == str(slots * replicas["Worker"]["replicas"])
    limits = worker["resources"]["limits"]
    assert worker["resources"]["requests"] == limits and {*cards.values()} <= {slots}
    assert cards == {name: n for name, n in limits.items() if "." in name}
    each = int(words[words.index("--map-by") + 1].removeprefix("socket:PE="))
    # Kubernetes counts threads; a core has two.
    assert int(limits["cpu"]) == 2 * each * slots
    assert launcher["image"] == worker["image"] == f"REGISTRY/albert:{image}"
    # The volume with the data, and a preset on it.
    assert words[words.index("deploy/preset.sh") :][1:4] == ["$PRESET", "$MODEL", "/data"]
    for pod in pods.values():
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        mounts = {m["name"] for c in pod["containers"] for m in c.get("volumeMounts", [])}
        assert mounts == volumes


@pytest.mark.parametrize(
    ("device", "call"),
    [
        ("cpu", "make requirements horovod DEVICE=cpu"),
        ("gpu", "make requirements horovod DEVICE=gpu"),
        ("gaudi", "habanas-python -m pip install -r requirements-gaudi.txt"),
    ],
)
def test_the_image_installs_the_requirements_of_its_device(tmp_path, device, call):
    runs = re.findall(r"^RUN (.*)$", DOCKERFILE, re.MULTILINE)
    (step,) = [step for step in runs if "requirements" in step]
    echo = '#!/bin/sh\necho "${0##*/}" "$@"\n'
    write_files(tmp_path, {"make": echo, "habanas-python": echo})
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHON": "habanas-python"}
    result = run(["sh", "-c", step], env={**variables, "DEVICE": device})
    assert (result.returncode, result.stdout) == (0, f"{call}\n"), result.stderr


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
DATA = [*yaml.safe_load_all((FOLDER / "data.yaml").read_bytes())]
DEPLOYMENT, SERVICE = yaml.safe_load_all((ROOT / "deploy/k8s/serve.yaml").read_bytes())
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_manifests_of_the_server_and_the_data_are_valid_and_fit():
    # The oldest and the newest supported version with a schema in the package.
    for version in ("1.30", kubernetes_validate.latest_version()):
        for manifest in (DEPLOYMENT, SERVICE, *DATA):
            kubernetes_validate.validate(copy.deepcopy(manifest), version, strict=True)
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()


def test_the_command_parses_and_matches_the_pod():
    *command, model = CONTAINER["command"]
    assert command == ["python", "-m", "albert", "serve"]
    args = serve.parse(["albert serve", model, *CONTAINER["args"]])
    (port,), (variable,) = CONTAINER["ports"], CONTAINER["env"]
    assert args.port == port["containerPort"] and args.host == "0.0.0.0"
    assert variable["name"] == TOKEN
    (mount,), (volume,) = CONTAINER["volumeMounts"], POD["volumes"]
    assert mount["name"] == volume["name"] and args.model.startswith(mount["mountPath"] + "/")
    hook = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["terminationGracePeriodSeconds"] > hook + 2 * args.max_seconds


def test_probes_and_service_requests_are_answered(exported):
    args = serve.parse(["albert serve", "MODEL", *CONTAINER["args"]])
    with listen(args.host, 0) as listener:
        hosts = hosts_of(listener, args.allowed_hosts)
    served = Served(service_of(load_once(str(exported))), token="secret", hosts=hosts)
    for path in (CONTAINER[probe]["httpGet"]["path"] for probe in PROBES):
        assert served.get(path, headers={"Host": "10.1.2.3:8080"}).status_code == 200
    headers = {"Host": "albert-serve", "Authorization": "Bearer secret"}
    assert served.post(headers=headers).status_code == 200
    served.stop()
