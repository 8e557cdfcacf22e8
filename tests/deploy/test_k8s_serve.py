"""The server's Deployment and Service: valid for Kubernetes, and meant for each other."""

from __future__ import annotations

import copy

import kubernetes_validate
import pytest
import requests
import yaml

import serve
from answering import load_model
from serving.server import HttpServer, hosts_of, listen, url_of
from serving.services import service_of
from serving.web import Api, Limits
from tests.helpers.forking import ROOT

FILE = ROOT / "deploy" / "k8s" / "serve.yaml"
# The oldest and the newest whose schema the package has, of those that are kept up.
VERSIONS = ("1.30", kubernetes_validate.latest_version())
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@pytest.fixture
def manifests() -> tuple[dict, dict]:
    deployment, service = yaml.safe_load_all(FILE.read_text(encoding="utf-8"))
    return deployment, service


def pod_of(deployment: dict) -> dict:
    return deployment["spec"]["template"]["spec"]


def container_of(deployment: dict) -> dict:
    (container,) = pod_of(deployment)["containers"]
    return container


def test_schema(manifests):
    for version in VERSIONS:
        for manifest in manifests:
            kubernetes_validate.validate(copy.deepcopy(manifest), version, strict=True)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda d: d["spec"].pop("selector"), "selector"),
        (lambda d: d["spec"].update(replicas="1"), "replicas"),
        (lambda d: container_of(d).update(readynessProbe={}), "readynessProbe"),
        (lambda d: container_of(d)["startupProbe"]["httpGet"].pop("port"), "port"),
        (lambda d: pod_of(d).update(terminationGracePeriodSeconds="a"), "terminationGrace"),
    ],
)
def test_the_schema_finds_faults(manifests, change, part):
    deployment, _ = manifests
    change(deployment)
    with pytest.raises(kubernetes_validate.ValidationError) as caught:
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)
    assert part in str(caught.value)


def test_the_service_finds_the_pods(manifests):
    deployment, service = manifests
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    (port,), (own,) = service["spec"]["ports"], container_of(deployment)["ports"]
    assert port["targetPort"] == own["name"]
    probes = [container_of(deployment)[probe]["httpGet"]["port"] for probe in PROBES]
    assert probes == [own["name"]] * 3


def test_the_command_is_one(manifests):
    deployment, _ = manifests
    container = container_of(deployment)
    python, program, *arguments = [*container["command"], *container["args"]]
    assert (python, (ROOT / program).is_file()) == ("python", True)
    args = serve.parse([program, *arguments])
    (port,) = container["ports"]
    assert args.port == port["containerPort"] and args.host == "0.0.0.0"
    (variable,) = container["env"]
    assert variable["name"] == serve.TOKEN
    (mount,), (volume,) = container["volumeMounts"], pod_of(deployment)["volumes"]
    assert mount["name"] == volume["name"] and args.model.startswith(mount["mountPath"] + "/")
    # The hook, a body and an answer.
    grace = pod_of(deployment)["terminationGracePeriodSeconds"]
    hook = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert grace > hook + 2 * args.max_seconds


def test_probes_and_the_service_are_answered(manifests, exported):
    """Under the names that they have there, by a server of the manifest's arguments."""
    container = container_of(manifests[0])
    args = serve.parse(["serve.py", "MODEL", *container["args"]])
    model = load_model(str(exported))
    with listen(args.host, 0) as listener:
        hosts = hosts_of(listener, args.allowed_hosts)
    api = Api(service_of(model), "squad-1.1", Limits(), "secret", hosts)
    with listen("127.0.0.1", 0) as listener:
        server = HttpServer(api.app(), listener, 60)
        url = url_of(listener)
        for path in (container[probe]["httpGet"]["path"] for probe in PROBES):
            # They need no token.
            assert requests.get(url + path, headers={"Host": "10.1.2.3:8080"}).status_code == 200
        headers = {"Host": "albert-serve", "Authorization": "Bearer secret"}
        body = {"question": "Who?", "context": "Anna."}
        assert requests.post(f"{url}/v1/answer", json=body, headers=headers).status_code == 200
        server.stop()
    api.close()
