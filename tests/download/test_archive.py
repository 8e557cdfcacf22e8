"""Damaged and malicious archives."""

import contextlib
import functools
import gzip
import io
import os
import random
import shutil
import stat
import tarfile
import zipfile

import pytest

from albert.core.errors import UserError
from albert.download import archive as module
from albert.download.archive import ArchiveError, unpacked
from tests.helpers.download import zip_of

DATA = random.Random(2).randbytes(200_000)


def member(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    info.uid = info.gid = 4242
    return info, data


def folder(name, mode=0o755):
    return member(name, tarfile.DIRTYPE, mode=mode)


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def make(out, *members, mode="w:gz"):
    # Level 1 of bzip2 has short blocks: damage is detected while a file is written.
    options = {"compresslevel": 1} if mode == "w:bz2" else {}
    with tarfile.open(out.parent / "archive", mode, **options) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.parent / "archive"


def unpack(archive, folder):
    with unpacked(archive, folder):
        assert not folder.exists()


def refused(archive, out, match):
    before = sorted(out.parent.iterdir())
    with pytest.raises(ArchiveError, match=rf"^.*{match}.*\Z"):
        unpack(archive, out / "model")
    assert os.listdir(out) == [] and sorted(out.parent.iterdir()) == before


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_the_top_folder_is_stripped(out, mode):
    members = [folder("top"), member("top/a", data=b"1"), member("./top/sub/b", data=DATA)]
    archive = make(out, *members, mode="w" if mode == "zip" else mode)
    if mode == "zip":
        archive.write_bytes(zip_of({"top/a": b"1", "top/sub/b": DATA, "__MACOSX/top/._a": b"2"}))
    unpack(archive, out / "model")
    assert os.listdir(out) == ["model"] and (out / "model/a").read_bytes() == b"1"
    assert (out / "model/sub/b").read_bytes() == DATA


def test_modes_and_owners_are_those_of_new_files(out):
    unpack(make(out, folder("t/d", 0o7777), member("t/d/f", mode=0o6777)), out / "model")
    (out / "file").touch()
    (out / "folder").mkdir()
    for made, like in [("d/f", "file"), ("d", "folder"), ("", "folder")]:
        made, like = os.stat(out / "model" / made), os.stat(out / like)
        assert stat.filemode(made.st_mode) == stat.filemode(like.st_mode)
        assert (made.st_uid, made.st_gid) == (like.st_uid, like.st_gid)


GOOD = member("t/good", data=b"1")
# Sparse files unpack to any size, without a byte in the archive for it.
SPARSE = member("t/holes", data=b"0\n".ljust(512, b"\0"))
SPARSE[0].pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
SPARSE[0].pax_headers |= {"GNU.sparse.name": "t/holes", "GNU.sparse.realsize": str(2**20)}
OUTSIDE = "evil' would be extracted to .* outside"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        *(
            ([GOOD, member(f"{above}evil", data=b"1")], OUTSIDE)
            for above in ("../", "t/../../", "t/x/../../../")
        ),
        ([GOOD, folder("../evil")], OUTSIDE),
        *(
            ([GOOD, member(f"{folder}special", kind, link="t/good")], "is neither a regular file")
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"?")
            for folder in ("t/", "")
        ),
        ([GOOD, SPARSE], "'t/holes' is neither a regular file"),
        ([GOOD, *[member("t/long", tarfile.XHDTYPE)] * 3000], "damaged"),
        ([member("file", data=b"1")], "has 0 top-level folders instead of one"),
        ([folder("t"), folder("u")], "has 2 top-level folders instead of one"),
    ],
)
def test_unsafe_members_are_refused(out, members, message):
    refused(make(out, *members, mode="w"), out, message)


def too_large(archive, out):
    with pytest.raises(UserError, match="unpacks to more than .*, unpack it by hand") as caught:
        unpack(archive, out / "model")
    assert not isinstance(caught.value, ArchiveError) and os.listdir(out) == []


@pytest.fixture
def limit(monkeypatch):
    return functools.partial(monkeypatch.setattr, module, "_MOST_BYTES")


