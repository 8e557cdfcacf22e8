"""The server's Deployment and Service: valid for Kubernetes, and consistent with each other."""

import copy

import kubernetes_validate
import pytest
import yaml

from albert.cli import serve
from albert.cli.serve import TOKEN
from albert.serving.server import hosts_of, listen
from albert.serving.services import service_of
from tests.helpers.forking import ROOT
from tests.helpers.serving import Served, load_once

# The oldest and the newest supported version with a schema in the package.
VERSIONS = ("1.30", kubernetes_validate.latest_version())
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
DEPLOYMENT, SERVICE = yaml.safe_load_all((ROOT / "deploy/k8s/serve.yaml").read_bytes())
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [DEPLOYMENT, SERVICE], ids=["deployment", "service"])
def test_manifests_are_valid_in_every_version(manifest, version):
    kubernetes_validate.validate(copy.deepcopy(manifest), version, strict=True)


def test_the_service_finds_the_pods():
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    (port,), (own,) = SERVICE["spec"]["ports"], CONTAINER["ports"]
    assert port["targetPort"] == own["name"]
    assert [CONTAINER[probe]["httpGet"]["port"] for probe in PROBES] == [own["name"]] * 3


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
