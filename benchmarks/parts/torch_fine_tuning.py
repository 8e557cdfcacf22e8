"""Fine-tunes with `transformers` and PyTorch: the peer of `benchmarks.accuracy`.

The argument has the settings of `accuracy.peer_command` as JSON. The loop is that of the examples
of `transformers`, with their tokenization and losses.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification
from transformers.trainer_pt_utils import LengthGroupedSampler

from albert.core import files

DECAY, STRIDE, LONGEST_ANSWER, PREDICTION_BATCH = 0.01, 128, 30, 32
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
Settings = argparse.Namespace


class Model:
    """A model in training, with its tokenizer and the type of its products."""

    def __init__(self, settings: Settings, kind: type, **options: Any):
        self.settings = settings
        transformers.set_seed(settings.seed)
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(settings.weights)
        self._on = torch.device("cuda" if settings.device == "gpu" else "cpu")
        options["attn_implementation"] = "sdpa"
        self._module = kind.from_pretrained(settings.weights, **options)
        self._module.to(self._on)

    def train(self, features: Mapping[str, Any], examples: int) -> None:
        """Trains on features of some examples: inputs of different lengths, and labels by their
        name. The number of steps and the rates are those of this project."""
        settings, size = self.settings, self.settings.train_batch_size
        steps = int(examples * settings.num_train_epochs / size)
        optimizer = torch.optim.AdamW(
            self._parameters(), settings.learning_rate, eps=settings.adam_epsilon
        )
        warmup = int(steps * settings.warmup_proportion)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: step / warmup if step < warmup else 1 - step / steps
        )
        order: list[int] = []
        while len(order) < steps * size:
            order += self._epoch(features)
        self._module.train()
        for step in range(steps):
            rows = order[step * size : (step + 1) * size]
            loss = self._outputs(features, rows).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._module.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % 20 == 0 or step == steps - 1:
                print(f"step {step + 1}/{steps} loss {loss.item():.4f}", flush=True)

    def _epoch(self, features: Mapping[str, Any]) -> list[int]:
        """Returns the numbers of all features in a random order."""
        count = len(features["input_ids"])
        if not self.settings.is_grouped:
            return torch.randperm(count).tolist()
        lengths = [_length(features, number) for number in range(count)]
        return list(LengthGroupedSampler(self.settings.train_batch_size, lengths=lengths))

    def predict(self, features: Mapping[str, Any]) -> Iterator[tuple[int, list[np.ndarray]]]:
        """Yields the number of each feature with its scores, in the order of the lengths."""
        self._module.eval()
        order = sorted(range(len(features["input_ids"])), key=lambda n: -_length(features, n))
        inputs = {name: features[name] for name in _INPUTS}
        for first in range(0, len(order), PREDICTION_BATCH):
            rows = order[first : first + PREDICTION_BATCH]
            with torch.inference_mode():
                outputs = self._outputs(inputs, rows)
            scores = [outputs[k].float().cpu().numpy() for k in outputs if k.endswith("logits")]
            yield from zip(rows, map(list, zip(*scores, strict=True)), strict=True)

    def _outputs(self, features: Mapping[str, Any], rows: list[int]) -> Any:
        chosen = {name: [values[row] for row in rows] for name, values in features.items()}
        inputs = {name: chosen.pop(name) for name in _INPUTS}
        batch = {**self.tokenizer.pad(inputs, return_tensors="pt")}
        batch |= {name: torch.tensor(values) for name, values in chosen.items()}
        batch = {name: values.to(self._on) for name, values in batch.items()}
        mixes = self.settings.precision == "bfloat16"
        with torch.autocast(self._on.type, torch.bfloat16, enabled=mixes):
            return self._module(**batch)

    def _parameters(self) -> list[dict[str, Any]]:
        groups: dict[float, list] = {DECAY: [], 0.0: []}
        for name, weight in self._module.named_parameters():
            is_decayed = not any(word in name for word in ("bias", "LayerNorm"))
            groups[DECAY if is_decayed else 0.0].append(weight)
        return [{"params": weights, "weight_decay": decay} for decay, weights in groups.items()]


def _length(features: Mapping[str, Any], number: int) -> int:
    return sum(features["attention_mask"][number])


class Columns(NamedTuple):
    """The columns of a task of GLUE; `labels` is empty for numbers."""

    texts: tuple[int, ...]
    label: int
    labels: tuple[str, ...] = ("0", "1")
    has_header: bool = True


COLUMNS = {
    "mrpc": Columns((3, 4), 0),
    "rte": Columns((1, 2), 3, ("entailment", "not_entailment")),
    "cola": Columns((3,), 1, has_header=False),
    "sts-b": Columns((7, 8), 9, ()),
    "sst-2": Columns((0,), 1),
}


def glue(settings: Settings) -> dict[str, float]:
    """Trains on texts or pairs of texts; returns the scores."""
    columns = COLUMNS[settings.task]
    kind = AutoModelForSequenceClassification
    model = Model(settings, kind, num_labels=len(columns.labels) or 1)

    def features_of(path: str) -> dict[str, Any]:
        with open(path, encoding="utf-8-sig") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][columns.has_header :]
        texts = ([row[column] for row in rows] for column in columns.texts)
        features = model.tokenizer(*texts, truncation=True, max_length=settings.max_seq_length)
        of_label: Callable = columns.labels.index if columns.labels else float
        return {**features, "labels": [of_label(row[columns.label]) for row in rows]}

    training = features_of(settings.train_file)
    model.train(training, len(training["labels"]))
    features = features_of(settings.predict_file)
    scores = dict(model.predict(features))
    outputs = np.array([scores[number][0] for number in range(len(scores))])
    truths = np.array(features["labels"])
    if not columns.labels:
        found = outputs[:, 0]
        correlations = {"pearson": pearsonr(found, truths), "spearman": spearmanr(found, truths)}
        return {name: float(value.statistic) for name, value in correlations.items()}
    answers = outputs.argmax(axis=1)
    return {
        "eval_accuracy": float((answers == truths).mean()),
        "f1": float(f1_score(truths, answers)),
        "matthew_corr": float(matthews_corrcoef(truths, answers)),
    }


def squad(settings: Settings) -> dict[str, float]:
    """Trains on questions; returns the scores."""
    model = Model(settings, AutoModelForQuestionAnswering)
    questions = list(_questions(settings.train_file))
    training = _windows(model, questions)
    positions = map(_positions, training["questions"], training["offset_mapping"])
    starts, ends = zip(*positions, strict=True)
    inputs = {name: training[name] for name in _INPUTS}
    labels = {"start_positions": starts, "end_positions": ends}
    model.train({**inputs, **labels}, len(questions))
    answers, odds = _answers(model, _windows(model, list(_questions(settings.predict_file))))
    folder = settings.output_dir
    files.write_json(f"{folder}/predictions.json", answers)
    words = [f"{folder}/predictions.json", f"--data={settings.predict_file}", "--json"]
    if settings.task == "squad 2.0":
        files.write_json(f"{folder}/null_odds.json", odds)
        words.append(f"--null_odds_file={folder}/null_odds.json")
    return json.loads(subprocess.check_output([*settings.evaluate, *words]))


def _questions(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for article in json.load(file)["data"]:
            for paragraph in article["paragraphs"]:
                yield from ({**qa, "context": paragraph["context"]} for qa in paragraph["qas"])


def _windows(model: Model, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns features with their questions; offsets are None outside of the context."""
    windows = model.tokenizer(
        [question["question"].strip() for question in questions],
        [question["context"] for question in questions],
        truncation="only_second",
        max_length=model.settings.max_seq_length,
        stride=STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    offsets = [
        [p if part == 1 else None for p, part in zip(pairs, windows.sequence_ids(n), strict=True)]
        for n, pairs in enumerate(windows["offset_mapping"])
    ]
    sources = [questions[number] for number in windows["overflow_to_sample_mapping"]]
    return {**windows, "offset_mapping": offsets, "questions": sources}


def _positions(question: dict[str, Any], offsets: list) -> tuple[int, int]:
    """Returns the tokens of the true answer; those of [CLS] if the window does not have it."""
    if question.get("is_impossible"):
        return 0, 0
    answer = question["answers"][0]
    first, last = answer["answer_start"], answer["answer_start"] + len(answer["text"])
    inside = [n for n, pair in enumerate(offsets) if pair and pair[0] < last and pair[1] > first]
    context = [pair for pair in offsets if pair]
    is_whole = context[0][0] <= first and context[-1][1] >= last
    return (inside[0], inside[-1]) if inside and is_whole else (0, 0)


def _answers(model: Model, windows: dict[str, Any]) -> tuple[dict[str, str], dict[str, float]]:
    """Returns the most probable answer and the odds of no answer of each question, by its id."""
    best: dict[str, tuple[float, str]] = {}
    none: dict[str, float] = {}
    for number, (starts, ends) in model.predict(windows):
        question, offsets = windows["questions"][number], windows["offset_mapping"][number]
        key = question["id"]
        tokens = np.array([n for n, pair in enumerate(offsets) if pair])
        sums = starts[tokens][:, None] + ends[tokens][None, :]
        allowed = np.tril(np.triu(np.ones_like(sums)), LONGEST_ANSWER - 1)
        sums = np.where(allowed > 0, sums, -np.inf)
        row, column = np.unravel_index(np.argmax(sums), sums.shape)
        first, last = offsets[tokens[row]][0], offsets[tokens[column]][1]
        found = float(sums[row, column]), question["context"][first:last]
        best[key] = max(best.get(key, found), found)
        none[key] = min(none.get(key, np.inf), float(starts[0] + ends[0]))
    odds = {key: none[key] - score for key, (score, _) in best.items()}
    return {key: text for key, (_, text) in best.items()}, odds


if __name__ == "__main__":
    of_run = Settings(**json.loads(sys.argv[1]))
    os.makedirs(of_run.output_dir, exist_ok=True)
    of_task: Callable = glue if of_run.task in COLUMNS else squad
    files.write_json(os.path.join(of_run.output_dir, "eval_results.json"), of_task(of_run))
