"""Times answers of ALBERT-base with random weights: the first one, and later ones by length.

The first answer is that of a new process, including all imports and loading the model. It is
compared with the time of `import tensorflow` in the same process.

Later answers of `model.answer` and requests to `albert serve` are compared with the forward pass of
OpenVINO on one sequence of the same length, without tokenization, in float32 and, on a processor
with such instructions, in bfloat16. These take turns. ONNX Runtime is in the table of float32.
OpenVINO and ONNX Runtime have a thread for each core, and a model from `albert convert`. The table
has medians.
"""

import statistics
import tempfile

from albert.inference import load_model
from benchmarks.parts import peer_answers
from benchmarks.parts.flags import BASE, parse
from benchmarks.parts.harness import Table
from benchmarks.parts.models import first_answer, text_of, write_model


def main() -> None:
    """Measures, and prints the table."""
    flags = parse(__doc__, config=BASE, rounds=9, starts=3, lengths="32,128,384")
    lengths = [int(length) for length in flags.lengths.split(",")]
    table = Table("seconds", "times", "of", name_width=52)

    def row(name: str, seconds: float, times: float, base: str) -> None:
        table.row(name, f"{seconds:.4f}", f"{times:.2f}", f"  {base}")

    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, flags.config)
        model = load_model(folder)
        texts = {length: text_of(model.folder, length) for length in lengths}
        starts = [first_answer(folder, texts[lengths[-1]]) for _ in range(flags.starts)]
        imports, answers = (statistics.median(column) for column in zip(*starts, strict=True))
        times = statistics.median(answer / imported for imported, answer in starts)
        row("first answer", answers, times, f"import tensorflow ({imports:.2f} s)")
        compared = peer_answers.compare(folder, texts, flags.rounds)
    for (length, dtype), ways in compared.items():
        for name, way in ways.items():
            row(f"{length} tokens, {dtype}: {name}", *way, "OpenVINO")


if __name__ == "__main__":
    main()
