"""Functions and keys on disk are those of tests/golden/public.txt: `make generated`."""

import os

from tools import public


def compare(title: str, text: str) -> None:
    if os.environ.get(public.WRITES):
        public.write(title, text)
    assert public.sections()[title] == text, "if the change is meant, run `make generated`"


def test_functions_and_their_arguments_are_the_listed_ones():
    compare("Functions", public.functions())


def test_files_of_a_run_have_the_listed_keys(trained):
    compare("Files of a run", public.keys([trained]))
