"""Entities that a loaded model finds."""

from albert.inference import load_model
from albert.tasks.entities.head import make_head


def test_a_model_that_tags_pieces_finds_entities_inside_words(random_model):
    """Its description says so; descriptions of earlier versions have no units."""
    text, edges = "Therearenowordsinhere" * 4, {}
    for units in ({}, {"entity_units": "piece"}):
        folder = random_model(
            make_head(3, 0.0), task="entities", labels=["O", "B-A", "I-A"], **units
        )
        edges[bool(units)] = {(s.start, s.end) for s in load_model(folder).find(text)}
    assert edges[False] <= {(0, len(text))}
    assert any(start > 0 for start, _ in edges[True])
