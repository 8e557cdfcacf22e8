"""run.json: only the run that began a folder can resume it."""

import json
import os
import types

import pytest

from albert.core.errors import FlagError, UserError
from albert.core.files import open_atomically
from albert.core.version import VERSION
from albert.settings.run_settings import RunSettings
from albert.training import output_folder
from albert.training.output_folder import begin_run, clear_litter_of_runs
from tests.helpers.files import contents, write_files

SETTINGS = {
    "learning_rate": 5e-05,
    "train_batch_size": 8,
    "train_file": "sha256:aa",
    "init_checkpoint": None,
    "albert_config_file": {"hidden_size": 32, "hidden_dropout_prob": 0.1},
}
TASK_OUTPUTS = ("predictions.json", "nbest_predictions.json")
OUTPUTS = str.split("""
    model.ckpt-10.index model.ckpt-10.data-00000-of-00001 model.ckpt-10.meta model.ckpt-best.index
    resume.ckpt-12.index checkpoint graph.pbtxt events.out.tfevents.1.host predictions.json
    eval/events.out.tfevents.2.host nbest_predictions.json eval_results.txt eval_results.json
    assets.extra/model.json metrics.jsonl mlflow.json
""")
# Files that a run may find in its folder; some names resemble a run's.
OTHERS = str.split("""
    notes.txt model.ckpt-notes.txt model.ckpt-10.index.bak my_model.ckpt-10.index eval/notes.txt
    model.ckpt-best-of-all.index model.ckpt-999/notes.txt events.out.tfevents.notes checkpoint.old
    eval/predictions.json assets.extra/notes.txt assets.extra/.notes.txt.abcdefgh test_results.tsv
    .predictions.json.old .predictions.json.ABCDEFGH .notes.txt.abcdefgh checkpoint.tmp
    eval_left.npz model.ckpt-3_temp/notes.txt model.ckpt-best_temp/part-00000-of-00001.index
    train.tf_record train.tf_record.json evaluation/table.csv saved_model/1/saved_model.pb
""")


MODEL = "owner/model@abc"


def task_in(folder, overwrite=False):
    values = {"output_dir": str(folder), "overwrite_output_dir": overwrite}
    settings = RunSettings(model=MODEL, **values)
    files = {"outputs": TASK_OUTPUTS, "label_outputs": []}
    return types.SimpleNamespace(settings=settings, kind="squad-1.1", **files)


def begin(folder, overwrite=False, **changes):
    begin_run(task_in(folder, overwrite), {**SETTINGS, **changes})


def write(folder, names):
    """Makes files that hold their names."""
    write_files(folder, {name: name for name in names})


@pytest.fixture
def full(tmp_path):
    """Makes a folder with all kinds of files, from runs and others, and a record."""
    begin(tmp_path)
    write(tmp_path, OUTPUTS + OTHERS)
    return tmp_path


class TestBegin:
    def test_a_new_folder_gets_a_record(self, tmp_path):
        begin(tmp_path)
        record = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
        assert record.pop("model") == MODEL
        assert {*record.pop("outputs")} == {*output_folder.OF_EVERY_RUN, *TASK_OUTPUTS}
        expected = {"version": 2, "program_version": VERSION, "task": "squad-1.1"}
        assert record == {**expected, "settings": SETTINGS}
        assert contents(tmp_path).keys() == {"run.json"}
        # The order of settings does not matter.
        begin_run(task_in(tmp_path), dict(reversed(SETTINGS.items())))

    def test_existing_files_stay(self, full):
        before = contents(full)
        begin(full)
        assert contents(full) == before
        write(full / "others", ("notes.txt", "train.tf_record", "model.ckpt-best.index"))
        begin(full / "others")
        assert len(contents(full / "others")) == 4


class TestAnotherRun:
    def test_the_flags_that_differ_are_named_with_both_values(self, full):
        before = contents(full)
        config = {**SETTINGS["albert_config_file"], "hidden_size": 64}
        message = (
            r"--albert_config_file.hidden_size \(was 32, is 64\), --learning_rate \(was 5e-05, is "
            r"0.0001\); give another --output_dir, or --overwrite_output_dir to .*"
        )
        with pytest.raises(FlagError, match=f"^--output_dir {full} holds .* flags: {message}$"):
            begin(full, learning_rate=1e-4, albert_config_file=config)
        assert contents(full) == before

    def test_another_number_of_workers_may_resume(self, tmp_path):
        begin(tmp_path, **{"number of workers": 1})
        message = r"was 1, is 8\); give another --output_dir, .* or --elastic_resume to resume it"
        with pytest.raises(FlagError, match=message):
            begin(tmp_path, **{"number of workers": 8})


