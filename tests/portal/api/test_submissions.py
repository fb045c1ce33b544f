"""Submitting, following, cancelling and judging again, as a program does it."""

import io
import uuid
import zipfile
from dataclasses import replace

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from pkb.version import VERSION
from portal.catalog.models import ProblemSwitch
from portal.submissions import actions
from portal.submissions.models import Evaluation, Source, State, Submission
from problems import registry
from tests.portal.api.problem import assert_problem
from tests.portal.factories import SOLUTION, delivery_of, evaluation_of, submit

SUBMISSIONS = "/api/v1/submissions/"
FIELDS = {"problem": "allreduce", "profile": "cpux2"}


def create(client, **changes):
    return client.post(SUBMISSIONS, {**FIELDS, "source": SOLUTION, **changes}, format="json")


def upload(client, name: str, content: bytes):
    return client.post(SUBMISSIONS, {**FIELDS, "file": SimpleUploadedFile(name, content)}, format="multipart")


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def start(evaluation: Evaluation, node) -> Evaluation:
    """The evaluation as it is once a node has begun to verify it."""
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease="lease", node=node, slot_index=0, stage="verifying", stage_detail="size tiny"
    )
    evaluation.refresh_from_db()
    return evaluation


def test_json_creates_a_queued_submission(alices):
    response = create(alices, note="first")
    body = response.json()
    assert response.status_code == 201
    assert response["Location"] == body["url"] == f"http://testserver{SUBMISSIONS}{body['id']}/"
    assert (body["problem"], body["backend"], body["visibility"], body["note"]) == (
        "allreduce",
        "pytorch",
        "private",
        "first",
    )
    evaluation = body["evaluation"]
    assert (evaluation["state"], evaluation["mode"], evaluation["profile"]) == ("queued", "ranked", "cpux2")
    assert evaluation["queue"]["ahead"] == 0
    assert evaluation["verdict"] is evaluation["report"] is None
    assert Submission.objects.get(pk=body["id"]).source.files.entry == SOLUTION


def test_several_files_are_taken_as_json(alices):
    files = {"solution.py": f"from lib import tools\n{SOLUTION}", "lib/tools.py": "x = 1\n"}
    response = alices.post(SUBMISSIONS, {**FIELDS, "files": files}, format="json")
    source = alices.get(f"{response['Location']}source/").json()
    assert {file["path"]: file["text"] for file in source["files"]} == files


@pytest.mark.parametrize(
    ("name", "content"), [("mine.py", SOLUTION.encode()), ("mine.zip", zipped(**{"solution.py": SOLUTION}))]
)
def test_a_file_is_taken_as_a_form(alices, name, content):
    response = upload(alices, name, content)
    assert response.status_code == 201
    assert alices.get(f"{response['Location']}source/").json()["files"] == [{"path": "solution.py", "text": SOLUTION}]


def test_a_session_with_its_csrf_token_submits_too(alice, anonymous):
    anonymous.force_login(alice)
    assert create(anonymous).status_code == 201


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"problem": "allredcue"}, 404, "problem"),
        ({"problem": 13}, 422, "problem"),
        ({"profile": "cpux3"}, 422, "profile"),
        ({"profile": ""}, 422, "profile"),
        ({"profile": None}, 422, "profile"),
        ({"backend": "opencl"}, 422, "backend"),
        ({"backend": "cuda"}, 422, "backend"),
        ({"mode": "fast"}, 422, "mode"),
        ({"problem": "ddp", "mode": "sweep"}, 422, "mode"),
        ({"mode": ["ranked"]}, 422, "mode"),
        ({"size": "tiny"}, 422, "size"),
        ({"mode": "profile", "size": "huge"}, 422, "size"),
        ({"mode": "profile", "size": "large"}, 422, "size"),
        ({"visibility": "friends"}, 422, "visibility"),
        ({"note": "x" * 201}, 422, "note"),
        ({"note": "a\0b"}, 422, "note"),
        ({"priority": 9}, 422, "priority"),
        ({"files": {"solution.py": SOLUTION}}, 422, "source"),
        ({"source": ""}, 422, "source"),
        ({"source": "x = 1\n"}, 422, "source"),
        ({"source": "def solution(:\n"}, 422, "source"),
        ({"source": "def solution(a, b, c, d, e):\n    return a\n"}, 422, "source"),
        ({"source": "#" * (600 * 1024)}, 413, "source"),
    ],
)
def test_bad_input_is_refused_by_field_and_stores_nothing(alices, changes, status, field):
    assert_problem(create(alices, **changes), status=status, field=field)
    assert not Submission.objects.exists()
    assert not Source.objects.exists()


