"""The overview of a file that `albert data check` shows: format, counts, problems and examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert.core.text import printable
from albert.data.annotated_files import OFFSETS
from albert.data.bad_rows import ERROR, ON_BAD_ROW, BadRows
from albert.data.tables import Table
from albert.settings.fields import FEATURES, LONGEST_SEQUENCE, redefined, setting
from albert.settings.text_settings import NormalizationSettings, TextSettings

# Number of characters of a text to show before and after its first mark.
SHOWN = 200

# The start and end of a part to mark, and its kind; see `albert.report.terminal.wrapped`.
Mark = tuple[int, int, str]


class Line(NamedTuple):
    """A text of an example, with its name and its marked parts."""

    name: str
    text: str
    marks: Sequence[Mark] = ()


class Overview(NamedTuple):
    """The content of a file as a training reads it.

    Attributes:
      format: the name of the file's format.
      counts: names and values, such as ("questions", "1,234").
      examples: the first examples: a title, and lines.
      bad: the rows that a training would skip or refuse; the caller finishes it.
    """

    format: str
    counts: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, Sequence[Line]]]
    bad: BadRows


class CheckSettings(NormalizationSettings):
    """How to read a file, and the flags of the training on it."""

    on_bad_row: str = setting(
        ERROR,
        "What to do with rows that cannot be used: error ends the command; skip skips them. For "
        "questions, first also skips them, but uses the first place of an answer that occurs "
        "several times in its context; lenient also skips them, but uses an answer that differs "
        "from its context only in spaces, Unicode form or case, if it occurs once.",
        choices=ON_BAD_ROW,
    )
    num_examples: int = setting(5, "Number of examples that `check` shows.", lower=0)
    text_column: str = setting("text_a", "For labels: the column of the text.")
    text_b_column: str = setting("text_b", "For labels: the column of the second text.")
    label_column: str = setting("label", "For labels: the column of the label.")
    multi_label: bool = setting(False, "For labels: a text may have several labels, or none.")
    label_separator: str = setting(",", "With --multi_label: the text between two labels.")
    tsv_regression: bool = setting(False, "For labels: they are numbers.")
    offsets: str = setting(
        OFFSETS[0], "For entities: what the offsets of spans in JSON count.", choices=OFFSETS
    )
    token_column: int | None = setting(None, "For entities: the column of tokens.", lower=1)
    tag_column: int | None = setting(None, "For entities: the column of tags.", lower=1)
    model: str = redefined(TextSettings, "model", "")
    spm_model_file: str | None = redefined(
        TextSettings, "spm_model_file", None, help="SentencePiece model, to count tokens."
    )
    vocab_file: str | None = redefined(
        TextSettings, "vocab_file", None, help="WordPiece vocabulary, to count tokens."
    )
    max_seq_length: int | None = setting(
        None,
        "Length of a feature, in tokens. Default: that of the training: 384 for questions, 512 "
        "for labels, 128 for entities.",
        FEATURES,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    doc_stride: int = setting(
        128, "For questions: distance between the starts of two windows.", FEATURES, lower=1
    )
    max_query_length: int = setting(
        64, "For questions: greatest length of a question, in tokens.", FEATURES, lower=1
    )


def columns_of(table: Table, used: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the names of the columns of a table that are used, and of the others."""
    names = [name for name in used if name in table.columns]
    ignored = ", ".join(name for name in table.columns if name and name not in names)
    used_names = printable(", ".join(names))
    return [("columns used", used_names), ("columns ignored", printable(ignored) or "none")]


class TokenCounts:
    """Counts the tokens of texts, and those that are unknown to the tokenizer."""

    def __init__(self, unk_id: int):
        self._unk_id, self._total, self._unknown = unk_id, 0, 0

    def add(self, ids: Sequence[int]) -> None:
        """Counts the tokens of a text."""
        self._total += len(ids)
        self._unknown += ids.count(self._unk_id)

    def row(self) -> tuple[str, str]:
        """Returns the row of an overview."""
        share = self._unknown / max(1, self._total)
        return "tokens", f"{self._total:,}; {share:.2%} are unknown to the tokenizer"