class TestOverwrite:
    def test_outputs_are_removed_and_other_files_stay(self, full, log):
        begin(full, overwrite=True, learning_rate=1.0)
        after = contents(full)
        assert after.keys() == {"run.json", *OTHERS}
        assert all(after[name].decode() == name for name in OTHERS)
        assert any(f"removed 17 files in {full}" in line for line in log())
        begin(full, learning_rate=1.0)
        # Without a record, or with a damaged one.
        (full / "run.json").write_text("{")
        begin(full, overwrite=True)
        (full / "run.json").unlink()
        write(full, ["model.ckpt-3.index"])
        with pytest.raises(FlagError, match=r"has checkpoints but no run\.json.*--overwrite_out"):
            begin(full)
        assert contents(full).keys() == {"model.ckpt-3.index", *OTHERS}
        begin(full, overwrite=True)
        assert contents(full).keys() == {"run.json", *OTHERS}

    def test_links_are_removed_and_not_followed(self, tmp_path):
        elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
        folder.mkdir()
        files = ("events.out.tfevents.2.host", "model.ckpt-1.index", "part-00000-of-00001.index")
        write(elsewhere, files)
        for name in ("eval", "model.ckpt-999", "model.ckpt-10_temp", ".saving"):
            (folder / name).symlink_to(elsewhere)
        (folder / "model.ckpt-998").symlink_to(tmp_path / "nowhere")
        (folder / "model.ckpt-1.index").symlink_to(elsewhere / "model.ckpt-1.index")
        clear_litter_of_runs(str(folder), [])
        before = {*os.listdir(folder)}
        assert before >= {"eval", "model.ckpt-1.index", "model.ckpt-10_temp"}
        begin(folder, overwrite=True)
        assert contents(elsewhere).keys() == {*files}
        assert {*os.listdir(folder)} == before - {"model.ckpt-1.index"} | {"run.json"}

    def test_the_records_list_decides_what_is_removed(self, full):
        write(full, ["null_odds.json"])
        checkpoints = ["model.ckpt-*", "resume.ckpt-*"]
        outputs = ["null_odds.json", *checkpoints, "../run.json", "eval", "run.json"]
        record = {"version": 2, "settings": SETTINGS, "outputs": outputs}
        (full / "run.json").write_text(json.dumps(record))
        begin(full, overwrite=True)
        kept = [name for name in OUTPUTS if ".ckpt-" not in name]
        assert contents(full).keys() == {"run.json", *OTHERS, *kept}

        # Without a list, as in the records of an earlier version, this run's outputs.
        write(full, OUTPUTS)
        (full / "run.json").write_text(json.dumps({"version": 1, "settings": SETTINGS}))
        begin(full)
        begin(full, overwrite=True)
        assert contents(full).keys() == {"run.json", *OTHERS}


LITTER = str.split(f"""
    .predictions.json.abcd_123 .nbest_predictions.json.00000000 .run.json.abcdefgh
    .model.ckpt-best.index.abcdefgh .model.ckpt-10.data-00000-of-00001.abcdefgh
    .eval_results.txt.abcdefgh assets.extra/.spm.model.abcdefgh checkpoint.tmp{32 * "a"}
    model.ckpt-10.meta.tmp{32 * "0"} .saving/model.ckpt-10.index
    .saving/model.ckpt-10_temp/part-00000-of-00001.index
""")


class TestLitter:
    def test_leftovers_are_removed_and_other_files_stay(self, full):
        """Those of another task as well: the record lists them."""
        kept = contents(full)
        for task_outputs in (TASK_OUTPUTS, ["test_results.tsv"]):
            write(full, LITTER)
            clear_litter_of_runs(str(full), task_outputs)
            assert contents(full) == kept

    def test_a_file_that_is_being_written_looks_like_a_leftover(self, tmp_path):
        with pytest.raises(UserError), open_atomically(str(tmp_path / "predictions.json")):
            clear_litter_of_runs(str(tmp_path), TASK_OUTPUTS)
        assert contents(tmp_path) == {}