def test_a_source_that_needs_no_judge_is_refused_with_its_verdict(alices):
    answer = create(alices, source="def solution(:\n")
    assert assert_problem(answer, status=422, field="source")["errors"][0]["verdict"] == "IMPORT_ERROR"
    assert answer["X-PKB-Version"] == VERSION


def test_a_missing_field_is_named_with_its_remedy(alices):
    body = assert_problem(alices.post(SUBMISSIONS, {}, format="json"), status=422)
    assert {entry["field"] for entry in body["errors"]} == {"problem", "profile"}
    assert {entry["remedy"] for entry in body["errors"]} == {"Add this field."}


@pytest.mark.parametrize(
    "path", ["../solution.py", "/etc/solution.py", "a\0b.py", "", "lib/", "notes.txt", "x" * 300 + ".py", "a\\b.py"]
)
def test_a_path_that_leads_elsewhere_is_refused(alices, path):
    files = {"solution.py": SOLUTION, path: "x = 1\n"}
    response = alices.post(SUBMISSIONS, {**FIELDS, "files": files}, format="json")
    assert_problem(response, status=422, field="files")
    assert not Submission.objects.exists()


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("solution.py", b"", 422),
        ("solution.py", bytes(range(256)), 422),
        ("solution.py", b"#" * (2 * 1024 * 1024), 413),
        ("solution.so", b"\x7fELF", 422),
        ("solution.zip", b"PK\x03\x04 not really", 422),
        ("solution.zip", zipped(**{"../solution.py": SOLUTION, "solution.py": SOLUTION}), 422),
        ("solution.zip", zipped(**{"deep/solution.py": SOLUTION}), 422),
    ],
    ids=["empty", "binary", "2 MB", "kind", "damaged", "zip-slip", "no entry"],
)
def test_a_file_that_cannot_be_judged_is_refused(alices, name, content, status):
    assert_problem(upload(alices, name, content), status=status, field="file")
    assert not Submission.objects.exists()


def test_a_form_without_a_file_is_refused(alices):
    assert_problem(alices.post(SUBMISSIONS, FIELDS, format="multipart"), status=422, field="file")


def test_a_world_size_that_the_problem_refuses_is_named(alices, monkeypatch):
    only_two = replace(
        registry.get("allreduce"),
        refuses_world_size=lambda size: None if size == 2 else f"runs on 2 ranks only, not {size}",
        world_size_rule="2 only",
    )
    monkeypatch.setattr(registry, "get", lambda _slug: only_two)
    body = assert_problem(create(alices, profile="cpux4"), status=422, field="profile")
    assert "runs on 2 ranks only" in body["detail"]


def test_a_closed_problem_takes_nothing(alices):
    ProblemSwitch.objects.create(slug="allreduce", is_open=False, note="Under repair.")
    assert "Under repair." in assert_problem(create(alices), status=409, field="problem")["detail"]


def test_the_same_submission_twice_is_409_and_names_the_first(alices):
    first = create(alices).json()
    assert first["id"] in assert_problem(create(alices), status=409, field="source")["detail"]
    assert Submission.objects.count() == 1


def test_a_repeated_idempotency_key_gives_the_same_submission(alices):
    sent = {**FIELDS, "source": SOLUTION}
    first, second = (alices.post(SUBMISSIONS, sent, format="json", HTTP_IDEMPOTENCY_KEY="run-7") for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first["Location"] == second["Location"]
    assert Evaluation.objects.count() == 1
    other = alices.post(SUBMISSIONS, {**sent, "source": f"{SOLUTION}#"}, format="json", HTTP_IDEMPOTENCY_KEY="run-7")
    assert_problem(other, status=409, field="Idempotency-Key")
    changed = {**sent, "profile": "cpux4", "visibility": "public"}
    body = assert_problem(
        alices.post(SUBMISSIONS, changed, format="json", HTTP_IDEMPOTENCY_KEY="run-7"),
        status=409,
        field="Idempotency-Key",
    )
    assert "profile is cpux4 and was cpux2; visibility is public and was private." in body["detail"]
    assert first.json()["id"] in body["detail"]
    assert Evaluation.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 101, "caf\xe9"])
def test_an_impossible_idempotency_key_is_refused(alices, key):
    response = alices.post(SUBMISSIONS, {**FIELDS, "source": SOLUTION}, format="json", HTTP_IDEMPOTENCY_KEY=key)
    assert_problem(response, status=422, field="Idempotency-Key")


