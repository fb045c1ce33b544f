"""What the names in a solution tree of the public benchmark say, and what is asked for where they say too little."""

import io

import pytest

from portal.core.helper import Helper
from portal.runs.actions import importing
from portal.runs.models import Run
from portal.runs.solution_trees import Matched, TreeName, Unmatched, match_file, tree_name
from problems import registry
from tests.portal.runs.rows import line
from tests.portal.runs.test_vendor import archive

pytestmark = pytest.mark.django_db
FOLDER = "solutions_triton_bf16_H200_8_acme_writer_1"
KERNEL = "\nSOURCE = '__global__ void f() {}'\n"


@pytest.mark.parametrize(
    ("folder", "parts", "profiles"),
    [
        ("cuda_bf16_H100_8_openai_gpt-5.5", ("cuda", "bf16", "8", "openai", "gpt-5.5"), ("h100x8", "h100x8-nomc")),
        ("triton_bf16_h200_2_google_a_b", ("triton", "bf16", "2", "google", "a_b"), ("h200x2", "h200x2-nomc")),
        ("cuda_fp32_4xH100_acme_m", ("cuda", "fp32", "", "acme", "m"), ("h100x4", "h100x4-nomc")),
        ("torch_bf16_cpux2_openai_m", ("pytorch", "bf16", "", "openai", "m"), ("cpux2",)),
        ("nccl_device_bf16_h200x8-nomc_acme_m", ("nccl_device", "bf16", "", "acme", "m"), ("h200x8-nomc",)),
        ("cuda_bf16_H100_acme_m", ("cuda", "bf16", "", "acme", "m"), ()),
        ("cuda_bf16_A100_8_acme_m", ("cuda", "bf16", "8", "acme", "m"), ()),
        ("cuda_bf16", ("cuda", "bf16", "", "", ""), ()),
    ],
)
def test_a_folder_says_backend_precision_gpu_ranks_vendor_and_model(folder, parts, profiles):
    named = tree_name(f"solutions_{folder}")
    assert (named.backend, named.precision, named.ranks, named.provider, named.model) == parts
    assert named.profiles == profiles


def test_a_folder_that_is_called_otherwise_says_nothing():
    assert tree_name("programs_cuda_bf16") is None
    assert tree_name("solutions_of_mine") == TreeName()


@pytest.mark.parametrize(
    ("file_name", "problem", "by"),
    [
        ("13_gemm_allreduce_cuda.py", "gemm_allreduce", "slug"),
        ("41_ddp_triton.py", "ddp", "slug"),
        ("99_ddp_cuda.py", "ddp", "slug"),
        ("11_gemm_allgather_AT_cuda.py", "allgather_gemm_AT", "name"),
        ("12_gemm_allgather_cuda.py", "allgather_gemm", "name"),
        ("14_gemm_allscatter_cuda.py", "gemm_allgather", "name"),
        ("14_gemm_allgather_cuda.py", "gemm_allgather", "slug"),
        ("18_rms_norm_cuda.py", "tp_rms_norm", "name"),
    ],
)
def test_the_name_of_a_file_says_its_problem_in_the_older_numbering_too(file_name, problem, by):
    found = match_file(f"a/{file_name}", {})
    assert isinstance(found, Matched)
    assert (found.problem, found.by) == (problem, by)


@pytest.mark.parametrize("file_name", ["47_no_such_step_cuda.py", "15_gemm_allgather_cuda.py", "notes.py"])
def test_a_number_alone_and_an_ambiguous_name_are_no_match(file_name):
    assert isinstance(match_file(file_name, {}), Unmatched)


def test_every_slug_is_found_under_its_own_number_and_under_the_older_one():
    for problem in registry.problems():
        for number in {problem.number, problem.number + (problem.number >= 33)}:
            found = match_file(f"{number}_{problem.slug}_cuda.py", {})
            assert isinstance(found, Matched)
            assert found.problem == problem.slug


def packed(files, *, name="tree.zip"):
    upload = io.BytesIO(archive(files))
    upload.name = name
    return upload


def tree(**others):
    files = {
        f"{FOLDER}/7_reducescatter_triton.py": line("reducescatter")["source"] + KERNEL,
        f"{FOLDER}/2_allgather_triton.py": "import triton\n" + line("allgather")["source"],
        f"{FOLDER}/9_my_own_triton.py": line("layernorm_backward")["source"],
    }
    return {"file": packed(files), **others}


