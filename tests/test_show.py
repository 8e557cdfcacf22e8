"""`albert show`, for a run's folder and for separate files."""

import json
import re
import shutil

import pytest

from albert.cli import show
from albert.cli.show import ShowSettings
from albert.core.errors import FlagError, UserError
from albert.inference import load_model
from albert.report.predictions import read_samples
from tests.helpers.squad import make_unanswerable


@pytest.fixture
def call(call_of, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return call_of(show.main, ShowSettings)


def test_samples_are_selected_by_number_and_outcome(call, trained):
    output = call(trained, "--start_sample=2", "--num_samples=2")
    ids = [line.split()[0] for line in output.splitlines() if line.startswith("2-")]
    assert ids == ["2-0-0-2", "2-0-1-0"]
    assert output.splitlines()[-1].startswith("12 samples. To see them in a browser, open ")
    wrong = call(trained, "--only=wrong", "--num_samples=99")
    count = sum(not sample["right"] for sample in read_samples(str(trained)))
    assert wrong.count("  wrong  ") == count and "  right  " not in wrong
    assert f"12 samples, of which {count} are wrong. " in wrong
    assert call(trained, "--only=unanswerable").startswith("None of 12 samples is unanswerable.")


def test_a_model_answers_a_range_of_a_file(call, trained, squad_dir, tmp_path):
    data = squad_dir / "train-v1.1.json"
    paragraphs = [p for a in json.loads(data.read_text())["data"] for p in a["paragraphs"]]
    questions = [(q["id"], q["question"], p["context"]) for p in paragraphs for q in p["qas"]]
    command = trained, f"--data={data}", "--num_test_samples=3"
    output = call(*command, "--start_sample=40")
    ids = re.findall(r"^(\S+)  (?:right|wrong) ", output, re.MULTILINE)
    assert ids == [qas_id for qas_id, *_ in questions[40:43]]
    # Each answer is highlighted in its paragraph, on each line that has a part of it.
    model = load_model(str(trained), precision="float32")
    text = " ".join(re.sub(r"[{}]", "", output).split()).replace("] [", " ")
    for _, question, context in questions[40:43]:
        (best, *_) = model.answer(question, context).answers
        # An answer that occurs twice is marked where the true one is.
        places = [match.span() for match in re.finditer(re.escape(best.text), context)]
        assert any(f"{context[:a]}[{best.text}]{context[b:]}" in text for a, b in places)
    assert re.search(r"Samples 40 to 42 of 48 in .*; exact_match [\d.]+, f1 ", output)
    last = call(*command, "--start_sample=47")
    assert "Samples 47 to 47 of 48" in last and f"\n{questions[47][0]}  " in f"\n{last}"
    with pytest.raises(FlagError, match="48 is too large: .* has 48 questions"):
        call(*command, "--start_sample=48")
    with pytest.raises(FlagError, match="--num_test_samples needs a model and --data"):
        call(trained, "--num_test_samples=3")


def test_a_range_of_a_2_0_file_is_counted_by_outcome(call, trained, squad_dir, tmp_path):
    """Every third question has no answer; a model for 1.1 rarely has a span without words."""
    make_unanswerable(squad_dir / "train-v1.1.json", tmp_path / "train-v2.0.json")
    flags = f"--data={tmp_path}/train-v2.0.json", "--start_sample=4", "--num_test_samples=6"
    output = call(trained, *flags, "--only=unanswerable")
    right = output.count("  predicted  [no answer]")
    assert output.count("  wrong  ") == 2 - right and output.count("  right  ") == right
    assert output.count("  true       no answer") == 2
    last = output.splitlines()[-1]
    assert last.startswith("Samples 4 to 9 of 48 in ") and ", of which 2 are unanswerable; " in last
    assert f"NoAns_exact {50 * right:.2f}" in last and "total" not in last
    output = call(trained, *flags, "--only=abstained")
    assert f", of which {output.count('  predicted  [no answer]')} are abstained; " in output


def test_the_page_of_separate_files_has_the_answers_of_the_run(call, trained, squad_dir, tmp_path):
    shutil.copy(trained / "predictions.json", tmp_path)
    files = f"--predictions={tmp_path}/predictions.json", f"--data={squad_dir / 'dev-v1.1.json'}"
    output, expected = (call(*which, "--num_samples=99") for which in (files, [trained]))
    shown = re.compile(r"^(?:\S+  \w+  F1 \d+%|  (?:predicted|true) .*)", re.MULTILINE)
    assert shown.findall(output) == shown.findall(expected) and len(shown.findall(output)) == 36
    assert "confidence" in expected and "confidence" not in output
    assert (tmp_path / "predictions.html").exists()


def test_an_answered_question_has_not_abstained(call, tmp_path):
    """Regardless of a 2.0 run's odds: their threshold may be above the scripts' 1."""
    question = {"id": "a", "question": "?", "answers": [{"text": "one", "answer_start": 0}]}
    paragraph = {"context": "one two", "qas": [{**question, "is_impossible": False}]}
    data = {"version": "v2.0", "data": [{"paragraphs": [paragraph]}]}
    files = {"dev": data, "predictions": {"a": "one"}, "null_odds": {"a": 3.5}}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    flags = {"data": "dev", "predictions": "predictions", "null_odds_file": "null_odds"}
    command = [f"--{flag}={tmp_path / name}.json" for flag, name in flags.items()]
    assert "a  right  F1 100%  log-odds of no answer 3.50" in call(*command)
    assert '"exact":100.0,"f1":100.0,' in (tmp_path / "predictions.html").read_text()
    assert call(*command, "--only=abstained").startswith("None of 1 samples is abstained.")


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ([], FlagError, "pass either the folder of a run, or"),
        (["a", "--predictions=p.json"], FlagError, "pass either the folder of a run, or"),
        (["--predictions=p.json"], FlagError, "--predictions needs --data"),
        (["{0}/none"], UserError, "none does not exist; pass the --output_dir of a run"),
        (["{0}/nbest.json"], UserError, "nbest.json is a file; pass the --output_dir"),
        (["{0}"], UserError, "has no predictions.jsonl; repeat the command of the run, .* --data"),
        (["{1}", "--start_sample=12"], FlagError, "--start_sample 12 is too large: there are 12 s"),
        *(
            (["{1}", "--data={2}", "--num_test_samples=1", flag], FlagError, f"remove {flag[:-2]}")
            for flag in ("--num_samples=1", "--null_odds_file=x")
        ),
        (["{1}", "--data={2}"], FlagError, "--data needs --predictions, such as .*/predictions"),
        (
            ["--predictions={1}/predictions.json", "--data={2}", "--null_odds_file={0}/odds.json"],
            *(UserError, "2-0-0-0 has no number"),
        ),
    ],
)
def test_files_and_flags_that_do_not_fit_are_errors(
    call, trained, squad_dir, tmp_path, arguments, error, problem
):
    (tmp_path / "nbest.json").touch()
    (tmp_path / "odds.json").write_text(f'{{"2-0-0-0": {"9" * 400}}}')
    with pytest.raises(error, match=problem):
        call(*(a.format(tmp_path, trained, squad_dir / "dev-v1.1.json") for a in arguments))
