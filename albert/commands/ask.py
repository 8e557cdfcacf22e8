"""Asks a trained model: questions on texts, or what label a text has."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from albert.cli import require_standard_output
from albert.core import signals
from albert.core.errors import NO_UTF8, FlagError, UserError
from albert.core.files import print_json
from albert.core.log import LOG
from albert.report.terminal import printable, style_of_output, width_of_output, wrapped

# What needs TensorFlow is imported where it is used: --help and a mistyped flag do without.
if TYPE_CHECKING:
    from albert.inference.classification import LabelPrediction, OptionChooser, TextClassifier
    from albert.inference.squad import QuestionAnswer, QuestionAnswerer

_STANDARD_INPUT = "-"
# Of the pieces of a text that the tokenizer does not know: more of them, and answers are guesses.
_MOST_UNKNOWN = 0.2


class Context(NamedTuple):
    """A text to look for answers in.

    Attributes:
      name: of its file, or of where it comes from.
      text: itself.
    """

    name: str
    text: str


def main(args: argparse.Namespace) -> None:
    """Answers under the arguments.

    Raises:
      UserError: there is no such model, or what it needs is not given.
    """
    from albert.inference import load_model
    from albert.inference.classification import OptionChooser, TextClassifier

    require_standard_output()
    # Who asks wants answers alone.
    LOG.setLevel(logging.WARNING)
    contexts = list(_contexts(args))
    model = load_model(args.model)
    if isinstance(model, TextClassifier):
        _label(model, args, contexts)
    elif not contexts:
        raise FlagError(
            f"{args.model} answers from a text: give --context_file FILE, --context TEXT, or - for "
            "the standard input"
        )
    elif isinstance(model, OptionChooser):
        _choose(model, args, contexts)
    else:
        _answer(model, args, contexts)


def _contexts(args: argparse.Namespace) -> Iterator[Context]:
    """Yields the texts that the arguments name, in their order.

    Raises:
      UserError: one cannot be read, or is empty.
    """
    files = [*args.context_file, *(text for text in args.text if text == _STANDARD_INPUT)]
    if files.count(_STANDARD_INPUT) > 1:
        raise FlagError("the standard input can be read once only")
    if not all(text.strip() for text in args.context):
        raise UserError("--context has no text")
    for number, text in enumerate(args.context, start=1):
        yield Context(f"text {number}", text)
    for context in map(_read, files):
        if not context.text.strip():
            raise UserError(f"{context.name} has no text")
        yield context


def _read(path: str) -> Context:
    is_standard = path == _STANDARD_INPUT
    name = "standard input" if is_standard else path
    try:
        if is_standard:
            content = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                content = file.read()
        return Context(name, content.decode("utf-8-sig"))
    except OSError as e:
        raise UserError(f"{name} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise UserError(f"{name} is not UTF-8 text: byte {e.start}") from e


def _answer(model: QuestionAnswerer, args: argparse.Namespace, contexts: list[Context]) -> None:
    from albert.inference.as_json import answer_as_json

    if any(text != _STANDARD_INPUT for text in args.text) or args.option:
        what = "texts by --context" if args.text else "no --option"
        raise FlagError(f"{args.model} answers questions on texts: give {what}, see --help")
    texts = [context.text for context in contexts]
    _note_unknown(model, texts, "the text")
    for question in args.question or _typed("question> ", args, contexts):
        _note_unknown(model, [question], "the question")
        answered = model.answer(question, texts)
        if args.json:
            names = [context.name for context in contexts]
            print_json(answer_as_json(question, answered, texts, args.n_best, names))
        else:
            _print_answer(question, answered, contexts, args.n_best)


def _print_answer(
    question: str, answered: QuestionAnswer, contexts: list[Context], n_best: int
) -> None:
    from albert.inference.places import place_of

    indent, style = "    ", style_of_output()
    print(f"\n{printable(question)}")
    if answered.no_answer_probability is not None:
        says = "no answer" if answered.abstains else "there is an answer"
        print(f"  {says} (probability of none: {answered.no_answer_probability:.1%})")
        if answered.abstains and answered.answers:
            print("  if there is one:")
    for answer in answered.answers[:n_best]:
        name, text = contexts[answer.context]
        place = place_of(text, answer.place, answer.place + len(answer.text))
        print(f"  {printable(answer.text)}  ({answer.probability:.1%})")
        print(f"{indent}{printable(name)}, line {place.line}, character {place.character}:")
        start = len(place.before)
        marks = [(start, start + len(place.text), "answer")]
        width = width_of_output() - len(indent)
        for line in wrapped(printable(place.sentence), marks, width, style):
            print(indent + line)
    if not answered.answers:
        print("  no answer: nothing in the text can be one")


def _label(model: TextClassifier, args: argparse.Namespace, contexts: list[Context]) -> None:
    if args.question or args.option:
        raise FlagError(f"{args.model} labels texts, and answers no --question; see --help")
    texts = [context.text for context in contexts]
    texts += [text for text in args.text if text != _STANDARD_INPUT]
    if len(texts) > 2:
        raise FlagError(f"{args.model} labels a text or a pair of texts; {len(texts)} are given")
    if texts and not texts[0].strip():
        raise FlagError("the text is empty")
    for pair in [texts] if texts else map(_as_pair, _typed("text> ", args, contexts)):
        _note_unknown(model, pair, "the text")
        _print_labelled(model.classify(*pair), {"texts": pair}, args)


def _as_pair(line: str) -> list[str]:
    return [text.strip() for text in line.split("|||", 1)]


def _choose(model: OptionChooser, args: argparse.Namespace, contexts: list[Context]) -> None:
    count = len(model.labels)
    if len(args.option) != count or len(args.question) != 1 or len(contexts) != 1:
        raise FlagError(
            f"{args.model} chooses one of {count} options: give one text by --context_file or "
            f"--context, one --question, and --option {count} times"
        )
    (question,), (context,) = args.question, contexts
    _note_unknown(model, [context.text, question, *args.option], "the text")
    chosen = model.choose(context.text, question, args.option)
    _print_labelled(chosen, {"question": question, "options": args.option}, args)


def _print_labelled(
    found: LabelPrediction, asked: dict[str, Any], args: argparse.Namespace
) -> None:
    if args.json:
        print_json({**asked, **found._asdict()})
    elif found.label is None:
        print(f"{found.number:.4g}")
    else:
        for label, probability in sorted(found.probabilities.items(), key=lambda item: -item[1]):
            print(f"{label}  ({probability:.1%})")


def _typed(prompt: str, args: argparse.Namespace, contexts: list[Context]) -> Iterator[str]:
    """Yields the lines that are typed, or that a program writes, until there is no more.

    Raises:
      FlagError: the standard input is a text.
    """
    if any(context.name == "standard input" for context in contexts):
        raise FlagError("give --question: the standard input is the text")
    is_typed = sys.stdin.isatty() and not args.json
    if is_typed:
        # Lines can be edited, and earlier ones come back with the arrow keys.
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401
        print("Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            line = input(prompt if is_typed else "")
        except EOFError:
            return
        except signals.Stopped:
            # What it says begins a line of its own.
            print(end="\n" * is_typed, file=sys.stderr)
            raise
        except UnicodeDecodeError as e:
            raise UserError(f"what is typed {NO_UTF8}") from e
        if line.strip():
            yield line


def _note_unknown(model: Any, texts: list[str], what: str) -> None:
    """Says on standard error where a text is in a script that the tokenizer does not know."""
    tokenizer = model.folder.tokenizer
    ids = [i for ids in tokenizer.encode(texts) for i in ids]
    share = ids.count(tokenizer.unk_id) / max(len(ids), 1)
    if share > _MOST_UNKNOWN:
        print(
            f"note: {share:.0%} of {what} are pieces that the model does not know; is it in "
            "another language or script than what the model was trained on?",
            file=sys.stderr,
        )
