"""Runs through the client: filled from files, interrupted, followed, exported, published; and solution trees."""

import contextlib
import csv
import io
import json
import os
import sqlite3
import urllib.request
import zipfile

import pytest

from pkb import NewAttempt, NewRun, UsageError
from pkb.attempt_files import read_attempts
from tests.client.network import CuttingProxy
from tests.client.programs import RIGHT

# The site stores these as failed attempts without a judge, so that no test waits for one.
NO_SOLUTION = "wrong = 1\n"
RESERVED_SECONDS = 30
"""What a waiting evaluation holds of its organisation's quota on each GPU, as the site is started for these tests."""


@pytest.fixture
def run(alice):
    """A run of a model with a name of its own."""
    return alice.runs.create(
        NewRun(model=f"model {os.urandom(4).hex()}", mode="best_of_k", profile="cpux2", k=100, provider="Acme")
    )


def write_attempts(path, number, **changes):
    attempts = [
        {"problem": "allreduce", "sample": sample, "source": f"{NO_SOLUTION}# {sample}\n"} | changes
        for sample in range(number)
    ]
    path.write_text("".join(json.dumps(attempt) + "\n" for attempt in attempts))


def test_an_upload_cut_in_the_middle_is_sent_again_and_stored_once(command, site, alice, run, tmp_path):
    write_attempts(tmp_path / "attempts.jsonl", 100, trajectory="a long thought " * 40)
    with CuttingProxy(site.stack.port, after=50_000) as proxy:
        done = command("run", "upload", run.id, "attempts.jsonl", "--site", proxy.url, "--json")
        assert (done.status, proxy.cuts) == (0, 1), done.err
    assert "Trying again" in done.err
    said = json.loads(done.out)
    assert (sum(said["counts"].values()), said["sent"], set(said["counts"])) == (100, 100, {"created"})
    again = json.loads(command("run", "upload", run.id, "attempts.jsonl", "--json").out)
    assert (again["sent"], again["counts"]) == (0, {"repeated": 100})
    assert alice.runs.get(run.id).attempts == 100


def test_a_broken_upload_goes_on_by_the_same_command(command, site, alice, run, tmp_path):
    write_attempts(tmp_path / "attempts.jsonl", 10)
    arguments = ("run", "upload", run.id, "attempts.jsonl")
    with CuttingProxy(site.stack.port, after=500) as proxy:
        done = command(*arguments, "--site", proxy.url, "--patience", "0")
        assert (done.status, proxy.cuts) == (4, 1)
    assert "cannot be reached" in done.err
    # Of what had arrived before the cut nothing was stored.
    said = json.loads(command(*arguments, "--json").out)
    assert (said["sent"], sum(said["counts"].values()), "refused" in said["counts"]) == (10, 10, False)
    assert alice.runs.get(run.id).attempts == 10


def test_a_refused_line_is_named_and_the_others_are_stored(command, alice, run, tmp_path):
    write_attempts(tmp_path / "attempts.jsonl", 2)
    with (tmp_path / "attempts.jsonl").open("a") as lines:
        lines.write(json.dumps({"problem": "alreduce", "source": NO_SOLUTION}) + "\n")
    done = command("run", "upload", run.id, "attempts.jsonl")
    assert (done.status, done.out) == (3, "attempts.jsonl: 2 created, 1 refused of 3; sent by this call: 3\n")
    assert "alreduce/0/0: refused; problem 'alreduce': There is no problem" in done.err
    assert alice.runs.get(run.id).attempts == 2


def test_a_line_that_is_no_attempt_is_found_before_anything_is_sent(command, alice, run, tmp_path):
    write_attempts(tmp_path / "attempts.jsonl", 2)
    with (tmp_path / "attempts.jsonl").open("a") as lines:
        lines.write('{"source": "no problem"}\n')
    done = command("run", "upload", run.id, "attempts.jsonl")
    assert (done.status, done.out) == (2, "")
    assert "attempts.jsonl, line 3 is not an attempt: Object missing required field `problem`" in done.err
    assert alice.runs.get(run.id).attempts == 0


def test_folders_and_zips_hold_the_same_attempts(command, alice, run, tmp_path):
    places = {"allreduce/0": "solution.py", "allreduce/1/3": "solution.py", "reducescatter/0": "solution.py"}
    for place, name in places.items():
        folder = tmp_path / "tree" / place
        folder.mkdir(parents=True)
        (folder / name).write_text(NO_SOLUTION)
    (tmp_path / "tree/allreduce/0/lib").mkdir()
    (tmp_path / "tree/allreduce/0/lib/kernel.cu").write_text("// one")
    with zipfile.ZipFile(tmp_path / "tree.zip", "w") as archive:
        for path in sorted((tmp_path / "tree").rglob("*.*")):
            archive.write(path, path.relative_to(tmp_path / "tree"))
    attempts = list(read_attempts(tmp_path / "tree"))
    assert attempts == list(read_attempts(tmp_path / "tree.zip"))
    assert [(attempt.problem, attempt.sample, attempt.step) for attempt in attempts] == [
        ("allreduce", 0, 0),
        ("allreduce", 1, 3),
        ("reducescatter", 0, 0),
    ]
    assert attempts[0].files == {"lib/kernel.cu": "// one", "solution.py": NO_SOLUTION}
    assert command("run", "upload", run.id, "tree").status == 0
    assert {attempt.key for attempt in alice.runs.attempts(run.id)} == {attempt.identity for attempt in attempts}


