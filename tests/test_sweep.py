"""`albert sweep`: one that is killed and resumed, and sweeps of a program that only scores."""

import csv
import json
import pathlib
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from albert.cli import sweep
from albert.cli.check import find_task
from albert.cli.training import Job
from albert.core import locks
from albert.core.errors import FlagError, UserError
from albert.sweep import trial_process
from albert.sweep.space import SweepSettings, make_space
from albert.tasks.squad.settings import SquadV1Settings
from albert.training import metrics
from tests.helpers.files import settings_of
from tests.helpers.forking import ROOT
from tests.helpers.running import albert, assert_fails, run
from tests.helpers.serving import until
from tests.helpers.squad import SQUAD_FLAGS
from tests.helpers.tiny_runs import MODEL

SVG = "{http://www.w3.org/2000/svg}"


def rows_of(folder: pathlib.Path) -> list[dict[str, str]]:
    with open(folder / "trials.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.slow
class TestWhole:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory) -> pathlib.Path:
        return tmp_path_factory.mktemp("sweep")

    @pytest.fixture(scope="class")
    def command(self, folder, squad_dir) -> list[str]:
        (folder / "data").mkdir()
        rows = [f"{n % 2}\t{'anna left' if n % 2 else 'bridge was'} {n}\n" for n in range(16)]
        for part in ("train", "dev"):
            text = "".join(["label\ttext_a\n", *rows])
            (folder / f"data/{part}.tsv").write_text(text)
        model = " ".join(MODEL).format(squad=squad_dir)
        flags = f"--data_dir={folder}/data --task_name=tsv {model} --from_scratch --log_steps=1"
        ranges = "--learning_rates=1e-4,1e-2 --epochs=40,41 --batch_sizes=8 --seed_range=1,9"
        words = f"{flags} --max_seq_length=16 --output_dir={folder}/out {ranges} --checkpoints=2"
        return albert("sweep", "classify", *words.split(), "--trials=3")

    @pytest.fixture(scope="class")
    def done(self, folder, command) -> pathlib.Path:
        second = folder / "out/trial-001"
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as killed:
            until(lambda: killed.poll() is not None or metrics.read(second), seconds=240)
            killed.kill()
        assert killed.returncode == -signal.SIGKILL, killed.stderr.read()
        (folder / "killed").write_text(json.dumps(metrics.read(second)))
        result = run(command)
        assert result.returncode == 0, result.stderr
        (folder / "stdout").write_text(result.stdout)
        (folder / "stderr").write_text(result.stderr)
        return folder / "out"

    def test_finished_trials_stay_and_the_killed_one_resumes(self, done, folder):
        log = (folder / "stderr").read_text()
        assert "Trial 1 of 3" not in log and "Trial 2 of 3" in log and "Trial 3 of 3" in log
        assert "; the same command resumes" in (done / "trial-001.log").read_text()
        assert "Training from step" in (done / "trial-001.log").read_text()
        for number in range(3):
            lines = metrics.read(done / f"trial-00{number}")
            steps = [line["step"] for line in lines if line["kind"] == "training"]
            assert steps == list(range(1, steps[-1] + 1)) and steps[-1] in (80, 82)
            scored = [line["step"] for line in lines if line["kind"] == "scores"]
            assert scored == [steps[-1] // 2, steps[-1]]
        # The step that was saved when the sweep was killed was not repeated.
        before = json.loads((folder / "killed").read_text())
        assert before == metrics.read(done / "trial-001")[: len(before)]

    def test_the_trials_are_ordinary_runs_with_the_flags_of_the_table(self, done, folder):
        rows = rows_of(done)
        assert [row["folder"] for row in rows] == [f"trial-00{n}" for n in range(3)]
        assert {row["state"] for row in rows} == {"complete"}
        for row in rows:
            settings = json.loads((done / row["folder"] / "run.json").read_text())["settings"]
            for name in ("learning_rate", "num_train_epochs", "train_batch_size", "seed"):
                assert float(row[name]) == settings[name]
            results = json.loads((done / row["folder"] / "eval_results.json").read_text())
            assert float(row["eval_accuracy"]) == pytest.approx(results["eval_accuracy"], abs=1e-5)
        assert not list(done.glob("trial-*/*train.tf_record")), "features are shared"
        best = max(rows, key=lambda row: float(row["eval_accuracy"]))
        stdout = (folder / "stdout").read_text()
        assert f"best: eval_accuracy {best['eval_accuracy']} in {done}/{best['folder']}\n" in stdout
        assert all(row["folder"] in stdout for row in rows)

    def test_the_same_command_only_prints_the_table(self, done, command, folder):
        files = [path for path in done.rglob("*") if path.name != "study.log"]
        before = {path: path.stat().st_mtime_ns for path in files if path.is_file()}
        result = run(command)
        assert result.stdout == (folder / "stdout").read_text() and "Trial" not in result.stderr
        assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_sweep_of_an_earlier_version_continues(earlier):
    """It had ended, so that the same command only prints the table."""
    model = "--albert_config_file=squad/albert.json --spm_model_file=squad/spm.model"
    flags = f"--data_dir=sweep/data --task_name=tsv {model} --from_scratch --max_seq_length=16"
    ranges = "--learning_rates=1e-4,1e-2 --epochs=1,2 --batch_sizes=8 --checkpoints=1 --trials=1"
    words = f"{flags} --output_dir=sweep/out {ranges}"
    result = run(albert("sweep", "classify", *words.split()), cwd=earlier)
    assert result.returncode == 0 and "Trial" not in result.stderr, result.stderr
    assert "best: eval_accuracy" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sqaud"], "'sqaud' is not one of squad, classify, race, entities; did you mean squad?"),
        (["pretrain"], "'pretrain' is not one of"),
        (["--trials=2"], "the task is missing; name it before the flags"),
        (["squad", "3.0"], "'3.0' is not a flag"),
        (["squad", "--trials=1"], "--output_dir is required"),
    ],
)
def test_a_wrong_command_line_is_one_line(words, message):
    assert_fails(run(albert("sweep", *words)), 2, message)


