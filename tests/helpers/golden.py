"""Golden figures of the reference, see `tests/golden/README.md`, and comparisons with them."""

import gzip
import json
import pathlib
import unicodedata
from collections.abc import Collection, Container, Sequence
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert import classifier_utils, modeling, squad_utils
from albert.classifier_utils import MrpcProcessor
from albert.core import estimators
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.race_utils import RaceProcessor
from albert.squad_utils import InputFeatures, RawResult, RawResultV2, SquadExample
from albert.tasks.glue.features import make_records
from albert.tasks.pretraining.head import make_head as make_pretraining_head
from albert.tasks.pretraining.head import scores_of
from albert.tasks.race.examples import make_sequences
from albert.tasks.squad.head import make_v1_head
from albert.tokenization import FullTokenizer
from albert.training.model_fn import make_model_fn
from tests.helpers.encoders import assert_close, outputs_of
from tests.helpers.forking import ROOT
from tests.helpers.squad_head import NUMBERS, SEQUENCES, golden_run, train_golden

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
# `max_seq_length`, `doc_stride` and `max_query_length` of the features of whole paragraphs.
USUAL = (384, 128, 64)
# Whether outputs are nearly right, and then the positions of an answer in the window.
Near = tuple[bool, tuple[int, int] | None]


class Figures(NamedTuple):
    """The locations of figures (features, predictions, models) and of the data they are from."""

    folder: pathlib.Path
    squad: pathlib.Path
    spm_model: pathlib.Path
    # The folder with RACE/, and the training set of MRPC.
    race: pathlib.Path
    mrpc: pathlib.Path

    def rows(self, name: str) -> list[dict]:
        with gzip.open(self.folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            return list(map(json.loads, lines))

    def tokenizer(self, of_words: bool = False) -> FullTokenizer:
        """Returns the tokenizer of the SentencePiece model, or that of WordPiece."""
        if of_words:
            return FullTokenizer(str(self.folder / "bert_tiny" / "vocab.txt"))
        return FullTokenizer(None, True, str(self.spm_model))

    def articles(self, name: str) -> list[dict]:
        return read_json(self.squad / f"{name}.json")["data"]


FOLDER = ROOT / "tests" / "golden"
DATA = FOLDER / "data"
GOLDEN = Figures(FOLDER, DATA, DATA / "spm.model", DATA, DATA / "MRPC" / "train.tsv")


def read_json(path: pathlib.Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def convert(
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    lengths: tuple[int, int, int],
    training: bool,
    lower: bool = True,
) -> list[InputFeatures]:
    """Returns the features; `lengths` are max_seq_length, doc_stride and max_query_length."""
    features: list[InputFeatures] = []
    arguments = (examples, tokenizer, *lengths, training, features.append, lower)
    squad_utils.convert_examples_to_features(*arguments)
    return features


def assert_squad_features(
    figures: Figures,
    data: str,
    name: str,
    lengths: tuple[int, int, int] = USUAL,
    left_out: Collection[str] = (),
    inexact: int = 0,
) -> None:
    """Compares all features of a file, except those of questions that the reference drops.

    Some of the reference's offsets in the text are inexact.
    """
    training, rows = data.startswith("train"), figures.rows(name)
    examples = squad_utils.read_squad_examples(str(figures.squad / f"{data}.json"), training)
    total = len(examples)
    examples = [example for example in examples if example.qas_id not in left_out]
    assert total - len(examples) == len(left_out)
    features = convert(examples, figures.tokenizer("bert" in name), lengths, training)
    assert len(features) == len(rows) > 100
    number, found = -1, 0
    for feature, row in zip(features, rows, strict=True):
        number += feature.doc_span_index == 0
        example = examples[number]
        assert row.get("qas_id", example.qas_id) == example.qas_id
        assert_sequences(feature, row, lengths[0])
        if training:
            assert_answer(feature, row, example)
        else:
            assert feature.start_position is feature.end_position is None
            best = [i for i, is_best in feature.token_is_max_context.items() if is_best]
            assert best == row["max_context"]
        # Google's BERT has words where ALBERT has characters.
        if "tok_start_to_orig_index" in row:
            assert feature.example_index == row["example_index"] == number
            found += inexact_offsets(feature, row, example.paragraph_text)
    assert found == inexact


def assert_sequences(feature: InputFeatures, row: dict, padded: int) -> None:
    length, first = len(row["input_ids"]), row["n_segment0"]
    padding = [0] * (padded - length)
    assert feature.input_ids == row["input_ids"] + padding
    assert feature.segment_ids == [0] * first + [1] * (length - first) + padding
    assert feature.input_mask == [1] * length + padding
    # Google's BERT has no mask of positions; ours is that of ALBERT.
    p_mask = row.get("p_mask", "0" + "1" * (first - 1) + "0" * (length - first - 1) + "1")
    assert feature.p_mask == [*map(int, p_mask), *(1 for _ in padding)]
    assert feature.unique_id == row["unique_id"]
    assert feature.doc_span_index == row["doc_span_index"]
    assert feature.paragraph_len == length == len(feature.tokens)


def assert_answer(feature: InputFeatures, row: dict, example: SquadExample) -> None:
    """Compares the answer's positions; the text between them is correct as well."""
    assert feature.example_index is None
    expected = row["start"], row["end"], row.get("is_impossible", row["start"] == 0)
    found = feature.start_position, feature.end_position, feature.is_impossible
    assert found == expected, example
    if not feature.is_impossible:
        first = feature.tok_start_to_orig_index[row["start"] - row["n_segment0"]]
        last = feature.tok_end_to_orig_index[row["end"] - row["n_segment0"]]
        assert example.orig_answer_text in example.paragraph_text[first : last + 1]


def inexact_offsets(feature: InputFeatures, row: dict, text: str) -> int:
    """Returns how many of the reference's offsets differ, by blanks and combining marks."""
    parts = [
        text[theirs : ours + 1]
        for name in ("tok_start_to_orig_index", "tok_end_to_orig_index")
        for ours, theirs in zip(getattr(feature, name), row[name], strict=True)
        if ours != theirs
    ]
    assert all(len(unicodedata.normalize("NFC", part.strip())) == 1 for part in parts), parts
    return len(parts)


def assert_race_features(figures: Figures) -> None:
    processor = RaceProcessor(True, True, False, False)
    examples, tokenizer = processor.get_train_examples(str(figures.race)), figures.tokenizer()
    rows = figures.rows("features-race-train-seq256")
    assert len(examples) == len(rows) >= 60
    for example, expected in zip(examples, rows, strict=True):
        sequences = make_sequences(example, tokenizer, 256, 64)
        assert [list(sequence.ids) for sequence in sequences] == expected["input_ids"]
        assert [sequence.first for sequence in sequences] == expected["n_segment0"]
        assert example.label == expected["label"]


def assert_mrpc_features(figures: Figures, name: str, folder: pathlib.Path) -> None:
    """Compares the features of the first pairs, by both ways of converting."""
    golden, tokenizer = figures.rows(name), figures.tokenizer()
    (folder / "MRPC").mkdir()
    (folder / "MRPC" / "train.tsv").write_bytes(figures.mrpc.read_bytes())
    processor = MrpcProcessor(use_spm=True, do_lower_case=True)
    examples = processor.get_train_examples(str(folder))[: len(golden)]
    labels = processor.get_labels()
    records = make_records(examples, tokenizer, labels, 128)
    features = classifier_utils.convert_examples_to_features(
        examples, labels, 128, tokenizer, "mrpc"
    )
    assert len(golden) >= 100
    for row, example, feature, record in zip(golden, examples, features, records, strict=True):
        used, first = len(row["input_ids"]), row["n_segment0"]
        padding = [0] * (128 - used)
        expected = {
            "input_ids": row["input_ids"] + padding,
            "input_mask": [1] * used + padding,
            "segment_ids": [0] * first + [1] * (used - first) + padding,
            **{"label_ids": [row["label_id"]], "is_real_example": [1]},
        }
        assert example.guid == row["guid"]
        assert fields_of(feature) == fields(record) == expected


def fields(record: bytes) -> dict[str, list]:
    return {
        key: list(getattr(feature, feature.WhichOneof("kind")).value)
        for key, feature in tf.train.Example.FromString(record).features.feature.items()
    }


def fields_of(feature: classifier_utils.InputFeatures) -> dict[str, list]:
    """Returns the values of a feature in the same form."""
    sequences = {key: getattr(feature, key) for key in ("input_ids", "input_mask", "segment_ids")}
    numbers = {"label_ids": [feature.label_id], "is_real_example": [feature.is_real_example]}
    return {**sequences, **numbers}


# Answers and scores for pseudo-random outputs, which the README of the figures describes.


def predicted(figures: Figures, name: str, of_words: bool = False) -> tuple[list, list]:
    path = str(figures.squad / f"{name}.json")
    examples = squad_utils.read_squad_examples(path, is_training=False)
    return examples, convert(examples, figures.tokenizer(of_words), USUAL, False)


def written_v1(examples, features, outputs, folder, lengths=(20, 30)):
    spans, arguments = {}, (examples, features, outputs, *lengths)
    squad_utils.accumulate_predictions_v1(spans, *arguments)
    files = [folder / name for name in ("predictions.json", "nbest.json")]
    returned = squad_utils.write_predictions_v1(spans, *arguments, *map(str, files))
    written = [read_json(file) for file in files]
    assert returned == written[0]
    return written


def assert_answers_v1(figures: Figures, folder: pathlib.Path, near: bool = False) -> None:
    """Compares answers, n-best lists and scores for SQuAD 1.1, in an empty folder; if `near`, for
    outputs of which most are nearly right."""
    golden = figures.folder / f"predictions_v1{'_near' * near}"
    examples, features = predicted(figures, "dev-v1.1")
    nearness = nearly_right(figures, "dev-v1.1", 3) if near else [(False, None)] * len(features)
    outputs = list(map(output_v1, features, nearness))
    answers, nbest = written_v1(examples, features, outputs, folder)
    assert len(answers) >= 120
    assert_written(golden, answers, nbest)
    assert_scores(golden, squad_utils.evaluate_v1(figures.articles("dev-v1.1"), answers))


def assert_answers_v2(figures: Figures, folder: pathlib.Path, near: bool = False) -> None:
    """Compares the same and the odds of no answer for SQuAD 2.0; see `assert_answers_v1`."""
    golden = figures.folder / f"predictions_v2{'_near' * near}"
    examples, features = predicted(figures, "dev-v2.0")
    nearness = nearly_right(figures, "dev-v2.0", 4) if near else [(False, None)] * len(features)
    outputs, spans, odds = list(map(output_v2, features, nearness)), {}, {}
    arguments = (examples, features, outputs, 20, 30)
    squad_utils.accumulate_predictions_v2(spans, odds, *arguments, 5, 5)
    files = [folder / name for name in ("answers", "nbest", "odds")]
    articles = figures.articles("dev-v2.0")
    scores = squad_utils.evaluate_v2(spans, odds, articles, *arguments, *map(str, files))
    answers, nbest, odds = map(read_json, files)
    assert_written(golden, answers, nbest)
    assert odds == pytest.approx(read_json(golden / "null_odds.json"), abs=1e-9)
    assert_scores(golden, scores)


def assert_written(golden: pathlib.Path, answers: dict, nbest: dict) -> None:
    expected = read_json(golden / "predictions.json")
    assert answers == expected and list(answers) == list(expected)
    expected = top_three(golden)
    assert nbest.keys() == expected.keys()
    for qas_id, entries in expected.items():
        ours = nbest[qas_id]
        assert len(ours) <= 20
        assert [e["text"] for e in ours[:3]] == [e["text"] for e in entries]
        for a, b in zip(ours, entries, strict=False):
            assert a.keys() == b.keys()
            for key in ("probability", "start_log_prob", "end_log_prob"):
                assert a[key] == pytest.approx(b[key], rel=1e-6)


def top_three(golden: pathlib.Path) -> dict[str, list[dict]]:
    return json.loads(gzip.decompress((golden / "nbest_top3.json.gz").read_bytes()))


def assert_scores(golden: pathlib.Path, scores: dict) -> None:
    expected = read_json(golden / "eval.json")
    assert {key: scores[key] for key in expected} == pytest.approx(expected, abs=1e-9)


def assert_answers_of_words(
    figures: Figures, folder: pathlib.Path, not_found: Container[str] = ()
) -> dict:
    """Compares the answers of WordPiece, up to white space, with those of Google's BERT, which
    joins words with a space, except where it did not find them in the paragraph again. Ours are
    text of the paragraph. Returns the n-best lists.
    """
    examples, features = predicted(figures, "dev-v1.1", of_words=True)
    outputs = [output_v1(feature, (False, None)) for feature in features]
    answers, nbest = written_v1(examples, features, outputs, folder)
    golden = read_json(figures.folder / "predictions_bert_v1" / "predictions.json")
    assert len(golden) >= 120 and list(answers) == list(golden)
    for example in examples:
        answer, theirs = answers[example.qas_id], golden[example.qas_id]
        assert answer in example.paragraph_text or answer == theirs == "empty"
        assert example.qas_id in not_found or answer.split() == theirs.split()
    return nbest


def output_v1(feature: InputFeatures, near: Near) -> RawResult:
    rng = np.random.RandomState(feature.unique_id % 2**31)
    start, end = ((2 * rng.standard_normal(384)).astype("f4") for _ in range(2))
    used = sum(feature.input_mask)
    k = rng.randint(0, used)
    start[k] += 5
    end[min(used - 1, k + rng.randint(0, 6))] += 5
    start, end = start.astype("f8"), end.astype("f8")
    if near[1]:
        start[near[1][0]] += 9
        end[near[1][1]] += 9
    return RawResult(feature.unique_id, start, end)


def output_v2(feature: InputFeatures, near: Near) -> RawResultV2:
    rng, used = np.random.RandomState(feature.unique_id % 2**31), sum(feature.input_mask)

    def scores() -> np.ndarray:
        return (2 * rng.standard_normal(384)).astype("f4")

    start, ends, end_scores = scores(), [], []
    start[rng.randint(used - sum(feature.segment_ids), used, 4)] += 6
    starts = np.argsort(-start, kind="stable")[:5]
    start_scores = start[starts]
    for first in starts:
        end = scores()
        end[[min(used - 1, first + k) for k in rng.randint(0, 12, 3)]] += 5
        ends += np.argsort(-end, kind="stable")[:5].tolist()
        end_scores += end[ends[-5:]].tolist()
    odds = 3 * rng.standard_normal()
    is_near, positions = near
    if positions:
        starts[0], ends[0] = positions
        start_scores[0] = end_scores[0] = 9
    if is_near:
        odds = odds / 2 + (-2 if positions else 2)
    return RawResultV2(feature.unique_id, start_scores, starts, end_scores, ends, odds)


def nearly_right(figures: Figures, data: str, of: int) -> list[Near]:
    """Returns the nearness of each feature; one question out of `of` has none."""
    questions = [q for a in figures.articles(data) for p in a["paragraphs"] for q in p["qas"]]
    answers = {question["id"]: question["answers"][:1] for question in questions}
    rows = figures.rows(f"features-{data}")
    return [
        (True, positions_of(row, answers[row["qas_id"]]))
        if row["example_index"] % of
        else (False, None)
        for row in rows
    ]


def positions_of(row: dict, answers: list[dict]) -> tuple[int, int] | None:
    starts, ends = row["tok_start_to_orig_index"], row["tok_end_to_orig_index"]
    for answer in answers:
        first = answer["answer_start"]
        last = first + len(answer["text"]) - 1
        if starts[0] <= first and last <= ends[-1]:
            x = next(i for i, end in enumerate(ends) if end >= first)
            y = max(i for i, start in enumerate(starts) if start <= last)
            return row["n_segment0"] + x, row["n_segment0"] + y
    return None


def read_config(folder: pathlib.Path) -> modeling.EncoderConfig:
    (path,) = folder.glob("*_config.json")
    return modeling.read_config(str(path))


def stored_shapes(folder: pathlib.Path) -> dict[str, list[int]]:
    (index,) = folder.glob("*.index")
    stored = tf.train.load_checkpoint(str(index.with_suffix(""))).get_variable_to_shape_map()
    return {name: shape for name, shape in stored.items() if name != "global_step"}


def shapes_of_variables() -> dict[str, list[int]]:
    return {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}


def assert_encoder_outputs(folder: pathlib.Path) -> None:
    """Compares outputs of real tokens, and the names and shapes of variables."""
    figures = np.load(folder / "encoder.npz")
    inputs = [figures[name] for name in SEQUENCES]
    with tf.Graph().as_default(), tf.Session() as session:
        model = modeling.Encoder(read_config(folder), False, *map(tf.constant, inputs))
        summary = modeling.initialize_from_checkpoint(tf.trainable_variables(), str(folder))
        shapes = shapes_of_variables()
        session.run(tf.global_variables_initializer())
        found = session.run(outputs_of(model))
    stored = stored_shapes(folder)
    assert shapes == {n: s for n, s in stored.items() if n.startswith("bert/")}
    assert sorted(summary.taken) == sorted(shapes) and summary.new == []
    assert summary.unused == sorted(n for n in stored if n.startswith("cls/"))
    real = figures["input_mask"] == 1
    for name in ("embedding", "sequence"):
        assert_close(found[name][real], figures[f"{name}_output"][real], 1e-5)
    assert_close(found["pooled"], figures["pooled_output"], 1e-5)
    if "first_layer" in figures:
        assert_close(found["layers"][0][real], figures["first_layer"][real], 1e-5)


def assert_pretraining_losses(folder: pathlib.Path) -> None:
    """Compares the losses in training, whose first step reports their sum, and in prediction, and
    names and shapes of variables."""
    figures, config = np.load(folder / "encoder.npz"), read_config(folder)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    names = [name for name in figures if name.startswith(("input_", "segment_", "next_"))]
    features = {name: figures[name].astype(np.int32) for name in names}
    for name, kind in (("positions", np.int32), ("ids", np.int32), ("weights", np.float32)):
        features[f"masked_lm_{name}"] = figures[f"masked_lm_{name}"].astype(kind)
    options = ModelOptions(OptimizerOptions(1e-3, 10, optimizer="lamb"), str(folder))
    model_fn = make_model_fn(config, make_pretraining_head(config), options)
    found = {}
    for mode in (TRAIN, PREDICT):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.get_or_create_global_step()
            tensors = {key: tf.constant(value) for key, value in features.items()}
            spec = model_fn(tensors, None, mode, {})
            if mode == PREDICT:
                modeling.initialize_from_checkpoint(tf.trainable_variables(), str(folder))
            session.run(tf.global_variables_initializer())
            found[mode] = session.run(spec.loss if mode == TRAIN else spec.predictions)
            assert shapes_of_variables() == stored_shapes(folder)
    (relation,) = {"sentence_order_loss", "next_sentence_loss"} & {*figures}
    expected = {name: float(figures[name]) for name in ("masked_lm_loss", relation)}
    assert abs(found[TRAIN] - sum(expected.values())) < 1e-5
    rows = zip(*found[PREDICT].values(), strict=True)
    scores = scores_of([dict(zip(found[PREDICT], row, strict=True)) for row in rows])
    # The reference divides by the number of masked tokens plus 1e-5.
    masked = figures["masked_lm_weights"].sum()
    scores["masked_lm_loss"] *= masked / (masked + 1e-5)
    assert all(abs(scores[name] - value) < 1e-5 for name, value in expected.items())


def assert_training_v1(folder: pathlib.Path, optimizer: str = "adamw") -> None:
    """Compares twenty steps of SQuAD 1.1; for ALBERT, also the scores before the first."""
    figures, run = golden_run(folder, f"squad_v1_{optimizer}.npz")
    config, checkpoint, *schedule = run
    options = ModelOptions(OptimizerOptions(*schedule, optimizer), checkpoint)
    names = ("start", "end") if "embedding_size" in config.to_dict() else ()

    def logits(*_):
        graph = tf.get_default_graph()
        return [graph.get_tensor_by_name(f"{name}_logits:0") for name in names]

    keys = (*SEQUENCES, "start_positions", "end_positions")
    weights = {"cls/squad/output_weights": figures["output_weights"]}
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=False), options)
    first = train_golden(figures, model_fn, keys, weights, logits)
    for name, value in zip(names, first, strict=True):
        np.testing.assert_allclose(value, figures[f"{name}_logits_step0"], atol=1e-5)


def assert_training_v2(folder: pathlib.Path) -> None:
    """Compares twenty steps of SQuAD 2.0, and the predictions before the first."""
    figures, run = golden_run(folder, "squad_v2_adamw.npz")
    config = run[0]
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    options = {"use_tpu": False, "use_one_hot_embeddings": False, "max_seq_length": 128}
    options |= {name: int(figures[name]) for name in ("start_n_top", "end_n_top")}
    model_fn = squad_utils.v2_model_fn_builder(*run, **options, dropout_prob=0.0, hub_module=None)

    def predictions(features, _):
        with tf.variable_scope("", reuse=True):
            return model_fn(features, None, PREDICT, {}).predictions

    weights = {key[5:]: value for key, value in figures.items() if key.startswith("head:")}
    got = train_golden(figures, model_fn, (*SEQUENCES, *NUMBERS[1:]), weights, predictions)
    assert len(got) == 5
    for key, value in got.items():
        if key.endswith("index"):
            np.testing.assert_array_equal(value, figures[f"predict:{key}"])
        else:
            np.testing.assert_allclose(value, figures[f"predict:{key}"], atol=1e-5)
