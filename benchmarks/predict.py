"""Times prediction on real batches next to `transformers` and ONNX Runtime.

All programs get the same batches of features of similar length, padded to the longest of the batch.
Each turn has --batches spread over all lengths. Their shapes are new at first; then the same
batches come again. Weights are random, and `albert convert` passes them to the peers. On a CPU, all
programs compute two batches at a time. `transformers` runs as it is, or compiled by PyTorch, before
it gets the batches. ONNX Runtime has weights in float32, or in eight bits with dynamic
quantization. Of the settings that were tried, all have the fastest.

With --programs, whole programs are timed from the command to their end, in --rounds in which they
alternate. This project reads questions, makes features and writes all files of a prediction. The
others get ready features, and write the positions of the most probable answers; compiling counts.

"Of peak" is as in `make bench NAME=train`. With --device=gpu, the programs use the first GPU, ONNX
Runtime is omitted, and there is a row with products in TF32.
"""

import tempfile

from benchmarks.parts import turns, whole_programs
from benchmarks.parts.peers import KINDS, kinds_of, peers_of
from benchmarks.parts.turns import OURS, Program


def main() -> None:
    """Measures and prints a table."""
    more = {"programs": False, "rounds": 3, "peers": ",".join(KINDS)}
    flags = turns.parse(__doc__, "prediction", "predict_file", 3, **more)
    flags.peers = kinds_of(flags)
    with tempfile.TemporaryDirectory() as folder:
        if flags.programs:
            whole_programs.measure(flags, folder)
            return
        peers = {dtype: peers_of(dtype, flags.peers) for dtype in flags.dtypes}
        turns.prepare(flags, folder, *sorted(set().union(*(onnx for _, onnx in peers.values()))))
        for dtype, (chosen, _) in peers.items():
            programs = {OURS: Program(OURS), **chosen}
            turns.print_rows(dtype, programs, *turns.take_turns(programs, dtype, flags), flags)


if __name__ == "__main__":
    main()
