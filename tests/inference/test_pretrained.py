"""Models that others made: what their folders say, without anything of this project in them."""

import json

import numpy as np
import pytest

import albert
from albert.checkpoints import transformers_names as names
from albert.checkpoints.model_files import pretrained_files
from albert.checkpoints.pretrained import description_of
from albert.core.errors import UserError
from tests.helpers.fixtures import SIZES


@pytest.fixture
def write(transformers_folder):
    return transformers_folder


LABELS = {"id2label": {"1": "no", "0": "yes", "2": "maybe"}}
TAGS = {"id2label": {"0": "O", "1": "B-PER", "2": "I-PER"}}


@pytest.mark.parametrize(
    ("part", "values", "kind", "described"),
    [
        (names.SQUAD_V1, {}, "QuestionAnswerer", {"task": "squad-1.1", "max_answer_length": 30}),
        (names.CLASSIFIER, LABELS, "TextClassifier", {"labels": ["yes", "no", "maybe"]}),
        (names.CLASSIFIER, {}, "TextClassifier", {"labels": ["LABEL_0", "LABEL_1"]}),
        (
            names.CLASSIFIER,
            {**LABELS, "problem_type": "multi_label_classification"},
            "TextClassifier",
            {"multi_label": True, "label_threshold": 0.5},
        ),
        (names.CLASSIFIER, {"id2label": {"0": "x"}}, "TextClassifier", {"labels": [None]}),
        (
            names.TOKENS,
            {**TAGS, "architectures": ["BertForTokenClassification"]},
            "EntityFinder",
            {},
        ),
        ("", {}, "Embedder", {"max_seq_length": 40}),
    ],
)
def test_a_folder_of_transformers_is_a_model_of_its_head(write, part, values, kind, described):
    model = albert.load(write(part, **values))
    assert type(model).__name__ == kind
    assert described.items() <= model.folder.description.items()


def test_the_case_of_the_tokenizer_comes_from_the_folder(write, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = albert.load(write()).folder.tokenizer
    assert not tokenizer.do_lower_case
    assert tokenizer.tokenize("Anna") != tokenizer.tokenize("anna")
    for name, value in (("cls_token", "<s>"), ("do_basic_tokenize", False)):
        (tmp_path / "special_tokens_map.json").write_text(json.dumps({name: value}))
        with pytest.raises(UserError, match=f"{name} {value!r}, .* would make other tokens"):
            albert.load(str(tmp_path))


def test_a_tokenizer_json_alone_is_enough(write, tmp_path):
    folder, vocabulary = write(), tmp_path / "vocab.txt"
    expected = albert.load(folder).folder.tokenizer.vocab
    file, model = tmp_path / "tokenizer.json", {"type": "WordPiece", "vocab": dict(expected)}
    file.write_text(json.dumps({"model": model}))
    vocabulary.unlink()
    assert albert.load(folder).folder.tokenizer.vocab == expected
    for change, problem in (
        ({"type": "BPE"}, "BPE; ALBERT and BERT have"),
        ({"vocab": {"a": 1}}, "ids of"),
    ):
        file.write_text(json.dumps({"model": {**model, **change}}))
        with pytest.raises(UserError, match=problem):
            albert.load(folder)


def test_sentence_transformers_decides_pooling_normalization_and_length(write, tmp_path):
    path = write()
    kinds = "Transformer", "Pooling", "Normalize"
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": kind} for kind in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 6}')
    (tmp_path / "Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "Pooling/config.json").write_text(json.dumps(pooling))
    model, text = albert.load(path), "one two three four five six seven"
    (vector,) = model.encode([text])
    states = model.embed([text])[0].layers[-1]
    assert len(states) == 6
    np.testing.assert_allclose(vector, states[0] / np.linalg.norm(states[0]), atol=1e-6)

    for other, problem in (
        ({"pooling_mode_cls_token": False, "pooling_mode_max_tokens": True}, "max_tokens of sent"),
        ({"pooling_mode_mean_tokens": True}, "has 2 pooling modes"),
    ):
        (tmp_path / "Pooling/config.json").write_text(json.dumps({**pooling, **other}))
        with pytest.raises(UserError, match=problem):
            albert.load(path)


def test_a_converted_model_that_was_trained_further_has_its_new_labels(write):
    own = {"task": "glue", "labels": ["a", "b", "c"], "max_seq_length": 7}
    params = {"task_specific_params": {"albert-tf": own}}
    lengths = [
        albert.load(write(names.CLASSIFIER, id2label=dict(enumerate(labels)), **params))
        for labels in ("abc", "xyz")
    ]
    assert [model.folder.description["labels"] for model in lengths] == [[*"abc"], [*"xyz"]]
    assert [model.folder.description["max_seq_length"] for model in lengths] == [7, 40]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"id2label": {"0": "a", "2": "b"}}, r"id2label .* does not name every id"),
        ({"architectures": ["BertForFoo"]}, r"\['BertForFoo'\], which do not say what"),
    ],
)
def test_labels_and_the_kind_of_the_classifier_must_be_known(write, values, message):
    with pytest.raises(UserError, match=message):
        description_of(pretrained_files(write(names.CLASSIFIER, **values)))


def test_answers_equal_those_of_transformers(squad_dir, tmp_path, torch):
    """With weights, configuration and tokenizer that it has saved itself."""
    import transformers

    text, question = "Anna built the bridge in Paris and it was ready in May.", "Who built it?"
    tokenizer = transformers.BertTokenizer(str(squad_dir / "vocab.txt"))
    sizes = {**SIZES, "max_position_embeddings": 128, "vocab_size": len(tokenizer)}
    folders = {}
    for kind, labels in (("SequenceClassification", "abc"), ("QuestionAnswering", "ab")):
        folder = tmp_path / kind
        config = transformers.BertConfig(**sizes, id2label=dict(enumerate(labels)))
        torch.manual_seed(1)
        model = getattr(transformers, f"BertFor{kind}")(config).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        inputs = (text,) if kind == "SequenceClassification" else (question, text)
        with torch.no_grad():
            folders[kind] = folder, model(**tokenizer(*inputs, return_tensors="pt"))
    folder, output = folders["SequenceClassification"]
    theirs = dict(zip("abc", output.logits[0].softmax(0).tolist(), strict=True))
    assert albert.load(folder).classify(text).probabilities == pytest.approx(theirs, abs=1e-5)
    folder, output = folders["QuestionAnswering"]
    encoded = tokenizer(question, text)
    first, end = encoded["token_type_ids"].index(1), len(encoded["input_ids"]) - 1
    logits = (x[0, first:end].numpy() for x in (output.start_logits, output.end_logits))
    scores = np.add.outer(*logits)
    # An answer does not end before its start, and has at most 30 tokens.
    scores[np.tri(end - first, k=-1, dtype=bool) | ~np.tri(end - first, k=29, dtype=bool)] = -np.inf
    begin, last = np.unravel_index(scores.argmax(), scores.shape)
    pieces = tokenizer.convert_ids_to_tokens(encoded["input_ids"][first + begin : first + last + 1])
    (answer, *_) = albert.load(folder).answer(question, text).answers
    assert answer.text.lower().replace(" ", "") == "".join(p.removeprefix("##") for p in pieces)
