"""Any bytes of others are read or refused in one line: `ALBERT_FUZZ=5000` tries more of them."""

import collections
import contextlib
import csv
import gzip
import io
import json
import os
import re
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis import strategies as st
from safetensors.numpy import save
from starlette.exceptions import HTTPException

from albert.checkpoints import transformers_names as names
from albert.checkpoints.transformers_folder import TransformersFolder
from albert.core.errors import UserError
from albert.corpus.documents import Options, Tally, read_documents
from albert.download.archive import unpacked
from albert.records.records import RecordFile, record_error
from albert.serving import web
from albert.serving.services import OPTIONAL_TEXT, TEXT
from albert.tables.bad_rows import ERROR, SKIP, BadRows
from albert.tables.tables import open_table
from albert.tasks.entities.annotation_exports import open_annotated
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of
from albert.tokenization import FullTokenizer
from albert.tokenizers.wordpiece_text import load_vocab
from tests.helpers.download import tar_of, zip_of
from tests.helpers.files import write_records
from tests.helpers.fixtures import SIZES
from tests.helpers.models import tensors_of
from tests.helpers.squad import make_squad

EXAMPLES = int(os.environ.get("ALBERT_FUZZ", "25"))
many = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
PIECES = st.binary(max_size=9) | st.sampled_from(
    [b"\0", b"\xff" * 8, b"9" * 30, b"-1", b"{", b"[" * 2000, b'"', b"null", b"1e999", b"\n", b"<"]
)


@st.composite
def damaged(draw: st.DrawFn, *valid: bytes) -> bytes:
    """Draws bytes that differ from valid ones in a few places, or any bytes."""
    content = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.sampled_from([0, 1, 1, 4, 8, 64, 10**6]))
        content = content[:start] + draw(PIECES) + content[end:]
    return draw(st.just(content) | st.binary(max_size=50))


@contextlib.contextmanager
def refusing(kind: type[Exception] = UserError) -> Iterator[None]:
    """Accepts a refusal in one line; any other error fails."""
    try:
        yield
    except kind as e:
        text = str(e.detail) if isinstance(e, HTTPException) else str(e)
        assert text.strip() and "\n" not in text


CONFIG = {"model_type": "bert", "vocab_size": 7, **SIZES, "hidden_act": "gelu"}
TENSORS = save(tensors_of(CONFIG, names.POOLER))


