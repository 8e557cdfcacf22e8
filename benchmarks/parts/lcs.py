"""A plain alignment of tokens and text, for comparison; this project needs no such search.

The reference maps each character of the tokens to a character of the paragraph by a longest common
subsequence, computed in Python within a band around the diagonal, for every question. This is that
algorithm in its plainest form.
"""

from __future__ import annotations

import unicodedata

import numpy as np
import tensorflow.compat.v1 as tf

from albert.tasks.squad.examples import SquadExample
from albert.tasks.squad.feature_files import FeatureOptions
from albert.tokenization import FullTokenizer, encode_ids, encode_pieces, preprocess_text

_UP, _LEFT, _MATCH = 0, 1, 2


def align(text: str, token_text: str, lower: bool) -> list[int | None]:
    """Returns, for each character of `token_text`, its position in `text`, or None.

    The table has, for every pair of prefixes of the texts, the length of their longest common
    subsequence: that without the last character of one of them, or one more if both end alike.
    """
    rows, columns = len(text), len(token_text)
    band = abs(rows - columns) + 5
    lengths = np.zeros((rows + 1, columns + 1), np.float32)
    moves = {}
    for i in range(rows):
        for j in range(max(0, i - band), min(columns, i + band)):
            lengths[i + 1, j + 1] = lengths[i, j + 1]
            moves[i, j] = _UP
            if lengths[i + 1, j] > lengths[i + 1, j + 1]:
                lengths[i + 1, j + 1] = lengths[i + 1, j]
                moves[i, j] = _LEFT
            # As in the reference, the character is normalized again for every cell.
            alike = prepare(text[i], lower) == token_text[j]
            if alike and lengths[i, j] + 1 > lengths[i + 1, j + 1]:
                lengths[i + 1, j + 1] = lengths[i, j] + 1
                moves[i, j] = _MATCH
    return _trace(moves, rows, columns)


def prepare(char: str, lower: bool) -> str:
    """Returns the result of `preprocess_text` for a character, step by step."""
    decomposed = unicodedata.normalize("NFKD", char)
    kept = "".join([c for c in decomposed if not unicodedata.combining(c)])
    return kept.lower() if lower else kept


def _trace(moves: dict, rows: int, columns: int) -> list[int | None]:
    places = [None] * columns
    i, j = rows - 1, columns - 1
    while (i, j) in moves:
        move = moves[i, j]
        if move == _MATCH:
            places[j] = i
        i, j = i - (move != _LEFT), j - (move != _UP)
    return places


def convert(
    example: SquadExample, tokenizer: FullTokenizer, options: FeatureOptions
) -> list[bytes]:
    """Returns a training example's serialized features, built list by list as in the reference."""
    model, text = tokenizer.sp_model, example.paragraph_text
    question = encode_ids(model, preprocess_text(example.question_text, lower=True))
    question = question[: options.max_query_length]
    pieces = encode_pieces(model, preprocess_text(text, lower=True))
    token_text = "".join(pieces).replace("▁", " ")
    places = align(text, token_text, lower=True)
    token_of = [t for t, piece in enumerate(pieces) for _ in piece]
    answer = range(example.start_position, example.start_position + len(example.orig_answer_text))
    covered = [token_of[c] for c, place in enumerate(places) if place in answer] or [0]
    ids = [model.piece_to_id(piece) for piece in pieces]
    room = options.max_seq_length - len(question) - 3
    starts = [0]
    while starts[-1] + room < len(ids):
        starts.append(starts[-1] + min(room, options.doc_stride))
    windows = [(start, min(start + room, len(ids))) for start in starts]
    return [
        _record(question, ids, window, windows, (covered[0], covered[-1]), options.max_seq_length)
        for window in windows
    ]


def _record(
    question: list[int],
    ids: list[int],
    window: tuple[int, int],
    windows: list[tuple[int, int]],
    answer: tuple[int, int],
    length: int,
) -> bytes:
    start, end = window
    tokens, segments, p_mask = [2], [0], [0]
    for token in [*question, 3]:
        tokens.append(token)
        segments.append(0)
        p_mask.append(1)
    max_context = {}
    for position in range(start, end):
        max_context[len(tokens)] = _has_max_context(window, windows, position)
        tokens.append(ids[position])
        segments.append(1)
        p_mask.append(0)
    tokens.append(3)
    segments.append(1)
    p_mask.append(1)
    mask = [1] * len(tokens)
    while len(tokens) < length:
        tokens.append(0)
        mask.append(0)
        segments.append(0)
        p_mask.append(1)
    inside = start <= answer[0] and answer[1] < end
    shift = len(question) + 2 - start
    fields = {
        "unique_ids": [0],
        "input_ids": tokens,
        "input_mask": mask,
        "segment_ids": segments,
        "p_mask": p_mask,
        "start_positions": [answer[0] + shift if inside else 0],
        "end_positions": [answer[1] + shift if inside else 0],
        "is_impossible": [int(not inside)],
    }
    features = {
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for key, values in fields.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _has_max_context(
    window: tuple[int, int], windows: list[tuple[int, int]], position: int
) -> bool:
    """Returns whether no window gives the token more context; the reference checks every token."""
    best, best_score = None, None
    for start, end in windows:
        if start <= position < end:
            score = min(position - start, end - 1 - position) + 0.01 * (end - start)
            if best_score is None or score > best_score:
                best, best_score = (start, end), score
    return best == window
