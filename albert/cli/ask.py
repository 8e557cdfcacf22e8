"""Asks a trained model questions about texts, or for the labels of texts or of their entities.

  albert ask MODEL --context_file article.txt --question "Who wrote it?"
  albert ask MODEL --context_file *.txt                      prompts for questions
  cat article.txt | albert ask MODEL - --question "Who?"
  albert ask MODEL --context_file *.txt --questions questions.txt --output answers.csv
  albert ask MODEL "A text to label." ["A second text."]     a GLUE model, or one for your own task
  albert ask MODEL "A text." ["Another text." ...]           a model of named entities

MODEL is the --output_dir of a run, an export, or a folder of transformers with a head, also by its
name on the Hugging Face hub. Texts to search for answers or entities may have any length.
Longer texts for other models are truncated, unless the model was trained with --long_texts.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from albert.cli import require_standard_output
from albert.cli.model_flags import add_model_flags, model_of
from albert.core.arguments import Parser
from albert.core.errors import NO_UTF8, FlagError, UserError, reporting
from albert.core.files import check_new, check_readable, open_atomically, print_json
from albert.core.log import LOG, progress
from albert.core.text import printable
from albert.report.spans import Span
from albert.report.terminal import style_of_output, width_of_output, wrapped
from albert.tables.bad_rows import ERROR, BadRows
from albert.tables.extended_tables import TABLES, ExtendedTable, ending_of
from albert.tables.tables import TEXT, Table, columns, open_table

# The help does not need TensorFlow.
if TYPE_CHECKING:
    from albert.inference.answers import Answer, AskedModel
    from albert.inference.squad import QuestionAnswer, QuestionAnswerer

_STANDARD_INPUT = "-"
# Columns of the answers to --questions.
_OF_ANSWER = ("answer", "probability", "document", "line", "character")
# Inputs of a model for one answer, and how JSON shows them.
_Inputs = tuple[Sequence[Any], dict[str, Any]]
# The name of a file or of another source, and a text in which to look for answers.
_Context = tuple[str, str]
# With a larger fraction of pieces that the tokenizer does not know, answers are guesses.
_MOST_UNKNOWN = 0.2


def parse(argv: list[str]) -> argparse.Namespace:
    """Parses a command line; raises a `FlagError` if the arguments are invalid."""
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument

    def add_repeated(name: str, text: str, metavar: str | None = None) -> None:
        add(name, action="append", default=[], metavar=metavar, help=text)

    add("model", metavar="MODEL", help="export, --output_dir of a run, or folder of transformers")
    add(
        "text",
        nargs="*",
        default=[],
        help="text to label, pair of texts, or texts to find entities in; - reads standard input",
    )
    add_repeated("--context", "text that contains the answer; repeat it for several texts", "TEXT")
    add(
        "--context_file",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="UTF-8 files that contain the answer; - reads standard input",
    )
    add_repeated("--question", "question to answer; repeat it for several questions")
    add(
        "--questions",
        metavar="FILE",
        help="file with a question per line, or a table with the column question",
    )
    add(
        "--output",
        metavar="FILE",
        help="new table for the answers to --questions, whose name ends in .csv, .tsv or .jsonl; "
        "by default, they are printed as CSV",
    )
    add(
        "--n_best",
        type=int,
        default=1,
        metavar="N",
        help="number of answers to show for each question (default: 1)",
    )
    add_model_flags(parser)
    add("--json", action="store_true", help="print one JSON object per line, for programs")
    args = parser.parse_intermixed_args(argv[1:])
    if args.n_best < 1:
        parser.error("--n_best must be positive")
    if args.output and not args.questions:
        parser.error("--output needs --questions")
    if args.questions and (args.question or args.json or args.n_best > 1):
        parser.error("--questions needs no --question, --json or --n_best; remove them")
    for question in args.question:
        if not question.strip():
            parser.error("--question is empty")
    return args


def main(args: argparse.Namespace) -> None:
    """Prints the model's answers; raises a `UserError` if the model or an argument is unusable."""
    from albert import inference
    from albert.inference.answers import CHOOSES, answers_to, as_json
    from albert.inference.classification import OptionChooser

    require_standard_output()
    if not args.questions:
        # Only the answers matter to the user.
        LOG.setLevel(logging.WARNING)
    contexts = list(_contexts(args))
    model = inference.load_model(*model_of(args))
    if isinstance(model, OptionChooser):
        raise FlagError(f"{args.model} {CHOOSES}")
    names = [name for name, _ in contexts]
    for inputs, shown in _inputs(model, args, contexts):
        (answer,) = answers_to(model, [inputs])
        if args.json:
            print_json({**shown, **as_json(answer, inputs, args.n_best, names)})
        else:
            _print(answer, inputs, names, args.n_best)


