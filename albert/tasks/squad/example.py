"""Examples of SQuAD: one per question."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False)
class SquadExample:
    """A question on a paragraph; in training, also its answer.

    Attributes:
      question_text, paragraph_text: texts as in the file.
      orig_answer_text: the answer; "" for no answer; None outside training.
      start_position: offset of the answer's first character; -1 for no answer; None outside
        training.
      end_position: not used, as in the reference.
      is_impossible: whether the question has no answer (SQuAD 2.0).
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    orig_answer_text: str | None = None
    start_position: Any = None
    end_position: Any = None
    is_impossible: bool = False
