"""The files of public data: made apart, served as they are, to so many readers at once."""

import io
import json
import zipfile
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evaluator.contract import SCORE_RULE
from portal.api import catalog_views
from portal.exports import files, tables
from portal.runs import actions
from portal.submissions.models import Submission
from problems import registry
from tests.portal.api.problem import assert_problem
from tests.portal.runs.rows import add, end, line, make_run
from tests.portal.test_boards import enter

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/exports/runs/?format=jsonl"


@pytest.fixture(autouse=True)
def exports(exports_here):
    return exports_here


def rows_of(client, address=RUNS):
    return [json.loads(entry) for entry in b"".join(client.get(address)).splitlines()]


@pytest.fixture
def published(alice, node):
    run = make_run(alice)
    end(add(run, line()).results[0].attempt, node, low=1.5)
    return actions.publish_run(run, by=alice, sources="public")


def test_before_the_first_version_the_answer_says_when_to_come_back(anonymous):
    answer = anonymous.get(RUNS)
    assert_problem(answer, status=503)
    assert int(answer["Retry-After"]) == 60


def test_what_is_served_is_the_last_version(anonymous, alice, published):
    call_command("make_exports", verbosity=0)
    response = anonymous.get(RUNS)
    assert response["Last-Modified"]
    body = b"".join(response)
    assert len(body) == int(response["Content-Length"])
    assert json.loads(body)["run"] == str(published.pk)
    actions.decide(published, kind="quarantined", reason="looks copied", by=_operator(alice))
    assert len(rows_of(anonymous)) == 1
    files.make(now=timezone.now())
    assert rows_of(anonymous) == []


def _operator(user):
    user.is_staff = True
    user.save()
    return user


def test_the_whole_data_set_describes_itself(anonymous, published):
    files.make(now=timezone.now())
    response = anonymous.get("/api/v1/exports/dataset/")
    with zipfile.ZipFile(io.BytesIO(b"".join(response))) as packed:
        described = json.loads(packed.read("schema.json"))
        assert set(described) == set(tables.TABLES)
        for table, about in described.items():
            names = [column["name"] for column in about["columns"]]
            assert all(list(json.loads(row)) == names for row in packed.read(f"{table}.jsonl").splitlines())
            assert all(column["meaning"] for column in about["columns"])
        assert len(packed.read("problems.jsonl").splitlines()) == len(registry.problems())
        card = packed.read("README.md").decode()
        assert "| attempts | 1 |" in card
        assert "| leaderboards | 0 |" in card


def test_old_versions_are_removed_and_whoever_reads_one_reads_on(anonymous, exports, published):
    now = timezone.now()
    files.make(now=now - timedelta(hours=3))
    reading = anonymous.get(RUNS)
    for hours in (2, 1, 0):
        files.make(now=now - timedelta(hours=hours))
    assert len([path for path in exports.iterdir() if path.is_dir()]) == 2
    assert json.loads(b"".join(reading))["run"] == str(published.pk)


def test_a_process_that_fails_or_is_killed_leaves_nothing_for_long(anonymous, exports, published, monkeypatch):
    now = timezone.now()
    files.make(now=now)
    (exports / f"{now:%Y%m%d-%H%M%S}-zzzzzzzz").mkdir()  # of one that was killed
    monkeypatch.setattr(files, "_write_all", _disk_full)
    with pytest.raises(OSError, match="No space left"):
        files.make(now=now + timedelta(minutes=10))
    assert [path for path in exports.iterdir() if path.is_dir()] == [files.newest().folder]
    assert len(rows_of(anonymous)) == 1


def _disk_full(folder, **_):
    (folder / "attempts.csv").write_text("half of it")
    raise OSError(28, "No space left on device")


def test_a_version_stays_although_the_clock_went_back(anonymous, published):
    now = timezone.now()
    for hours in (3, 2, 0):
        files.make(now=now + timedelta(hours=hours))
    assert [row["run"] for row in rows_of(anonymous)] == [str(published.pk)]


def test_a_note_that_a_power_failure_emptied_is_written_anew(anonymous, exports, published):
    files.make(now=timezone.now())
    (exports / "newest.json").write_text("")
    assert_problem(anonymous.get(RUNS), status=503)
    files.make(now=timezone.now())
    assert len(rows_of(anonymous)) == 1


def test_two_processes_do_not_make_them_at_once(exports):
    exports.mkdir()
    with files.only_one() as is_first:
        assert is_first
        assert files.make(now=timezone.now()) is None


def test_a_version_that_takes_long_is_not_repeated_at_once(exports):
    now = timezone.now()
    quick = files.ExportVersion(name="v", made_at=now, took_s=1)
    slow = files.ExportVersion(name="v", made_at=now, took_s=120)
    assert quick.due_at == now + timedelta(minutes=10)
    assert slow.due_at == now + timedelta(minutes=40)


def test_only_so_many_download_at_a_time(anonymous, alice, alices, published):
    files.make(now=timezone.now())
    held = [anonymous.get(RUNS) for _ in range(catalog_views.DOWNLOADS)]
    refused = alices.get(f"/api/v1/runs/{published.pk}/export/")
    assert_problem(refused, status=429)
    assert refused["Retry-After"] == "5"
    for response in held:
        assert len(list(response)) == 1
    assert len(rows_of(alices, f"/api/v1/runs/{published.pk}/export/?format=jsonl")) == 1
    # As many as before may run again, so each was counted as ended.
    for response in [anonymous.get(RUNS) for _ in range(catalog_views.DOWNLOADS)]:
        assert len(list(response)) == 1


def test_somebody_without_a_token_fetches_only_so_often(anonymous, alices, published, monkeypatch):
    files.make(now=timezone.now())
    cache.clear()
    monkeypatch.setattr(catalog_views.ExportRate, "THROTTLE_RATES", {"exports": "2/hour"})
    for _ in range(2):
        rows_of(anonymous)
    refused = anonymous.get("/api/v1/exports/models/")
    assert_problem(refused, status=429)
    assert int(refused["Retry-After"]) > 60
    assert len(rows_of(alices)) == 1


def test_every_table_with_scores_says_by_which_rule(anonymous, alice, published, node):
    files.make(now=timezone.now())
    for name in ("runs", "attempts", "evaluations"):
        (row,) = rows_of(anonymous, f"/api/v1/exports/{name}/?format=jsonl")
        assert row["score_rule"] == SCORE_RULE, name


def test_a_table_is_read_in_one_query_without_what_no_column_shows(alice, published, node, now):
    def statements(name):
        with CaptureQueriesContext(connection) as asked:
            rows = list(tables.TABLES[name].rows())
        return len(rows), [each["sql"] for each in asked]

    for number in range(3):
        enter(alice, node, now, low=1.0 + number)
        Submission.objects.update(visibility="public")
        for name in ("leaderboards", "attempts", "evaluations"):
            rows, asked = statements(name)
            assert rows, name
            assert len(asked) == 1, (name, asked)
            # 2000 sources of half a megabyte each are a gigabyte.
            assert "bundle" not in asked[0], name
