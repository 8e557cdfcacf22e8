"""Folders of models: of this project and of others, and folders that hold none."""

import json
import random
import shutil

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

import albert
from albert.checkpoints import transformers_names as names
from albert.checkpoints.foreign_models import OWN_PARAMS, description_of
from albert.checkpoints.model_folder import ASSETS, ModelFolder, pretrained_files
from albert.cli import embed
from albert.cli.embed import EmbedSettings
from albert.core.errors import UserError
from albert.inference import load_model
from albert.inference.folders import open_folder
from albert.tasks import completed
from tests.helpers import glue
from tests.helpers.files import settings_of
from tests.helpers.serving import model_of


@pytest.fixture
def write(transformers_folder):
    return transformers_folder


LABELS = {"id2label": {"1": "no", "0": "yes", "2": "maybe"}}
TAGS = {"id2label": {"0": "O", "1": "B-PER", "2": "I-PER"}}
TAGS_IN_ORDER = ["O", "B-PER", "I-PER"]


ARCHITECTURE = {"architectures": ["BertForTokenClassification"]}
CHOICE = {"architectures": ["BertForMultipleChoice"], "num_labels": 1}
SEVERAL = {"problem_type": "multi_label_classification"}
OWN = {"task_specific_params": {OWN_PARAMS: {"task": "squad-1.1", "n_best_size": 7, "head": "x"}}}
KINDS = {
    **{names.SQUAD_V1: "QuestionAnswerer", names.CLASSIFIER: "TextClassifier"},
    **{names.TOKENS: "EntityFinder", "": "Embedder"},
}


@pytest.mark.parametrize(
    ("part", "values", "described"),
    [
        (names.SQUAD_V1, {}, {"task": "squad-1.1", "max_answer_length": 30}),
        (names.CLASSIFIER, LABELS, {"labels": ["yes", "no", "maybe"]}),
        (names.CLASSIFIER, {}, {"labels": ["LABEL_0", "LABEL_1"]}),
        (names.CLASSIFIER, {**LABELS, **SEVERAL}, {"multi_label": True, "label_threshold": 0.5}),
        (names.CLASSIFIER, {"id2label": {"0": "x"}}, {"labels": [None]}),
        (names.CLASSIFIER, {"id2label": {"0": "x"}, **SEVERAL}, {"labels": ["x"]}),
        (names.CLASSIFIER, {"id2label": {"0": 5, "1": 1.5}}, {"labels": ["5", "1.5"]}),
        (names.CLASSIFIER, {"num_labels": 3}, {"labels": ["LABEL_0", "LABEL_1", "LABEL_2"]}),
        (names.TOKENS, {**TAGS, **ARCHITECTURE}, {}),
        ("", {}, {"max_seq_length": 40}),
    ],
)
def test_a_folder_of_transformers_is_a_model_of_its_head(write, part, values, described):
    model = albert.load(write(part, **values))
    assert type(model).__name__ == KINDS[part]
    assert described.items() <= model.folder.description.items()


@pytest.mark.parametrize(
    ("part", "values", "expected"),
    [
        (names.SQUAD_V1, {}, {"doc_stride": 128, "handle_impossible_answer": False}),
        (names.SQUAD_V1, OWN, {"task": "squad-1.1", "n_best_size": 7}),
        (names.SQUAD_V2, {}, {"task": "squad-2.0", "start_n_top": 5, "max_seq_length": 384}),
        (names.CLASSIFIER, CHOICE, {"task": "race", "labels": [*"ABCD"], "max_qa_length": 128}),
        (names.CLASSIFIER, {}, {"task_name": "tsv", "tsv_regression": False, "limits": None}),
        (names.TOKENS, {**TAGS, **ARCHITECTURE}, {"task": "entities", "labels": TAGS_IN_ORDER}),
        ("", {}, {"max_seq_length": 512, "has_pooler": True}),
    ],
)
def test_the_task_of_a_head_completes_its_description(write, part, values, expected):
    model = ModelFolder.from_checkpoint(write(part, max_position_embeddings=512, **values))
    first = {**completed(model).description}
    assert expected.items() <= first.items() and not {"head", "trained"} & first.keys()
    assert completed(model).description == first


def test_other_assets_do_not_hide_a_model_of_transformers(write, tmp_path):
    folder = write(names.CLASSIFIER, **LABELS)
    (tmp_path / folder / ASSETS).mkdir()
    for model in (ModelFolder.find(folder), ModelFolder.from_checkpoint(folder)):
        assert model.known["labels"] == ["yes", "no", "maybe"]


def test_an_unknown_engine_is_an_error(write):
    with pytest.raises(UserError, match="the engine 'onnx' is not one of auto, tensorflow, openv"):
        albert.load(write(names.SQUAD_V1), "onnx")


