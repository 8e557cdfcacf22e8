"""Named entities under the flags: tags, steps, labels of a trained model, and faults."""

import json

import pytest

from albert.core.errors import FlagError, UserError
from albert.core.files import content_of
from albert.records import DEV, TEST, TRAIN
from albert.tasks.entities.settings import EntitiesSettings
from albert.tasks.entities.task import EntitiesTask
from albert.training.plan import Steps
from albert.training.prepared import contents_of
from albert.training.task_model import assets_of
from tests.helpers.checkpoints import write_checkpoint
from tests.helpers.entities import write_entities


@pytest.fixture
def make(make_task, tmp_path):
    write_entities(tmp_path)

    def make(*flags: str) -> EntitiesTask:
        more = [flag.format(tmp_path) for flag in flags]
        return make_task(EntitiesTask, EntitiesSettings, "--max_seq_length=32", *more)

    return make


FILES = "--train_file={0}/train.conll", "--predict_file={0}/dev.jsonl", "--test_file={0}/test.txt"


def test_tags_follow_from_the_training_file(make):
    tags = ["O", "B-PER", "I-PER", "B-PLACE", "I-PLACE"]
    task = make(*FILES, "--train_batch_size=4", "--num_train_epochs=2")
    assert assets_of(task).description["labels"] == contents_of(task, DEV)["labels"] == tags
    assert task.steps(num_examples=100) == Steps(50, 5)
    assert make(*FILES, "--train_steps=10").steps(num_examples=100) == Steps(10, 1)


def test_a_record_has_the_content_that_was_read(make, tmp_path):
    task, path = make(FILES[0], "--recipe=reference"), tmp_path / "train.conll"
    content, count = task.contents(TRAIN)["train_file"], len(task.read(TRAIN))
    assert content == content_of(str(path))
    task = make(FILES[0], "--recipe=reference")
    path.write_text("a B-PER\n")
    assert (task.contents(TRAIN)["train_file"], len(task.read(TRAIN))) == (content, count)


def test_a_split_is_requested_if_its_file_is_given(make, log):
    assert make(*FILES).splits == [TRAIN, DEV, TEST]
    log()
    assert make(FILES[0]).splits == [TRAIN]
    assert [line for line in log() if "is off" in line] == [
        "--do_eval is off, because --predict_file is not given",
        "--do_predict is off, because --test_file is not given",
    ]
    assert make(*FILES, "--do_predict=false").splits == [TRAIN, DEV]
    with pytest.raises(FlagError, match="--do_predict needs --test_file"):
        make(FILES[0], "--do_predict")
    with pytest.raises(FlagError, match="nothing to do: pass --train_file, --predict_file, --t"):
        make()


def test_a_prediction_takes_the_labels_of_the_training_and_faulty_files_are_named(make, tmp_path):
    with pytest.raises(UserError, match="out has no checkpoint; train first, or give --init_check"):
        make(*FILES[1:])
    write_checkpoint(tmp_path / "out/model.ckpt-best", {"weight": [0.5]})
    with pytest.raises(UserError, match="out has no record of a training with labels"):
        make(*FILES[1:])
    record = {"task": "entities", "settings": {"labels": ["O", "B-PER", "I-PER"]}}
    (tmp_path / "out/run.json").write_text(json.dumps(record))
    task = make(*FILES[1:])
    assert task.labels == ["O", "B-PER", "I-PER"]
    assert len(task.split(TEST).read()[0]) == 12
    with pytest.raises(UserError, match=r"dev.jsonl: .* the label ... is not one of PER: line \d+"):
        task.split(DEV).read()
    (tmp_path / "train.conll").write_text("a O\nb O\n")
    with pytest.raises(UserError, match="train.conll has no entities"):
        make(*FILES)
    (tmp_path / "train.conll").write_text("a B-PER\n")
    task = make(*FILES, "--preprocess_workers=1", "--overwrite_output_dir")
    (tmp_path / "out/train.tf_record").write_text("other")
    with pytest.raises(UserError, match="train.tf_record exists, but this program did not write"):
        task.split(TRAIN).prepared()


def test_the_features_of_a_document_of_brat_depend_on_its_text_too(make, tmp_path):
    (tmp_path / "brat").mkdir()
    (tmp_path / "brat/a.ann").write_text("T1\tPER 0 3\tNia\n")
    contents = []
    for text in ("Nia saw it.", "Nia was it."):
        (tmp_path / "brat/a.txt").write_text(text)
        for path in ("brat", "brat/a.ann"):
            task = make(f"--train_file={{0}}/{path}")
            assert [example.text for example in task.split(TRAIN).read()[0]] == [text]
            contents.append(task.contents(TRAIN)["train_file"])
    assert contents[0] == contents[1] != contents[2] == contents[3]
    settings = EntitiesSettings().with_data(str(tmp_path / "brat"))
    assert settings.train_file == str(tmp_path / "brat") and settings.dev_fraction


def test_units_of_tags_follow_from_the_training_file(make, tmp_path, log):
    """A resumed run and a prediction have those of the training, as do runs of earlier versions."""
    inside = {"text": "Ouseland", "spans": [{"start": 0, "end": 4, "label": "PER"}]}
    lines = (tmp_path / "dev.jsonl").read_text() + json.dumps(inside) + "\n"
    (tmp_path / "few.jsonl").write_text(lines)
    (tmp_path / "many.jsonl").write_text(json.dumps(inside) + "\n")

    def units(name: str, *flags: str) -> list[str | None]:
        """Returns what the description, the record of a run and the source of features say."""
        task = make(f"--train_file={{0}}/{name}.jsonl", *flags)
        values = task.description(), task.contents(TRAIN), task.made_from(TRAIN)
        return [value.get("entity_units") for value in values]

    assert units("dev") == units("few") == [None, None, "auto"]
    what = "spans that begin or end inside a word: 1"
    assert [line for line in log() if "inside" in line] == [f"{tmp_path}/few.jsonl: {what}"]
    # A piece of the word extends beyond the entity.
    assert units("many") == units("dev", "--entity_units=character") == ["character"] * 3
    assert units("dev", "--entity_units=piece") == ["piece"] * 3
    assert units("many", "--entity_units=word") == [None, None, "auto"]
    assert f"{tmp_path}/many.jsonl: each character gets a tag" in log()
    (tmp_path / "out").mkdir(exist_ok=True)
    for recorded, expected in ((None, None), ("auto", None), ("piece", "piece")):
        settings = {"labels": ["O"], **({"entity_units": recorded} if recorded else {})}
        record = {"task": "entities", "settings": settings}
        (tmp_path / "out/run.json").write_text(json.dumps(record))
        assert units("many") == [expected, expected, expected or "auto"]
    assert units("dev", "--overwrite_output_dir") == [None, None, "auto"]
    write_checkpoint(tmp_path / "out/model.ckpt-best", {"weight": [0.5]})
    assert make("--test_file={0}/dev.jsonl").contents(TEST)["entity_units"] == "piece"
    with pytest.raises(FlagError, match="has a tag for each piece; pass --entity_units=p"):
        make("--test_file={0}/dev.jsonl", "--entity_units=word")
