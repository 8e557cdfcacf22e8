"""The files for contributors and for CI: workflows, forms, and the pages in the root."""

import ast
import re

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.helpers.forking import ROOT
from tools.near import tracked
from tools.rooms import sources

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


def test_one_file_names_the_address_of_the_project():
    address = re.search(r'Homepage = "https://(.*)"', project())[1]
    texts = {name: (ROOT / name).read_bytes() for name in tracked() if (ROOT / name).exists()}
    assert [name for name, text in texts.items() if address.encode() in text] == ["pyproject.toml"]


def test_each_promise_of_the_threat_model_names_a_test():
    page = (ROOT / ".github/SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (`tests/.*) \|$", page, re.M)
    named = [name for _, cell in rows for name in re.findall(r"`(tests/\S+\.py)::(\w+)`", cell)]
    assert len(rows) > 20 and len(named) >= len(rows)
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path, _ in named}
    missing = [n for n in named if not re.search(rf"^ *def {n[1]}\(", texts[n[0]], re.M)]
    assert missing == []


def test_nothing_in_the_package_runs_code_from_files():
    """Nor starts a shell, or loads the graph of a SavedModel."""
    calls = {"eval", "exec", "saved_model.load", "saved_model.loader.load", "load_op_library"}
    calls |= {"import_meta_graph", "os.system"}
    wrong = []
    for source in sources():
        modules = source.tops & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
        named = {
            ast.unparse(n.func).removeprefix("tf.") for n in source.nodes if isinstance(n, ast.Call)
        }
        words = {ast.unparse(n) for n in source.nodes if isinstance(n, ast.keyword)}
        words &= {"shell=True", "allow_pickle=True", "trust_remote_code=True"}
        if modules or named & calls or words:
            wrong.append(source.name)
    assert wrong == []