def test_a_tokenizer_json_alone_is_enough(write, tmp_path):
    folder, vocabulary = write(), tmp_path / "vocab.txt"
    expected = albert.load(folder).folder.tokenizer.vocab
    file, model = tmp_path / "tokenizer.json", {"type": "WordPiece", "vocab": dict(expected)}
    ids = {name: (name, expected[name]) for name in ("[CLS]", "[SEP]")}
    content = {
        "normalizer": {"type": "BertNormalizer"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ids["[CLS]"], "sep": ids["[SEP]"]},
        "model": model,
    }
    file.write_text(json.dumps(content))
    vocabulary.unlink()
    assert albert.load(folder).folder.tokenizer.vocab == expected
    for change, problem in (
        ({"type": "BPE"}, "BPE; ALBERT and BERT have"),
        ({"vocab": {**expected, "a": 999}}, "ids of"),
    ):
        file.write_text(json.dumps({**content, "model": {**model, **change}}))
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
    (tmp_path / "lines.txt").write_text(text)
    paths = [f"--input_file={tmp_path}/lines.txt", f"--output_file={tmp_path}/vectors.npz"]
    embed.main(
        settings_of(EmbedSettings, f"--model={path}", "--pooling=model", "--layers=", *paths)
    )
    with np.load(tmp_path / "vectors.npz") as arrays:
        np.testing.assert_allclose(arrays["sentence"], [vector], atol=1e-6)

    for other, problem in (
        ({"pooling_mode_cls_token": False, "pooling_mode_max_tokens": True}, "max_tokens of sent"),
        ({"pooling_mode_mean_tokens": True}, "pooling cls, mean of sentence-transformers is not"),
    ):
        (tmp_path / "Pooling/config.json").write_text(json.dumps({**pooling, **other}))
        with pytest.raises(UserError, match=problem):
            albert.load(path)


def test_a_model_of_others_is_scored_and_labels_a_test_set_by_name(write, tmp_path, capsys):
    """F1 is that of the label 1, wherever the model has it."""
    glue.write_all(tmp_path, ["one", "two", "three", "four", "five"])
    folder = write(names.CLASSIFIER, id2label={"0": "1", "1": "0"})
    options = {"task_name": "mrpc", "data_dir": str(tmp_path), "max_seq_length": 40}
    out = tmp_path / "out"
    result = albert.evaluate(folder, str(out), do_predict=True, verbose=False, **options)
    assert "The model's labels have no names; assumed: 0 = 0, 1 = 1" in capsys.readouterr().err
    (dev, truths), (test, _) = (
        ([row[3:5] for row in rows], [row[0] for row in rows])
        for rows in (read_rows(tmp_path / f"MRPC/{split}.tsv") for split in ("dev", "test"))
    )
    model = albert.load(folder)
    answers = [[one.label for one in model.classify_all(pairs)] for pairs in (dev, test)]
    expected = {"eval_accuracy": accuracy_score(truths, answers[0])}
    expected["f1"] = f1_score(truths, answers[0], pos_label="1")
    shares = [one.probabilities[t] for one, t in zip(model.classify_all(dev), truths, strict=True)]
    expected["eval_loss"] = -np.mean(np.log(shares))
    assert result.scores == pytest.approx(expected, abs=1e-5)
    assert [row[1] for row in read_rows(out / "submit_results.tsv")] == answers[1]
    columns = np.loadtxt(out / "test_results.tsv")
    expected = [[one.probabilities[n] for n in "01"] for one in model.classify_all(test)]
    np.testing.assert_allclose(columns, expected, atol=1e-5)
    with pytest.raises(UserError, match=r"trained for the labels 1, 0, not for --task_name=mnli"):
        albert.evaluate(folder, verbose=False, **{**options, "task_name": "mnli"})


def read_rows(path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()[1:]]


def test_a_training_keeps_what_the_models_labels_mean(write, tmp_path):
    """With the tokenizer's settings as the folder has them, also to score the result."""
    folder = write(names.CLASSIFIER, id2label={"0": "water", "1": "stone"})
    options = {"do_lower_case": False, "strip_accents": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    rows = [("one two", "stone"), ("three four", "water")] * 2
    values = {"train_steps": 1, "train_batch_size": 2, "max_seq_length": 16, "verbose": False}
    values |= {"learning_rate": 1e-9, "do_eval": False, "task_name": "tsv", "model": folder}
    table = "".join(f"{a},{b}\n" for a, b in [("text", "label"), *rows])
    (tmp_path / "train.csv").write_text(table)
    result = albert.train("classify", tmp_path / "run", data_dir=str(tmp_path), **values)
    for text, _ in rows[:2]:
        models = albert.load(folder), result.load()
        theirs, ours = (model.classify(text).probabilities for model in models)
        assert ours == pytest.approx(theirs, abs=1e-5) and [*ours] == ["stone", "water"]
    scores = albert.evaluate(result, data_dir=str(tmp_path / "train.csv"), verbose=False).scores
    assert scores["eval_loss"] > 0


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
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, r"has the label 'a' twice"),
        ({"id2label": {"0": 1, "1": "1"}}, r"has the label '1' twice"),
        ({"id2label": {"0": "a", "1": None}}, r"unsupported id2label .*: a name for each id"),
        ({"id2label": {"0": "a", "1": ""}}, r"has a label that is no text"),
        ({"architectures": ["BertForFoo"]}, r"\['BertForFoo'\], which do not say what"),
    ],
)
def test_labels_and_the_kind_of_the_classifier_must_be_known(write, values, message):
    with pytest.raises(UserError, match=message):
        description_of(pretrained_files(write(names.CLASSIFIER, **values)))


