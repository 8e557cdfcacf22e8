"""create_pretraining_data.py as a command: files, flags, and faults."""

import sys

import pytest
import tensorflow.compat.v1 as tf
from absl.flags import IllegalFlagValueError

from albert.cli.pretraining_data import PretrainingDataSettings, output_files, part_of
from albert.core.errors import FlagError
from albert.distributed import launcher
from tests.helpers.files import settings_of
from tests.helpers.forking import ROOT
from tests.helpers.running import succeed

TEXT = "\n\n".join(
    f"The house number {k} is old.\nIt has {k} doors, and 12, 13 windows.\nNobody lives there."
    for k in range(400)
)


@pytest.fixture
def command(squad_dir, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    flags = ["--dupe_factor=2", "--max_seq_length=48", "--max_predictions_per_seq=6"]
    files = [f"--input_file={tmp_path}/a.txt", f"--spm_model_file={squad_dir / 'spm.model'}"]
    program = [sys.executable, str(ROOT / "create_pretraining_data.py")]
    return lambda *more: [*program, *flags, *files, *more]


def test_records_are_written_once_and_reused(command, tmp_path):
    path = tmp_path / "out" / "data"
    flags = (f"--output_file={path}", "--num_shards=1", "--preprocess_workers=2")
    log = succeed(command(*flags))
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert f" {len(records)} records from 400 documents" in log and len(records) > 2 * 400
    assert "400 documents (0 with only one sentence)" in log and "WARNING" not in log
    before = path.stat().st_mtime_ns
    assert f"Reusing {path}" in succeed(command(*flags))
    assert path.stat().st_mtime_ns == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["data", "data.json"]


def test_each_text_gets_a_file_and_documents_of_one_sentence_warn(command, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT.replace("\n", "\n\n"))
    (tmp_path / "b.txt").write_text("One house is old.\n\nTwo doors are new.\n\n" * 30)
    log = succeed(command(f"--input_file={tmp_path}/*"))
    assert "1260 documents (1260 with only one sentence)" in log
    first, second = ((tmp_path / f"{name}.txt.tfrecord").stat().st_size for name in "ab")
    assert first > 9 * second > 9000
    (warning,) = [line for line in log.splitlines() if "WARNING" in line]
    assert "No record has its sentences in order" in warning


def test_a_process_makes_the_part_of_its_rank_or_flag(monkeypatch):
    monkeypatch.setattr(launcher, "started", launcher.Worker(3, 8))
    assert part_of(settings_of(PretrainingDataSettings)) == (3, 8)
    assert part_of(settings_of(PretrainingDataSettings, "--shard=2/5")) == (1, 5)
    for wrong in ("0/5", "6/5", "2", "2/", "a/b", "-1/5"):
        with pytest.raises(FlagError, match=f"--shard={wrong} is not a part such as 2/8"):
            part_of(settings_of(PretrainingDataSettings, f"--shard={wrong}"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        *((flag, flag[:8]) for flag in (f"--ngram={10**9}", "--random_seed=-1")),
        ("--masked_lm_prob=nan", "--masked_lm_prob must be a finite number, not nan"),
        ("--output_file=a,b --num_shards=3", "--num_shards needs one --output_file, not 2"),
        ("--output_file=a --num_shards=3 --parallel", "cannot be used with --parallel"),
        ("--num_shards=3", "--num_shards needs --output_file"),
        ("--output_file=a,b --parallel", "--parallel needs as many output files as input files"),
        ("--output_file=a,./a", "--output_file names a file twice"),
        ("--output_file=a,./a.json", "--output_file: ./a.json is the header of a; use another"),
    ],
)
def test_conflicting_flags_are_an_error(flags, message):
    with pytest.raises((FlagError, IllegalFlagValueError), match=message):
        output_files(["x"], settings_of(PretrainingDataSettings, *flags.split()))
