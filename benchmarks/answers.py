"""Times the steps before and after SQuAD's prediction: features, answers, scores and files.

Before the prediction, features are made and ordered; after it, answers are found, scored and
written. The questions are those of the training files, and similar ones (`squad_size.py`). The
model's outputs are random, so that there are more probable answers than with a trained model. Each
version of SQuAD runs in a separate process; the fastest round counts.
"""

import os
import tempfile
import time

import numpy as np

from albert.data import DEV
from albert.data.batches import Data
from albert.prediction.session import Output
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadV1Task, SquadV2Task
from benchmarks.parts.flags import BASE, Flags, parse, with_vocabulary_of
from benchmarks.parts.harness import Table, Way, in_turns, seconds_of
from benchmarks.parts.squad_size import write_questions

_OF_QUESTIONS = 10000
_VERSIONS = {
    "1.1": (SquadV1Settings, SquadV1Task, "train_file"),
    "2.0": (SquadV2Settings, SquadV2Task, "train_v2_file"),
}


def main() -> None:
    """Measures both versions, and prints the table."""
    files = "train_file", "train_v2_file", "spm_model_file"
    sizes = {"questions": _OF_QUESTIONS, "rounds": 3, "max_seq_length": 384}
    parse(__doc__, WAYS, files, config=BASE, **sizes)
    titles = ("questions", "windows", "before", "answers, scores", "files", "after, of 10,000")
    table = Table(*titles, name_width=10)
    for version, (measured,) in in_turns(WAYS, 1).items():
        questions, windows, *seconds = measured
        of_many = sum(seconds[1:]) * _OF_QUESTIONS / questions
        table.row(version, questions, windows, *(f"{s:.2f} s" for s in (*seconds, of_many)))


def measure(flags: Flags) -> tuple[int, int, float, float, float]:
    """Returns the numbers of questions and windows, and the seconds before the prediction, of
    answers and scores, and of files."""
    kind, task_class, name = _VERSIONS[flags.way]
    with tempfile.TemporaryDirectory() as folder:
        questions, config = (os.path.join(folder, name) for name in ("questions", "config"))
        write_questions(getattr(flags, name), questions, flags.questions)
        settings = kind.of(
            predict_file=questions,
            albert_config_file=with_vocabulary_of(flags.config, flags.spm_model_file, config),
            do_train=False,
            spm_model_file=flags.spm_model_file,
            output_dir=folder,
            max_seq_length=flags.max_seq_length,
            max_query_length=flags.max_seq_length // 6,
            doc_stride=flags.max_seq_length // 3,
        )
        task, start = task_class(settings), time.perf_counter()
        data = task.split(DEV).prepared()
        data.order()
        before, rounds, scored = time.perf_counter() - start, [], []
        outputs = drawn_outputs(flags, data)
        for _ in range(flags.rounds):
            scoring = seconds_of(lambda: scored.append(task.score(data, outputs)))
            rounds.append((scoring, seconds_of(scored[-1].write_outputs)))
        return data.num_examples, data.num_records, before, *min(rounds, key=sum)


def drawn_outputs(flags: Flags, data: Data) -> list[Output]:
    """Returns random outputs of a head for every feature."""
    rng, is_v2 = np.random.default_rng(0), flags.way == "2.0"

    def best(count: int, of_each: int = 1) -> tuple[np.ndarray, np.ndarray]:
        scores = rng.normal(size=(of_each, flags.max_seq_length)).astype(np.float32)
        order = np.argsort(-scores, axis=1)[:, :count]
        return order.ravel(), np.take_along_axis(scores, order, 1).ravel()

    outputs = []
    for feature in data.source.features:
        starts, ends = (best(5), best(5, 5)) if is_v2 else (best(20), best(20))
        names = ("start_top_index", "start_top_log_probs", "end_top_index", "end_top_log_probs")
        output = dict(zip(names, (*starts, *ends), strict=True))
        odds = {"cls_logits": rng.normal()} if is_v2 else {}
        outputs.append({"unique_ids": feature.unique_id, **odds, **output})
    return outputs


WAYS = dict.fromkeys(_VERSIONS, Way(measure))

if __name__ == "__main__":
    main()
