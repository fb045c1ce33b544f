"""The cache of builds: what is kept, what is removed, and what other processes may remove meanwhile."""

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.contract import BuildResult
from evaluator.host.building.build_cache import BuildCache
from evaluator.host.building.build_record import BuildRecord

MODULE = b"\x7fELF" * 250


def keep(cache: BuildCache, key: str) -> None:
    """Put a build of one module of 1,000 bytes into the cache."""
    digest = hashlib.sha256(MODULE).hexdigest()
    result = BuildResult(succeeded=True, seconds=1.0, cached=False, artefacts={"m.so": digest})
    cache.put(key, BuildRecord(result=result), {"m.so": MODULE})


def test_a_kept_build_is_found_again_and_says_so(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds")
    keep(cache, "one")
    record = cache.get("one")
    assert record is not None
    assert record.result.cached
    assert cache.artefacts("one", record) == {"m.so": MODULE}


def test_a_build_that_was_removed_is_built_again(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    assert cache.get("one") is None
    keep(cache, "one")
    shutil.rmtree(cache.entry("one"))
    assert cache.get("one") is None


def test_what_is_gone_while_others_are_removed_costs_no_verdict(tmp_path: Path) -> None:
    """A link that leads nowhere is listed, and its target is gone: as is a build that another slot removes."""
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    cache = BuildCache(tmp_path, limit_bytes=1)
    keep(cache, "one")
    keep(cache, "two")
    assert cache.get("gone") is None
    assert cache.get("one") is None
    assert cache.get("two") is not None


@pytest.mark.parametrize("seed", range(3))
def test_builders_that_remove_builds_at_the_same_time_do_not_disturb_each_other(tmp_path: Path, seed: int) -> None:
    caches = [BuildCache(tmp_path, limit_bytes=30_000) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(keep, cache, f"{seed}-{number}-{turn}")
            for turn in range(60)
            for number, cache in enumerate(caches)
        ]
        assert [each.exception() for each in done] == [None] * len(done)
