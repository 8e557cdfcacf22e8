"""SQuAD under the flags: its splits, its steps, and conflicting flags."""

import gc
import json
import logging
import tracemalloc

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError
from albert.devices import device, ops
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.prediction.session import AT_ONCE
from albert.records import DEV, TRAIN, cached_file, feature_file
from albert.records.batches import Data
from albert.records.order import shuffled_numbers
from albert.report.predictions import read_samples
from albert.report.terminal import samples_at_end
from albert.tasks.squad import features
from albert.tasks.squad.feature_files import ScoringData, SquadFeatures
from albert.tasks.squad.features import PredictionFeature
from albert.tasks.squad.questions import Questions, QuestionSource
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadV1Task, SquadV2Task
from albert.training import task_model, trainer
from albert.training.plan import Steps
from albert.training.prediction import OutputRows, as_bytes
from albert.training.prepared import PreparedRun, contents_of, in_buckets
from albert.training.task_model import model_fn
from albert.training.trainer import train_run
from tests.helpers.files import settings_of
from tests.helpers.sessions import batches_of, quick_session
from tests.helpers.squad import make_squad, squad_command


@pytest.fixture
def make(squad_dir, tmp_path):
    def make(*flags, task_class=SquadV1Task):
        kind = SquadV1Settings if task_class is SquadV1Task else SquadV2Settings
        _, _, *tiny = squad_command(squad_dir, tmp_path / "out")
        return task_class(settings_of(kind, *tiny, *flags))

    return make


@pytest.mark.parametrize("flags", [(), ("--length_buckets=58,62,64",)])
def test_the_seed_orders_the_training_data(make, tmp_path, monkeypatch, flags):
    read = []

    def train(estimator, monitor, input_fn, *others):
        read.append(batches_of(input_fn, 1)[0]["unique_ids"] - 1_000_000_000)

    monkeypatch.setattr(trainer, "train", train)
    monkeypatch.setattr(trainer, "point_to_newest", lambda folder: 3)
    for seed in (1, 77):
        others = f"--output_dir={tmp_path / str(seed)}", "--gradient_accumulation_steps=2"
        task = make(f"--seed={seed}", "--train_steps=9", *others, *flags)
        data = in_buckets(task.split(TRAIN).prepared(), task.settings)
        train_run(PreparedRun(task, {TRAIN: data}))
        expected = shuffled_numbers(data.num_records, 8, seed, 6)
        if flags:
            expected = data._replace(buckets=[58, 62, 64]).training_order(16, seed).numbers(8, 6)
        assert read.pop().tolist() == expected.tolist()


def test_flags_reach_the_model_and_its_optimizer(make, monkeypatch):
    built = []
    monkeypatch.setattr(task_model, "make_model_fn", lambda *parts: built.append(parts))
    flags = "learning_rate=0.25 adam_epsilon=1e-3 weight_decay=0.5 optimizer=lamb use_einsum"
    flags += " gradient_accumulation_steps=3 allreduce_dtype=float16 shard_optimizer=state"
    flags += " init_checkpoint=model gradient_checkpointing"
    task = make(*(f"--{flag}" for flag in flags.split()))
    model_fn(task, Steps(10, 2))
    values = {"gradient_accumulation_steps": 3, "allreduce_dtype": tf.float16}
    values |= {"shard_optimizer": "state", "epsilon": 1e-3, "weight_decay": 0.5}
    ways = {"use_einsum": True, "gradient_checkpointing": True, "remove_padding": True}
    ways |= {"at_once": AT_ONCE}
    options = ModelOptions(OptimizerOptions(0.25, 10, 2, "lamb", **values), "model", **ways)
    assert built[0][2] == options
    # A Gaudi needs static shapes.
    monkeypatch.setattr(device, "is_hpu", lambda: True)
    model_fn(task, None)
    assert built[1][2] == options._replace(optimizer=None, remove_padding=False)


