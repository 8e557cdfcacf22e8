"""unpack() with damaged and malicious archives."""

import contextlib
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
from albert.download.archive import ArchiveError, unpack

DATA = random.Random(2).randbytes(200_000)


def member(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    info.uid = info.gid = 4242
    return info, data


def folder(name, mode=0o755):
    return member(name, tarfile.DIRTYPE, mode=mode)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def make(tmp_path):
    def make(*members, mode="w:gz"):
        # Level 1 of bzip2 has short blocks: damage is detected while a file is written.
        options = {"compresslevel": 1} if mode == "w:bz2" else {}
        with tarfile.open(tmp_path / "archive", mode, **options) as tar:
            for info, data in members:
                tar.addfile(info, io.BytesIO(data))
        return tmp_path / "archive"

    return make


@pytest.fixture
def make_zip(tmp_path):
    def make(*members):
        with zipfile.ZipFile(tmp_path / "archive", "w", zipfile.ZIP_DEFLATED) as content:
            for name, data in members:
                content.writestr(name, data)
        return tmp_path / "archive"

    return make


def refused(archive, place, match, **options):
    """Asserts that the archive is refused with one line and that nothing remains."""
    before = sorted(place.parent.iterdir())
    with pytest.raises(ArchiveError, match=match) as caught:
        unpack(archive, place / "model", **options)
    assert "\n" not in str(caught.value)
    assert os.listdir(place) == []
    assert sorted(place.parent.iterdir()) == before


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_the_top_folder_is_stripped(make, make_zip, place, mode):
    members = [folder("top"), member("top/a", data=b"1"), member("./top/sub/b", data=DATA)]
    zipped = [("top/a", b"1"), ("top/sub/b", DATA), ("__MACOSX/top/._a", b"2")]
    archive = make_zip(*zipped) if mode == "zip" else make(*members, mode=mode)
    unpack(archive, place / "model")
    assert os.listdir(place) == ["model"]
    assert (place / "model" / "a").read_bytes() == b"1"
    assert (place / "model" / "sub" / "b").read_bytes() == DATA


def test_modes_and_owners_are_those_of_new_files(make, place):
    unpack(make(folder("t/d", 0o7777), member("t/d/f", mode=0o6777)), place / "model")
    (place / "file").touch()
    (place / "folder").mkdir()
    for made, like in [("d/f", "file"), ("d", "folder"), ("", "folder")]:
        made, like = os.stat(place / "model" / made), os.stat(place / like)
        assert stat.filemode(made.st_mode) == stat.filemode(like.st_mode)
        assert (made.st_uid, made.st_gid) == (like.st_uid, like.st_gid)


GOOD = member("t/good", data=b"1")
# Sparse files unpack to any size, without a byte in the archive for it.
SPARSE = member("t/holes", data=b"0\n".ljust(512, b"\0"))
SPARSE[0].pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
SPARSE[0].pax_headers |= {"GNU.sparse.name": "t/holes", "GNU.sparse.realsize": str(2**20)}
OUTSIDE = "evil' would be extracted to .* outside"
SPECIAL = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"?")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        *(
            ([GOOD, member(f"{above}evil", data=b"1")], OUTSIDE)
            for above in ("../", "t/../../", "t/x/../../../")
        ),
        ([GOOD, folder("../evil")], OUTSIDE),
        *(
            (
                [GOOD, member(f"{folder}special", kind, link="t/good")],
                "is neither a regular file nor",
            )
            for kind in SPECIAL
            for folder in ("t/", "")
        ),
        ([GOOD, SPARSE], "'t/holes' is neither a regular file"),
        ([GOOD, *[member("t/long", tarfile.XHDTYPE)] * 3000], "damaged"),
        ([member("file", data=b"1")], "has 0 top-level folders instead of one"),
        ([folder("t"), folder("u")], "has 2 top-level folders instead of one"),
    ],
)
def test_unsafe_members_are_refused(make, place, members, message):
    refused(make(*members, mode="w"), place, message)


def too_large(archive, place, **options):
    """Asserts that the archive is refused only for its size."""
    with pytest.raises(UserError, match="unpacks to more than .* --max_unpacked_gb") as caught:
        unpack(archive, place / "model", **options)
    assert not isinstance(caught.value, ArchiveError)
    assert os.listdir(place) == []


