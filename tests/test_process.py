"""The files for contributors and for CI: workflows, forms, and the pages in the root."""

import re

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.helpers.forking import ROOT
from tests.near import tracked
from tests.readme import pages

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")


def project() -> str:
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_few_rights_and_pinned_actions(path):
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
        # What can publish runs no code of the repository.
        if job["permissions"] != {"contents": "read"}:
            assert job["permissions"] == {"id-token": "write"} and "environment" in job
            assert not any("run" in step for step in job["steps"])
    uses = re.findall(r"uses: (.*)", text)
    assert uses and [u for u in uses if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", u)] == []
    targets = re.findall(r"^([\w%.-]+):", MAKEFILE, re.M)
    for target in re.findall(r"run: make ([\w-]+)", text):
        assert target in targets


def test_every_change_is_tested_on_every_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yaml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    supported = SpecifierSet(re.search(r'requires-python = "(.*)"', project())[1])
    assert tested == [f"3.{minor}" for minor in range(8, 20) if f"3.{minor}" in supported]


def test_the_bug_form_asks_for_the_diagnosis():
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8"))
    labels = [part["attributes"].get("label", "") for part in form["body"]]
    assert {"The output of `albert check --json`", "The file `run.json`"} <= {*labels}


def test_links_of_the_pages_in_the_root_lead_somewhere():
    wrong = []
    for page in (*ROOT.glob("*.md"), *(ROOT / ".github").glob("*.md")):
        for target in pages.links_of(page):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            if not path.exists() or (anchor and anchor not in pages.anchors_of(path)):
                wrong.append(f"{page.name}: {target}")
    assert wrong == []


def test_one_file_names_the_address_of_the_project():
    address = re.search(r'Homepage = "https://(.*)"', project())[1]
    texts = {name: (ROOT / name).read_bytes() for name in tracked() if (ROOT / name).exists()}
    assert [name for name, text in texts.items() if address.encode() in text] == ["pyproject.toml"]