# Represents the program of the task: its score is a function of the learning rate, and it fails
# with a seed of 3. Late trials with a low score wait after their first checkpoint to be ended.
PROGRAM = """
import os, signal, sys
from albert.training import metrics
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
folder = flags["output_dir"]
os.makedirs(folder, exist_ok=True)
if flags["seed"] == "3":
    print("program: error: out of luck", file=sys.stderr)
    sys.exit(1)
for number in (1, 2):
    score = 1 - abs(float(flags["learning_rate"]) - 5e-5) * 1e4 + number / 100
    values = {"checkpoint": f"model.ckpt-{number}", "best_by": "f1", "f1": score}
    metrics.append(folder, "scores", number, values)
    if score < 0.65 and int(folder[-3:]) > 8:
        signal.pause()
print(*sys.argv[1:])
"""


@pytest.fixture
def sweeping(squad_dir, tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(trial_process, "_SECONDS_BETWEEN", 0.05)
    stub = [sys.executable, str(tmp_path / "program.py")]
    monkeypatch.setattr("albert.sweep.search.command", lambda *words: [*stub, *words])

    def sweeping(*flags: str, task_flags=()) -> None:
        searched = re.compile("=1e-3|batch_size|epochs|save_checkpoints")
        fixed = [f.format(squad=squad_dir) for f in SQUAD_FLAGS if not searched.search(f)]
        fixed += [f"--output_dir={tmp_path}/out", *task_flags]
        settings, ranges = settings_of(SquadV1Settings, *fixed), settings_of(SweepSettings, *flags)
        job, space = Job(find_task("squad"), settings), make_space(ranges, settings)
        try:
            sweep.main((["squad"], job, ranges, space))
        finally:
            locks.release_held()

    return sweeping


def test_failed_trials_are_reported_and_do_not_end_the_sweep(sweeping, tmp_path, capsys, log):
    sweeping("--trials=12", "--batch_sizes=8,16")
    rows = rows_of(tmp_path / "out")
    failed = [row for row in rows if row["state"] == "failed"]
    assert failed == [row for row in rows if row["seed"] == "3"] and failed
    warning = f"{failed[0]['folder']} failed with exit code 1: program: error: out of luck"
    assert warning in log()
    complete = [row for row in rows if row["state"] == "complete"]
    pairs = [(float(r["f1"]), 1.02 - abs(float(r["learning_rate"]) - 5e-5) * 1e4) for r in complete]
    assert len(pairs) >= 6 and all(actual == pytest.approx(score) for actual, score in pairs)
    assert {row["state"] for row in rows} == {"complete", "pruned", "failed"}
    # The best comes first, those without a score last.
    table = capsys.readouterr().out.splitlines()
    assert table[1].split()[2] == max(complete, key=lambda row: float(row["f1"]))["f1"]
    assert table[len(rows)].split()[1] == "failed"
    figure = ET.parse(tmp_path / "out/trials.svg").getroot()
    titles = [title.text for title in figure.iter(f"{SVG}title")]
    assert len(titles) == 4 * (len(rows) - len(failed))
    circles = list(figure.iter(f"{SVG}circle"))
    assert {c.get("fill") for c in circles} == {"#00798c", "#d1495b", "none"}
    assert sum(c.get("fill") == "#d1495b" for c in circles) == 4, "the best, in each panel"
    # The trials of 48 questions have two checkpoints, and features in common.
    log_of_first = (tmp_path / f"out/{complete[0]['folder']}.log").read_text()
    steps = int(48 / int(complete[0]["train_batch_size"]) * int(complete[0]["num_train_epochs"]))
    assert f"--save_checkpoints_steps={-(-steps // 4)} " in log_of_first
    assert f"--train_feature_file={tmp_path}/out/train.tf_record " in log_of_first


def test_another_sweep_or_a_flag_of_a_single_run_is_an_error(sweeping, tmp_path):
    sweeping("--trials=1", "--seed_range=1,1")
    for flags, task_flags, message in (
        (["--seed_range=1,8"], [], "holds a sweep with other values of seed.high .was 1, is 8.;"),
        ([], ["--doc_stride=17", "--patience=1"], "doc_stride .*, patience .was 0, is 1.;"),
        ([], ["--do_predict=false"], "--do_predict=false does not work in a sweep"),
        ([], ["--overwrite_output_dir"], "remove its folder to start again"),
    ):
        with pytest.raises(FlagError, match=message):
            sweeping("--trials=1", *(flags or ["--seed_range=1,1"]), task_flags=task_flags)
    (tmp_path / "out/run.json").write_text("{}")
    with pytest.raises(FlagError, match="holds a run; give another one to the sweep"):
        sweeping("--trials=1")


def test_errors_of_all_trials_come_first_or_fail_the_sweep(sweeping, tmp_path, squad_dir):
    with pytest.raises(UserError, match="48 examples are less than one step of 64"):
        sweeping("--batch_sizes=8,64", "--epochs=1,2", "--trials=1")
    with pytest.raises(FlagError, match="--do_predict needs --predict_file"):
        sweeping("--trials=1", task_flags=["--predict_file="])
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match=r"all 2 trials failed; .*out/trial-000.log says why"):
        sweeping("--trials=2", "--seed_range=3,3")
    assert [row["state"] for row in rows_of(tmp_path / "out")] == ["failed", "failed"]
