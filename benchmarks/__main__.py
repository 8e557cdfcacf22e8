"""Lists the benchmarks: `make bench NAME=train` runs one, and FLAGS=--help explains its flags."""

import ast
import pathlib

for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    text = path.read_text(encoding="utf-8")
    if path.name != "__main__.py" and "__main__" in text:
        first, *_ = (ast.get_docstring(ast.parse(text)) or "").splitlines()
        print(f"make bench NAME={path.stem:<18}{first}")
