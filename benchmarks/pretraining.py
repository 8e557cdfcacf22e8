"""Pretrains a small ALBERT on a folder of text, and fine-tunes it next to one from scratch.

Everything runs by the public commands: `pretraining-text`, `pretraining-data`, `pretrain` and
`squad`. For each of --seeds, there are a pretraining and two fine-tunings with the same settings.
The files of --data are for the fine-tuning. --text is a folder of text, by default the articles of
the training file. Two jobs run at a time, each on one core. If you repeat a command that was
stopped, it continues in --folder.
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import queue
import statistics
import subprocess

from albert.core import files
from benchmarks.parts.flags import Flags, parse, with_vocabulary_of
from benchmarks.parts.harness import Table

_LENGTHS = ("--max_seq_length=128", "--max_predictions_per_seq=24")
_SCORES = ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy")
_ARMS = ("from scratch", "pretrained")
_CORES = queue.SimpleQueue[int]()


def main() -> None:
    """Makes the data, trains for every seed, and prints the table."""
    more = {"text": None, "seeds": "1,2,3", "dev_fraction": 0.03, "hidden_size": 128}
    more |= {"pretraining_steps": 6000, "fine_tuning_steps": 240}
    paths = "train_file", "predict_file", "spm_model_file"
    flags = parse(__doc__, None, paths, folder="out/pretraining_benchmark", **more)
    os.makedirs(flags.folder, exist_ok=True)
    make_records(flags)
    write_config(flags)
    seeds = [int(seed) for seed in flags.seeds.split(",")]
    count = len([_CORES.put(core) for core in sorted(os.sched_getaffinity(0))[:2]])
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        # In this order, no fine-tuning waits for its pretraining while another job could run.
        jobs = {("held-out", seed): pool.submit(pretrain, flags, seed) for seed in seeds}
        for seed, arm in itertools.product(seeds, _ARMS):
            jobs[arm, seed] = pool.submit(fine_tune, flags, seed, arm, jobs["held-out", seed])
    table = Table("mean", "lowest", "highest", "by seed", name_width=38)
    names = [("held-out", score) for score in _SCORES]
    for name, score in [*names, *itertools.product(_ARMS, ("f1", "exact_match"))]:
        values = [jobs[name, seed].result()[score] for seed in seeds]
        by_seed = "  " + ", ".join(f"{value:.3f}" for value in values)
        numbers = statistics.mean(values), min(values), max(values)
        table.row(f"{name}, {score}", *(f"{number:.3f}" for number in numbers), by_seed)


def make_records(flags: Flags) -> None:
    """Makes text and then records without masks, which the training draws."""
    folder, source = flags.folder, flags.text or f"{flags.folder}/texts.jsonl"
    if not os.path.exists(source):
        articles = json.loads(pathlib.Path(flags.train_file).read_text(encoding="utf-8"))["data"]
        texts = ("\n\n".join(p["context"] for p in a["paragraphs"]) for a in articles)
        with files.open_atomically(source) as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    kept = f"--input={source}", f"--dev_fraction={flags.dev_fraction}"
    if not os.path.exists(f"{folder}/text"):
        run(["pretraining-text", *kept, f"--output_dir={folder}/text"], f"{folder}/text.log")
    for split in ("train", "dev"):
        names = f"--input_file={folder}/text/{split}.txt", f"--output_file={folder}/{split}"
        more = f"--spm_model_file={flags.spm_model_file}", "--masked_lm_prob=0", "--dupe_factor=4"
        run(["pretraining-data", *names, *more, *_LENGTHS], f"{folder}/{split}.log")


def write_config(flags: Flags) -> None:
    """Writes the configuration of an ALBERT whose layers share their weights."""
    config = {
        **{"embedding_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4},
        **{"hidden_size": flags.hidden_size, "intermediate_size": 4 * flags.hidden_size},
        **{"max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02},
        **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    }
    path = os.path.abspath(f"{flags.folder}/config.json")
    files.write_json(path, config)
    with_vocabulary_of(path, flags.spm_model_file, path)


def pretrain(flags: Flags, seed: int) -> dict:
    """Pretrains with a seed; returns the scores of the best checkpoint on the held-out text."""
    folder, steps = flags.folder, flags.pretraining_steps
    words = ["pretrain", f"--num_train_steps={steps}", f"--num_warmup_steps={steps // 20}"]
    words += ["--train_batch_size=16", "--learning_rate=1e-3", *_LENGTHS]
    words += ["--masked_lm_budget=0.2", "--pack_sequences", "--keep_checkpoint_max=1"]
    words += ["--do_eval", "--evaluate_while_training", f"--save_checkpoints_steps={steps // 8}"]
    words += [f"--input_file={folder}/train", f"--eval_file={folder}/dev"]
    return trained(flags, words, seed, f"pretrained-{seed}")


def fine_tune(flags: Flags, seed: int, arm: str, pretraining: concurrent.futures.Future) -> dict:
    """Fine-tunes for SQuAD with a seed; returns the best checkpoint's scores."""
    pretraining.result()
    steps, start = flags.fine_tuning_steps, "--from_scratch"
    if arm == "pretrained":
        model = f"{flags.folder}/pretrained-{seed}/model.ckpt-{flags.pretraining_steps}"
        start = f"--init_checkpoint={model}"
    words = ["squad", f"--train_steps={steps}", f"--save_checkpoints_steps={max(steps // 6, 1)}"]
    words += ["--evaluate_while_training", "--train_batch_size=32", "--learning_rate=2e-4", start]
    words += ["--max_seq_length=192", "--max_query_length=32", "--doc_stride=96"]
    words += [f"--{name}={getattr(flags, name)}" for name in ("train_file", "predict_file")]
    return trained(flags, words, seed, f"squad-{arm.replace(' ', '-')}-{seed}")


def trained(flags: Flags, words: list[str], seed: int, name: str) -> dict:
    """Runs a training on a free core; returns the content of its `eval_results.json`."""
    model = f"--albert_config_file={flags.folder}/config.json", "--optimizer=adamw"
    model += f"--spm_model_file={flags.spm_model_file}", f"--seed={seed}"
    out, core = f"{flags.folder}/{name}", _CORES.get()
    try:
        run([*words, *model, f"--output_dir={out}"], f"{out}.log", "taskset", "-c", str(core))
    finally:
        _CORES.put(core)
    return json.loads(pathlib.Path(out, "eval_results.json").read_text())


def run(words: list[str], log: str, *launcher: str) -> None:
    """Runs a command of `albert`; its output goes to a log."""
    with open(log, "a") as file:
        done = subprocess.run([*launcher, *files.command(*words)], stdout=file, stderr=file)
    if done.returncode:
        raise SystemExit(f"{words[0]} failed; see {log}")


if __name__ == "__main__":
    main()
