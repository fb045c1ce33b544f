"""A vendor's way through the API: prompt, run, upload, feed, publication, exports."""

import csv
import hashlib
import io
import json
import re
import zipfile

import pytest
from django.utils import timezone

from portal.accounts.organisations import create_organisation, default_organisation
from portal.exports import files
from portal.runs.models import Attempt, Run
from portal.runs.prompts import AS_PUBLISHED, VERSION, VERSIONS, ZERO_SHOT, prompt_for
from problems import registry
from problems.spec.schema import ArgumentKind
from tests.portal.api.problem import assert_problem
from tests.portal.runs.rows import add, end, line, lines, make_run

pytestmark = pytest.mark.django_db
LINES = "application/x-ndjson"


def create(client, **changes):
    declaration = {"model": "writer", "mode": "best_of_k", "profile": "cpux2", "k": 2} | changes
    response = client.post("/api/v1/runs/", declaration, format="json")
    assert response.status_code == 201, response.content
    return response.json()


def upload(client, run, body, media_type=LINES):
    return client.generic("POST", f"/api/v1/runs/{run['id']}/attempts/bulk/", body, content_type=media_type)


def archive(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for path, text in files.items():
            packed.writestr(path, text)
    return buffer.getvalue()


def test_the_prompt_says_all_that_is_needed_and_its_digest_names_the_text(anonymous):
    response = anonymous.get("/api/v1/problems/gemm_allreduce/prompt/?backend=cuda&profile=h200x8-nomc").json()
    text, problem = response["text"], registry.get("gemm_allreduce")
    assert problem.signature in text
    assert registry.reference_source("gemm_allreduce").strip() in text
    assert "multicast (NVLS) is off" in text
    assert "compile_cuda_extension" in text
    assert response["example"] != "gemm_allreduce"
    assert response["digest"] == hashlib.sha256(f"{response['version']}\n{text}".encode()).hexdigest()
    assert not any(mark in text for mark in ("{%", "{{", "&lt;", "&#x27;"))


def test_every_problem_has_a_prompt_in_every_backend(anonymous):
    for problem in registry.problems():
        answer = anonymous.get(f"/api/v1/problems/{problem.slug}/prompt/?backend=triton&profile=h100x8")
        assert answer.status_code == 200, problem.slug


HINTS = {
    "Merging partial results",
    "Read it carefully",
    "Rules to remember",
    "The pattern, and what the mathematics needs",
    "Unlike the published inputs",
    "Values",
    "What a fast kernel does",
    "What limits it",
    "What varies, and what does not",
    "Where it is used",
}


def sections_of(problem):
    """Title and text of every section of a statement, each on one line."""
    _, *rest = re.split(r"^### (.+)$", registry.statement(problem.slug), flags=re.MULTILINE)
    return list(zip(rest[::2], (" ".join(text.split()) for text in rest[1::2]), strict=True))


def test_the_prompt_keeps_back_what_makes_a_kernel_fast_and_how_inputs_are_drawn():
    for problem in registry.problems():
        prompt = prompt_for(problem.slug, backend="cuda", profile="h100x8").text
        text = " ".join(prompt.split())
        hints = {title: said for title, said in sections_of(problem) if title in HINTS}
        # Which calls there are belongs to what is legal.
        told = hints.pop("What varies, and what does not", "")
        sentences = [
            sentence
            for said in (*hints.values(), *problem.notes)
            for sentence in re.split(r"(?<=[.:;])\s+", said)
            if len(sentence.split()) > 2 and sentence not in told
        ]
        assert sentences
        assert [sentence for sentence in sentences if sentence in text] == [], problem.slug
        bare = (ArgumentKind.GROUP, ArgumentKind.NONE)
        drawn = [argument.values for argument in problem.arguments if argument.kind not in bare]
        # A range of dimensions may be written as a short argument's values are, but no line or part ends there.
        told_of = [values for values in drawn if re.search(rf"; {re.escape(values)}(;|$)", prompt, re.MULTILINE)]
        assert told_of == [], problem.slug
        assert [title for title in hints if f"### {title}" in text] == [], problem.slug
        assert "Primitives within reach" not in text


def test_the_prompt_says_what_is_asked_and_which_inputs_are_legal():
    for problem in registry.problems():
        prompt = prompt_for(problem.slug, backend="cuda", profile="h100x8")
        text = " ".join(prompt.text.split())
        beginning = registry.statement(problem.slug).split("\n### ")[0]
        legal = [*problem.invariants, *(regime.words for regime in problem.regimes)]
        asked = [said for title, said in sections_of(problem) if title not in HINTS]
        missing = [said for said in (" ".join(beginning.split()), *asked, *legal) if said not in text]
        assert missing == [], problem.slug
        assert prompt.version == "pkb-prompt-5"


def test_the_prompt_with_hints_is_another_version_with_the_whole_statement(anonymous):
    address = "/api/v1/problems/allreduce/prompt/?backend=cuda&profile=h100x8"
    bare, told = anonymous.get(address).json(), anonymous.get(f"{address}&version=pkb-prompt-5-hints").json()
    assert (bare["version"], told["version"]) == ("pkb-prompt-5", "pkb-prompt-5-hints")
    assert bare["digest"] != told["digest"]
    assert registry.statement("allreduce").strip() in told["text"]
    assert "Primitives within reach" in told["text"]
    assert_problem(anonymous.get(f"{address}&version=pkb-prompt-2"), status=422, field="version")
    page = anonymous.get("/problems/allreduce/prompt/?profile=h100x8&backend=cuda&version=pkb-prompt-5-hints")
    assert "What a fast kernel does" in page.content.decode()
    assert anonymous.get("/problems/allreduce/prompt/?version=pkb-prompt-2").status_code == 404


def test_the_prompt_names_the_topology_and_the_chip_of_its_machine():
    text = prompt_for("allreduce", backend="cuda", profile="h200x8").text
    assert "Per GPU: 132 SMs, 60 MiB of L2 cache" in text
    assert "the 8 GPUs are in one host and joined by NVSwitch" in text
    assert "NVSwitch" not in prompt_for("allreduce", backend="pytorch", profile="cpux2").text


def test_without_an_example_the_prompt_says_the_same_and_as_published_it_says_no_more_than_that():
    for problem in registry.problems():
        told = {
            version: prompt_for(problem.slug, backend="cuda", profile="h100x8", version=version) for version in VERSIONS
        }
        usual, bare, published = told[VERSION], told[ZERO_SHOT], told[AS_PUBLISHED]
        before, _, after = usual.text.partition("# A worked example")
        assert usual.example
        assert bare.text == before + after[after.index("# Your answer") :]
        assert (bare.example, published.example) == ("", "")
        reference = registry.reference_source(problem.slug).strip()
        assert f"{problem.signature}" in published.text
        headings = re.findall(r"^#+ .+$", published.text.replace(reference, ""), flags=re.MULTILINE)
        assert headings == ["# The task", "# The machine", "# The reference", "# Your answer"]
        assert len({prompt.digest for prompt in told.values()}) == len(VERSIONS)


def test_the_page_of_a_prompt_opens_on_cuda_and_on_hardware_that_was_measured(anonymous):
    page = anonymous.get("/problems/allreduce/prompt/").content.decode()
    assert re.findall(r'<option value="([^"]*)" selected>', page) == ["h200x2-nomc", "cuda", "pkb-prompt-5"]


def test_the_cuda_and_triton_examples_are_those_that_are_judged_on_gpus():
    from pathlib import Path

    for name, twin in (
        ("allgather_cuda", "gpu_allgather"),
        ("allgather_triton", "gpu_allgather_triton"),
        ("gemm_allreduce_cuda", "gpu_gemm_allreduce"),
    ):
        shown = Path(f"templates/prompts/{name}.py.txt").read_text(encoding="utf-8")
        assert shown == Path(f"tests/evaluator/submissions/{twin}.py").read_text(encoding="utf-8")


def test_from_an_empty_run_to_a_public_one(alices, bobs, anonymous, node):
    run = create(alices)
    assert (run["organisation"], run["state"], run["attempts"]) == ("alice", "draft", 0)
    answer = upload(
        alices, run, lines(line(), line(sample=1), line() | {"problem": "nothing"}, line("allgather", source=""))
    )
    body = answer.json()
    assert [body[name] for name in ("received", "created", "repeated", "refused")] == [4, 3, 0, 1]
    assert body["results"][2]["errors"][0]["field"] == "problem"
    assert body["results"][3]["verdict"] == "IMPORT_ERROR"
    assert upload(alices, run, lines(line(), line(sample=1))).json()["repeated"] == 2

    feed = f"/api/v1/runs/{run['id']}/events/"
    first = alices.get(feed).json()
    assert (first["pending"], first["total"], len(first["events"])) == (2, 3, 1)
    for attempt in Attempt.objects.filter(state="pending"):
        end(attempt, node, low=1.5)
    second = alices.get(f"{feed}?after={first['next']}&wait=1").json()
    assert [event["kind"] for event in second["events"]] == ["attempt.ended", "attempt.ended", "run.completed"]
    assert (second["pending"], second["poll_after_s"], second["events"][0]["verdict"]) == (0, None, "PASSED")
    assert second["events"][0]["score_low"] == 1.5
    Attempt.objects.filter(pk=second["events"][0]["attempt_id"]).update(score=1.1, score_low=1.0, score_high=1.2)
    before = alices.get(f"{feed}?after={first['next']}").json()["events"][0]
    assert (before["score"], before["score_low"]) == (second["events"][0]["score"], None), "it was judged again since"

    address = f"/api/v1/runs/{run['id']}/"
    assert_problem(bobs.get(address), status=404)
    assert_problem(anonymous.get(address), status=404)
    published = alices.post(f"{address}publish/", {}, format="json").json()
    assert published["state"] == "published"
    figures = anonymous.get(address).json()["figures"]
    assert (figures["solved"], figures["faster"]) == (1, 1)
    assert figures["correct_at_k"]["value"] == pytest.approx(1 / len(registry.problems()))
    board = anonymous.get("/api/v1/leaderboards/models/?profile=cpux2&p=2").json()
    assert [(row["model"]["name"], row["fast_p"]["value"]) for row in board["rows"]] == [("writer", 0)]


def test_a_call_that_is_held_open_hears_of_what_happens_meanwhile(alice, alices, transactional_db, node):
    from threading import Thread

    from django.db import connection

    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt

    def judge():
        end(attempt, node)
        connection.close()

    judging = Thread(target=judge)
    judging.start()
    feed = alices.get(f"/api/v1/runs/{run.pk}/events/?wait=25").json()
    judging.join()
    assert feed["events"][0]["verdict"] == "PASSED"


def test_a_zip_of_samples_and_steps_is_filled_in(alices):
    run = create(alices)
    files = {
        "allreduce/0/solution.py": line()["source"],
        "allreduce/1/2/solution.py": line()["source"],
        "allreduce/1/2/notes.h": "// beside it",
        "README.md": "no attempt",
    }
    body = upload(alices, run, archive(files), "application/zip").json()
    assert [(entry["key"], entry["status"]) for entry in body["results"]] == [
        ("allreduce/0/0", "created"),
        ("allreduce/1/2", "created"),
        ("README.md", "refused"),
    ]
    again = upload(alices, run, archive(files), "application/zip").json()
    assert (again["repeated"], again["refused"]) == (2, 1)
    assert_problem(upload(alices, run, b"no zip", "application/zip"), status=422, field="file")
    assert_problem(upload(alices, run, b"{}", "text/plain"), status=415)


def test_the_same_idempotency_key_makes_one_run(alices):
    declaration = {"model": "writer", "mode": "single_shot", "profile": "cpux2"}
    made = [
        alices.post("/api/v1/runs/", declaration, format="json", HTTP_IDEMPOTENCY_KEY="first").json()["id"]
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "agentic"}, "mode is agentic and was best_of_k"),
        ({"k": 10}, "k is 10 and was 4"),
        ({"version": "2"}, "version is 2 and was not given"),
        ({"sampling": {"top_p": 1}}, 'sampling is {"top_p": 1} and was {"temperature": 0.5}'),
        ({"sampling": {"stop": "x" * 50}}, "sampling is another"),
        (
            {"cost_usd": 2.5, "prompt_version": "p2"},
            "prompt_version is p2 and was not given; cost_usd is 2.5 and was 2.0",
        ),
        ({"organisation": "other"}, "organisation is other and was alice"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_idempotency_key_with_another_run_is_refused_and_says_what_differs(alice, alices, changes, words):
    declaration = {"model": "writer", "mode": "best_of_k", "profile": "cpux2", "k": 4, "cost_usd": 2}
    declaration |= {"sampling": {"temperature": 0.5}}
    make = lambda wanted: alices.post("/api/v1/runs/", wanted, format="json", HTTP_IDEMPOTENCY_KEY="first")  # noqa: E731
    first = make(declaration).json()["id"]
    assert make(declaration | {"notes": "sent again", "organisation": "alice"}).json()["id"] == first
    create_organisation(alice, slug="other", name="Other")
    assert (
        f"{first}: {words}."
        in assert_problem(make(declaration | changes), status=409, field="Idempotency-Key")["detail"]
    )
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": "def solution(tensor):\n    return 1\n"}, "source is another"),
        ({"mode": "check"}, "mode is check and was ranked"),
        ({"problem": "broadcast", "sample": 1}, "problem is broadcast and was allreduce; sample is 1 and was 0"),
        ({"key": "b"}, "key is b and was a"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_attempts_key_with_another_attempt_is_refused_and_says_what_differs(alice, alices, changes, words):
    address = f"/api/v1/runs/{make_run(alice).pk}/attempts/"
    first = alices.post(address, line(key="a"), format="json")
    assert alices.post(address, line(key="a"), format="json").json()["id"] == first.json()["id"]
    answer = alices.post(address, line(key="a") | changes, format="json")
    assert words in assert_problem(answer, status=409, field="key")["detail"]
    assert Attempt.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "field"),
    [("1e999", "k"), ("1e999", "cost_usd"), (f"1{'0' * 400}", "k"), (f"1{'0' * 400}", "cost_usd")],
    ids=["infinite-k", "infinite-cost", "huge-k", "huge-cost"],
)
def test_a_number_beyond_all_bounds_is_refused(alices, text, field):
    body = f'{{"model": "writer", "mode": "best_of_k", "profile": "cpux2", "{field}": {text}}}'
    assert_problem(
        alices.generic("POST", "/api/v1/runs/", body, content_type="application/json"), status=422, field=field
    )


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"profile": "h900x8"}, "profile"),
        ({"backend": "cuda"}, "backend"),
        ({"k": 0}, "k"),
        ({"k": True}, "k"),
        ({"k": 1.5}, "k"),
        ({"cost_usd": False}, "cost_usd"),
        ({"cost_usd": "1.5"}, "cost_usd"),
        ({"mode": "single_shot", "k": 3}, "k"),
        ({"model": " "}, "model"),
        ({"sampling": {"a": "x" * 5000}}, "sampling"),
        ({"temperature": 1}, "temperature"),
    ],
)
def test_a_wrong_wish_is_refused_by_its_name(alices, changes, field):
    declaration = {"model": "writer", "mode": "best_of_k", "profile": "cpux2"} | changes
    assert_problem(alices.post("/api/v1/runs/", declaration, format="json"), status=422, field=field)


