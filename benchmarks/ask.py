"""Times answers of ALBERT-base with random weights: the first one, and later ones by length.

The first answer is that of a new process, including all imports and loading the model. It is
compared with the time of `import tensorflow` in the same process. A later answer is compared with
the time of the model's forward pass, and so are embeddings. `encode` is timed without tokenization,
on texts of all lengths. The table has medians.

Answers of `model.answer` and requests to `albert serve` are also compared with the forward pass of
OpenVINO on one sequence of the same length, without tokenization, in float32 and, on a processor
with such instructions, in bfloat16. These take turns. ONNX Runtime is in the table of float32.
OpenVINO and ONNX Runtime have a thread for each core, and a model from `albert convert`.
"""

import contextlib
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence

from albert.inference import load_model
from albert.inference.embedding import Embedder, write_json_lines, write_npz
from albert.inference.folders import open_folder
from albert.inference.squad import QuestionAnswerer
from benchmarks.parts import peer_answers
from benchmarks.parts.flags import BASE, parse
from benchmarks.parts.harness import Table, ratios_of, seconds_of
from benchmarks.parts.models import QUESTION, first_answer, text_of, write_model


def main() -> None:
    """Measures, and prints the table."""
    lists = {"lengths": "32,64,128,256,384", "peer_lengths": "32,128,384"}
    flags = parse(__doc__, config=BASE, rounds=9, starts=3, **lists)
    lengths, peer_lengths = ([int(n) for n in getattr(flags, name).split(",")] for name in lists)
    table = Table("seconds", "times", "of", name_width=52)

    def row(name: str, seconds: float, times: float, base: str = "the forward pass") -> None:
        table.row(name, f"{seconds:.4f}", f"{times:.2f}", f"  {base}")

    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, flags.config)
        model = load_model(folder)
        texts = {n: text_of(model.folder, n) for n in {*lengths, *peer_lengths}}
        for length in lengths:
            row(f"answer, {length} tokens", *later_answers(model, texts[length], flags.rounds))
        for name, write in (("JSON", write_json_lines), ("npz", write_npz)):
            row(f"embeddings as {name}", *embeddings(folder, texts[lengths[0]], write))
        of_lengths = [texts[length] for length in lengths]
        row("encode, all lengths", *encodings(model, of_lengths, flags.rounds))
        starts = [first_answer(folder, texts[lengths[-1]]) for _ in range(flags.starts)]
        imports, answers = (statistics.median(column) for column in zip(*starts, strict=True))
        times = statistics.median(answer / imported for imported, answer in starts)
        row("first answer", answers, times, f"import tensorflow ({imports:.2f} s)")
        of_peer = {length: texts[length] for length in peer_lengths}
        compared = peer_answers.compare(folder, of_peer, flags.rounds)
    for (length, dtype), ways in compared.items():
        for name, way in ways.items():
            row(f"{length} tokens, {dtype}: {name}", *way, "OpenVINO")


def later_answers(model: QuestionAnswerer, text: str, rounds: int) -> tuple[float, float]:
    """Returns the seconds of an answer, and their ratio to those of its forward pass."""
    seconds, in_model = [], []
    for number in range(rounds + 1):
        with calls_of(model._session._session, "run_all") as passes:
            # A new text every time, so that it is tokenized again.
            texts = [f"{number} {text}"]
            seconds.append(seconds_of(lambda texts=texts: model.answer(QUESTION, texts)))
            in_model.append(sum(passes))
    # The first use of a shape is slower.
    return statistics.median(seconds[1:]), statistics.median(ratios_of(seconds, in_model)[1:])


def embeddings(folder: str, text: str, write: Callable) -> tuple[float, float]:
    """Returns the seconds of the embeddings of a text, and their ratio in the same way."""
    embedder, count = Embedder(open_folder(folder), [-1, -2], pooled=False), 64
    path = os.path.join(folder, "embeddings")
    with calls_of(embedder._session._session, "run_all") as passes:
        seconds = seconds_of(lambda: write(path, embedder.stream([(text,)] * count)))
    return seconds / count, seconds / sum(passes)


def encodings(model: QuestionAnswerer, texts: Sequence[str], rounds: int) -> tuple[float, float]:
    """Returns the seconds of `encode` per text without tokenization, and their ratio in the same
    way."""
    # Eight texts of each length, in no order.
    texts = list(texts) * 8
    model.encode(texts)
    session, tokenizer = model._pooling_session._session, model.folder.tokenizer
    seconds, in_model = [], []
    for _ in range(rounds):
        with calls_of(session, "run_all") as passes, calls_of(tokenizer, "encode") as before:
            whole = seconds_of(lambda: model.encode(texts, normalize=True))
            seconds.append(whole - sum(before))
            in_model.append(sum(passes))
    return statistics.median(seconds) / len(texts), statistics.median(ratios_of(seconds, in_model))


@contextlib.contextmanager
def calls_of(owner: object, name: str) -> Iterator[list[float]]:
    """Yields a list that collects the seconds of every call of a method."""
    seconds, method = [], getattr(owner, name)

    def timed(*args, **options):
        results = []
        seconds.append(seconds_of(lambda: results.append(method(*args, **options))))
        return results[0]

    setattr(owner, name, timed)
    yield seconds
    setattr(owner, name, method)


if __name__ == "__main__":
    main()
