"""A small generated corpus with its SentencePiece model."""

import pathlib

import pytest

from albert import tokenization
from albert.tasks.pretraining.input_pipeline import RecordOptions
from albert.tasks.pretraining.masking import Masker, MaskingOptions
from albert.tasks.pretraining.pairs import PairOptions
from albert.tasks.pretraining.sentencepiece_trainer import train_model
from albert.tasks.pretraining.shards import DataOptions, make_shards, plan_shards
from tests.helpers.tiny_runs import write_topics


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> pathlib.Path:
    """Returns a folder with train.txt, dev.txt and spm.model."""
    folder = tmp_path_factory.mktemp("corpus")
    write_topics(folder / "train.txt", 1, 700)
    write_topics(folder / "dev.txt", 2, 60)
    # As many pieces as the text allows.
    model = train_model([str(folder / "train.txt")], 71, num_threads=1)
    (folder / "spm.model").write_bytes(model)
    return folder


@pytest.fixture(scope="session")
def tokenizer(corpus) -> tokenization.FullTokenizer:
    return tokenization.FullTokenizer(None, True, str(corpus / "spm.model"))


@pytest.fixture(scope="session")
def files(corpus, tokenizer, tmp_path_factory) -> dict[str, str]:
    """Returns files of the same sentences: "plain" has no masks, "short" has short sequences."""
    folder, paths = tmp_path_factory.mktemp("records"), {}
    for name, short, probability in (("masked", 0.1, 0.15), ("plain", 0.1, 0), ("short", 1, 0.15)):
        options = DataOptions(2, 1, PairOptions(32, short, False), MaskingOptions(4, probability))
        plan = plan_shards([str(corpus / "dev.txt")], [str(folder / name)], 2, False)
        make_shards(plan, tokenizer, options)
        paths[name] = str(folder / name)
    return paths


@pytest.fixture(scope="session")
def options(tokenizer) -> dict[str, RecordOptions]:
    """Returns the options of each of these files; the masks of "plain" are drawn."""
    masker = Masker(MaskingOptions(4, 0.15), tokenizer.mask_id, tokenizer.size)
    masked = RecordOptions(32, 4, tokenizer.size, None, 1)
    return {"masked": masked, "short": masked, "plain": masked._replace(masker=masker)}