def test_a_token_reaches_runs_only_with_their_scopes(alice, client_of, node):
    run = make_run(alice)
    attempt = add(run, line()).results[0].attempt
    end(attempt, node)
    plain, reading = client_of(alice, "read", "submit"), client_of(alice, "runs:read")
    assert_problem(plain.get(f"/api/v1/runs/{run.pk}/"), status=403)
    assert_problem(reading.post("/api/v1/runs/", {}, format="json"), status=403)
    # The diagnosis of an attempt is its submission's report; people's own submissions need their own scope.
    shown = reading.get(f"/api/v1/submissions/{attempt.submission_id}/")
    assert shown.json()["evaluation"]["verdict"] == "PASSED"
    assert_problem(reading.get("/api/v1/submissions/"), status=403)


def test_the_quota_can_be_read_and_its_end_says_when_to_come_back(alice, alices):
    organisation = default_organisation(alice, None)
    organisation.gpu_seconds = 100.0
    organisation.save()
    run = create(alices, profile="h200x8-nomc", organisation=organisation.slug)
    answer = upload(alices, run, lines(line()))
    assert_problem(answer, status=429, field="quota")
    assert int(answer["Retry-After"]) > 0
    quota = alices.get(f"/api/v1/organisations/{organisation.slug}/quota/").json()
    assert (quota["limit_gpu_s"], quota["remaining_gpu_s"]) == (100.0, 100.0)