def test_a_full_queue_is_429(alice, alices, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 1
    submit(alice)
    assert_problem(create(alices), status=429)


def test_a_running_evaluation_shows_its_stage(alice, alices, node):
    submission = submit(alice)
    start(evaluation_of(submission), node)
    evaluation = alices.get(f"{SUBMISSIONS}{submission.pk}/").json()["evaluation"]
    assert (evaluation["state"], evaluation["node"], evaluation["queue"]) == ("running", "alpha", None)
    assert (evaluation["stage"]["name"], evaluation["stage"]["detail"]) == ("verifying", "size tiny")
    assert evaluation["poll_after_s"] > 0


def test_a_finished_evaluation_carries_its_report(alice, alices, node):
    submission = submit(alice)
    evaluation = start(evaluation_of(submission), node)
    actions.record_delivery(delivery_of(evaluation), now=timezone.now())
    body = alices.get(f"{SUBMISSIONS}{submission.pk}/").json()["evaluation"]
    assert (body["state"], body["verdict"], body["poll_after_s"]) == ("finished", "PASSED", None)
    assert body["report"]["evaluation_id"] == str(evaluation.pk)
    assert body["report"]["timing"]["score"] == body["score"]
    assert alices.get(body["url"]).json() == body


def test_polling_costs_nothing_until_something_changes(alice, alices, node):
    submission = submit(alice)
    address = f"{SUBMISSIONS}{submission.pk}/"
    tag = alices.get(address)["ETag"]
    unchanged = alices.get(address, HTTP_IF_NONE_MATCH=tag)
    assert (unchanged.status_code, unchanged.content, unchanged["ETag"]) == (304, b"", tag)
    start(evaluation_of(submission), node)
    changed = alices.get(address, HTTP_IF_NONE_MATCH=tag)
    assert changed.status_code == 200
    assert changed["ETag"] != tag


def test_the_tag_changes_with_an_earlier_evaluation_too(alice, alices, node):
    submission = submit(alice)
    first = start(evaluation_of(submission), node)
    actions.queue_evaluation(submission, profile="cpux4", mode="check")
    address = f"{SUBMISSIONS}{submission.pk}/"
    tag = alices.get(address)["ETag"]
    actions.record_delivery(delivery_of(first), now=timezone.now())
    assert alices.get(address, HTTP_IF_NONE_MATCH=tag).status_code == 200


def test_a_private_submission_does_not_exist_for_others(alice, bobs, anonymous):
    submission = submit(alice)
    evaluation = evaluation_of(submission)
    for client in (bobs, anonymous):
        for address in ("", "source/", f"evaluations/{evaluation.pk}/"):
            assert_problem(client.get(f"{SUBMISSIONS}{submission.pk}/{address}"), status=404)
    assert_problem(bobs.post(f"{SUBMISSIONS}{submission.pk}/cancel/"), status=404)
    assert evaluation_of(submission).state == State.QUEUED


def test_a_public_submission_can_be_read_but_not_touched(alice, bobs, anonymous):
    submission = submit(alice, visibility="public")
    address = f"{SUBMISSIONS}{submission.pk}/"
    assert anonymous.get(address).status_code == 200
    assert anonymous.get(f"{address}source/").json()["files"][0]["path"] == "solution.py"
    assert_problem(bobs.post(f"{address}cancel/"), status=403)
    assert_problem(bobs.post(f"{address}evaluations/", {"profile": "cpux4"}, format="json"), status=403)
    assert Evaluation.objects.get().state == State.QUEUED


@pytest.mark.parametrize("suffix", ["", "source/", "evaluations/00000000-0000-0000-0000-000000000000/"])
def test_an_unknown_id_is_404(alices, suffix):
    assert_problem(alices.get(f"{SUBMISSIONS}{uuid.uuid4()}/{suffix}"), status=404)


def test_an_evaluation_is_found_only_under_its_own_submission(alice, alices):
    first, second = submit(alice), submit(alice)
    assert_problem(alices.get(f"{SUBMISSIONS}{first.pk}/evaluations/{evaluation_of(second).pk}/"), status=404)


def test_cancelling_ends_a_queued_evaluation_once(alice, alices):
    address = f"{SUBMISSIONS}{submit(alice).pk}/cancel/"
    assert alices.post(address).json()["evaluation"]["state"] == "cancelled"
    assert_problem(alices.post(address), status=409)


def test_a_finished_one_cannot_be_cancelled(alice, alices, node):
    submission = submit(alice)
    actions.record_delivery(delivery_of(start(evaluation_of(submission), node)), now=timezone.now())
    assert_problem(alices.post(f"{SUBMISSIONS}{submission.pk}/cancel/"), status=409, field="evaluation")
    assert evaluation_of(submission).state == State.FINISHED


def test_judging_again_adds_an_evaluation(alice, alices):
    submission = submit(alice)
    address = f"{SUBMISSIONS}{submission.pk}/"
    response = alices.post(f"{address}evaluations/", {"profile": "cpux4", "mode": "check"}, format="json")
    assert response.status_code == 201
    created = alices.get(response["Location"]).json()
    assert (created["profile"], created["mode"], created["state"]) == ("cpux4", "check", "queued")
    assert [entry["profile"] for entry in alices.get(address).json()["evaluations"]] == ["cpux4", "cpux2"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "profile"),
        ({"profile": "h900x8"}, 422, "profile"),
        ({"profile": "cpux4", "mode": "fast"}, 422, "mode"),
        ({"profile": "cpux4", "source": "x"}, 422, "source"),
        ({"profile": "cpux2"}, 409, "profile"),
    ],
)
def test_judging_again_is_refused_by_field(alice, alices, body, status, field):
    submission = submit(alice)
    response = alices.post(f"{SUBMISSIONS}{submission.pk}/evaluations/", body, format="json")
    assert_problem(response, status=status, field=field)
    assert submission.evaluations.count() == 1


