"""A folder of empty files, as `download/` would fill it."""

import pathlib

FILES = {
    "squad": "train-v1.1.json dev-v1.1.json train-v2.0.json dev-v2.0.json",
    **{"glue": "", "RACE": ""},
    "albert_base_v2": "albert_config.json 30k-clean.model model.ckpt-best.index",
    "albert_base_zh": "albert_config.json vocab_chinese.txt model.ckpt-best.index",
    "bert_base": "bert_config.json vocab.txt bert_model.ckpt.index",
}


def fill(folder: pathlib.Path) -> None:
    for name, files in FILES.items():
        (folder / name).mkdir(parents=True)
        for file in files.split():
            (folder / name / file).touch()
