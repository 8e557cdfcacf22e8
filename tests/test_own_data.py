"""Own data in one line: `albert classify reviews.csv --model=...`, and the same for other tasks."""

import json
import random

import pytest

from albert.core.errors import FlagError, UserError
from albert.core.files import content_of
from albert.records import TRAIN
from albert.settings.run_settings import AUTO_RECIPE
from albert.tables.tables import open_table
from albert.tasks.entities.settings import EntitiesSettings
from albert.tasks.glue.label_tables import find_columns
from albert.tasks.glue.settings import GlueSettings
from albert.tasks.glue.task import GlueTask
from albert.tasks.squad.settings import SquadV1Settings
from tests.helpers.entities import as_columns, sentences
from tests.helpers.running import albert, assert_fails, run, succeed

WORDS = ["s", "c", "m", "e", "g", "b", "p"]


def rows_of(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Returns texts, one of whose words says the label."""
    rng, rows = random.Random(seed), []
    for number in range(count):
        label = ("up", "down")[number % 2]
        words = [*rng.choices(WORDS, k=4), "nr"[number % 2]]
        rows.append((" ".join(rng.sample(words, 5)), label))
    return rows


def csv_of(rows, header="id,message,verdict") -> str:
    return "\n".join([header, *(f"{n},{text},{label}" for n, (text, label) in enumerate(rows))])


class TestColumns:
    """Which columns of a table are used."""

    @pytest.fixture
    def columns(self, write):
        def columns(header, *rows, given=(), **options):
            path = write("\n".join([header, *rows]) + "\n", "table.csv")
            found = find_columns(open_table(path), GlueSettings(**options), given)
            return found.text_column, found.text_b_column, found.label_column

        return columns

    ROWS = ("1,a good day,x", "2,a bad day,y", "3,the best day,x", "4,my worst day,y")

    @pytest.mark.parametrize(
        ("header", "expected"),
        [
            ("id,text_a,label", ("text_a", "text_b", "label")),
            ("id,Text,Category", ("Text", "text_b", "Category")),
            ("number,review,class", ("review", "text_b", "class")),
            # The only column of texts, and the only one whose values repeat.
            ("key,meinung,art", ("meinung", "text_b", "art")),
            ("key,sentence,art", ("sentence", "text_b", "art")),
            # A label that is found by its default name is no text.
            ("label,phrase,art", ("phrase", "text_b", "label")),
        ],
    )
    def test_the_header_or_the_content_says(self, columns, log, header, expected):
        assert columns(header, *self.ROWS) == expected
        text, _, label = expected
        assert log()[0].endswith(f"texts are in the column {text}, labels in {label}")

    def test_pairs_have_known_names(self, columns):
        rows = "a b,c d,1", "e f,g h,0"
        found = columns("sentence1,sentence2,label", *rows)
        assert found == ("sentence1", "sentence2", "label")
        assert columns("Premise,Hypothesis,Label", *rows)[1] == "Hypothesis"
        with pytest.raises(UserError, match=r"one column cannot be two of text \(text\), second"):
            columns("text,text_b", "a b,y", "c d,n", "e f,y", "g h,n")

    def test_rows_of_json_may_have_different_keys(self, write):
        rows = [{"premise": "a b"}, {"premise": "c d", "hypothesis": "e", "label": 1}]
        path = write("".join(json.dumps(row) + "\n" for row in rows), "table.jsonl")
        found = find_columns(open_table(path), GlueSettings(), ())
        assert (found.text_column, found.text_b_column) == ("premise", "hypothesis")

    def test_named_columns_count(self, columns):
        options = {"text_column": "review", "label_column": "stars"}
        found = columns("review,text,stars,label", "a b,c d,1,x", given={*options}, **options)
        assert found[::2] == ("review", "stars")

    @pytest.mark.parametrize(
        ("header", "rows", "message"),
        [
            ("review,comment,label", ["a b,c d,1"], "several columns may be the text.*=NAME, one"),
            ("text,a,b", ["a b,1,1", "c d,1,2", "e f,2,1", "g h,2,2"], "several .* be the label"),
            ("text,other", ["a b,c d", "e f,g h"], "no column may be the label; pass --label_col"),
            ("text,label", ["1,x", "2,y", "3,x"], "the column text has no text with a letter"),
            ("", (), "csv looks like an empty file; pass a table of texts and labels$"),
            ("context,question,answer", ["a b,c d,b"], "like questions: use `albert squad`"),
        ],
    )
    def test_what_is_not_plain_is_an_error_that_lists_the_columns(
        self, columns, header, rows, message
    ):
        with pytest.raises(UserError, match=message):
            columns(header, *rows)


class TestImplied:
    """What a path on the command line means."""

    def test_a_table_of_labels(self, tmp_path, write):
        path = write(csv_of(rows_of(20)), "reviews.csv")
        settings = GlueSettings().with_data(path)
        assert (settings.task_name, settings.data_dir) == ("tsv", path)
        assert (settings.do_train, settings.do_eval) == (True, True)
        assert (settings.output_dir, settings.is_auto()) == ("out/reviews", True)
        settings = GlueSettings.of(do_train=False, output_dir="x", recipe="reference")
        settings = settings.with_data(path)
        assert (settings.do_train, settings.output_dir, settings.is_auto()) == (False, "x", False)
        with pytest.raises(FlagError, match="reviews.csv and --data_dir are two inputs"):
            GlueSettings.of(data_dir="x").with_data(path)
        with pytest.raises(FlagError, match="reviews.csv has your own data: remove --task_name"):
            GlueSettings.of(task_name="mrpc").with_data(path)
        with pytest.raises(FlagError, match="'no' is neither a file nor a folder with data"):
            GlueSettings().with_data("no")

    @pytest.mark.parametrize("kind", [SquadV1Settings, EntitiesSettings])
    def test_files_of_questions_and_entities(self, kind, tmp_path, write):
        path = write("x", "own.v2.csv")
        settings = kind().with_data(path)
        files = settings.train_file, settings.predict_file, settings.dev_fraction
        assert files == (path, "", 0.2)
        assert (settings.output_dir, settings.is_auto()) == ("out/own.v2", True)
        assert kind.of(predict_file="x").with_data(path).dev_fraction == 0
        scored = kind.of(do_train=False).with_data(path)
        assert (scored.train_file, scored.predict_file, scored.dev_fraction) == ("", path, 0)
        with pytest.raises(FlagError, match="has no train.csv, train.json or similar file"):
            kind().with_data(str(tmp_path))
        folder = tmp_path / "data.v1"
        folder.mkdir()
        for name in ("train.jsonl", "dev.csv", "train.tf_record"):
            (folder / name).write_text("x")
        settings = kind().with_data(str(folder))
        files = settings.train_file, settings.predict_file
        assert files == (f"{folder}/train.jsonl", f"{folder}/dev.csv")
        assert (settings.output_dir, settings.dev_fraction) == ("out/data.v1", 0)

    def test_the_reference_s_tasks_keep_their_recipe(self):
        for task, is_auto in (("mrpc", False), ("tsv", True), ("TSV", True)):
            assert GlueSettings.of(task_name=task).is_auto() == is_auto
        assert not SquadV1Settings.of(train_file="x").is_auto()
        assert EntitiesSettings.of(train_file="x").is_auto()
        assert GlueSettings.of(task_name="mrpc", recipe="auto").recipe == AUTO_RECIPE


class TestFaults:
    @pytest.fixture
    def task(self, make_task):
        def task(path, *flags):
            own = "--task_name=tsv", f"--data_dir={path}", "--do_train", "--do_eval"
            return make_task(GlueTask, GlueSettings, *own, *flags)

        return task

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (rows_of(5), "has 5 different texts, too few to train on and to score on; add rows"),
            ([(text, "x") for text, _ in rows_of(20)], "needs two different labels, found in lab"),
            ([(t, f"l{n}") for n, (t, _) in enumerate(rows_of(20))], "has 20 different values in"),
        ],
    )
    def test_tables_that_cannot_be_learned_say_why(self, task, write, rows, message):
        with pytest.raises(UserError, match=message):
            task(write(csv_of(rows, "id,text,label"), "own.csv"))

    def test_nothing_is_scored_that_was_trained_on(self, task, write):
        path = write(csv_of(rows_of(20)), "own.csv")
        with pytest.raises(FlagError, match="--dev_fraction=0 leaves no text of .* to score on; a"):
            task(path, "--dev_fraction=0")
        assert task(path, "--dev_fraction=0", "--do_eval=false").splits == ["train"]

    def test_the_page_of_a_folder_has_its_name(self, task, write, tmp_path):
        write(csv_of(rows_of(20)), "train.csv")
        assert task(f"{tmp_path}/").title == f"Labels: {tmp_path.name}"

    def test_a_record_has_the_content_that_was_read(self, task, write):
        path = write(csv_of(rows_of(20)), "own.csv")
        content, own = content_of(path), task(path)
        write("changed", "own.csv")
        assert {own.contents(split)[f"{split}_file"] for split in own.splits} == {content}
        assert [len(own.split(split).read()[0]) for split in own.splits] == [16, 4]

    def test_weights_take_no_further_pass_over_the_table(self, task, write, log):
        path = write(csv_of([*rows_of(20), ("", "up")]), "own.csv")
        own = task(path, "--on_bad_row=skip", "--class_weights=balanced")
        assert own.head() and len(own.split(TRAIN).read()[0]) == 16
        assert len([line for line in log() if "skipped 1 row" in line]) == 1

    def test_rows_whose_features_are_reused_are_not_kept(self, task, write):
        path = write(csv_of(rows_of(20)), "own.csv")
        for _ in range(2):
            own = task(path, "--recipe=reference", "--max_seq_length=32")
            kept = own.processor._survey(path).parts
            assert [len(kept[is_dev]) for is_dev in (False, True)] == [16, 4]
            own.split(TRAIN).prepared()
            assert [*kept] == [True] and "ahead" not in vars(own)

    def test_labels_of_a_test_set_have_a_command(self, task, write):
        path = write(csv_of(rows_of(20)), "own.csv")
        with pytest.raises(FlagError, match="tasks of GLUE: use `albert predict MODEL FILE`"):
            task(path, "--do_predict")


def test_one_line_trains_and_scores(trained, tmp_path):
    table = tmp_path / "reviews.csv"
    table.write_text(csv_of(rows_of(40)))
    flags = "--train_steps=20", "--save_checkpoints_steps=2"
    command = albert("classify", table, f"--model={trained}", *flags)
    log = succeed(command, cwd=tmp_path)
    assert "texts are in the column message, labels in verdict" in log
    assert "--recipe=auto: --optimizer=adamw_corrected" in log and "--train_steps=" not in log
    out = tmp_path / "out/reviews"
    about = json.loads((out / "assets.extra/model.json").read_text())
    assert (about["text_column"], about["label_column"]) == ("message", "verdict")
    assert "text_b_column" not in about and about["labels"] == ["down", "up"]
    record = json.loads((out / "run.json").read_text())["settings"]
    assert (record["recipe"], record["dev_fraction"]) == ("auto", 0.2)
    assert len(json.loads((out / "eval_results.json").read_text())["history"]) == 10
    samples = (out / "predictions.jsonl").read_text().splitlines()
    assert len([line for line in samples if '"truth"' in line]) == 8
    assert '"title":"Labels: reviews.csv"' in (out / "predictions.html").read_text()
    # The table is scored on the part that was not in the training.
    score = [*command[:-1], "--do_train=false"]
    assert "All 10 checkpoints already have scores" in succeed(score, cwd=tmp_path)


@pytest.mark.slow
def test_one_line_for_entities(trained, tmp_path):
    path = tmp_path / "texts.conll"
    path.write_text(as_columns(sentences(1, 30)))
    flags = f"--model={trained}", "--train_steps=2"
    succeed(albert("entities", path, *flags), cwd=tmp_path)
    other = tmp_path / "other.conll"
    other.write_text("a O\nb B-NEW\n")
    score = albert("entities", other, "--do_train=false", f"--model={tmp_path}/out/texts")
    assert_fails(run(score, cwd=tmp_path), 1, "the label ... is not one of PER, PLACE")
    score = albert("entities", path, *score[-2:], "--output_dir=out/again")
    log = succeed(score, cwd=tmp_path)
    assert "The model was trained on" in log
    record = json.loads((tmp_path / "out/texts/run.json").read_text())["settings"]
    assert (record["recipe"], record["dev_fraction"]) == ("auto", 0.2)
