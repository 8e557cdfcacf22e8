"""Bodies that are those of requests, and others; the schema says the same."""

from __future__ import annotations

import jsonschema
import pytest

from serving import fields

FIELDS = {
    "question": fields.text("What?"),
    "more": fields.text("Or nothing.", may_be_empty=True),
    "options": fields.texts("Two.", 2),
    "n_best": fields.number("How many?", 20),
}
LEAST = {"question": "Who?", "options": ["a", "b"]}


@pytest.fixture(scope="module")
def validator():
    schema = fields.whole(FIELDS)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_what_is_read(validator):
    assert fields.read(LEAST, FIELDS) == {**LEAST, "more": "", "n_best": 1}
    whole = {**LEAST, "more": "", "n_best": 20}
    assert fields.read(whole, FIELDS) == whole
    assert validator.is_valid(LEAST) and validator.is_valid(whole)
    # What no schema can refuse.
    with pytest.raises(fields.Unfit, match="'question' has half of a surrogate pair"):
        fields.read({**LEAST, "question": "a\ud83c"}, FIELDS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "the body must be a JSON object with question, more, options, n_best"),
        (None, "must be a JSON object"),
        ({"options": ["a", "b"]}, "'question' is missing"),
        ({**LEAST, "context": "a"}, "'context' is no field; there are question, more"),
        ({**LEAST, "question": ""}, "'question' is empty"),
        ({**LEAST, "question": " \n\u3000"}, "'question' is empty"),
        ({**LEAST, "question": None}, "'question' must be a text"),
        ({**LEAST, "more": 1}, "'more' must be a text"),
        ({**LEAST, "options": "ab"}, "'options' must be a list of 2 texts"),
        ({**LEAST, "options": ["a"]}, "'options' must be a list of 2 texts"),
        ({**LEAST, "options": ["a", ""]}, "'options[1]' is empty"),
        ({**LEAST, "n_best": 0}, "'n_best' must be an integer from 1 to 20"),
        ({**LEAST, "n_best": 21}, "from 1 to 20"),
        ({**LEAST, "n_best": 1.5}, "must be an integer"),
        ({**LEAST, "n_best": True}, "must be an integer"),
    ],
)
def test_faults(validator, body, message):
    with pytest.raises(fields.Unfit) as caught:
        fields.read(body, FIELDS)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not validator.is_valid(body)
