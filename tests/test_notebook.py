"""The notebook of `docs/`: a kernel runs all of its cells, with small numbers."""

import os
import re

import pytest

from tests.helpers.forking import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: make install-dev")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: make install-dev")
pytestmark = pytest.mark.slow
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
# So small that nothing is learned; there is time to interrupt between the checkpoint and the end.
SMALL = {"STEPS": "40", "CHECKPOINT_STEPS": "20", "CLASSIFIER_STEPS": "2"}
SMALLER_MODEL = """
from albert.demo import demo
demo.CONFIG |= {"num_hidden_layers": 1, "num_hidden_groups": 1}
demo.RUN_FLAGS |= {"train_batch_size": 4}
"""


def text_of(cell: nbformat.NotebookNode) -> str:
    outputs = (output for output in cell.outputs if output.get("name") == "stdout")
    return "".join(output.text for output in outputs)


def shown_by(cell: nbformat.NotebookNode) -> dict[str, str]:
    return next(o.data for o in cell.outputs if o.output_type == "execute_result")


@pytest.fixture(scope="module")
def cells(tmp_path_factory) -> dict[str, nbformat.NotebookNode]:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
    constants = next(cell for cell in notebook.cells if cell.cell_type == "code")
    for name, value in {**SMALL, "FOLDER": repr(str(folder / "files"))}.items():
        pattern = rf"(?m)^{name} = .*"
        constants.source, count = re.subn(pattern, f"{name} = {value}", constants.source)
        assert count == 1, name
    constants.source += SMALLER_MODEL
    with pytest.MonkeyPatch.context() as patch:
        # Neither connection files nor a history remain in the home folder.
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        resources = {"metadata": {"path": str(folder)}}
        client = nbclient.NotebookClient(notebook, timeout=250, resources=resources)
        client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


def test_the_file_has_no_outputs():
    """Running the notebook and committing it would commit them."""
    notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert {(len(cell.outputs), cell.execution_count) for cell in code} == {(0, None)}


def test_every_cell_runs_and_shows_what_its_text_says(cells):
    assert [cell.execution_count for cell in cells.values()] == [*range(1, len(cells) + 1)]
    assert "INFO:tensorflow" not in "".join(map(text_of, cells.values()))
    for name, part in {
        "resumed": " f1 ",
        "answer": "probability=",
        "evaluated": "exact_match ",
        "best-classifier": "eval_accuracy ",
        "labelled": "'season': ",
    }.items():
        assert part in shown_by(cells[name])["text/plain"]
    assert shown_by(cells["two-classifiers"])["text/plain"].count("eval_accuracy") == 2
    assert text_of(cells["answered-all"]).count("(text ") == 2


def test_the_training_is_interrupted_and_resumed(cells):
    steps = SMALL["STEPS"]
    said = text_of(cells["interrupted"])
    step = re.search(rf"Interrupted: stopped by SIGINT at step (\d+) of {steps}, which", said)[1]
    log = "".join(output.text for output in cells["resumed"].outputs if "text" in output)
    assert f"Training from step {step} to {steps}" in log