def _contexts(args: argparse.Namespace) -> Iterator[_Context]:
    """Yields the named texts in order; raises a `UserError` if one is unreadable or empty."""
    files = [*args.context_file, *(text for text in args.text if text == _STANDARD_INPUT)]
    if files.count(_STANDARD_INPUT) > 1:
        raise FlagError("- is given twice, but standard input can be read only once")
    for number, text in enumerate(args.context, start=1):
        if not text.strip():
            raise UserError("--context is empty; pass a text")
        yield f"text {number}", text
    for path in files:
        is_standard = path == _STANDARD_INPUT
        name = "standard input" if is_standard else path
        with reporting(f"{name} cannot be read"):
            content = sys.stdin.buffer.read() if is_standard else pathlib.Path(path).read_bytes()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as e:
            raise UserError(f"{name} is not UTF-8 text: byte {e.start}") from e
        if not text.strip():
            raise UserError(f"{name} is empty; pass a text")
        yield name, text


def _inputs(
    model: AskedModel, args: argparse.Namespace, contexts: list[_Context]
) -> Iterator[_Inputs]:
    """Yields inputs for the model, and how JSON shows them; raises a `FlagError` for wrong flags.

    Before each, prints a note if the model may not know the language. There are none for
    --questions, whose answers it writes.
    """
    from albert.inference.base import SpanFinder
    from albert.inference.classification import TextClassifier

    if isinstance(model, SpanFinder):
        for text in _texts(args, contexts) or _typed("text> ", args, contexts):
            _note_unknown(model, [text], "the text")
            yield [text], {"text": text}
    elif isinstance(model, TextClassifier):
        texts, typed = _texts(args, contexts), _typed("text> ", args, contexts)
        if len(texts) > 2:
            what = f"a text or a pair of texts, not {len(texts)} texts"
            raise FlagError(f"{args.model} labels {what}")
        lines = ([text.strip() for text in line.split("|||", 1)] for line in typed)
        for pair in [texts] if texts else lines:
            _note_unknown(model, pair, "the text")
            yield pair, {"texts": pair}
    elif not contexts:
        raise FlagError(
            f"{args.model} answers from a text: pass --context_file FILE, --context TEXT, or - for "
            "standard input"
        )
    elif any(text != _STANDARD_INPUT for text in args.text):
        raise FlagError(f"{args.model} answers questions about texts: pass texts with --context")
    else:
        texts = [text for _, text in contexts]
        _note_unknown(model, texts, "the text")
        if args.questions:
            _answer_rows(model, args, contexts)
            return
        for question in args.question or _typed("question> ", args, contexts):
            _note_unknown(model, [question], "the question")
            yield (question, texts), {}


def _answer_rows(
    model: QuestionAnswerer, args: argparse.Namespace, contexts: list[_Context]
) -> None:
    """Writes a table of questions with their answers."""
    from albert.inference.answers import as_json, row_of
    from albert.inference.rows import RowPredictor, check_rows

    path, (names, texts) = args.questions, zip(*contexts, strict=True)
    check_readable(path, "--questions")
    is_table = ending_of(path) in TABLES
    table = open_table(path) if is_table else Table(path, TEXT, ["question"])
    if "question" not in table.columns:
        raise UserError(f"{path} has no column question; found {columns(table.columns)}")
    if args.output:
        check_new(args.output)
    ending = os.path.splitext(args.output)[1].lower() if args.output else ".csv"
    output = ExtendedTable(table, ending, _OF_ANSWER)
    predictor = RowPredictor(model, ["question"])
    check_rows(table, predictor, output, BadRows(path, ERROR, [ERROR]))
    questions = [str(row["question"]) for _, row in table.rows()]
    if questions:
        number = model.count_windows(questions[0], texts)
        what = "Answering %d questions, each from the %d windows of %d texts"
        LOG.info(what, len(questions), number, len(texts))
    begin = time.perf_counter()
    rest = enumerate(progress(questions, len(questions), "questions", "questions"))
    opened = open_atomically(args.output, "wb") if args.output else None
    with opened or contextlib.nullcontext(sys.stdout.buffer) as file:
        file.write(output.head())
        for record in table.records():
            values = dict[str, Any]()
            if record.values:
                number, question = next(rest)
                answered = model.answer(question, texts)
                text, probability = row_of(answered).values()
                if text:
                    (values,) = as_json(answered, (question, texts), 1, names)["answers"]
                    values["document"] = values["context"]
                values |= {"answer": text, "probability": probability}
                if number == 0:
                    seconds = time.perf_counter() - begin
                    estimate = seconds * len(questions) / 60
                    LOG.info("Answered the first in %.1f s; all need %.1f min", seconds, estimate)
            file.write(output.row(record, values))


