"""Lists the files that a training enters, in order, from its start to the first weight update.

  python -m tests.entered run_squad_v1.py FLAGS...

A file is entered when one of its functions is called. An import does not count, nor do other
threads and processes.
"""

import os
import pathlib
import runpy
import sys
import types

_LAST = ("training/checkpoint_hook.py", "after_run")


def main() -> None:
    sys.argv = sys.argv[1:]
    root = f"{pathlib.Path(sys.argv[0]).resolve().parent}/"
    entered: dict[str, str] = {}

    def note(frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(root):
            return
        name = code.co_filename.removeprefix(root)
        is_new = name not in entered and not name.startswith((".venv", "tests/"))
        if is_new and not _is_importing(frame, root):
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


def _is_importing(frame: types.FrameType | None, root: str) -> bool:
    """Returns whether a module of the project, other than the program, is being executed."""
    while frame:
        code, frame = frame.f_code, frame.f_back
        is_ours = code.co_filename.startswith(root) and "/tests/" not in code.co_filename
        if is_ours and code.co_name == "<module>" and code.co_filename != f"{root}{sys.argv[0]}":
            return True
    return False


if __name__ == "__main__":
    main()