def test_a_model_of_squad_2_abstains_as_the_pipeline_of_transformers_does(
    write, random_model, tmp_path, torch
):
    from transformers import BertForQuestionAnswering, BertTokenizerFast, pipeline

    folder, flag = write(names.SQUAD_V1, max_position_embeddings=128), "handle_impossible_answer"
    theirs = BertForQuestionAnswering.from_pretrained(folder)
    tokenizer = BertTokenizerFast(str(tmp_path / "vocab.txt"))
    ask = pipeline("question-answering", theirs, tokenizer=tokenizer)
    ours = albert.load(folder, handle_impossible_answer=True)
    rng, words, abstained = random.Random(5), ["one", "two", "three", "four", "five"], []
    # In a short text, few answers compete with none.
    for most in (2, 12) * 15:
        question, text = (" ".join(rng.choices(words, k=rng.randint(1, n))) for n in (4, most))
        # Otherwise, the pipeline adds up the scores of answers in the same words.
        options = {flag: True, "max_answer_len": 30, "align_to_words": False}
        found = ask(question=question, context=text, **options)
        answered = ours.answer(question, text)
        assert answered.abstains == (found["answer"] == "")
        abstained.append(answered.abstains)
    assert {*abstained} == {True, False}
    assert albert.load(folder).answer(question, text).no_answer_odds is None
    params = {"task_specific_params": {"question-answering": {flag: True}}}
    folder = write(names.SQUAD_V1, max_position_embeddings=128, **params)
    assert albert.load(folder).answer(question, text).abstains == abstained[-1]
    with pytest.raises(UserError, match="is for a head of SQuAD 1.1, and .* is for glue"):
        albert.load(model_of(random_model, "labels"), handle_impossible_answer=True)


@pytest.fixture
def model(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "moved" / "saved_model" / "1")


def test_a_parent_folder_serves_one_model_and_a_run_the_best_or_newest(model, trained, tmp_path):
    for above in (model.parent, model.parent.parent):
        assert open_folder(str(above)).path == str(model)
    shutil.copytree(model, model.parent / "2")
    fails(model.parent, "has several models; pass one of them", str(model.parent / "2"))
    change(model, do_lower_case=False)
    assert open_folder(str(model)).tokenizer.do_lower_case is False
    assert open_folder(str(trained)).checkpoint == str(trained / "model.ckpt-best")
    ignored = shutil.ignore_patterns("*best*")
    folder = shutil.copytree(trained, tmp_path / "out", ignore=ignored)
    assert open_folder(str(folder)).checkpoint == str(folder / "model.ckpt-12")


def change(model, **values) -> None:
    path = model / "assets.extra" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def fails(path, *parts: str) -> None:
    with pytest.raises(UserError) as caught:
        load_model(str(path))
    message = str(caught.value)
    assert "\n" not in message and all(part in message for part in (str(path), *parts)), message


def test_a_folder_without_a_model_is_an_error(tmp_path):
    fails(tmp_path / "none", "does not exist")
    fails(tmp_path, "has no model; pass a folder that --export_dir or --output_dir has written")
    (tmp_path / "file").touch()
    fails(tmp_path / "file", "is a file")


def test_a_model_without_its_description_is_an_error(model, trained, tmp_path):
    shutil.rmtree(model / "assets.extra")
    shutil.copytree(trained, tmp_path / "out", ignore=shutil.ignore_patterns("assets.extra"))
    for folder in (model, model.parent, tmp_path / "out"):
        fails(folder, "has no assets.extra/model.json", "copy the whole folder, or repeat the com")


def test_a_missing_file_or_a_description_that_does_not_fit_is_an_error(model):
    for missing, part in (
        ("variables/variables.data-00000-of-00001", "damaged or incomplete"),
        ("assets.extra/config.json", "cannot be read"),
        ("variables/variables.index", "expected one checkpoint in this folder"),
        ("assets.extra/spm.model", "has no tokenizer"),
    ):
        content = (model / missing).read_bytes()
        (model / missing).unlink()
        fails(model, part)
        (model / missing).write_bytes(content)
    change(model, task="squad-2.0", start_n_top=5, end_n_top=5, no_answer_threshold=None)
    fails(model, "does not match the model", "start_logits")
    change(model, task="pretraining")
    fails(model, "has a model for pretraining, which cannot answer or classify; supported tasks")
    change(model, max_seq_length=10**6)
    fails(model, "max_seq_length of 1000000, but the model takes")
    description = model / "assets.extra" / "model.json"
    for text in ("", "[]", "{}", '{"task": 3}'):
        description.write_text(text)
        fails(model, "model.json")
    description.write_text('{"task": "squad-1.1", "max_seq_length": 64}')
    fails(model, "model.json has no")