def test_a_tree_of_solutions_becomes_a_run_and_says_what_it_could_not_match(alices):
    folder = "solutions_torch_bf16_cpux2_openai_gpt_5.5"
    numbers = {problem.slug: problem.number for problem in registry.problems()}
    files = {
        f"{folder}/99_gemm_allreduce_torch.py": line("gemm_allreduce")["source"],
        f"{folder}/{numbers['tp_rms_norm']}_rms_norm_torch.py": line("tp_rms_norm")["source"],
        f"{folder}/{numbers['allgather']}_allgather_torch.py": line("allgather")["source"],
        f"{folder}/321_unheard_of_torch.py": "x = 1",
        f"{folder}/log.txt": "compiled",
    }
    upload_file = io.BytesIO(archive(files))
    upload_file.name = "tree.zip"
    answer = alices.post("/api/v1/runs/import/", {"file": upload_file}, format="multipart")
    assert answer.status_code == 201, answer.content
    body = answer.json()
    assert {(entry["problem"], entry["by"]) for entry in body["matched"]} == {
        ("gemm_allreduce", "slug"),
        ("allgather", "slug"),
        ("tp_rms_norm", "name"),
    }
    assert {entry["path"].split("/")[-1] for entry in body["unmatched"]} == {"321_unheard_of_torch.py", "log.txt"}
    run = body["run"]
    assert (run["model"]["name"], run["model"]["provider"]) == ("gpt_5.5", "openai")
    assert (run["backend"], run["profile"], run["attempts"]) == ("pytorch", "cpux2", 3)


