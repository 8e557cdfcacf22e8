"""A tiny run of every reference program: its flags, and its input."""

import pathlib
import random
import sys

from tests.helpers.entities import write_entities
from tests.helpers.forking import ROOT
from tests.helpers.glue import write_all
from tests.helpers.race import write_race
from tests.helpers.running import succeed
from tests.helpers.squad import SQUAD_FLAGS, make_unanswerable

# Words of one piece each.
WORDS = list("nrlscmegbpta")
MODEL = ("--albert_config_file={squad}/albert.json", "--spm_model_file={squad}/spm.model")
_BERT = ("--albert_config_file={squad}/bert.json", "--vocab_file={squad}/vocab.txt")
SHORT = (
    *("--max_seq_length=32", "--train_batch_size=8", "--learning_rate=1e-3", "--train_steps=5"),
    *("--save_checkpoints_steps=2", "--remove_padding=false"),
)
LABELLING = (
    *(*SHORT, "--data_dir={folder}", "--do_train", "--do_eval", "--do_predict"),
    "--keep_checkpoint_max=2",
)
# With the folders of `squad_dir` for {squad} and of `write_input` for {folder}.
FLAGS = {
    "run_squad_v1": SQUAD_FLAGS,
    "run_squad_v2": (
        *(*SQUAD_FLAGS, "--train_file={folder}/train.json", "--predict_file={folder}/dev.json"),
        *("--train_steps=5", "--save_checkpoints_steps=2", "--remove_padding=false"),
    ),
    "run_classifier": (*_BERT, *LABELLING, "--task_name=mrpc", "--threshold_to_export=0.75"),
    "run_race": (
        *(*MODEL, *LABELLING, "--max_seq_length=24", "--max_qa_length=8"),
        "--deterministic_run",
    ),
    "run_ner": (
        *(*_BERT, *SHORT, "--train_file={folder}/train.conll", "--max_seq_length=12"),
        *("--predict_file={folder}/dev.jsonl", "--test_file={folder}/test.txt"),
        *("--keep_checkpoint_max=2", "--recipe=reference"),
    ),
    "run_pretraining": (
        *(*SHORT, MODEL[0], "--input_file={folder}/train.records", "--do_eval"),
        *("--eval_file={folder}/dev.records", "--max_predictions_per_seq=5"),
        *("--num_warmup_steps=2", "--optimizer=adamw", "--keep_checkpoint_max=2"),
        "--precision=float16",
    ),
}


def write_input(program: str, folder: pathlib.Path, squad_dir: pathlib.Path) -> None:
    """Writes the data that a program trains on and scores, except SQuAD 1.1."""
    if program == "run_squad_v2":
        for split in ("train", "dev"):
            make_unanswerable(squad_dir / f"{split}-v1.1.json", folder / f"{split}.json")
    elif program == "run_classifier":
        write_all(folder, WORDS)
    elif program == "run_race":
        write_race(folder, WORDS[4:])
    elif program == "run_ner":
        write_entities(folder)
    elif program == "run_pretraining":
        words = (squad_dir / "text.txt").read_text().split()
        for name, first in (("train", 0), ("dev", 300)):
            lines = [" ".join(words[i : i + 6]) for i in range(first, first + 300, 6)]
            (folder / f"{name}.txt").write_text("\n".join(lines))
            files = f"--input_file={folder}/{name}.txt", f"--output_file={folder}/{name}.records"
            lengths = "--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2"
            command = [sys.executable, str(ROOT / "create_pretraining_data.py")]
            succeed([*command, *files, f"--spm_model_file={squad_dir}/spm.model", *lengths])


def write_topics(path: pathlib.Path, seed: int, documents: int) -> None:
    """Writes documents of sentences, each about one topic and with words of no other topic."""
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(documents):
            topic = rng.randrange(12)
            for _ in range(rng.randint(2, 9)):
                words = [f"{'abcdefghijkl'[topic]}{rng.choice('xyz')}ono" for _ in range(6)]
                file.write(" ".join(words).capitalize() + rng.choice([".", ", 1995,", ""]) + "\n")
            file.write("\n")
