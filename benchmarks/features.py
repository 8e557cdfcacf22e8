"""Times SQuAD features, from the JSON to the closed record file, next to `transformers`.

That is its fast ALBERT tokenizer through `datasets.map` in one process. One way uses a WordPiece
vocabulary, all others a SentencePiece model. One runs this project on a file of the size of SQuAD:
its --questions and their paragraphs are those of the training file and similar ones
(`squad_size.py`), none of which occurs twice. Each way runs in a separate process, whose peak
memory is shown; start-up does not count. The ways take turns, so that a slow hour of the machine
affects all of them. The fastest of all rounds of all turns counts.
"""

import copy
import os
import sys
import tempfile
from collections.abc import Callable

from benchmarks.parts.flags import DOC_STRIDE, MAX_QUERY_LENGTH, MAX_SEQ_LENGTH, Flags, parse
from benchmarks.parts.harness import Table, Way, in_turns, peak_memory, seconds_of
from benchmarks.parts.squad_size import write_questions


def main() -> None:
    """Runs every way in a separate process and prints the table."""
    files = "train_file", "spm_model_file", "vocab_file"
    # SQuAD has 88,000 questions.
    flags = parse(__doc__, WAYS, files, turns=3, rounds=5, questions=88000)
    with tempfile.TemporaryDirectory() as folder:
        write_questions(flags.train_file, f"{folder}/large.json", flags.questions)
        turns = in_turns(WAYS, flags.turns, f"--folder={folder}")
    # Milliseconds, examples, megabytes.
    results = {way: min(measured) for way, measured in turns.items()}
    table = Table("ms an example", "times ours", "examples", "peak memory")
    for way, (ms, examples, mb) in results.items():
        times = ms / results["one process"][0]
        table.row(way, f"{ms:.3f}", f"{times:.2f}", examples, f"{mb:.0f} MB")


def fastest(work: Callable[[str], int], rounds: int) -> tuple[float, int, float]:
    """Times `work(folder)`, which returns the number of examples, in new folders."""
    seconds, counts = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            seconds.append(seconds_of(lambda path=folder: counts.append(work(path))))
    return 1e3 * min(seconds) / counts[0], counts[0], peak_memory() / 1e6


def ours(flags: Flags, has_pieces: bool = False, large: bool = False) -> tuple:
    """Times this project, from the JSON file to the closed record file and its header."""
    from albert.tasks.squad.feature_files import FeatureOptions, SquadFeatures
    from albert.tasks.squad.questions import QuestionSource
    from albert.tokenization import FullTokenizer

    vocabulary, model = (flags.vocab_file, None) if has_pieces else (None, flags.spm_model_file)
    loaded = FullTokenizer(vocabulary, True, model)
    options = FeatureOptions(MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH)
    path = f"{flags.folder}/large.json" if large else flags.train_file

    def work(folder: str) -> int:
        # A copy whose cache of words is empty.
        tokenizer = copy.copy(loaded)
        paths = [os.path.join(folder, "features")]
        source = SquadFeatures(QuestionSource(path), paths, tokenizer, options, 1)
        return source.prepared().num_examples

    return fastest(work, 1 if large else flags.rounds)


def fast_tokenizer(flags: Flags) -> tuple:
    """Times `transformers` and `datasets`: windows, offsets and answer positions."""
    import datasets
    import transformers
    from transformers.utils import sentencepiece_model_pb2_new

    from albert.tasks.squad.feature_files import read_squad_examples

    # sentencepiece's own description of its models needs a newer protobuf than TensorFlow 2.15 has.
    sys.modules["sentencepiece.sentencepiece_model_pb2"] = sentencepiece_model_pb2_new
    datasets.disable_progress_bars()
    tokenizer = transformers.AlbertTokenizerFast(vocab_file=flags.spm_model_file)

    returned = {"return_overflowing_tokens": True, "return_offsets_mapping": True}
    options = {"truncation": "only_second", "padding": "max_length", **returned}
    options["max_length"] = MAX_SEQ_LENGTH
    options["stride"] = MAX_SEQ_LENGTH - DOC_STRIDE - MAX_QUERY_LENGTH

    def convert(batch: dict) -> dict:
        encoded = tokenizer(batch["question"], batch["context"], **options)
        examples = encoded.pop("overflow_to_sample_mapping")
        starts, ends = [], []
        for i, offsets in enumerate(encoded.pop("offset_mapping")):
            first = batch["start"][examples[i]]
            last = first + len(batch["answer"][examples[i]])
            tokens = [t for t, s in enumerate(encoded.sequence_ids(i)) if s == 1]
            inside = offsets[tokens[0]][0] <= first and last <= offsets[tokens[-1]][1]
            starts.append(max((t for t in tokens if offsets[t][0] <= first), default=0) * inside)
            ends.append(min((t for t in tokens if offsets[t][1] >= last), default=0) * inside)
        return {**encoded, "start_positions": starts, "end_positions": ends}

    def work(folder: str) -> int:
        examples = read_squad_examples(flags.train_file, is_training=True)
        table = {
            "question": [e.question_text for e in examples],
            "context": [e.paragraph_text for e in examples],
            "answer": [e.orig_answer_text for e in examples],
            "start": [e.start_position for e in examples],
        }
        how = {"batched": True, "remove_columns": [*table], "load_from_cache_file": False}
        cache = os.path.join(folder, "features.arrow")
        datasets.Dataset.from_dict(table).map(convert, cache_file_name=cache, **how)
        return len(examples)

    return fastest(work, flags.rounds)


WAYS = {
    "one process": Way(ours),
    "the same, WordPiece": Way(lambda flags: ours(flags, has_pieces=True)),
    "SQuAD's size": Way(lambda flags: ours(flags, large=True)),
    "fast tokenizer": Way(fast_tokenizer, {"TOKENIZERS_PARALLELISM": "false"}),
}

if __name__ == "__main__":
    main()
