"""An additional check by data outside of the repository: figures of the reference on real text, and
the schema of the MPIJobs."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from tests.helpers import golden
from tests.helpers.forking import ROOT

SHARED = ROOT.parent / "shared"
FOLDER, DATA = SHARED / "golden", SHARED / "data"
REAL = golden.Figures(
    FOLDER,
    DATA / "squad",
    DATA / "spm" / "en8k.model",
    DATA / "race",
    DATA / "mrpc" / "msr_paraphrase_train.txt",
)


@pytest.fixture(autouse=True)
def shared() -> None:
    """Marks the tests of this module, see `tests.helpers.needs`."""


@pytest.mark.parametrize(
    ("data", "name", "lengths"),
    [
        ("train-v1.1", "features-train-v1.1", golden.USUAL),
        ("dev-v1.1", "features-dev-v1.1", golden.USUAL),
        ("train-v2.0", "features-train-v2.0-seq128", (128, 48, 24)),
        ("train-v1.1", "features-bert-train-v1.1", golden.USUAL),
        ("dev-v1.1", "features-bert-dev-v1.1", golden.USUAL),
    ],
)
def test_features_of_squad(data, name, lengths):
    golden.assert_squad_features(REAL, data, name, lengths)


def test_features_of_race_and_mrpc(tmp_path):
    golden.assert_race_features(REAL)
    golden.assert_mrpc_features(REAL, "mrpc-features-train-first600-seq128", tmp_path)


@pytest.mark.parametrize(
    "compare",
    [golden.assert_answers_v1, golden.assert_answers_v2, golden.assert_answers_of_words],
)
def test_answers(compare, tmp_path):
    compare(REAL, tmp_path)


@pytest.mark.parametrize("family", ["albert", "bert"])
def test_encoder(family):
    golden.assert_encoder_outputs(FOLDER / f"{family}_tiny")


def test_pretraining():
    golden.assert_pretraining_losses(FOLDER / "albert_tiny")


@pytest.mark.parametrize("compare", [golden.assert_training_v1, golden.assert_training_v2])
def test_training_by_the_references_functions(compare):
    compare(FOLDER / "albert_tiny")


@pytest.mark.parametrize(("family", "optimizer"), [("albert", "lamb"), ("bert", "adamw")])
def test_training(family, optimizer):
    golden.assert_training(FOLDER / f"{family}_tiny", optimizer)


def test_jobs_are_valid_under_the_operators_schema():
    file = SHARED / "schema" / "kubeflow.org_mpijobs.yaml"
    # libyaml's loader takes a tenth of the time.
    spec = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]
    (version,) = spec["versions"]
    validator = jsonschema.Draft202012Validator(strict(version["schema"]["openAPIV3Schema"]))
    names = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"]}
    for path in (ROOT / "deploy" / "k8s").glob("mpijob-*.yaml"):
        job = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert [error.message for error in validator.iter_errors(job)] == []
        assert job.items() >= names.items()


def strict(schema: Any) -> Any:
    """Returns the schema with unknown fields as errors: an API server would drop them."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if "properties" in schema:
        result["additionalProperties"] = False
    return result