def test_initial_weights_are_a_function_of_the_seed(make):
    def weights(seed: int, mode: str, *flags: str) -> dict[str, np.ndarray]:
        task = make(*flags)
        with tf.Graph().as_default(), quick_session() as session:
            tf.set_random_seed(seed)
            features = {
                name: tf.placeholder(spec.dtype, [8, *[None for _ in spec.shape]])
                for name, spec in task.model_inputs().items()
            }
            model_fn(task, Steps(10, 1))(features, None, mode, {})
            assert bool(tf.get_collection(ops.SITES)) == (mode == "train")
            session.run(tf.global_variables_initializer())
            return session.run({v.name: v for v in tf.trainable_variables()})

    first, other_seed = weights(1, "infer"), weights(2, "infer")
    others = ("--gradient_checkpointing", "--remove_padding=false", "--use_einsum")
    again = weights(1, "train", *others)
    np.testing.assert_equal(again, first)
    for name, values in first.items():
        is_random = np.std(values) > 0
        assert not is_random or np.abs(values - other_seed[name]).max() > 0.01
    assert sum(np.std(values) > 0 for values in first.values()) == 12


@pytest.mark.parametrize("flag", ["", "--mask_padding_in_loss=false"])
def test_batches_are_trimmed_only_if_the_loss_ignores_padding(make, flag):
    task = make(*filter(None, [flag]))
    assert task.trims == task.split(TRAIN).trims == task.split(DEV).trims == (not flag)


def test_splits_and_their_files_follow_the_flags(make, tmp_path):
    task = make("--predict_feature_left_file=left")
    assert task.splits == [TRAIN, DEV]
    assert make("--train_file=").splits == [DEV]
    assert make("--predict_file=").splits == [TRAIN]
    assert task.split(TRAIN).cached.paths == [f"{tmp_path}/out/train.tf_record"]
    assert task.split(DEV).cached.paths == [f"{tmp_path}/out/eval.tf_record", "left"]
    (tmp_path / "train.tf_record").touch()
    ready = make(f"--input_file={tmp_path}").split(TRAIN)
    assert ready.cached.paths == [f"{tmp_path}/train.tf_record"]
    assert task.model_inputs() == task.split(TRAIN).spec


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--train_file=", "--predict_file="], "nothing to do: pass --train_file, --predict_file"),
        (["--max_seq_length=23"], r"--max_seq_length 23 must be more than .* 20 \+ 3"),
        (["--doc_stride=42"], "--doc_stride 42 is more than the 41 tokens of a window with"),
        (["--max_seq_length=256"], "--max_seq_length 256 is more than the 128 positions of"),
        (["--length_buckets=32,48"], "must end with --max_seq_length 64, not with 48$"),
        (["--length_buckets=64,128"], "must end with --max_seq_length 64, not with 128$"),
        (["--length_buckets=64", "--mask_padding_in_loss=false"], "--mask_padding_in_loss=false"),
        (["--train_feature_file=f", "--predict_feature_file=./f"], "must be different files: f, "),
    ],
)
def test_conflicting_flags_are_an_error(make, flags, words):
    with pytest.raises(FlagError, match=words):
        make(*flags)


