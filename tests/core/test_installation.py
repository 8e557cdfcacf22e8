"""Which other distributions share the package's folder; tests/test_install.py installs some."""

from __future__ import annotations

import pathlib

import pytest

from albert.core import installation
from albert.core.errors import UserError


def record(folder: pathlib.Path, distribution: str, files: str) -> None:
    (folder / f"{distribution}.dist-info").mkdir()
    (folder / f"{distribution}.dist-info/RECORD").write_text(files)


def test_only_distributions_with_files_in_the_folder_count(tmp_path):
    package = tmp_path / "albert"
    package.mkdir()
    (package / "__init__.py").touch()
    record(tmp_path, "albert_tf-0.2.0.dev0", "albert/__init__.py,,\n")
    record(tmp_path, "albert_pytorch-1.0", "albert_pytorch/__init__.py,,\n")
    # Of an editable installation, and of one that was interrupted.
    record(tmp_path, "albert_tensorflow-0.2.0", "_albert_tensorflow.pth,,\n")
    (tmp_path / "albert-0.1.dist-info").mkdir()
    installation.check(str(package))
    record(tmp_path, "albert_tensorflow-1.1", "x.py,,\nalbert/modeling.py,,\n")
    record(tmp_path, "Albert-9.0", "albert/__init__.py,,\n")
    with pytest.raises(UserError, match="of Albert and albert-tensorflow: run `pip uninstall Albe"):
        installation.check(str(package))
