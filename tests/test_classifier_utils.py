"""The reference's processors; the functions are in test_doors.py."""

import inspect

import pytest

import classifier_utils

PROCESSORS = "Mnli MisMnli Mrpc Cola Sst2 Stsb Qqp Qnli Rte Wnli AX".split()  # noqa: SIM905


@pytest.mark.parametrize("name", PROCESSORS)
def test_processors(name):
    processor = getattr(classifier_utils, f"{name}Processor")(use_spm=True, do_lower_case=True)
    for method in ("get_train_examples", "get_dev_examples", "get_test_examples"):
        assert list(inspect.signature(getattr(processor, method)).parameters) == ["data_dir"]
    assert isinstance(processor, classifier_utils.DataProcessor)
    assert isinstance(processor.get_labels(), list)