def test_the_list_has_own_submissions_only_the_newest_first(alice, alices, bob):
    ids = [str(submit(alice).pk) for _ in range(3)]
    submit(bob, visibility="public")
    body = alices.get(SUBMISSIONS).json()
    assert [entry["id"] for entry in body["results"]] == ids[::-1]
    assert body["next"] is body["previous"] is None


def test_pages_follow_one_another_by_cursor(alice, alices):
    ids = [str(submit(alice).pk) for _ in range(5)]
    seen, address = [], f"{SUBMISSIONS}?page_size=2"
    while address:
        page = alices.get(address).json()
        seen += [entry["id"] for entry in page["results"]]
        address = page["next"]
        # What arrives meanwhile does not shift the pages that follow.
        submit(alice, profile="cpux4")
    assert seen == ids[::-1]


def test_the_list_is_filtered_by_problem_state_and_verdict(alice, alices, node):
    passed = submit(alice)
    actions.record_delivery(delivery_of(start(evaluation_of(passed), node)), now=timezone.now())
    queued = submit(alice)
    elsewhere = submit(alice, problem="gemm_allreduce", files=_gemm())

    def found(query: str) -> set[str]:
        return {entry["id"] for entry in alices.get(f"{SUBMISSIONS}?{query}").json()["results"]}

    assert found("verdict=PASSED") == {str(passed.pk)}
    assert found("state=queued") == {str(queued.pk), str(elsewhere.pk)}
    assert found("problem=gemm_allreduce") == {str(elsewhere.pk)}
    assert found("problem=allreduce&state=queued") == {str(queued.pk)}


def _gemm():
    from tests.portal.factories import bundle

    names = ", ".join(registry.get("gemm_allreduce").parameter_names)
    return bundle(f"import torch.distributed as dist\n\n\ndef solution({names}):\n    return None\n")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("page_size=0", "page_size"),
        ("page_size=many", "page_size"),
        ("state=lost", "state"),
        ("verdict=GOOD", "verdict"),
        ("author=bob", "author"),
    ],
)
def test_a_bad_query_is_refused_by_name(alices, query, field):
    assert_problem(alices.get(f"{SUBMISSIONS}?{query}"), status=422, field=field)


@pytest.mark.parametrize("cursor", ["nonsense", "cD1ub3QtYS1kYXRl"])
def test_a_cursor_that_leads_nowhere_is_not_found(alices, cursor):
    assert_problem(alices.get(f"{SUBMISSIONS}?cursor={cursor}"), status=404, field="cursor")


def test_the_number_of_queries_does_not_grow_with_the_list(alice, alices, django_assert_num_queries):
    submit(alice)
    alices.get(SUBMISSIONS)
    with django_assert_num_queries(3):
        alices.get(SUBMISSIONS)
    for _ in range(3):
        submit(alice)
    with django_assert_num_queries(3):
        alices.get(SUBMISSIONS)


def test_the_number_of_queries_of_a_submission_does_not_grow_with_the_queue(alices, bob, django_assert_num_queries):
    create(alices)  # the token's last use is noted
    for _ in range(3):
        submit(bob)
    with django_assert_num_queries(21):
        create(alices, source=f"{SOLUTION}# new\n")
