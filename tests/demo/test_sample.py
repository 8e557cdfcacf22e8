"""The sample can be trained on, and the report on a finished run."""

import argparse
import contextlib
import json
import re
import shlex

import pytest
import sentencepiece as spm

from albert.core.errors import UserError
from albert.demo import demo
from albert.tasks.squad.feature_files import read_examples
from albert.tasks.squad.questions import Questions, QuestionSource
from tools.sample.generate import contents, generate, sentencepiece_of, text_of


def paragraphs(file: dict) -> list[dict]:
    return [p for article in file["data"] for p in article["paragraphs"]]


def test_all_questions_can_be_trained_on_and_names_are_unique(tmp_path):
    files = generate(1)
    for file, counts in zip(files, ({1}, {1, 2}), strict=True):
        (tmp_path / "file.json").write_text(json.dumps(file))
        questions = Questions(QuestionSource(str(tmp_path / "file.json"), answers="all"))
        examples, left_out = read_examples(questions, is_training=True)
        assert len(examples) >= len(questions) and left_out == {}
        assert {len(q["answers"]) for p in paragraphs(file) for q in p["qas"]} == counts
        assert all(len(paragraph["qas"]) >= 4 for paragraph in paragraphs(file))
    names = [article["title"] for file in files for article in file["data"]]
    contexts = [p["context"] for file in files for p in paragraphs(file)]
    names += [re.search(r" called (\w+)\.", context)[1] for context in contexts]
    assert len(set(names)) == len(names) == 620 * 4
    # As text with one sentence per line.
    texts = list(filter(None, text_of(files[1]).split("\n\n")))
    assert [text.replace("\n", " ") for text in texts] == contexts[-len(texts) :]
    assert all(line.endswith(".") for text in texts for line in text.splitlines())


def pieces(model: bytes) -> list[str]:
    processor = spm.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def test_the_package_has_what_the_generator_makes_for_the_first_seed():
    shipped = demo.files_of_sample()
    model = shipped.pop(demo.SPM_MODEL)
    files = {f"{demo.DATA}/{name}": text.encode() for name, text in contents(1).items()}
    assert shipped == files, "run `make generated`"
    assert pieces(model) == pieces(sentencepiece_of(generate(1)[0]))
    assert contents(2, 5, 2) == contents(2, 5, 2) != contents(3, 5, 2)
    with pytest.raises(ValueError, match="too many articles for 1725 names"):
        generate(1, train_articles=2000)


@pytest.mark.parametrize(("f1", "problem"), [(79.9, "F1 is below 80"), (80.0, "")])
def test_the_demo_shows_its_score_and_commands_or_an_error(
    tmp_path, monkeypatch, capsys, f1, problem
):
    """CI sees only its exit code; the commands can be pasted into a shell of the same folder."""
    folder = tmp_path / "my demo"
    (folder / "run-1").mkdir(parents=True)
    (folder / "run-1/eval_results.json").write_text(json.dumps({"f1": f1}))
    paths = {"train_file": "/data/my train.json", "predict_file": "/data/dev.json"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "write_inputs", lambda *_: paths)
    monkeypatch.setattr(demo.subprocess, "run", lambda _: argparse.Namespace(returncode=0))
    expected = pytest.raises(UserError, match=problem) if problem else contextlib.nullcontext()
    with expected:
        demo.main(str(folder))
    output = capsys.readouterr().out
    assert f"F1 {f1}" in output
    if problem:
        return
    parts = shlex.split(output.partition("Next:")[2].replace("\\\n", ""), comments=True)
    names = [parts[n + 1] for n, part in enumerate(parts) if part == "albert"]
    assert names == ["ask", "serve", "squad"]
    assert parts.count("my demo/run-1") == 2
    own = {"--train_file=/data/my train.json", "--output_dir=my demo/run-1-own"}
    assert {*own, "--model=my demo/run-1"} <= set(parts)