class TestSize:
    def test_a_bomb_is_refused(self, make, place):
        """Zeros shrink by a factor of 1000."""
        archive = make(member("t/zeros", data=bytes(110_000_000)))
        too_large(archive, place)
        unpack(archive, place / "model", max_bytes=111_000_000)
        assert (place / "model" / "zeros").stat().st_size == 110_000_000

    def test_all_bytes_count(self, make, place):
        """Those of skipped members, and those after the end of the archive."""
        for name in ("t/a", "left_out"):
            archive = make(*(member(f"{name}{k}", data=bytes(5000)) for k in range(4)))
            too_large(archive, place, max_bytes=20_000)
        archive = make(GOOD, mode="w")
        archive.write_bytes(gzip.compress(archive.read_bytes() + bytes(10_000_000)))
        too_large(archive, place, max_bytes=5_000_000)

    def test_the_default_limit_refuses_20_gb(self, make, place):
        info, _ = member("t/a")
        info.size = 20 * 10**9
        archive = make(mode="w")
        archive.write_bytes(info.tobuf() + bytes(1024))
        os.truncate(archive, 10**9)  # so that the compression ratio is not the reason
        too_large(archive, place)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_a_damaged_archive_is_refused(make, place, mode):
    """Truncated anywhere, overwritten, replaced by a page, or with another checksum."""
    numbers = b" ".join(b"%d" % i for i in range(50_000))
    archive = make(member("t/a", data=numbers), member("t/b", data=DATA), mode=mode)
    whole = archive.read_bytes()
    content, middle = whole.rstrip(b"\0"), len(whole) // 3
    damaged = [content[: int(len(content) * kept)] for kept in (0.999, 0.5, 0.02, 0.0)]
    damaged += [b"<html>log in</html>", content[:middle] + b"\xff" * 100 + content[middle + 100 :]]
    for bad in damaged:
        archive.write_bytes(bad)
        refused(archive, place, "damaged, unsafe, or not an archive")
    if mode == "w:gz":
        archive.write_bytes(whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:])
        refused(archive, place, "CRC")


def with_header(archive, header):
    """Returns an archive of one file and a header without the data that it announces."""
    archive.write_bytes(archive.read_bytes()[:1024] + header + bytes(1024))
    return archive


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_refused(make, place, kind):
    """A header of 8 GB, which a packed tar file of a few MB can hold."""
    info, _ = member("t/long", kind)
    info.size = 8 << 30
    archive = with_header(make(GOOD, mode="w"), info.tobuf(tarfile.GNU_FORMAT))
    refused(archive, place, "a header announces 8589934592 bytes")


@pytest.mark.parametrize("size", [-512, 2**70], ids=["negative", "huge"])
@pytest.mark.parametrize("name", ["t/a", "left_out"])
def test_an_impossible_size_is_refused_and_does_not_hang(make, place, name, size):
    header = bytearray(member(name)[0].tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (size % 2**96).to_bytes(12, "big")
    header[124] |= 0x80  # the mark of a binary number
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    archive = with_header(make(GOOD, mode="w"), header)
    if size < 0:
        refused(archive, place, "announces -512 bytes")
    else:
        too_large(archive, place)


def test_any_damaged_byte_is_one_error_or_harmless(make, tmp_path, place):
    """No file is ever written elsewhere."""
    members = [member("t/" + "n" * 120, data=b"1" * 600), folder("t/d")]
    whole = make(*members, mode="w").read_bytes()
    source = random.Random(3)
    refusals = 0
    for count in range(100):
        content = bytearray(whole)
        content[source.randrange(len(whole) // 4)] = source.choice(b"\0\xff/.-079x")
        (tmp_path / "archive").write_bytes(content)
        try:
            unpack(tmp_path / "archive", place / str(count))
        except UserError:
            refusals += 1
            assert not (place / str(count)).exists()
    assert 20 < refusals < 100
    assert sorted(os.listdir(tmp_path)) == ["archive", "out"]
    assert len(os.listdir(place)) == 100 - refusals


class TestZip:
    @pytest.mark.parametrize("name", ["../evil", "t/../../evil", "{}/evil", "/../evil", None])
    def test_nothing_is_written_outside_the_folder(self, make_zip, place, tmp_path, name):
        """Nor through a link."""
        (tmp_path / "victim").mkdir()
        link = zipfile.ZipInfo("t/d")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        through_it = [(link, str(tmp_path / "victim")), ("t/d/evil", b"2")]
        members = [(name.format(tmp_path), b"2")] if name else through_it
        with contextlib.suppress(ArchiveError, OSError):
            unpack(make_zip(("t/good", b"1"), *members), place / "model")
        assert sorted(os.listdir(tmp_path)) == ["archive", "out", "victim"]
        assert not os.listdir(tmp_path / "victim") and not (place / "evil").exists()

    def test_a_bomb_and_a_damaged_zip_are_refused(self, make_zip, place):
        archive = make_zip(*((f"t/zeros{k}", bytes(3_000)) for k in range(4)))
        too_large(archive, place, max_bytes=11_999)
        unpack(archive, place / "model", max_bytes=12_000)
        shutil.rmtree(place / "model")
        content = bytearray(make_zip(("t/a", DATA)).read_bytes())
        content[len(DATA) // 2] ^= 1
        archive.write_bytes(content)
        refused(archive, place, "damaged.*CRC")
