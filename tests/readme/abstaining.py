"""Trains on the demo's sample in the format of SQuAD 2.0, which needs two minutes, as `make demo`.

Fails if the model has not learned when to abstain. python -m tests.readme.abstaining [FOLDER]
"""

import subprocess
import sys

from albert.core.files import command, read_json
from albert.demo import demo

if __name__ == "__main__":
    (folder,) = sys.argv[1:] or ["demo_output"]
    names = {n: p.replace("v1.1", "v2.0") for n, p in demo.write_inputs(folder).items()}
    # After 1000 steps, scores vary much between seeds.
    flags = {**names, **demo.RUN_FLAGS, "train_steps": 2000, "output_dir": f"{folder}/run-v2-1"}
    words = (f"--{name}={value}" for name, value in flags.items())
    subprocess.run(command("squad", "2.0", *words), check=True)
    scores = read_json(f"{flags['output_dir']}/eval_results.json", "the scores")
    share = scores["NoAns_total"] / scores["total"]
    # Better than a model that always or never abstains.
    assert scores["f1"] >= 100 * max(share, 1 - share) + 20, scores
    assert min(scores["HasAns_f1"], scores["NoAns_f1"]) >= 60, scores
