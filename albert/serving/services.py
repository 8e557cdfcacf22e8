"""The services of a server, by the model's task: fields of requests and of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert.inference.as_json import answer_as_json
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.models import Model
from albert.inference.squad import QuestionAnswerer
from albert.serving import fields
from albert.serving.fields import Schema

_PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
_TEXT, _COUNT = {"type": "string"}, {"type": "integer"}
# Of a token, about.
_BYTES = 4


class Service:
    """What the server asks of a task.

    Attributes:
      summary: what it does.
      fields: of a request.
      example: values of those without a default.
      result: JSON schema of an answer.
      folder: of the model.
    """

    folder = ""
    summary: str
    fields: Mapping[str, Schema]
    example: Mapping[str, Any]
    result: Schema

    def __init__(self, model: Model):
        """Answers with a model."""
        longest = model.folder.value("max_seq_length")
        self._lengths = longest, longest

    def answer_all(
        self, asked: Sequence[Mapping[str, Any]], pause: Callable[[], None] | None = None
    ) -> list[dict[str, Any]]:
        """Answers requests, with values of all fields, together.

        Args:
          asked: the requests.
          pause: is called between windows where there may be many, and may raise.
        """
        raise NotImplementedError

    def windows(self, size: int) -> int:
        """Returns about how many windows a request of a size in bytes has."""
        longest, step = self._lengths
        return 1 + -(-max(size // _BYTES - longest, 0) // step)

    def warm_up(self) -> None:
        """Answers the example: the first use of a model is slow."""
        self.answer_all([fields.read(self.example, self.fields)])


class QuestionService(Service):
    """Questions on texts, of a model of SQuAD."""

    summary = "Answers a question from a text."
    example = {"question": "Who wrote it?", "context": "Anna wrote it in a week."}

    def __init__(self, model: QuestionAnswerer):
        """Answers with a model."""
        super().__init__(model)
        self._lengths = self._lengths[0], model.folder.value("doc_stride")
        self._model = model
        self.fields = {
            "question": fields.text("What is asked."),
            "context": fields.text("The text in which the answer is."),
            "n_best": fields.number("Answers to list.", model.folder.value("n_best_size")),
        }
        found: dict[str, Schema] = {"text": _TEXT, "probability": _PROBABILITY, "sentence": _TEXT}
        place: dict[str, Schema] = {"start": _COUNT, "line": _COUNT, "character": _COUNT}
        self.result = _object(
            question=_TEXT,
            answer=_TEXT,
            abstains={"type": "boolean"},
            no_answer_probability={**_PROBABILITY, "type": ["number", "null"]},
            answers={"type": "array", "items": _object(**found, **place)},
        )

    def answer_all(
        self, asked: Sequence[Mapping[str, Any]], pause: Callable[[], None] | None = None
    ) -> list[dict[str, Any]]:
        """Answers questions."""
        pairs = [(a["question"], [a["context"]]) for a in asked]
        all_answered = self._model.answer_all(pairs, pause)
        return [
            answer_as_json(a["question"], answered, [a["context"]], a["n_best"])
            for a, answered in zip(asked, all_answered, strict=True)
        ]


class TextService(Service):
    """Labels of texts, of a model of GLUE or of one's own task."""

    summary = "Labels a text, or a pair of texts."
    example = {"text": "It was raining.", "second_text": "The street is wet."}
    fields = {
        "text": fields.text("The text, or the first one."),
        "second_text": fields.text("The second one, in tasks of pairs.", may_be_empty=True),
    }

    def __init__(self, model: TextClassifier):
        """Answers with a model."""
        super().__init__(model)
        self._model = model
        self.result = _labelled(model.labels)

    def answer_all(
        self, asked: Sequence[Mapping[str, Any]], pause: Callable[[], None] | None = None
    ) -> list[dict[str, Any]]:
        """Labels texts."""
        pairs = [(one["text"], one["second_text"]) for one in asked]
        return [labelled._asdict() for labelled in self._model.classify_all(pairs)]


class ChoiceService(Service):
    """Options of questions on passages, of a model of RACE."""

    summary = "Chooses the option that answers a question on a passage, or fills its gap _."

    def __init__(self, model: OptionChooser):
        """Answers with a model."""
        super().__init__(model)
        self._model = model
        count = len(model.labels)
        self.fields = {
            "passage": fields.text("The text."),
            "question": fields.text("What is asked, or a sentence with a gap."),
            "options": fields.texts("What it may be.", count),
        }
        options = [f"{number} days" for number in range(2, 2 + count)]
        self.example = {"passage": "A week.", "question": "It took _ .", "options": options}
        self.result = _labelled(model.labels)

    def answer_all(
        self, asked: Sequence[Mapping[str, Any]], pause: Callable[[], None] | None = None
    ) -> list[dict[str, Any]]:
        """Chooses options."""
        chosen = self._model.choose_all([tuple(one.values()) for one in asked])
        return [labelled._asdict() for labelled in chosen]


_SERVICES = {
    QuestionAnswerer: QuestionService,
    TextClassifier: TextService,
    OptionChooser: ChoiceService,
}


def service_of(model: Model) -> Service:
    """Returns the service that a server offers with a model."""
    service = _SERVICES[type(model)](model)
    service.folder = model.folder.path
    return service


def _labelled(labels: Sequence[str | None]) -> Schema:
    is_number = list(labels) == [None]
    return _object(
        label={"type": "null"} if is_number else {"enum": list(labels)},
        probabilities={"type": "object", "additionalProperties": _PROBABILITY},
        number={"type": "number" if is_number else "null"},
    )


def _object(**properties: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