@many
@hypothesis.given(weights=damaged(TENSORS), config=damaged(json.dumps(CONFIG).encode()))
def test_any_bytes_are_weights_or_refused(weights, config, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(weights)
    (tmp_path / "config.json").write_bytes(config)
    with refusing():
        folder = TransformersFolder(str(tmp_path))
        for name in folder.get_variable_to_shape_map():
            folder.get_tensor(name)


LINES = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n"
VOCAB = {piece: number for number, piece in enumerate(LINES.decode().split())}
WORDPIECE = {"model": {"type": "WordPiece", "vocab": VOCAB}}
WORDPIECE["normalizer"] = {"type": "BertNormalizer"}
UNIGRAM = {"model": {"type": "Unigram", "unk_id": 1, "vocab": [["<pad>", 0.0], ["<unk>", 0.0]]}}
JSONS = [json.dumps(one).encode() for one in (WORDPIECE, UNIGRAM)]


@many
@hypothesis.given(content=damaged(LINES, *JSONS))
def test_any_bytes_are_a_vocabulary_or_refused(content, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with refusing():
        assert all(isinstance(piece, str) for piece in load_vocab(str(path)))
    with refusing():
        FullTokenizer(str(path)).tokenize("The bridge, 98 m.")


@many
@hypothesis.given(data=st.data())
def test_any_bytes_are_a_sentencepiece_model_or_refused(data, squad_dir, tmp_path):
    path = tmp_path / "spm.model"
    path.write_bytes(data.draw(damaged((squad_dir / "spm.model").read_bytes(), *JSONS)))
    with refusing():
        FullTokenizer(None, True, str(path)).tokenize("The bridge, 98 m.")


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> tuple[bytes, dict]:
    """Returns a file of three records, and the features of each."""
    import tensorflow.compat.v1 as tf

    int64 = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    example = tf.train.Example(features=tf.train.Features(feature={"input_ids": int64}))
    path = tmp_path_factory.mktemp("records") / "file"
    write_records(path, [example.SerializeToString()] * 3)
    return path.read_bytes(), {"input_ids": tf.io.FixedLenFeature([2], tf.int64)}


@many
@hypothesis.given(data=st.data())
def test_any_bytes_are_records_or_refused(data, records, tmp_path):
    valid, spec = records
    path = tmp_path / "file.tf_record"
    path.write_bytes(data.draw(damaged(valid)))
    with refusing():
        list(RecordFile([str(path)]))
    # The checksums do not protect a record that somebody else has written.
    error = record_error(data.draw(damaged(valid[12:40])), spec, {"input_ids": 9})
    assert error is None or "\n" not in error


FILES = {"top/a": b"abc", "top/b/c": b"abc"}
ARCHIVES = tar_of(FILES, "w"), tar_of(FILES), zip_of(FILES)


@many
@hypothesis.given(content=damaged(*ARCHIVES))
def test_any_bytes_are_an_archive_or_refused(content, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    (folder / "archive").write_bytes(content)
    (folder / "out").mkdir()
    with refusing(), unpacked(folder / "archive", folder / "out/model"):
        pass
    assert {path.name for path in folder.iterdir()} == {"archive", "out"}
    assert {path.name for path in (folder / "out").iterdir()} <= {"model"}


NUMBER = {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
FIELDS = {"question": TEXT, "more": OPTIONAL_TEXT, "n_best": NUMBER}
BODY = b'{"question": "Who?", "more": "b\\ud83d\\ude00", "n_best": 2}'
Asked = collections.namedtuple("Asked", "fields")


@many
@hypothesis.given(body=damaged(BODY))
def test_any_body_of_a_request_is_read_or_refused(body):
    with refusing(HTTPException):
        try:
            values, _ = web._read(body, Asked(FIELDS))
            assert all(one.keys() == FIELDS.keys() for one in values)
        except HTTPException as e:
            assert e.status_code in (400, 422)
            raise


def plain_rows(content: bytes, ending: str) -> list[dict]:
    """Returns the rows of a table as JSON's and CSV's own readers read them; TSV by definition."""
    text = content.decode("utf-8-sig")
    if ending == ".jsonl":
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    if ending == ".csv":
        cells = list(csv.reader(io.StringIO(text, newline="\n")))
    else:
        lines = [line.rstrip("\r").split("\t") for line in text.split("\n")]
        cells = [list(map(unquoted, line)) for line in lines]
    header, *rows = filter(any, cells)
    return [dict(zip(header, row, strict=True)) for row in rows]


def unquoted(cell: str) -> str:
    found = re.fullmatch('"((?:""|[^"])*)"', cell)
    return found[1].replace('""', '"') if found else cell


# The first line stays, which tells the format.
TABLES = {
    ".csv": 'id,text\nx,"The ""Tamar"", long;\nis"\n\ny, Élan\r\nz,"a"\n',
    ".tsv": 'id\ttext\nx\t"The ""Tamar"", long"\n\t\ny\t a "b" É\r\nz\t""\n',
    ".jsonl": '{"id": "w"}\n{"id": "x", "text": "The \\"Tamar\\" \\ud83d"}\n\n{"id": null}\r\n',
}
MARKS = ['"', '""', ",", "\t", "\n", "\r", "\0", "é", " ", "{", "}", "null", '"\n"', ""]


@st.composite
def damaged_tables(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draws an ending, and a table with other characters or bytes in a few places."""
    ending = draw(st.sampled_from([*TABLES]))
    head, end, text = TABLES[ending].partition("\n")
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(st.sampled_from(MARKS)) + text[start + draw(st.integers(0, 3)) :]
    content = (head + end + text).encode()
    last = draw(st.integers(len(content) - 20, len(content)))
    return ending, content[:last] + draw(st.sampled_from([content[last:], b"\xff"]))


@hypothesis.settings(many, max_examples=8 * EXAMPLES)
@hypothesis.given(table=damaged_tables())
def test_damaged_tables_are_read_as_a_plain_reader_reads_them_or_refused(table, tmp_path):
    ending, content = table
    path = tmp_path / f"table{ending}"
    path.write_bytes(content)
    with refusing():
        rows = [dict(row) for _, row in open_table(str(path)).rows()]
        assert rows == plain_rows(content, ending)


QUESTIONS = [
    json.dumps({"version": 1, **make_squad(3, 2), "extra": [{"a": [1e5]}]}).encode(),
    json.dumps(make_squad(1, 2)["data"], indent=1).encode(),
]


@many
@hypothesis.given(content=damaged(*QUESTIONS))
def test_any_bytes_are_questions_or_refused(content, tmp_path):
    """Every pass has the questions of the file, and an article its other members in their order."""
    path = tmp_path / "questions"
    path.write_bytes(content)
    with refusing():
        questions = Questions(QuestionSource(str(path)))
        count, read = len(questions), list(articles_of(questions.kept()))
        document = json.loads(content)
        articles = document["data"] if isinstance(document, dict) else document
        assert json.dumps(read) == json.dumps([a for a in articles if a["paragraphs"]])
        pairs = [(p["context"], q) for a in articles for p in a["paragraphs"] for q in p["qas"]]
        assert count == len(pairs) and list(questions) == list(questions) == pairs


SPANS = [{"start": 0, "end": 3, "label": "PER"}]
RESULT = {"type": "labels", "value": {"start": 0, "end": 3, "text": "Nia", "labels": ["PER"]}}
STUDIO = [{"data": {"text": "Nia sang."}, "annotations": [{"result": [RESULT]}]}]
ANNOTATED = [
    *(json.dumps(one).encode() for one in ({"text": "Nia sang.", "spans": SPANS}, STUDIO)),
    b'["Nia sang.", {"entities": [[0, 3, "PER"]]}]\n{"tokens": ["Nia"], "ner_tags": ["B-PER"]}\n',
    b"-DOCSTART- O\n\nNia B-PER\nMoor I-PER\nsang O\n\n# id 1\nOuse B-LOC\n",
    b"1\tNia\t_\tB-PER\n2\tsang\t_\tO\n",
    b"Sentence #,Word,Tag\nSentence: 1,Nia,B-PER\n,sang,O\n",
]


@many
@hypothesis.given(content=damaged(*ANNOTATED), skips=st.booleans())
def test_any_bytes_are_annotated_texts_or_refused(content, skips, tmp_path):
    path = tmp_path / "texts"
    path.write_bytes(content)
    with refusing():
        bad = BadRows(str(path), SKIP if skips else ERROR)
        texts = open_annotated(str(path)).read((), bad)
        bad.finish()
        assert all(s.text == one.text[s.start : s.end] != "" for one in texts for s in one.spans)


ARTICLE = b"""<doc id="4" title="A">
A

The bridge &lt;ref&gt; is here.
</doc>
"""


@many
@hypothesis.given(content=damaged(ARTICLE), is_packed=st.booleans())
def test_any_bytes_are_articles_or_refused(content, is_packed, tmp_path):
    path = tmp_path / ("wiki_00.gz" if is_packed else "wiki_00")
    path.write_bytes(gzip.compress(content) if is_packed else content)
    tally = Tally()
    list(read_documents([str(path)], Options(), tally, lambda n: None))
    assert len(tally.faults) <= 1 and all("\n" not in fault for fault in tally.faults)
