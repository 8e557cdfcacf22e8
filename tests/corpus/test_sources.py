"""Files of text: how each ending is decompressed."""

import bz2
import gzip

import pytest
from backports import zstd

from albert.core.errors import UserError
from albert.corpus.sources import opened

PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd.compress, ".TXT": bytes}


@pytest.mark.parametrize("ending", PACKED)
def test_several_streams_are_read_as_one(tmp_path, ending):
    path = tmp_path / f"text{ending}"
    path.write_bytes(PACKED[ending](b"one\n") + PACKED[ending](b"two\n"))
    with opened(str(path)) as (file, stream):
        assert list(stream) == [b"one\n", b"two\n"]
        assert file.tell() == path.stat().st_size


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst"])
def test_a_damaged_file_is_an_error(tmp_path, ending):
    path = tmp_path / f"text{ending}"
    path.write_bytes(PACKED[ending](b"one\n" * 99)[:-6])
    with pytest.raises(UserError, match="damaged or incomplete"), opened(str(path)) as (_, stream):
        stream.read()