def test_a_preview_says_what_it_understood_and_what_is_lacking_and_stores_nothing(alices):
    answer = alices.post("/api/v1/runs/import/preview/", tree(), format="multipart")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["run"]["model"], body["run"]["provider"], body["run"]["backend"]) == ("writer_1", "acme", "triton")
    assert {found["problem"]: found["backend"] for found in body["matched"]} == {
        "reducescatter": "cuda",
        "allgather": "triton",
    }
    assert body["backends"] == {"cuda": 1, "triton": 1}
    assert [found["path"].split("/")[-1] for found in body["unmatched"]] == ["9_my_own_triton.py"]
    [lacking] = body["lacking"]
    assert lacking["field"] == "profile"
    assert "h200x8, h200x8-nomc" in lacking["remedy"]
    assert not Run.objects.exists()


def test_an_import_never_guesses_the_profile(alices):
    answer = alices.post("/api/v1/runs/import/", tree(), format="multipart")
    assert answer.status_code in (400, 422)
    assert answer.json()["errors"][0]["field"] == "profile"
    assert not Run.objects.exists()


def test_every_part_can_be_said_instead(alices):
    said = {
        "model": "poet",
        "version": "2",
        "provider": "other",
        "profile": "h200x2-nomc",
        "backend": "cuda",
        "program_backend": "pytorch",
        "problems": "9_my_own_triton.py=layernorm_backward",
        "notes": "by hand",
    }
    answer = alices.post("/api/v1/runs/import/", tree(**said), format="multipart")
    assert answer.status_code == 201, answer.content
    body = answer.json()
    run = body["run"]
    assert (run["model"]["name"], run["model"]["version"], run["model"]["provider"]) == ("poet", "2", "other")
    assert (run["profile"], run["backend"], run["notes"], run["attempts"]) == ("h200x2-nomc", "cuda", "by hand", 3)
    attempts = alices.get(f"/api/v1/runs/{run['id']}/attempts/").json()["results"]
    assert {(attempt["problem"], attempt["backend"]) for attempt in attempts} == {
        ("reducescatter", "pytorch"),
        ("allgather", "pytorch"),
        ("layernorm_backward", "pytorch"),
    }


def test_an_attempt_is_judged_as_what_its_text_shows(alices):
    answer = alices.post("/api/v1/runs/import/", tree(profile="h200x2-nomc"), format="multipart")
    run = Run.objects.get(pk=answer.json()["run"]["id"])
    assert run.backend == "triton"
    judged = {attempt.problem: attempt.submission.backend for attempt in run.attempts.all() if attempt.submission}
    assert judged == {"reducescatter": "cuda", "allgather": "triton"}


@pytest.mark.parametrize("pair", ["9_my_own_triton.py", "9_my_own_triton.py=nowhere", "missing.py=allreduce"])
def test_a_choice_that_says_nothing_is_refused_with_its_field(alices, pair):
    answer = alices.post("/api/v1/runs/import/preview/", tree(problems=pair), format="multipart")
    assert answer.status_code in (400, 422)
    assert answer.json()["errors"][0]["field"] == "problems"


def test_programs_that_take_too_long_to_read_are_imported_as_what_is_said_of_them(alices, monkeypatch):
    hurried = Helper(seconds=0.05)
    monkeypatch.setattr(importing, "_helper", hurried)
    content = "".join(f"x{number} = {number}\n" for number in range(30_000))

    def preview(**others):
        form = {"file": packed({f"{FOLDER}/1_allreduce.py": content}), "profile": "h200x8", **others}
        return alices.post("/api/v1/runs/import/preview/", form, format="multipart")

    refused = preview()
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "program_backend"
    understood = preview(program_backend="triton").json()
    assert understood["backends"] == {"triton": 1}
    hurried._end()  # noqa: SLF001 - a web process leaves that to its own end


@pytest.mark.parametrize("content", ["(" + "\n" * 400_000, "\n \n" * 100_000 + "(", "import " * 50_000 + "("])
def test_a_program_that_is_no_python_is_read_in_one_pass(alices, content):
    """Each within the usual budget: an expression that looks again from every line would take minutes."""
    form = {"file": packed({f"{FOLDER}/1_allreduce.py": content}), "profile": "h200x8"}
    assert alices.post("/api/v1/runs/import/preview/", form, format="multipart").status_code == 200


def test_a_profile_that_cannot_judge_the_backend_is_said_before_the_import(alices):
    body = alices.post("/api/v1/runs/import/preview/", tree(profile="cpux2"), format="multipart").json()
    assert [lacking["field"] for lacking in body["lacking"]] == ["backend"]


def test_the_page_shows_what_the_tree_says_before_it_makes_a_run(alice, client):
    client.force_login(alice)
    page = client.post("/runs/import/", {**tree(), "organisation": "", "preview": "1"})
    text = page.content.decode()
    assert "nothing was stored" in text
    assert "1 in cuda" in text
    assert "h200x8, h200x8-nomc" in text
    assert not Run.objects.exists()
