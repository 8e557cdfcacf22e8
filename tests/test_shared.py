"""Additional checks by data outside of the repository: the reference's figures on real text, and
the score of published weights."""

import pytest

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
    "compare", [golden.assert_answers_v1, golden.assert_answers_v2, golden.assert_answers_of_words]
)
def test_answers(compare, tmp_path):
    compare(REAL, tmp_path)


@pytest.mark.parametrize(
    ("compare", "family", "options"),
    [
        (golden.assert_encoder_outputs, "albert", ()),
        (golden.assert_encoder_outputs, "bert", ()),
        (golden.assert_pretraining_losses, "albert", ()),
        (golden.assert_training_v1, "albert", ()),
        (golden.assert_training_v2, "albert", ()),
        (golden.assert_training_v1, "albert", ("lamb",)),
        (golden.assert_training_v1, "bert", ("adamw",)),
    ],
)
def test_models(compare, family, options):
    compare(FOLDER / f"{family}_tiny", *options)
