"""The cache of builds: what is kept, what is removed, and what other processes may remove meanwhile."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.contract import BuildResult, MachineCode
from evaluator.host.building.build_cache import BuildCache, KeptBuild
from evaluator.host.building.build_record import BuildRecord

ROOT = Path(__file__).parents[2]
MODULE = b"\x7fELF" * 250


def a_build(module: bytes = MODULE) -> KeptBuild:
    """A build of one module of 1,000 bytes."""
    digest = hashlib.sha256(module).hexdigest()
    result = BuildResult(succeeded=True, seconds=1.0, cached=False, artefacts={"m.so": digest})
    return KeptBuild(record=BuildRecord(result=result), modules={"m.so": module})


def is_whole(cache: BuildCache, key: str) -> bool:
    """Whether the build is kept as it was made."""
    kept = cache.get(key)
    return kept is not None and kept.modules == {"m.so": MODULE}


def test_a_kept_build_is_found_again_and_says_so(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "builds")
    cache.put("one", a_build())
    kept = cache.get("one")
    assert kept is not None
    assert kept.record.result.cached
    assert kept.modules == {"m.so": MODULE}


def test_a_build_that_was_removed_is_built_again(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    assert cache.get("one") is None
    cache.put("one", a_build())
    shutil.rmtree(cache.entry("one"))
    assert cache.get("one") is None


def test_what_is_gone_while_others_are_removed_costs_no_verdict(tmp_path: Path) -> None:
    """A link that leads nowhere is listed, and its target is gone: as is a build that another slot removes."""
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    cache = BuildCache(tmp_path, limit_bytes=1)
    cache.put("one", a_build())
    cache.put("two", a_build())
    assert cache.get("gone") is None
    assert cache.get("one") is None
    assert cache.get("two") is not None


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("m.so", None),
        ("m.so", b""),
        ("m.so", MODULE[:-1] + b"?"),
        ("record.json", None),
        ("record.json", b""),
        ("record.json", b'{"schema":"of another version"}'),
        ("record.json", b"\xff"),
    ],
    ids=["no module", "empty module", "changed module", "no record", "empty record", "another record", "no text"],
)
def test_a_damaged_build_is_made_again_and_kept(tmp_path: Path, file: str, content: bytes | None) -> None:
    """As after a power failure, a node that was killed as it removed the build, or an update of the judge."""
    cache = BuildCache(tmp_path)
    cache.put("one", a_build())
    if content is None:
        (cache.entry("one") / file).unlink()
    else:
        (cache.entry("one") / file).write_bytes(content)
    assert cache.get("one") is None
    cache.put("one", a_build())
    assert is_whole(cache, "one")


def test_damaged_machine_code_is_listed_again(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    cache.put("one", a_build())
    cache.put_code("one", MachineCode(note="whole"))
    assert cache.code("one") == MachineCode(note="whole")
    (cache.entry("one") / "code.json").write_bytes(b"{")
    assert cache.code("one") is None
    shutil.rmtree(cache.entry("one"))
    cache.put_code("one", MachineCode())
    assert not cache.entry("one").exists()


def test_a_disk_that_takes_nothing_costs_no_evaluation_and_keeps_no_half(tmp_path: Path) -> None:
    """The file system is full after the first of two modules."""
    script = f"""
import resource, signal
from pathlib import Path
from tests.evaluator.test_build_cache import MODULE, a_build
from evaluator.host.building.build_cache import BuildCache, KeptBuild
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (len(MODULE), len(MODULE)))
build = a_build()
large = KeptBuild(record=build.record, modules={{**build.modules, "n.so": MODULE * 2}})
BuildCache(Path({str(tmp_path)!r})).put("one", large)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be kept" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_build_that_another_slot_is_writing_is_not_removed(tmp_path: Path) -> None:
    writing, abandoned = tmp_path / ".writing", tmp_path / ".abandoned"
    for folder in (writing, abandoned):
        folder.mkdir()
        (folder / "m.so").write_bytes(MODULE)
    day_ago = time.time() - 86_400
    os.utime(abandoned, (day_ago, day_ago))
    cache = BuildCache(tmp_path, limit_bytes=1)
    cache.put("one", a_build())
    cache.put("two", a_build())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".writing", "two"]


def test_a_build_in_use_stays_whole_when_others_remove_it(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path, limit_bytes=1)
    cache.put("one", a_build())
    kept = cache.get("one")
    cache.put("two", a_build())
    assert not cache.entry("one").exists()
    assert kept is not None
    assert kept.modules == {"m.so": MODULE}


@pytest.mark.parametrize("seed", range(3))
def test_builders_that_remove_builds_at_the_same_time_do_not_disturb_each_other(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caches = [BuildCache(tmp_path, limit_bytes=30_000) for _ in range(4)]

    def keep(cache: BuildCache, key: str) -> None:
        cache.put(key, a_build())
        cache.get(key)

    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(keep, cache, f"{seed}-{(number + turn) % 50}")
            for turn in range(60)
            for number, cache in enumerate(caches)
        ]
        assert [each.exception() for each in done] == [None] * len(done)
    assert "cannot be kept" not in caplog.text
    assert all(is_whole(caches[0], path.name) for path in tmp_path.iterdir())