class TestVersion2:
    @pytest.fixture
    def make_v2(self, make):
        return lambda *flags: make(*flags, task_class=SquadV2Task)

    def test_flags_affect_the_head_and_scores_need_known_answers(self, make_v2):
        """Dropout of the head counts even if the encoder has none."""
        for flags, drops in (((), True), (("--dropout_prob=0",), False)):
            task = make_v2(*flags)
            task.config.hidden_dropout_prob = task.config.attention_probs_dropout_prob = 0.0
            assert ("dropout masks" in contents_of(task, TRAIN)) == drops
        assert "dropout masks" not in contents_of(make_v2("--deterministic_run"), TRAIN)
        task = make_v2()
        known = {"id": "b", "answers": []}, {"id": "c", "is_impossible": True}
        assert task.best_by == "best_f1" and all(map(task.is_known, known))
        assert not task.is_known({"id": "a"})

    def test_training_questions_that_all_have_answers_are_a_warning(self, make_v2, log):
        make_v2().split(TRAIN).read()
        (line,) = log(logging.WARNING)
        assert line.endswith("so the model does not learn to abstain")

    @pytest.mark.parametrize(
        ("flags", "f1", "abstaining"),
        [
            ([], 100, "cd"),  # b has the highest odds of those that answer rightly
            ([], None, "bcd"),
            (["--null_score_diff_threshold=-2.5"], 50, "abcd"),
            (["--null_score_diff_threshold=1.5"], None, "cd"),
            (["--null_score_diff_threshold=9"], 50, ""),
        ],
    )
    def test_questions_above_the_threshold_abstain(self, make_v2, tmp_path, flags, f1, abstaining):
        """Without an F1, the answers are not known; otherwise the best threshold is b's odds."""
        questions = [{"id": i, "question": "?"} for i in "abcd"]
        articles = [{"paragraphs": [{"context": "x", "qas": questions}]}]
        for question in questions if f1 else []:
            question["answers"] = [{"text": "x", "answer_start": 0}] * (question["id"] < "c")
        path = tmp_path / "questions.json"
        path.write_text(json.dumps({"data": articles}))
        one = np.zeros(1, np.int32)
        windows = [PredictionFeature(i, i, 3, one, one, one == 0) for i in range(4)]
        names = "start_top_index", "start_top_log_probs", "end_top_index", "end_top_log_probs"
        top = dict.fromkeys(names, [3])
        odds = -2.0, 1.0, 2.0, 3.0
        outputs = [{"cls_logits": value, **top} for value in odds]
        task = make_v2(*flags)
        (tmp_path / "out").mkdir()
        data = Data([], {}, 4, 4, source=ScoringData(Questions(QuestionSource(str(path))), windows))
        scored = task.score(data, outputs)
        scored.write_outputs()
        names = [name for name in task.outputs if name.endswith(".json")]
        assert {*task.outputs} == {*names, "predictions.jsonl", "predictions.html"}
        written = [json.loads((tmp_path / "out" / name).read_text()) for name in names]
        samples = list(read_samples(task.settings.output_dir))
        assert "".join(s["id"] for s in samples if s["abstained"]) == abstaining
        assert all((s["right"] is None) == (not f1) for s in samples)
        assert written[0] == {i: "" if i in abstaining else "x" for i in "abcd"}
        assert [entries[0]["text"] for entries in written[1].values()] == list("xxxx")
        assert written[2] == dict(zip("abcd", odds, strict=True))
        best = {"best_exact": 100, "best_exact_thresh": 1, "best_f1": 100, "best_f1_thresh": 1}
        assert bool(scored.scores) == bool(f1)
        assert not f1 or scored.scores.items() >= {"f1": f1, "exact": f1, **best}.items()


@pytest.mark.slow
def test_a_question_needs_at_most_2_kb_of_memory(make, tmp_path, monkeypatch):
    """From the file to the samples at the end. Caches are full with few questions."""
    monkeypatch.setattr(features, "_REMEMBERED_PARAGRAPHS", 8)
    monkeypatch.setattr(SquadFeatures, "chunk", 32)
    # It reads up to 1 MB at a time.
    for module in (cached_file, feature_file):
        monkeypatch.setattr(module, "sha256_of", lambda path: "")

    def peaks_of(count: int) -> np.ndarray:
        """Returns the peak memory of making features, and of the rest."""
        path, folder = tmp_path / f"{count}.json", tmp_path / str(count)
        path.write_text(json.dumps(make_squad(1, count // 6)))
        folder.mkdir()
        flags = f"--predict_file={path}", f"--output_dir={folder}", "--preprocess_workers=1"
        lengths = "--max_seq_length=128", "--doc_stride=96"
        task = make("--train_file=", *flags, *lengths, task_class=SquadV2Task)
        rng = np.random.default_rng(1)
        tracemalloc.start()
        data = task.split(DEV).prepared()
        peaks = [tracemalloc.get_traced_memory()[1]]
        tracemalloc.reset_peak()
        outputs = OutputRows(64, np.argsort(data.order()).astype("i4"))
        for _ in range(0, data.num_records, 64):
            batch = {"cls_logits": rng.normal(size=64)}
            for name, number in (("start", 5), ("end", 25)):
                batch[f"{name}_top_index"] = rng.integers(20, 60, (64, number), np.int32)
                batch[f"{name}_top_log_probs"] = rng.normal(size=(64, number)).astype("f4")
            outputs.add(as_bytes(batch))
        task.score(data, outputs).write_outputs()
        assert list(samples_at_end(str(folder)))[-1].startswith(f"All {count} samples")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        return np.array(peaks)

    # The first time, modules are imported, and tables and Python's free lists get their size. A
    # full collection would empty the free lists, and begins sooner or later after other tests.
    gc.disable()
    try:
        _, small, large = map(peaks_of, (1494, 300, 1500))
    finally:
        gc.enable()
    assert max(large - small) / 1200 < 2048
