"""Archives that cannot be read: each way of failing is one that the judge knows."""

import io
import zipfile
from pathlib import Path

import pytest

from evaluator.judging.source_files import ARCHIVE_ERRORS
from evaluator.sources import SourceError, read_source
from tests.evaluator import odd_archives


@pytest.mark.parametrize("name", odd_archives.UNREADABLE)
def test_each_way_of_failing_is_known(name: str) -> None:
    with pytest.raises(ARCHIVE_ERRORS) as caught, zipfile.ZipFile(io.BytesIO(odd_archives.unreadable(name))) as archive:
        archive.read(archive.infolist()[0])
    # Newer versions of Python look at sizes first, and say of some that they are no archive.
    assert caught.type in (odd_archives.UNREADABLE[name][0], zipfile.BadZipFile)


@pytest.mark.parametrize("name", odd_archives.UNREADABLE)
def test_an_archive_that_cannot_be_read_is_refused_with_a_reason(tmp_path: Path, name: str) -> None:
    path = tmp_path / "submission.zip"
    path.write_bytes(odd_archives.unreadable(name))
    with pytest.raises(SourceError, match=r"as a zip archive: \S"):
        read_source(path)


def test_an_archive_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        read_source(tmp_path / "none.zip")
