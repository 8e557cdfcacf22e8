"""Runs `albert.cli.train_sentencepiece`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.train_sentencepiece", run_name="__main__", alter_sys=True)
