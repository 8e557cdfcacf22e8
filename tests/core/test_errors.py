"""Errors about packages that pip does not install by default."""

import sys

import pytest

from albert.core.errors import UserError, optional, require


def test_a_missing_package_and_a_broken_one_are_told_apart(monkeypatch, tmp_path):
    (tmp_path / "of_a_test.py").write_text("from os import nothing")
    monkeypatch.syspath_prepend(tmp_path)
    message = r"^a==1 b cannot be imported \(.*nothing.*\): run `pip install a==1 b`$"
    with pytest.raises(UserError, match=message), optional("a==1", "b"):
        import of_a_test  # noqa: F401
    assert require("of_a_test", "a").origin == str(tmp_path / "of_a_test.py")
    monkeypatch.setitem(sys.modules, "of_a_test", None)
    with pytest.raises(UserError, match="^--a: the package of_a_test is missing: .*install c`$"):
        require("of_a_test", "c", why="--a: ")
