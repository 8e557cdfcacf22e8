"""Lists the files that a training enters, in order, from its start to the first weight update.

  python -m tools.entered run_squad_v1.py FLAGS...

A file is entered when one of its functions is called. An import does not count, nor do other
threads and processes.
"""

import os
import pathlib
import runpy
import sys
import traceback
import types

_LAST = ("training/checkpoint_hook.py", "after_run")


def main() -> None:
    sys.argv = sys.argv[1:]
    if not sys.argv:
        sys.exit(f"entered: error: pass a program and its flags.\n{__doc__}")
    root = f"{pathlib.Path(sys.argv[0]).resolve().parent}/"
    entered: dict[str, str] = {}

    def note(frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(root):
            return
        name = code.co_filename.removeprefix(root)
        if name not in entered and not name.startswith((".venv", "tests/", "tools/")):
            stack = (one.f_code for one, _ in traceback.walk_stack(frame))
            modules = {one.co_filename for one in stack if one.co_name == "<module>"}
            if not any(file.startswith(f"{root}albert/") for file in modules):
                entered[name] = code.co_name
        if name.endswith(_LAST[0]) and code.co_name == _LAST[1]:
            sys.setprofile(None)
            for number, (file, function) in enumerate(entered.items(), start=1):
                print(f"{number:3} {file:45} {function}")
            sys.stdout.flush()
            os._exit(0)

    sys.path.insert(0, root)
    sys.setprofile(note)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