def rows_of(client, address):
    parts = {name: b"".join(client.get(f"{address}?format={name}")) for name in ("csv", "jsonl")}
    as_lines = [json.loads(entry) for entry in parts["jsonl"].splitlines()]
    as_csv = list(csv.DictReader(io.StringIO(parts["csv"].decode())))
    assert len(as_lines) == len(as_csv)
    for one, two in zip(as_lines, as_csv, strict=True):
        assert list(one) == list(two)
        assert (str(one.get("key")), str(one.get("run"))) == (str(two.get("key")), str(two.get("run")))
    return as_lines


def test_exports_say_the_same_in_every_format_and_nothing_that_is_not_public(
    alice, alices, anonymous, node, exports_here
):
    run = make_run(alice, model="=HYPERLINK()")
    attempt = add(run, line(cost_usd=0.25, tokens_in=7)).results[0].attempt
    end(attempt, node, low=1.5)
    [row] = rows_of(alices, f"/api/v1/runs/{run.pk}/export/")
    assert (row["problem"], row["verdict"], row["score_low"], row["cost_usd"]) == ("allreduce", "PASSED", 1.5, 0.25)
    tables = ("leaderboards", "models", "runs", "attempts", "evaluations")
    files.make(now=timezone.now())
    assert [len(rows_of(anonymous, f"/api/v1/exports/{table}/")) for table in tables] == [0, 0, 0, 0, 0]
    alices.post(f"/api/v1/runs/{run.pk}/publish/", {"sources": "public"}, format="json")
    files.make(now=timezone.now())
    assert [len(rows_of(anonymous, f"/api/v1/exports/{table}/")) for table in tables] == [0, 1, 1, 1, 1]
    table = b"".join(anonymous.get("/api/v1/exports/models/?format=csv")).decode()
    assert "'=HYPERLINK" in table
