"""A tiny SQuAD with its tokenizers, and the command that trains on it."""

import csv
import functools
import importlib.util
import json
import logging
import pathlib
import random
import sys
import types
import unittest.mock
from collections.abc import Sequence

import sentencepiece as spm

from tests.helpers.forking import ROOT


def make_squad(seed: int, articles: int) -> dict:
    """Returns a meaningless SQuAD 1.1 file: every question asks for the word after a word."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghiklmnoprstu", k=rng.randint(2, 8))) for _ in range(200)]
    data = []
    for a in range(articles):
        paragraphs = []
        for p in range(2):
            chosen = [rng.choice(words) for _ in range(rng.randint(20, 60))]
            text = " ".join(chosen).capitalize() + "."
            starts = [i + 1 for i, char in enumerate(text) if char == " "]
            qas = []
            for q in range(3):
                start = rng.choice(starts)
                answer = text[start:].split()[0].strip(".")
                before = text[:start].split()[-1]
                answers = [{"text": answer, "answer_start": start}]
                question = {"id": f"{seed}-{a}-{p}-{q}", "question": f"What comes after {before}?"}
                qas.append({**question, "answers": answers})
            paragraphs.append({"context": text, "qas": qas})
        data.append({"title": f"Article {a}", "paragraphs": paragraphs})
    return {"version": "1.1", "data": data}


def questions_of(content: dict) -> list[tuple[str, dict]]:
    """Returns each question of a SQuAD file, after the text that it is about."""
    paragraphs = [p for article in content["data"] for p in article["paragraphs"]]
    return [(p["context"], question) for p in paragraphs for question in p["qas"]]


def make_squad_files(folder: pathlib.Path) -> None:
    """Writes the files of `squad_dir` into a folder."""
    for name, seed, articles in (("train", 1, 8), ("dev", 2, 2)):
        content = json.dumps(make_squad(seed, articles))
        (folder / f"{name}-v1.1.json").write_text(content, encoding="utf-8")
    paragraphs = [p for article in make_squad(1, 8)["data"] for p in article["paragraphs"]]
    texts = [t for p in paragraphs for t in (p["context"], *(q["question"] for q in p["qas"]))]
    (folder / "text.txt").write_text("\n".join(texts).lower(), encoding="utf-8")
    train_tokenizer(folder / "text.txt", folder / "spm", 200)
    model = spm.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    write_vocabulary(folder / "vocab.txt", texts, model.get_piece_size())
    sizes = {"embedding_size": 16, "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128}
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = {"vocab_size": model.get_piece_size(), **sizes, **rates}
    (folder / "albert.json").write_text(json.dumps(config), encoding="utf-8")
    del config["embedding_size"]
    (folder / "bert.json").write_text(json.dumps(config), encoding="utf-8")


def train_tokenizer(text: pathlib.Path, prefix: pathlib.Path, size: int, kind="unigram") -> None:
    """Trains a SentencePiece model of at most `size` pieces on a text."""
    spm.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(prefix),
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        num_threads=1,
        minloglevel=2,
        **{"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1},
    )


def write_vocabulary(path: pathlib.Path, texts: Sequence[str], size: int) -> None:
    """Writes a WordPiece vocabulary of letters, filled up with words."""
    words = sorted({word for text in texts for word in text.lower().strip(".?").split()})
    letters = sorted(set("".join(words)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?"]
    pieces += [*letters, *(f"##{letter}" for letter in letters), *words]
    path.write_text("\n".join(list(dict.fromkeys(pieces))[:size]), encoding="utf-8")


# Flags of a tiny run, with the folder of `squad_dir` for {squad}.
SQUAD_FLAGS = (
    *("--albert_config_file={squad}/albert.json", "--spm_model_file={squad}/spm.model"),
    *("--train_file={squad}/train-v1.1.json", "--predict_file={squad}/dev-v1.1.json"),
    *("--max_seq_length=64", "--max_query_length=20", "--doc_stride=16", "--train_batch_size=8"),
    *("--learning_rate=1e-3", "--num_train_epochs=2", "--save_checkpoints_steps=5"),
)


def squad_command(squad_dir: pathlib.Path, output_dir: pathlib.Path, *flags: str) -> list[str]:
    """Returns the command of a tiny run; later flags win over earlier ones."""
    tiny = (flag.format(squad=squad_dir) for flag in SQUAD_FLAGS)
    program = str(ROOT / "run_squad_v1.py")
    return [sys.executable, program, *tiny, f"--output_dir={output_dir}", *flags]


def make_unanswerable(source: pathlib.Path, target: pathlib.Path) -> None:
    """Writes a SQuAD 1.1 file as a 2.0 file in which every third question has no answer."""
    content = json.loads(source.read_text())
    for number, (_, question) in enumerate(questions_of(content)):
        question["is_impossible"] = number % 3 == 2
        if question["is_impossible"]:
            question |= {"plausible_answers": question["answers"], "answers": []}
    target.write_text(json.dumps({**content, "version": "v2.0"}))


def write_table(source: pathlib.Path, target: pathlib.Path) -> None:
    """Writes the questions of a SQuAD 1.1 file as CSV, without the places of answers."""
    with target.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "context", "question", "answer"])
        for context, question in questions_of(json.loads(source.read_text())):
            answer = question["answers"][0]["text"]
            writer.writerow([question["id"], context, question["question"], answer])


@functools.cache
def official_script() -> types.ModuleType:
    """Loads the SQuAD 2.0 script from `transformers` without torch, which takes seconds."""
    package = importlib.util.find_spec("transformers")
    path = pathlib.Path(package.submodule_search_locations[0]) / "data/metrics/squad_metrics.py"
    name = "transformers.data.metrics.squad_metrics"
    spec = importlib.util.spec_from_file_location(name, path)
    script = importlib.util.module_from_spec(spec)
    # It uses the package only to find an answer's text, not to score it.
    log = types.SimpleNamespace(get_logger=logging.getLogger)
    stand_ins = {
        "transformers.models.bert": types.SimpleNamespace(BasicTokenizer=None),
        "transformers.utils": types.SimpleNamespace(logging=log),
    }
    with unittest.mock.patch.dict(sys.modules, stand_ins):
        spec.loader.exec_module(script)
    return script
