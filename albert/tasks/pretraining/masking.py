"""Masks for masked language modeling: choosing words, and replacing their tokens.

Runs of up to `ngram` words are drawn until the required number of tokens is masked
(https://arxiv.org/abs/1909.11942, section 4.1: the probability of a run of n words is proportional
to 1 / n). Of the masked tokens, 80% become [MASK], 10% stay unchanged and 10% become random tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from albert.tasks.pretraining.pairs import Layout


class MaskingOptions(NamedTuple):
    """The flags that masks depend on."""

    max_predictions_per_seq: int
    masked_lm_prob: float
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    do_permutation: bool = False

    @property
    def max_predictions(self) -> int:
        """Returns the length of a row of predictions; permuted tokens are predicted too."""
        return self.max_predictions_per_seq * (1 + self.do_permutation)


class MaskedRows(NamedTuple):
    """Rows of tokens with masked positions to predict.

    Attributes:
      ids: int32 [N, S], after masking.
      positions: int32 [N, P], the masked positions from left to right, padded with zeros.
      labels: int32 [N, P], the original tokens at these positions, padded with zeros.
      counts: int [N], the number of masked positions of each row.
    """

    ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    counts: np.ndarray


class Words(NamedTuple):
    """The words of N texts.

    Attributes:
      counts: int [N], the number of words of each text.
      begins: int [N, W + n], the number of a text's tokens before each word; after the last word,
        the number of all its tokens.
    """

    counts: np.ndarray
    begins: np.ndarray


class Masker:
    """A masker of rows with a set of options."""

    def __init__(self, options: MaskingOptions, mask_id: int, vocab_size: int):
        self._options, self._mask_id, self._vocab_size = options, mask_id, vocab_size
        odds = 1.0 / np.arange(1, options.ngram + 1)
        if not options.favor_shorter_ngram:
            odds = odds[::-1]
        self._odds = np.cumsum(odds / odds.sum())

    def mask(
        self, ids: np.ndarray, layout: Layout, begins_word: np.ndarray, rng: np.random.Generator
    ) -> MaskedRows:
        """Masks `ids`, int32 [N, S]; `begins_word`, bool [N, S], is true where a word begins."""
        starts = layout.in_text
        if self._options.do_whole_word_mask:
            starts = layout.word_starts(begins_word)
        words = _words_of(starts, layout, self._options.ngram)
        budget = self.num_to_predict(layout.lengths)
        taken = np.zeros(words.begins.shape, bool)
        masked_ids = ids.copy()
        masked = rows, columns = self._draw(words, layout, budget, taken, rng)
        kind = rng.random(len(rows))
        any_ids = rng.integers(0, self._vocab_size, len(rows))
        same_or_any = np.where(kind < 0.9, ids[masked], any_ids)
        masked_ids[masked] = np.where(kind < 0.8, self._mask_id, same_or_any)
        if self._options.do_permutation:
            permuted = self._draw(words, layout, budget, taken, rng)
            shuffled = np.lexsort((rng.random(len(permuted[0])), permuted[0]))
            masked_ids[permuted] = ids[permuted][shuffled]
            rows, columns = np.concatenate([masked, permuted], axis=1)
            in_order = np.lexsort((columns, rows))
            rows, columns = rows[in_order], columns[in_order]
        counts = np.bincount(rows, minlength=len(ids))
        positions, labels = np.zeros((2, len(ids), self._options.max_predictions), np.int32)
        number = _count_up(counts)
        positions[rows, number] = columns
        labels[rows, number] = ids[rows, columns]
        return MaskedRows(masked_ids, positions, labels, counts)

    def num_to_predict(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the number of tokens to mask in rows with these numbers of tokens, [N]."""
        probability = self._options.masked_lm_prob
        if not probability:
            return np.zeros_like(lengths)
        count = np.maximum(np.rint(lengths * probability).astype(int), 1)
        return np.minimum(count, self._options.max_predictions_per_seq)

    def _draw(
        self,
        words: Words,
        layout: Layout,
        budget: np.ndarray,
        taken: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Takes random words of up to `budget` [N] tokens; returns their rows and columns."""
        shape = len(budget), words.counts.max(initial=0)
        keys = rng.random(shape, np.float32)
        keys[np.arange(shape[1]) >= words.counts[:, None]] = 2.0
        order = np.argsort(keys, axis=1)
        draws = rng.random(shape, np.float32)
        sizes = np.ones(shape, np.int8)
        for odds in self._odds[:-1]:
            sizes += draws >= odds
        chosen = choose_ngrams(words, order, sizes, budget, taken)
        rows, numbers = np.nonzero(chosen)
        begins = words.begins[rows, numbers]
        lengths = words.begins[rows, numbers + 1] - begins
        rows = np.repeat(rows, lengths)
        return rows, layout.columns(rows, np.repeat(begins, lengths) + _count_up(lengths))


def _words_of(starts: np.ndarray, layout: Layout, ngram: int) -> Words:
    """Returns the words that begin where `starts`, bool [N, S], is true."""
    counts = starts.sum(axis=1)
    begins = np.repeat((layout.lengths - 3)[:, None], counts.max(initial=0) + ngram, axis=1)
    rows, columns = np.nonzero(starts)
    begins[rows, _count_up(counts)] = layout.text_number(rows, columns)
    return Words(counts, begins)


def _count_up(counts: np.ndarray) -> np.ndarray:
    """Returns the concatenated ranges from 0 up to each of the counts, exclusive."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def choose_ngrams(
    words: Words, order: np.ndarray, sizes: np.ndarray, budget: np.ndarray, taken: np.ndarray
) -> np.ndarray:
    """Chooses runs of words in all rows at a time, with the result of a loop over each row.

    The k-th run of a row begins at word `order[k]` and has `sizes[k]` words, or fewer if the text
    ends or the row's budget of tokens is too small. A run is skipped if none of its words fits, or
    if one of them is taken. Returns the chosen words, bool [N, W + n].

    Args:
      order: int [N, W], a permutation of each row's words, then any values.
      sizes: int [N, W], from 1 to n.
      budget: int [N], the maximum number of tokens to choose.
      taken: bool [N, W + n], words that cannot be chosen; the function adds the chosen ones.
    """
    chosen = np.zeros_like(taken)
    left = budget.copy()
    steps = np.arange(words.begins.shape[1] - order.shape[1])
    rows = np.arange(len(budget))
    for k in range(order.shape[1]):
        rows = rows[(left[rows] > 0) & (words.counts[rows] > k)]
        if not len(rows):
            break
        first = order[rows, k]
        run = first[:, None] + steps
        tokens = words.begins[rows[:, None], run + 1] - words.begins[rows, first][:, None]
        fitting = (tokens <= left[rows][:, None]).sum(axis=1)
        size = np.minimum(np.minimum(sizes[rows, k], words.counts[rows] - first), fitting)
        in_run = steps < size[:, None]
        free = (size > 0) & ~(taken[rows[:, None], run] & in_run).any(axis=1)
        left[rows[free]] -= tokens[free, size[free] - 1]
        which, step = np.nonzero(in_run & free[:, None])
        chosen[rows[which], first[which] + step] = True
        taken[rows[which], first[which] + step] = True
    return chosen
