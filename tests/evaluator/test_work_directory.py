"""A judge's folder: removed at the end, or by the next judge when its owner was killed."""

import os
import shutil
from pathlib import Path

from evaluator.host.sandbox.slot_claims import WorkDirectory


def aged(folder: Path) -> None:
    os.utime(folder / "lock", (0, 0))


def test_closed_work_directory_is_gone(tmp_path: Path) -> None:
    own = WorkDirectory(tmp_path)
    (own.path / "group").mkdir()
    own.close()
    own.close()
    assert not list(tmp_path.iterdir())


def test_folder_of_a_killed_judge_is_swept_and_a_living_ones_stays(tmp_path: Path) -> None:
    living = WorkDirectory(tmp_path)
    aged(living.path)
    abandoned = tmp_path / "pkb-judge-abandoned"
    shutil.copytree(living.path, abandoned)
    aged(abandoned)
    other = WorkDirectory(tmp_path)
    assert not abandoned.exists()
    assert living.path.is_dir()
    other.close()
    living.close()


def test_folder_that_is_not_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "somebody").mkdir()
    WorkDirectory(tmp_path).close()
    assert (tmp_path / "somebody").is_dir()
