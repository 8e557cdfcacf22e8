"""JSON that is read piece by piece: the same values as all at once, and the same files refused."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from albert.core import json_reader
from albert.core.json_reader import JsonReader

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
VALUES = st.recursive(LEAVES, lambda v: st.lists(v) | st.dictionaries(st.text(max_size=3), v))


def read(path, levels: int):
    def part(level: int):
        kind = reader._peek()
        if level == levels or kind not in ("{", "["):
            return reader.value()
        if kind == "[":
            return [part(level + 1) for _ in reader.items()]
        return {key: part(level + 1) for key in reader.members()}

    with open(path, "rb") as file:
        reader = JsonReader(file.fileno())
        value = part(0)
        reader.end()
    return value


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(VALUES, st.sampled_from([None, 1]), st.booleans(), st.integers(0, 3))
def test_values_do_not_depend_on_the_pieces(tmp_path, value, indent, ascii_only, levels):
    """Pieces end inside of numbers, escapes, surrogate pairs and characters."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    content = b"\xef\xbb\xbf" * bool(indent) + text.encode(errors="surrogatepass")
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "CHUNK", 3)
        try:
            expected = json.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            with pytest.raises(ValueError):
                read(path, levels)
            return
        actual = read(path, levels)
    # NaN differs from itself.
    assert repr(actual) == repr(expected)


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2", "[1 2]", "[1,]", "[1]]", '{"a" 1}', '{"a": 1,}', "{1: 2}", '{"a": 1. }', "[nul]"]
    + ['"a', "[1e+]", "[-]", '{"a": 1, "a": 2}', "[" * 100000, "[01]", "{}x"],
)
def test_other_documents_are_refused(tmp_path, text):
    """A repeated key is refused, too: `json` takes the last one."""
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(ValueError):
        read(path, 1)