def test_what_holds_no_attempts_is_refused(tmp_path):
    (tmp_path / "tree/allreduce/first").mkdir(parents=True)
    (tmp_path / "tree/allreduce/first/solution.py").write_text(RIGHT)
    with pytest.raises(UsageError, match=r"allreduce/first/solution\.py is not at SLUG/SAMPLE"):
        list(read_attempts(tmp_path / "tree"))
    (tmp_path / "empty.zip").write_bytes(b"no zip")
    for name, words in (
        ("empty.zip", "is not a zip archive"),
        ("tree/allreduce/first/solution.py", "is neither .jsonl"),
    ):
        with pytest.raises(UsageError, match=words):
            list(read_attempts(tmp_path / name))


def test_watch_export_and_publish(command, site, alice, run, tmp_path):
    alice.runs.add_attempt(run.id, NewAttempt(problem="allreduce", source=NO_SOLUTION, tokens_in=5, cost_usd=0.5))
    alice.runs.add_attempt(run.id, NewAttempt(problem="allreduce", sample=1, source="def solution(:", mode="check"))
    watched = [json.loads(line) for line in command("run", "watch", run.id, "--json").out.splitlines()]
    assert [event["verdict"] for event in watched if event["kind"] == "attempt.ended"] == ["IMPORT_ERROR"] * 2
    assert watched[-1]["kind"] == "run.completed"

    written = command("run", "export", run.id, "--format", "csv", "--output", "rows.csv")
    assert written.status == 0, written.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert [(row["problem"], row["sample"], row["verdict"]) for row in rows] == [
        ("allreduce", "0", "IMPORT_ERROR"),
        ("allreduce", "1", "IMPORT_ERROR"),
    ]
    published = command("run", "publish", run.id)
    assert "published" in published.out
    with urllib.request.urlopen(run.url) as answer:
        assert json.load(answer)["state"] == "published"
    assert command("run", "upload", run.id, "rows.csv").status == 2
    assert run.id in command("run", "list", "--state", "published").out


def test_a_solution_tree_becomes_a_run(command, tmp_path):
    tree = tmp_path / "solutions_pytorch_bf16_H100_8_acme_writer-1"
    tree.mkdir()
    (tree / "1_allreduce_pytorch.py").write_text(NO_SOLUTION)
    (tree / "999_no_such_thing_pytorch.py").write_text(NO_SOLUTION)
    lacking = command("import-tree", tree, "--yes")
    assert lacking.status == 3
    assert "provider: acme" in lacking.out
    assert "one of h100x8, h100x8-nomc. Nodes are online for cpux2." in lacking.err
    shown = command("import-tree", tree, "--profile", "cpux2")
    assert "1_allreduce_pytorch.py\tallreduce\tpytorch\tby slug" in shown.out
    assert shown.err == "No run was created; add --yes to create it.\n"
    done = command("import-tree", tree, "--profile", "cpux2", "--json", "--yes")
    assert done.status == 3, done.err
    said = json.loads(done.out)
    assert [(match["problem"], match["by"]) for match in said["matched"]] == [("allreduce", "slug")]
    assert ["no_such_thing" in missing["path"] for missing in said["unmatched"]] == [True]
    assert (said["run"]["backend"], said["run"]["model"]["provider"], said["run"]["attempts"]) == ("pytorch", "acme", 1)


def test_what_is_over_quota_is_sent_later_by_the_same_command(command, site, alice, tmp_path):
    reserved_gpu_s = 8 * RESERVED_SECONDS
    made = alice.runs.create(NewRun(model="greedy", mode="best_of_k", k=3, profile="h200x8-nomc"))
    write_attempts(tmp_path / "attempts.jsonl", 3)
    lines = (tmp_path / "attempts.jsonl").read_text().replace(json.dumps(NO_SOLUTION)[1:-1], json.dumps(RIGHT)[1:-1])
    (tmp_path / "attempts.jsonl").write_text(lines)
    arguments = ("run", "upload", made.id, "attempts.jsonl")

    allow(site, made.organisation, gpu_seconds=2.5 * reserved_gpu_s)
    done = command(*arguments)
    assert (done.status, done.out) == (3, "attempts.jsonl: 2 created, 1 over_quota of 3; sent by this call: 3\n")
    assert "Run the same command in 60 s to send the attempts that are over quota." in done.err
    quota = alice.runs.quota(made.organisation)
    assert (quota.reserved_gpu_s, quota.remaining_gpu_s) == (2 * reserved_gpu_s, 0.5 * reserved_gpu_s)

    none_fits = command(*arguments, "--patience", "0", "--json")
    assert none_fits.status == 3
    assert json.loads(none_fits.err)["retry_after_s"] == 60

    allow(site, made.organisation, gpu_seconds=None)
    assert command(*arguments).out == "attempts.jsonl: 1 created, 2 repeated of 3; sent by this call: 1\n"


def allow(site, organisation, *, gpu_seconds):
    """Set an organisation's quota, as an operator does in the admin."""
    with contextlib.closing(sqlite3.connect(site.stack.data_dir / "pkb.sqlite3")) as database, database:
        database.execute("UPDATE accounts_organisation SET gpu_seconds = ? WHERE slug = ?", (gpu_seconds, organisation))