def test_all_bytes_count(out, limit):
    limit(20_000)
    for name in ("t/a", "left_out"):
        too_large(make(out, *(member(f"{name}{k}", data=bytes(5000)) for k in range(4))), out)
    archive = make(out, GOOD, mode="w")
    archive.write_bytes(gzip.compress(archive.read_bytes() + bytes(10_000_000)))
    limit(5_000_000)
    too_large(archive, out)


def test_a_bomb_and_20_gb_are_refused(out):
    too_large(make(out, member("t/zeros", data=bytes(110_000_000))), out)
    info, _ = member("t/a")
    info.size = 20 * 10**9
    archive = make(out, mode="w")
    archive.write_bytes(info.tobuf() + bytes(1024))
    os.truncate(archive, 10**9)  # so that the compression ratio is not the reason
    too_large(archive, out)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_a_damaged_archive_is_refused(out, mode):
    numbers = b" ".join(b"%d" % i for i in range(50_000))
    archive = make(out, member("t/a", data=numbers), member("t/b", data=DATA), mode=mode)
    whole = archive.read_bytes()
    content, middle = whole.rstrip(b"\0"), len(whole) // 3
    damaged = [content[: int(len(content) * kept)] for kept in (0.999, 0.5, 0.02, 0.0)]
    damaged += [b"<html>log in</html>", content[:middle] + b"\xff" * 100 + content[middle + 100 :]]
    for bad in damaged:
        archive.write_bytes(bad)
        refused(archive, out, "damaged, unsafe, or not an archive")
    if mode == "w:gz":
        archive.write_bytes(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
        refused(archive, out, "CRC")


def with_header(archive, header):
    """Returns an archive of one file and a header without the data that it announces."""
    archive.write_bytes(archive.read_bytes()[:1024] + header + bytes(1024))
    return archive


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_refused(out, kind):
    """A header of 8 GB, which a packed tar file of a few MB can hold."""
    info, _ = member("t/long", kind)
    info.size = 8 << 30
    archive = with_header(make(out, GOOD, mode="w"), info.tobuf(tarfile.GNU_FORMAT))
    refused(archive, out, "a header announces 8589934592 bytes")


@pytest.mark.parametrize("size", [-512, 2**70], ids=["negative", "huge"])
@pytest.mark.parametrize("name", ["t/a", "left_out"])
def test_an_impossible_size_is_refused_and_does_not_hang(out, name, size):
    header = bytearray(member(name)[0].tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (size % 2**96).to_bytes(12, "big")
    header[124] |= 0x80  # the mark of a binary number
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    archive = with_header(make(out, GOOD, mode="w"), header)
    if size < 0:
        refused(archive, out, "announces -512 bytes")
    else:
        too_large(archive, out)


@pytest.mark.parametrize("name", ["../evil", "t/../../evil", "{}/evil", "/../evil", None])
def test_a_zip_writes_nothing_outside_the_folder(out, tmp_path, name):
    (tmp_path / "victim").mkdir()
    link = zipfile.ZipInfo("t/d")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    through_it = {link: str(tmp_path / "victim"), "t/d/evil": b"2"}
    members = {name.format(tmp_path): b"2"} if name else through_it
    (tmp_path / "archive").write_bytes(zip_of({"t/good": b"1"} | members))
    with contextlib.suppress(ArchiveError, OSError):
        unpack(tmp_path / "archive", out / "model")
    assert sorted(os.listdir(tmp_path)) == ["archive", "out", "victim"]
    assert not os.listdir(tmp_path / "victim") and not (out / "evil").exists()


def test_a_large_and_a_damaged_zip_are_refused(out, tmp_path, limit):
    archive = tmp_path / "archive"
    archive.write_bytes(zip_of({f"t/zeros{k}": bytes(3_000) for k in range(4)}))
    limit(11_999)
    too_large(archive, out)
    limit(12_000)
    unpack(archive, out / "model")
    shutil.rmtree(out / "model")
    limit(10**6)
    content = bytearray(zip_of({"t/a": DATA}))
    content[len(DATA) // 2] ^= 1
    archive.write_bytes(content)
    refused(archive, out, "damaged.*CRC")
