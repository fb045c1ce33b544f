"""What may be uploaded, and how everything else is refused."""

import io
import stat
import struct
import zipfile

import pytest

from portal.core.errors import Refusal
from portal.submissions.uploads import bundle_from_files, bundle_from_text, bundle_from_upload
from tests.evaluator import odd_archives

SOLUTION = "def solution(tensor):\n    return tensor\n"
LIMIT = 512 * 1024


def packed(*members, compression=zipfile.ZIP_DEFLATED):
    """A zip of (name or ZipInfo, content) pairs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def refused(name, content):
    with pytest.raises(Refusal) as caught:
        bundle_from_upload(name, content)
    assert caught.value.field == "file"
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


def test_pasted_text_becomes_solution_py():
    bundle = bundle_from_text(SOLUTION)
    assert [file.path for file in bundle.files] == ["solution.py"]
    assert bundle.entry == SOLUTION


def test_one_python_file_becomes_solution_py_whatever_its_name():
    assert bundle_from_upload("My Kernel.PY", SOLUTION.encode()) == bundle_from_text(SOLUTION)


def test_line_ends_and_byte_order_mark_do_not_change_the_identity():
    windows = b"\xef\xbb\xbf" + SOLUTION.replace("\n", "\r\n").encode()
    assert bundle_from_upload("a.py", windows).digest == bundle_from_text(SOLUTION).digest


def test_a_zip_keeps_its_further_sources_sorted():
    content = packed(("src/k.cu", "// k"), ("solution.py", SOLUTION), ("src/k.cuh", ""), ("a.cpp", "//"), ("b.h", "//"))
    bundle = bundle_from_upload("x.zip", content)
    assert [file.path for file in bundle.files] == ["a.cpp", "b.h", "solution.py", "src/k.cu", "src/k.cuh"]


def test_folders_in_a_zip_are_no_files():
    folder = zipfile.ZipInfo("src/")
    assert len(bundle_from_upload("x.zip", packed((folder, ""), ("solution.py", SOLUTION))).files) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.py", b""),
        ("a.py", b"  \n\t\n"),
        ("a.py", b"\xff\xfe\x00d"),
        ("a.py", b"x = '\xe9'\n"),
        ("a.py", b"x = 1\0\n"),
        ("a.txt", SOLUTION.encode()),
        ("a.tar.gz", SOLUTION.encode()),
        ("noextension", SOLUTION.encode()),
        ("a.zip", b"not a zip"),
        ("a.zip", packed()),
        ("a.zip", packed(("other.py", SOLUTION))),
        ("a.zip", packed(("src/solution.py", SOLUTION))),
        ("a.zip", packed(("solution.py", SOLUTION))[:-30]),
        ("a.zip", packed(("solution.py", SOLUTION), ("lib.so", b"\x7fELF"))),
        ("a.zip", packed(("solution.py", SOLUTION), ("Makefile", "all:"))),
        ("a.zip", packed(("solution.py", b"\x80abc"))),
        ("a.zip", packed(("solution.py", ""))),
    ],
)
def test_what_is_not_source_text_is_refused(name, content):
    assert refused(name, content).status == 422


@pytest.mark.parametrize(
    "path",
    [
        "../evil.py",
        "/etc/evil.py",
        "a/../../evil.py",
        "a/../evil.py",
        "C:/evil.py",
        "a\\..\\evil.py",
        "./a.py",
        "a//b.py",
        "~/evil.py",
        "a\nb.py",
        "a" * 300 + ".py",
        "\u00e9" * 150 + ".py",
    ],
)
def test_a_path_outside_the_archive_is_refused(path):
    refusal = refused("a.zip", packed(("solution.py", SOLUTION), (path, "x = 1\n")))
    assert refusal.status == 422


def test_a_link_is_refused():
    link = zipfile.ZipInfo("link.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "link" in refused("a.zip", packed(("solution.py", SOLUTION), (link, "/etc/passwd"))).message


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("twin", ["solution.py", "Solution.py"])
def test_a_path_that_stands_twice_is_refused(twin):
    assert "twice" in refused("a.zip", packed(("solution.py", SOLUTION), (twin, "x = 1\n"))).message


@pytest.mark.parametrize("path", ["a.py/b.py", "A.py/b.py", "a.py/b/c.py"])
def test_a_path_that_is_file_and_folder_is_refused(path):
    refusal = refused("x.zip", packed(("solution.py", SOLUTION), ("a.py", ""), (path, "")))
    assert "folder" in refusal.message
    assert refusal.value == path


@pytest.mark.parametrize("files", [{"solution.py": SOLUTION, "a\ud800.py": ""}, {"solution.py": SOLUTION + "#\ud800"}])
def test_files_that_cannot_be_utf8_are_refused(files):
    with pytest.raises(Refusal):
        bundle_from_files(files)


def test_an_encrypted_archive_is_refused():
    content = bytearray(packed(("solution.py", SOLUTION)))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.index(signature) + offset
        content[at] |= 1
    assert "encrypted" in refused("a.zip", bytes(content)).message


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_cannot_be_stopped_at_a_size_is_refused(compression):
    """Both unpack by the block: 350 bytes took 600 MB of memory before a byte was counted."""
    assert "compression method" in refused("a.zip", packed(("solution.py", SOLUTION), compression=compression)).message


def test_damaged_contents_are_refused():
    content = bytearray(packed(("solution.py", SOLUTION * 50)))
    content[60:70] = b"\xff" * 10
    assert refused("a.zip", bytes(content)).status == 422


@pytest.mark.parametrize("archive", odd_archives.UNREADABLE)
def test_an_archive_that_cannot_be_read_is_refused(archive):
    assert refused("a.zip", odd_archives.unreadable(archive)).status == 422


@pytest.mark.parametrize("name", ["a.py", "a.zip"])
def test_two_megabytes_are_too_large(name):
    assert refused(name, b"#" * 2_000_000).status == 413


def test_the_limit_counts_all_files_together():
    half = "#" * (LIMIT // 2)
    assert refused("a.zip", packed(("solution.py", half), ("b.py", half + "##"))).status == 413
    fits = bundle_from_upload("a.zip", packed(("solution.py", half), ("b.py", half)))
    assert len(fits.files) == 2


def test_a_bomb_is_refused_by_its_declared_size():
    assert refused("a.zip", packed(("solution.py", "#" * 300_000_000))).status == 413


def test_a_bomb_that_lies_about_its_size_is_refused():
    content = bytearray(packed(("solution.py", "#" * 50_000_000)))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.index(signature) + offset
        content[at : at + 4] = struct.pack("<I", 100)
    assert refused("a.zip", bytes(content)).status in (413, 422)


def test_too_many_files_are_refused():
    members = [("solution.py", SOLUTION), *((f"f{number}.py", "#") for number in range(100))]
    assert refused("a.zip", packed(*members)).status == 413


def test_text_that_cannot_be_utf8_is_refused():
    with pytest.raises(Refusal):
        bundle_from_text("x = '\ud800'")
