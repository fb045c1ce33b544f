"""The submit page, and what it says of each bad input."""

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from portal.submissions.models import Submission
from problems import registry
from tests.portal.pages import scenes

ADDRESS = "/problems/allreduce/submit/"
GOOD = {
    "source": scenes.SOLUTION,
    "backend": "pytorch",
    "profile": "cpux2",
    "mode": "check",
    "visibility": "private",
    "note": "",
    "key": "k1",
}


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return SimpleUploadedFile("work.zip", content.getvalue())


def test_it_works(as_alice, alice):
    response = as_alice.post(ADDRESS, GOOD)
    submission = Submission.objects.get(author=alice)
    assert response.status_code == 302
    assert response["Location"] == f"/submissions/{submission.pk}/"
    assert submission.source.files.entry == scenes.SOLUTION


def test_an_upload_is_taken_instead_of_the_text(as_alice, alice):
    as_alice.post(ADDRESS, {**GOOD, "source": "x", "file": zipped({"solution.py": scenes.SOLUTION, "a/b.cu": "// b"})})
    files = Submission.objects.get(author=alice).source.files.files
    assert [file.path for file in files] == ["a/b.cu", "solution.py"]


def test_sending_the_form_twice_leads_to_the_same_submission(as_alice, alice):
    first, second = as_alice.post(ADDRESS, GOOD), as_alice.post(ADDRESS, GOOD)
    assert first["Location"] == second["Location"]
    assert Submission.objects.filter(author=alice).count() == 1


def test_going_back_and_changing_the_source_makes_a_new_submission(as_alice, alice):
    as_alice.post(ADDRESS, GOOD)
    as_alice.post(ADDRESS, {**GOOD, "source": scenes.SOLUTION + "\n# changed\n"})
    assert Submission.objects.filter(author=alice).count() == 2


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"source": "def answer(tensor): return tensor\n"}, 422, "solution"),
        ({"source": "def solution(a, b): return a\n"}, 422, "tensor"),
        ({"source": "def solution(tensor:\n"}, 422, "line 1"),
        ({"source": ""}, 422, "empty"),
        ({"source": "x = 1\0"}, 422, "Null characters"),
        ({"file": SimpleUploadedFile("solution.py", b"")}, 422, "The file is empty"),
        ({"file": SimpleUploadedFile("solution.py", b"\xff\xfe\x00\x01")}, 422, "NUL"),
        ({"file": SimpleUploadedFile("solution.py", b"#" * 2_000_000)}, 413, "512 KB"),
        ({"file": SimpleUploadedFile("solution.exe", b"MZ")}, 422, "neither a .py file nor a .zip"),
        ({"file": zipped({"../evil.py": "x"})}, 422, "outside the submission"),
        ({"file": zipped({"other.py": "x"})}, 422, "no solution.py"),
        ({"profile": "abacus"}, 422, "abacus"),
        ({"backend": "cuda"}, 422, "cuda"),
        ({"mode": "loud"}, 422, "loud"),
    ],
)
def test_bad_input_is_named_and_nothing_is_stored(as_alice, change, status, said):
    response = as_alice.post(ADDRESS, {**GOOD, **change})
    page = response.content.decode()
    assert response.status_code == status
    assert said in page
    assert 'id="form-errors"' in page
    assert not Submission.objects.exists()


def test_what_was_typed_survives_a_refusal(as_alice):
    page = as_alice.post(ADDRESS, {**GOOD, "source": "def answer():\n    pass\n", "note": "try 7"}).content.decode()
    assert "def answer():" in page
    assert "try 7" in page


def test_the_queue_limit_is_a_429(as_alice, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 1
    as_alice.post(ADDRESS, GOOD)
    response = as_alice.post(ADDRESS, {**GOOD, "source": scenes.SOLUTION + "# two\n", "key": "k2"})
    assert response.status_code == 429


def test_an_anonymous_reader_is_asked_to_sign_in_and_comes_back(client, db):
    response = client.get(ADDRESS)
    assert response["Location"] == f"/accounts/sign-in/?next={ADDRESS}"


def test_a_script_whose_reader_is_signed_out_gets_a_link_and_no_form(client, db):
    script = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{ADDRESS}?from=earlier"}
    for address in (ADDRESS, "/problems/allreduce/submit/changes/"):
        answer = client.post(address, GOOD, headers=script)
        assert answer.status_code == 401, address
        shown = answer.content.decode()
        assert "You are signed out." in shown
        assert f'href="/accounts/sign-in/?next={ADDRESS}"' in shown
        assert "<form" not in shown
    elsewhere = script | {"HX-Current-URL": "https://evil.example/"}
    assert b"evil" not in client.post(ADDRESS, GOOD, headers=elsewhere).content


def test_an_unknown_problem_is_a_404(as_alice):
    assert as_alice.get("/problems/nothing/submit/").status_code == 404


def test_the_page_says_which_profiles_can_judge_now(as_alice, local):
    page = as_alice.get(ADDRESS).content.decode()
    assert "1 slot online" in page
    assert "no node: waits 24 h at most" in page
    assert "1 slot online, for pytorch" in page


@pytest.mark.parametrize("slug", [problem.slug for problem in registry.problems()])
def test_every_backend_has_a_starter_that_python_can_read(slug, db):
    import ast

    from portal.submissions.forms import starters

    parameters = registry.get(slug).parameter_names
    for text in starters(slug).values():
        tree = ast.parse(text)
        [solution] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "solution"]
        assert tuple(argument.arg for argument in solution.args.args) == parameters
        assert "&quot;" not in text


def test_an_earlier_submission_can_be_the_start_of_the_next(as_alice, alice):
    submission = scenes.submit(alice, remark="reused remark")
    page = as_alice.get(ADDRESS, {"from": str(submission.pk)}).content.decode()
    assert "reused remark" in page


def test_another_authors_private_source_cannot_be_the_start(as_alice, bob):
    submission = scenes.submit(bob, remark="hidden remark")
    response = as_alice.get(ADDRESS, {"from": str(submission.pk)})
    assert response.status_code == 404
    assert b"hidden remark" not in response.content


def test_a_source_that_waits_already_is_refused_with_a_link_to_it(as_alice, alice, local):
    form = {"source": scenes.SOLUTION, "backend": "pytorch", "profile": "cpux2", "mode": "ranked"}
    form |= {"visibility": "private"}
    first = as_alice.post("/problems/allreduce/submit/", form)
    again = as_alice.post("/problems/allreduce/submit/", form)
    assert again.status_code == 409
    assert f'{first["Location"]}"' in again.content.decode()
