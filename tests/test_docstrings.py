"""The examples in docstrings, with a tiny model instead of the demo's."""

import doctest
import importlib

import pytest

from tests.helpers.forking import ROOT

MODULES = ["albert.inference.base", "albert.modeling", "albert.api", "albert.inference.loading"]
MODULES += ["albert.records.order", "albert.records.sequences"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name, trained, squad_dir, tmp_path, monkeypatch):
    (tmp_path / "demo_output").mkdir()
    (tmp_path / "demo_output/run-1").symlink_to(trained)
    (tmp_path / "demo_output/data-1").symlink_to(squad_dir)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted and not result.failed
