"""Rows of tables with a label and one or two texts; needs no TensorFlow."""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.core.log import LOG
from albert.core.text import listed, python_literal
from albert.tables.bad_rows import BadRows
from albert.tables.kinds import LABELS, look_of
from albert.tables.tables import TSV, SourceLine, Table, columns
from albert.tasks.glue.settings import AnyTableSettings, TableSettings

# The settings that name columns.
COLUMNS = ("text_column", "text_b_column", "label_column")

# JSON can contain a lone surrogate, which UTF-8 cannot encode.
_NOT_IN_A_TABLE = re.compile("[\t\r\n\ud800-\udfff]")
_TEXT_B, LABEL = "text_b", "label"
# Names of columns that are plain. The first texts of pairs come with those of the second ones.
_PAIRS = {"text_a": _TEXT_B, "sentence1": "sentence2", "premise": "hypothesis", "text1": "text2"}
_PAIRS["question1"] = "question2"
_TEXTS = {*_PAIRS, "text", "sentence", "message", "review", "comment", "content", "body", "tweet"}
_TEXTS |= {"post", "document", "utterance", "texts", "reviewtext", "review_text"}
_LABELS = {LABEL, "labels", "category", "class", "target", "sentiment", "topic", "intent", "rating"}
_LABELS |= {"stars", "score", "categories", "tags"}
# Those of Prodigy, spaCy and Label Studio.
_LABELS |= {"accept", "cats", "choice", "choices"}
# Number of rows that show what a column has.
_SAMPLE = 1000
# Most words in the name of a column.
_LONGEST_NAME = 3
# In a table of at least this number of rows, labels repeat; more labels need two rows each.
_MANY_ROWS, _MANY_LABELS = 8, 50
# Prodigy's column of the annotator's answer, and its values if the label is wrong or unknown. In
# Label Studio, a row may lack annotations.
_ANSWER, _NONE = "answer", object()
_REJECTED = {"reject": "reject", "ignore": "ignore", _NONE: "none"}
_BITS = {"0": 0, "0.": 0, "0.0": 0, "false": 0, "1": 1, "1.": 1, "1.0": 1, "true": 1}
_WHOLE = re.compile(r"([+-]?(?:0|[1-9]\d{0,38}))(?:\.0?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
# A text that is probably a list, a tuple or an object; Python and NumPy parse shorter ones only.
_LIST, _LONGEST = re.compile(r"[\[{].*|\w*\((.*['\",].*)?\)", re.DOTALL), 10_000
# Not a list, but a single label, such as Cause(e1,e2) or [OTHER].
_NAME = re.compile(
    r"\w*\([^'\"]*\)|[\[{](?!\s*(?:nan|none|null)\b)[^\[\]{},'\"]+[\]}][^\[\]{}]*", re.IGNORECASE
)
# A text in quotation marks before another one: in NumPy's lists, there is no comma between them.
_NO_COMMA = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=\s+['"])""")


def find_columns(
    table: Table, settings: AnyTableSettings, given: Collection[str], is_labeled: bool | None = True
) -> AnyTableSettings:
    """Returns settings with the columns of a table, and logs which ones these are.

    A column that is not `given` by the user is the default, the only one with a plain name, or the
    only one that can be it. Raises a `UserError` if no column or several are possible. If
    `is_labeled` is None, the table may lack the label, whose column is then "".
    """
    path, rows = table.path, [row for _, row in itertools.islice(_rows(table), _SAMPLE)]
    # Rows of JSON may have keys that the first one lacks.
    names = [*dict.fromkeys([*table.columns, *(key for row in rows for key in row)])]
    taken = {getattr(settings, name) for name in COLUMNS if name in given}
    taken |= {*(settings.label_columns or ())}
    if any(map(_rejection, rows)):
        taken.add(_ANSWER)

    def find(name: str, plain: Collection[str], fits: Callable[[Sequence[Any]], bool]) -> str:
        default, is_label = getattr(settings, name), name == "label_column"
        if name in given or default in names:
            taken.add(default)
            return default
        free = [column for column in names if column and column not in taken]
        named = [column for column in free if column.casefold() in plain]
        fitting = [c for c in named or free if fits([row.get(c) for row in rows])]
        is_only = len(free) == 1 and not is_label
        possible, bits = free if is_only else named if len(named) == 1 else fitting, list[str]()
        if is_label and not named and not settings.tsv_regression:
            bits = [c for c in free if rows and all(_bit(row.get(c)) is not None for row in rows)]
        if len(bits) > 1:
            possible = [c for c in free if c in {*fitting, *bits}]
        if len(possible) == 1 or (is_labeled is None and is_label and not possible):
            taken.update(possible)
            return "".join(possible)
        look, number = look_of(path), "several columns" if possible or named else "no column"
        if look.name and look.kind != LABELS:
            needed = "" if look.kind else "; pass a table of texts and labels"
            raise UserError(f"{path} looks like {look.advice}{needed}")
        _check_header(table, rows)
        known, what = columns(possible or named or free), name.removesuffix("_column")
        also = f"; if each is a label, pass --label_columns={','.join(bits)}" * (len(bits) > 1)
        raise UserError(
            f"{path}: {number} may be the {what}; pass --{name}=NAME, one of {known}{also}"
        )

    label = settings.label_column
    if is_labeled is not False and not settings.label_columns:
        label = find("label_column", _LABELS, _are_numbers if settings.tsv_regression else _repeat)
    text = find("text_column", _TEXTS, _are_texts)
    # The user may name a column of a few words, but hardly a text.
    if _are_texts([text]) and ("text_column" not in given or len(text.split()) > _LONGEST_NAME):
        _check_header(table, rows)
    second = settings.text_b_column
    if "text_b_column" not in given:
        partner = _PAIRS.get(text.casefold())
        second = next((name for name in names if name.casefold() == partner), second)
    labels = settings.label_columns or ([] if is_labeled is False else [label])
    if len({text, second, *labels}) < 2 + len(labels):
        raise UserError(
            f"{path}: one column cannot be two of text ({text}), second text ({second}) and label "
            f"({', '.join(labels)}); pass --text_column, --text_b_column and --label_column"
        )
    if rows and "text_column" not in given and not any(_has_letters(row.get(text)) for row in rows):
        raise UserError(f"{path}: the column {text} has no text with a letter; pass --text_column")
    also = f", second texts in {second}" if second in names else ""
    also += f", labels in {columns(labels)}" if any(labels) else ""
    LOG.info("%s: texts are in the column %s%s", path, text, also)
    return settings.replaced(text_column=text, text_b_column=second, label_column=label)


def _check_header(table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises a `UserError` if no column has a plain name, and the name of one is a value of it."""
    names = table.columns if table.has_cells and rows else ()
    are_plain = {*_TEXTS, *_PAIRS.values(), *_LABELS} & {name.casefold() for name in names}
    columns_of = {name: [row[name].strip() for row in rows] for name in names if name}
    are_cells = any(n in own or _are_numbers([n, *own]) for n, own in columns_of.items())
    # Without names, pandas writes numbers.
    if are_cells and not are_plain and [*names] != [*map(str, range(len(names)))]:
        line = f"text_a{table.delimiter.replace(TSV, '<tab>')}label"
        raise UserError(f"{table.path}: the first row is no header; add one, such as {line}")


def _has_letters(value: object) -> bool:
    return isinstance(value, str) and any(map(str.isalpha, value))


def _are_texts(values: Sequence[Any]) -> bool:
    """Returns whether most values are different texts of several words."""
    long = {value for value in values if _has_letters(value) and len(value.split()) > 1}
    return 2 * len(long) > len(values)


def _repeat(values: Sequence[Any]) -> bool:
    """Returns whether values repeat, as those of labels do."""
    return 1 < len(set(map(str, values))) <= len(values) / 2


def _are_numbers(values: Sequence[Any]) -> bool:
    with contextlib.suppress(ValueError):
        return bool([parse_number(str(value)) for value in values])
    return False


class LabeledText(NamedTuple):
    """A row; `text_b` may be empty, and `labels` has one label unless a row may have several."""

    location: SourceLine
    text_a: str
    text_b: str
    labels: list[str]


def read_labeled(
    table: Table,
    settings: TableSettings,
    bad: BadRows,
    is_labeled: bool = True,
    known: Collection[str] | None = None,
) -> Iterator[LabeledText]:
    """Yields the rows of a table; the caller finishes `bad`, which receives the others and notes.

    Rows that an annotator has rejected are skipped. A label such as 0.0 becomes its `known`
    spelling. Raises a `UserError` if the table is not valid, or lacks a column.

    Args:
      is_labeled: whether rows need labels.
      known: the labels that are allowed; None for any.
    """
    counts, shown = collections.Counter[str](), columns(sorted(known or ()))
    by_value = {value_of(label): label for label in known or ()}
    needed = [settings.text_column]
    if is_labeled:
        needed += settings.label_columns or [settings.label_column]
    if settings.text_b_column != _TEXT_B:
        needed.append(settings.text_b_column)
    may_be_rejected = is_labeled and _ANSWER not in needed
    # Rows of JSON have their own keys.
    for location, row in _rows(table, needed if table.has_cells else ()):
        if may_be_rejected and (answer := _rejection(row)):
            bad.notes[f"rows skipped with the answer {answer}"] += 1
            continue
        try:
            texts = texts_of(row, settings.text_column, settings.text_b_column)
            labels = labels_of(row, settings) if is_labeled else []
            for number, label in enumerate(labels):
                if known is not None and label not in known:
                    if (own := by_value.get(value_of(label))) is None:
                        raise ValueError(f"the label is not one of {shown}", label)
                    labels[number] = own
                    bad.notes[f"labels {label} read as {own}"] += 1
        except ValueError as e:
            reason, *cells = e.args
            bad.add(location, reason, "".join(f" ({cell!r:.60})" for cell in cells))
        else:
            counts.update(labels)
            yield LabeledText(location, *texts, labels)
    if known is None and not settings.tsv_regression:
        _note_spellings(counts, bad.notes)


def _note_spellings(labels: Mapping[str, int], notes: collections.Counter[str]) -> None:
    """Notes which labels are read as others, and which ones look like others."""
    used, forms = spellings(labels), collections.defaultdict[str, list[str]](list)
    for label in (label for label, own in used.items() if label != own):
        notes[f"labels {label} read as {used[label]}"] = labels[label]
    for label in sorted({*used.values()}):
        forms[unicodedata.normalize("NFKC", label).casefold()].append(ascii(label))
    if alike := [group for group in forms.values() if len(group) > 1]:
        what = "different labels whose only difference is case or Unicode form, such as"
        notes[f"{what} {' and '.join(alike[0])}"] = sum(map(len, alike))


def _rows(table: Table, required: Sequence[str] = ()) -> Iterator[tuple[SourceLine, Mapping]]:
    """Yields the rows of a table; those of Label Studio have its data, and its choices by name."""
    for location, row in table.rows(required):
        match row:
            case {"data": dict(data), "annotations": [*annotations]}:
                row = {**data, **_choices(annotations)}
        yield location, row


def _rejection(row: Mapping[str, Any]) -> str:
    """Returns the answer with which an annotator has rejected a row, or ""."""
    answer = row.get(_ANSWER)
    return _REJECTED.get(answer, "") if isinstance(answer, Hashable) else ""


def _choices(annotations: Sequence[Any]) -> dict[str, Any]:
    """Returns the choices in annotations of Label Studio; several lists if these differ."""
    lists = collections.defaultdict[str, list[Any]](list)
    kept = [a for a in annotations if isinstance(a, dict) and not a.get("was_cancelled")]
    for result in itertools.chain.from_iterable(a.get("result") or () for a in kept):
        match result:
            case {"from_name": str(name), "value": {"choices": choices}}:
                lists[name] += [] if choices in lists[name] else [choices]
    labels = {name: own[0] if len(own) == 1 else own for name, own in lists.items()}
    return labels or {_ANSWER: _NONE}


def value_of(label: str) -> Hashable:
    """Returns a value that is equal for spellings of the same one, such as 0, 0.0 and False.

    Others may differ, as version 1.1 does from 1.10.
    """
    whole = _WHOLE.fullmatch(str(_BITS.get(label.casefold(), label)))
    return int(whole[1]) if whole else label


def spellings(labels: Iterable[str]) -> dict[str, str]:
    """Returns the label to use for each label: the shortest one of the same value."""
    first = dict[Hashable, str]()
    ordered = sorted(labels, key=lambda label: (len(label), label))
    return {label: first.setdefault(value_of(label), label) for label in ordered}


def texts_of(row: Mapping[str, Any], first: str, second: str) -> tuple[str, str]:
    """Returns both texts of a row; raises a `ValueError` with the reason if one is not valid.

    `first` and `second` are their columns; the second text may be missing or "".
    """
    if second not in (_TEXT_B, *row):
        raise ValueError(f"{second} is missing")
    text_b = row.get(second)
    is_empty = text_b is None or (isinstance(text_b, str) and not text_b.strip())
    return text_of(row, first), "" if is_empty else text_of(row, second)


def text_of(row: Mapping[str, Any], key: str) -> str:
    """Returns a text of a row; raises a `ValueError` with the reason if it is not valid."""
    if not isinstance(row.get(key), str):
        raise ValueError(f"{key} is missing or not a text")
    if not row[key].strip():
        raise ValueError(f"{key} is empty")
    return row[key]


def labels_of(row: Mapping[str, Any], settings: TableSettings) -> list[str]:
    """Returns the label of a row, or its labels.

    Raises a `ValueError` with the reason, and with the cell if that shows what is wrong.
    """
    bits = {name: _bit(row.get(name)) for name in settings.label_columns or ()}
    for name in (name for name, bit in bits.items() if bit is None):
        raise ValueError(f"{name} is neither 0 nor 1", row.get(name))
    if bits:
        return [name for name, bit in bits.items() if bit]
    cell, separator = row.get(settings.label_column), ""
    if settings.multi_label:
        separator = settings.label_separator
    labels = [_label(item) for item in _items(cell, separator)]
    if len(labels) != 1 and not settings.multi_label:
        raise ValueError("one label is needed; pass --multi_label for several or none", cell)
    if settings.tsv_regression:
        parse_number(labels[0])
    return labels


def _items(cell: Any, separator: str) -> list[Any]:
    """Returns the items in a cell: in a list or an object of any program, or separated."""
    text = cell.strip() if isinstance(cell, str) else ""
    value, words = cell, text.strip("[]").split() if separator or text[:1] == "[" else []
    if len(words) > 1 and _BITS.keys() >= {*words}:
        value = words
    elif _LIST.fullmatch(text):
        value = _parsed(text)
        if value == [[]] and not separator and _NAME.fullmatch(text):
            value = cell
    elif separator and isinstance(cell, str):
        value = [item for item in text.split(separator) if item.strip()]
    match value:
        case {"choices": [*items]}:
            pass
        case {} if all(score in (0, 1) for score in value.values()):
            items = [name for name, score in value.items() if score]
        case list() | tuple() | set():
            items = sorted(value, key=str) if isinstance(value, set) else [*value]
        case _:
            items = [value]
    if any(isinstance(item, list | tuple | dict | set | bytes) for item in items):
        raise ValueError('the cell is no label; write several as a JSON list, as in ["a"]', cell)
    if len({*items}) < len(items) and all(_bit(item) is not None for item in items):
        advice = "make a column for each label, and pass --label_columns"
        raise ValueError(f"zeros and ones do not name labels; {advice}", cell)
    return items


def _parsed(text: str) -> Any:
    """Returns the list, tuple, set or object in a text, as JSON, Python or NumPy write it."""
    with contextlib.suppress(UserError):
        return parse_json(text, "a cell")
    return python_literal(_NO_COMMA.sub(r"\1,", text[:_LONGEST]), [[]])


def _bit(cell: object) -> int | None:
    return _BITS.get(str(cell).strip().casefold())


def _label(label: object) -> str:
    """Returns a label as it is in the file; a JSON number or Boolean keeps its JSON form."""
    if isinstance(label, bool | int | float):
        label = json.dumps(label)
    if not isinstance(label, str) or not label.strip() or label == "NaN":
        raise ValueError("label is missing")
    label = label.strip()
    if _NOT_IN_A_TABLE.search(label):
        raise ValueError(f"the label {label!r} has a tab, a line end or half a surrogate pair")
    return sys.intern(label)


def parse_number(text: str) -> float:
    """Parses a finite number; raises a `ValueError` with the reason and any other text."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        advice = "write 4.5 for 4,5, and 1250 for 1,250" if "," in text else "write it as in 4.5"
        raise ValueError(f"the label is not a finite number; {advice}", text)
    return value


def classes_of(known: Mapping[str, int], rows: int, settings: TableSettings) -> tuple[str, ...]:
    """Returns the sorted labels of a task, from their numbers in the rows of its training table.

    Raises a `ValueError` with the reason if these are no labels.
    """
    names, values = settings.label_columns or (), {*map(value_of, known)}
    column = ", ".join(names) or settings.label_column
    # Two numbers in all rows are no labels.
    are_vectors = values == {0, 1} and min(known.values()) == rows and not names
    if are_vectors or len(values) < 2 - bool(names):
        shown = listed([*map(repr, sorted(known))]) or "none"
        raise ValueError(
            f"classification needs two different labels, found in {column}: {shown}; name another "
            "column with --label_column, or pass --tsv_regression for numbers, or --label_columns "
            "for columns of zeros and ones"
        )
    are_many = len(values) == rows >= _MANY_ROWS or len(values) > max(rows / 2, _MANY_LABELS)
    if are_many and not settings.multi_label:
        raise ValueError(
            f"the column {column} has {len(values)} different values in {rows} rows, too many for "
            "labels; name another column with --label_column, or pass --tsv_regression for numbers"
        )
    return tuple(sorted(names or {*spellings(known).values()}))
