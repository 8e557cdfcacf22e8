"""Entities that a loaded model finds."""

import random

import pytest

from albert.inference import load_model
from albert.tasks.entities.head import make_head
from tests.helpers.fixtures import SIZES

WORDS = ["the", "river", "was", "built", "in", "may", "by", "anna", "and", "ready"]


def test_a_model_that_tags_pieces_finds_entities_inside_words(random_model):
    """Its description says so; descriptions of earlier versions have no units."""
    text, edges = "Therearenowordsinhere" * 4, {}
    own = {"task": "entities", "labels": ["O", "B-A", "I-A"]}
    for units in ({}, {"entity_units": "piece"}):
        folder = random_model(make_head(3, 0.0), **own, **units)
        edges[bool(units)] = {(s.start, s.end) for s in load_model(folder).find(text)}
    assert edges[False] <= {(0, len(text))}
    assert any(start > 0 for start, _ in edges[True])


@pytest.mark.parametrize(
    "tags", ["O B-A I-A B-B I-B", "B-A I-B I-A O", "A O ABC", "AB CD O E-MAIL", "I-A I-B O"]
)
def test_entities_equal_those_of_transformers(squad_dir, tmp_path, torch, tags):
    """Its pipeline with the tag of a word's first piece, for tags in which it sees entities."""
    import transformers

    labels = dict(enumerate(tags.split()))
    tokenizer = transformers.BertTokenizerFast(str(squad_dir / "vocab.txt"))
    config = transformers.BertConfig(**SIZES, vocab_size=len(tokenizer), id2label=labels)
    torch.manual_seed(len(tags))
    model = transformers.BertForTokenClassification(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    model.eval().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    theirs = transformers.pipeline(
        "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="first"
    )
    ours = load_model(str(tmp_path))
    names = {tag.removeprefix("B-").removeprefix("I-") for tag in tags.split()}
    assert ours.labels == sorted(names - {"O"})
    rng = random.Random(1)
    for _ in range(10):
        text = " ".join(rng.choices(WORDS, k=9))
        expected = [(e["start"], e["end"], e["entity_group"]) for e in theirs(text)]
        assert [(s.start, s.end, s.label) for s in ours.find(text)] == expected