def _print(answer: Answer, inputs: Sequence[Any], names: Sequence[str], n_best: int) -> None:
    from albert.inference.squad import QuestionAnswer

    if isinstance(answer, QuestionAnswer):
        _print_answer(answer, inputs, names, n_best)
    elif isinstance(answer, list):
        print()
        _print_marked(inputs[0], answer, "")
        for span in answer:
            texts = "  ".join(map(printable, (span.label or "", span.text)))
            print(f"  {texts}  ({span.probability:.1%})")
    elif shares := sorted(answer.probabilities.items(), key=lambda item: -item[1]):
        # Of several labels, those that are predicted have a mark.
        marked = answer._asdict().get("labels")
        for label, probability in shares:
            mark = "" if marked is None else "* " if label in marked else "  "
            print(f"{mark}{printable(label)}  ({probability:.1%})")
    else:
        print(f"{answer._asdict()['number']:.4g}")


def _print_answer(
    answered: QuestionAnswer, inputs: Sequence[Any], names: Sequence[str], n_best: int
) -> None:
    from albert.inference.answers import location_of

    (question, texts), indent = inputs, "    "
    print(f"\n{printable(question)}")
    if answered.no_answer_probability is not None:
        says = "no answer" if answered.abstains else "there is an answer"
        print(f"  {says} (probability of no answer: {answered.no_answer_probability:.1%})")
        if answered.abstains and answered.answers:
            print("  if there is an answer:")
    for answer in answered.answers[:n_best]:
        line, character, sentence, start = location_of(texts[answer.context], *answer[:2])
        print(f"  {printable(answer.text)}  ({answer.probability:.1%})")
        name = printable(names[answer.context])
        print(f"{indent}{name}, line {line}, character {character}:")
        end = start + answer.end - answer.start
        _print_marked(sentence, [answer._replace(start=start, end=end)], indent)
    if not answered.answers:
        print("  no answer: no part of the text can be an answer")


def _print_marked(text: str, spans: Sequence[Span], indent: str) -> None:
    marks = [(span.start, span.end, "answer") for span in spans]
    for line in wrapped(printable(text), marks, width_of_output() - len(indent), style_of_output()):
        print(indent + line)


def _texts(args: argparse.Namespace, contexts: list[_Context]) -> list[str]:
    """Returns the texts to label; raises a `FlagError` for other models' flags or an empty text."""
    if args.question or args.questions:
        raise FlagError(f"{args.model} labels texts: remove --question and --questions")
    texts = [text for _, text in contexts]
    texts += [text for text in args.text if text != _STANDARD_INPUT]
    if texts and not texts[0].strip():
        raise FlagError("the text is empty; pass a text")
    return texts


def _typed(prompt: str, args: argparse.Namespace, contexts: list[_Context]) -> Iterator[str]:
    """Yields lines of standard input, prompting for them; raises a `FlagError` if it is a text."""
    if any(name == "standard input" for name, _ in contexts):
        raise FlagError("standard input is the text, so pass the question with --question")
    is_typed = sys.stdin.isatty() and not args.json
    if is_typed:
        # With readline, users can edit lines and recall earlier ones with the arrow keys.
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401
        print("Press Ctrl-D to end.", file=sys.stderr)
    while True:
        try:
            line = input(prompt if is_typed else "")
        except EOFError:
            return
        except UnicodeDecodeError as e:
            raise UserError(f"the input {NO_UTF8}") from e
        if line.strip():
            yield line


def _note_unknown(model: Any, texts: list[str], what: str) -> None:
    """Prints a note on standard error if the tokenizer does not know much of a text."""
    tokenizer = model.folder.tokenizer
    ids = [i for ids in tokenizer.encode(texts) for i in ids]
    share = ids.count(tokenizer.unk_id) / max(len(ids), 1)
    if share > _MOST_UNKNOWN:
        print(
            f"note: the model does not know {share:.0%} of the pieces of {what}; check that it is "
            "in the language and script that the model was trained on",
            file=sys.stderr,
        )
