"""Packages that only some commands need, which pip does not install by default."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
from collections.abc import Iterator

from albert.core.errors import UserError


@contextlib.contextmanager
def optional(*packages: str, why: str = "") -> Iterator[None]:
    """Converts an `ImportError` in the block, which imports optional packages, to a `UserError`.

    Its message begins with `why`. `packages` are what pip must install, such as "onnx==1.18.0".
    """
    try:
        yield
    except ImportError as e:
        names = " ".join(packages)
        fault = f"{names} cannot be imported ({' '.join(str(e).split())})"
        if isinstance(e, ModuleNotFoundError):
            fault = f"the package {e.name} is missing"
        raise UserError(f"{why}{fault}: run `pip install {names}`") from e


def require(module: str, *packages: str, why: str = "") -> importlib.machinery.ModuleSpec:
    """Returns where a module is, without importing it; raises a `UserError` like `optional`."""
    with optional(*packages, why=why):
        spec = importlib.util.find_spec(module)
        if spec is None:
            raise ModuleNotFoundError(name=module)
    return spec
