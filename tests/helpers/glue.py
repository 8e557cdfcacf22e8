"""Every GLUE task with a few generated rows, in the form of the published files."""

import itertools
import pathlib
import random
from collections.abc import Sequence

_PARSES = "sentence1_binary_parse,sentence2_binary_parse,sentence1_parse,sentence2_parse"
_MNLI = f"index,promptID,pairID,genre,{_PARSES},sentence1,sentence2"
_VOTES = "label1,label2,label3,label4,label5"
_STSB = "index,genre,filename,year,old_index,source1,source2,sentence1,sentence2"
_MRPC = "#1 ID,#2 ID,#1 String,#2 String"
_NLI = ["contradiction", "entailment", "neutral"]
# Folders and files without their endings: the columns, by their published names. A name in capitals
# means that the file has no header.
_FILES = {
    "CoLA/train CoLA/dev": "SOURCE,LABEL,MARK,SENTENCE",
    "CoLA/test": "index,sentence",
    "SST-2/train SST-2/dev": "sentence,label",
    "SST-2/test": "index,sentence",
    "MRPC/train MRPC/dev": f"Quality,{_MRPC}",
    "MRPC/test": f"index,{_MRPC}",
    "STS-B/train STS-B/dev": f"{_STSB},score",
    "STS-B/test": _STSB,
    "QQP/train QQP/dev": "id,qid1,qid2,question1,question2,is_duplicate",
    "QQP/test": "id,question1,question2",
    "MNLI/train": f"{_MNLI},label1,gold_label",
    "MNLI/dev_matched MNLI/dev_mismatched": f"{_MNLI},{_VOTES},gold_label",
    "MNLI/test_matched MNLI/test_mismatched": _MNLI,
    "QNLI/train QNLI/dev": "index,question,sentence,label",
    "QNLI/test": "index,question,sentence",
    "RTE/train RTE/dev": "index,sentence1,sentence2,label",
    "RTE/test": "index,sentence1,sentence2",
    "WNLI/train WNLI/dev": "index,sentence1,sentence2,label",
    "WNLI/test": "index,sentence1,sentence2",
    "diagnostic/diagnostic": "index,sentence1,sentence2",
}
LABELS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("CoLA", "SST-2", "MRPC", "QQP", "WNLI"), ["0", "1"]),
    **dict.fromkeys(("QNLI", "RTE"), ["entailment", "not_entailment"]),
    **dict.fromkeys(("MNLI", "diagnostic"), _NLI),
    "STS-B": ["0.000", "1.250", "2.5", "3.75", "5.000"],
}
ROWS = 12


def write_all(folder: pathlib.Path, words: Sequence[str]) -> None:
    """Writes the files of all tasks, `ROWS` rows each, with texts of some words."""
    files = [(name, header) for names, header in _FILES.items() for name in names.split()]
    for number, (name, header) in enumerate(files):
        columns = header.split(",")
        path = folder / f"{name}.tsv"
        path.parent.mkdir(exist_ok=True)
        rng, labels = random.Random(number), itertools.cycle(LABELS[name.split("/")[0]])
        rows = [
            [_cell(column.lower(), row, label, rng, words) for column in columns]
            for row, label in zip(range(ROWS), labels, strict=False)
        ]
        if not columns[0].isupper():
            rows.insert(0, columns)
        path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def _cell(name: str, number: int, label: str, rng: random.Random, words: Sequence[str]) -> str:
    if name in ("index", "id"):
        return str(number)
    if name in ("label", "gold_label", "label1", "score", "quality", "is_duplicate"):
        return label
    if name.startswith("label") or name == "mark":
        return ""
    if "parse" in name:
        return "( a parse )"
    if any(kind in name for kind in ("sentence", "question", "string")):
        return " ".join(rng.choices(words, k=rng.randint(3, 8)))
    return f"{name}-{number}"
