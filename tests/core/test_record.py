"""Records of what files were made from."""

import pytest

from albert.core.errors import UserError
from albert.core.record import Difference, differences, read_record


def test_differences_have_both_values_and_the_names_of_members():
    was = {"seed": 1, "rate": 0.5, "config": {"size": 32, "heads": 2}, "old": "x"}
    now = {"seed": 2, "rate": 0.5, "config": {"size": 64, "heads": 2}, "new": None, "added": 3}
    actual = differences(was, now, {"added": 3})
    assert actual == [Difference("config.size", 32, 64), ("old", "x", None), ("seed", 1, 2)]
    assert str(actual[0]) == "config.size (was 32, is 64)"
    assert differences(was, now, {"added": 4})[0] == ("added", 4, 3)
    assert len(str(Difference("digest", "0" * 1000, None))) < 150


@pytest.mark.parametrize("content", ["{", "[]", "null", "{}", '{"settings": 1}', "[" * 100_000])
def test_a_damaged_record_is_one_line(tmp_path, content):
    path = tmp_path / "record.json"
    assert read_record(str(path), "the record", "settings") is None
    path.write_text(content)
    with pytest.raises(UserError) as caught:
        read_record(str(path), "the record", "settings")
    assert str(caught.value).startswith(f"{path} is damaged: ") and "\n" not in str(caught.value)
