"""The machine code of kernels beside the author's lines: the list, a kernel's page, hostile listings, who may read."""

import json

import pytest
from django.urls import reverse

from evaluator.contract import CallTimeline, Instruction, KernelCode, MachineCode, SpanKind, Timeline
from evaluator.contract.code import pack
from portal.submissions.reports import machine_code
from tests.evaluator.timelines import call
from tests.portal.pages import scenes
from tests.portal.pages.test_report_evidence import cells, deliver
from tests.portal.pages.test_submission_page import page_of

HOSTILE = '<script>alert(1)</script>"><img src=x>'
LINE = scenes.SOLUTION.splitlines().index("def solution(tensor):") + 1


def kernel(name: str, *entries: Instruction, symbol: str = "", packed: bytes | None = None) -> KernelCode:
    return KernelCode(
        name=name,
        symbol=symbol or name,
        module="tiny.so",
        registers=32,
        stack_bytes=160,
        shared_bytes=1024,
        count=len(entries),
        packed=pack(entries) if packed is None else packed,
    )


SCALE = kernel(
    "scale(float*, int)",
    Instruction(text="LDC R1, c[0x0][0x28]", file=0, line=LINE),
    Instruction(text="FMUL R0, R2, 1.5", file=0, line=LINE),
    Instruction(text=".L_x_1:"),
    Instruction(text="STG.E desc[UR4][R2.64], R0", file=1, line=90),
    Instruction(text="EXIT"),
)
OTHER = kernel(f"{HOSTILE}(int)", Instruction(text=HOSTILE, file=2, line=1))
CODE = MachineCode(files=("solution.py", "cuda_bf16.hpp", HOSTILE), kernels=(SCALE, OTHER), dropped=2)


def ran(name: str) -> CallTimeline:
    return call([(SpanKind.KERNEL, name, 0, 60)])


@pytest.fixture
def profiled(alice, local):
    """A submission in mode profile whose kernels were listed; one of them ran."""
    submission = scenes.submit(alice, mode="profile")
    timeline = Timeline(size="tiny", submission=ran("scale(float*, int)"))
    deliver(submission, local, machine_code=CODE, timeline=timeline)
    return submission


def code_page(client, submission, **query) -> str:
    address = reverse("submissions:machine-code", args=[submission.evaluations.get().pk], query=query)
    response = client.get(address)
    assert response.status_code == 200, response.content
    return response.content.decode()


def test_the_page_lists_kernels_with_what_they_take_and_where_they_ran(as_alice, profiled):
    page = page_of(as_alice, profiled)
    rows = cells(page, "Kernels")
    assert rows[0] == "scale 60.0 µs 1 32 160 B 1.00 KiB 5"
    assert "did not run" in rows[1]
    assert "2 further kernels are left out" in page
    assert "Read below where the time of one call went" in page
    assert HOSTILE not in page


def test_a_kernels_page_has_every_instruction_beside_its_line(as_alice, profiled):
    page = code_page(as_alice, profiled)
    assert f"solution.py:{LINE}</a>" in page
    assert f"#solution.py-L{LINE}" in page
    assert "LDC R1, c[0x0][0x28]\nFMUL R0, R2, 1.5\n.L_x_1:</pre>" in page
    assert "cuda_bf16.hpp:90" in page
    assert "no line" in page


def test_names_and_instructions_of_a_module_are_text(as_alice, profiled):
    page = code_page(as_alice, profiled, kernel=1)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_long_kernel_is_cut_into_pages(as_alice, alice, local):
    entries = [Instruction(text=f"IADD R{number}", file=0, line=1) for number in range(machine_code.PER_PAGE + 3)]
    submission = scenes.submit(alice, mode="profile")
    code = MachineCode(files=("solution.py",), kernels=(kernel("long", *entries),))
    deliver(submission, local, machine_code=code)
    first = code_page(as_alice, submission)
    assert f"IADD R{machine_code.PER_PAGE - 1}\n" not in first
    assert f"from={machine_code.PER_PAGE}" in first
    second = code_page(as_alice, submission, **{"from": machine_code.PER_PAGE})
    assert f"IADD R{machine_code.PER_PAGE + 2}" in second
    assert "Earlier instructions" in second


def test_code_that_cannot_be_read_is_said_to_be_so(as_alice, alice, local):
    submission = scenes.submit(alice, mode="profile")
    code = MachineCode(kernels=(kernel("k", packed=b"nothing"),))
    deliver(submission, local, machine_code=code)
    assert "cannot be read" in code_page(as_alice, submission)


@pytest.mark.parametrize("query", [{"kernel": 2}, {"kernel": "x" * 9}, {"kernel": "٣"}, {"from": -1}])
def test_another_kernel_is_not_found_and_nonsense_is_the_first(as_alice, profiled, query):
    address = reverse("submissions:machine-code", args=[profiled.evaluations.get().pk], query=query)
    assert as_alice.get(address).status_code == (404 if query == {"kernel": 2} else 200)


def test_the_machine_code_of_a_private_source_is_its_authors(client, bob, profiled):
    evaluation = profiled.evaluations.get()
    addresses = [
        reverse("submissions:machine-code", args=[evaluation.pk]),
        reverse("api:machine-code", args=[profiled.pk, evaluation.pk]),
    ]
    for address in addresses:
        assert client.get(address).status_code in {401, 404}
    client.force_login(bob)
    for address in addresses:
        assert client.get(address).status_code == 404


def test_without_a_build_a_profile_says_what_it_lacks_by_name(as_alice, alice, local):
    submission = scenes.submit(alice, mode="profile")
    deliver(submission, local, timeline=Timeline(size="tiny", submission=ran("k")))
    page = page_of(as_alice, submission)
    assert "UNAVAILABLE: nothing was compiled ahead of the ranks" in page
    assert "UNAVAILABLE: Nsight Compute" in page
    response = as_alice.get(reverse("submissions:machine-code", args=[submission.evaluations.get().pk]))
    assert response.status_code == 404
    assert "Submit the source in mode profile" in response.content.decode()


def test_other_modes_have_no_such_section(as_alice, alice, local):
    assert "Kernels and their machine code" not in page_of(as_alice, scenes.judged(alice, local))


def test_the_api_has_the_instructions_apart_from_the_report(as_alice, profiled):
    evaluation = profiled.evaluations.get()
    body = as_alice.get(reverse("api:evaluation", args=[profiled.pk, evaluation.pk])).json()
    assert body["mode"] == "profile"
    assert body["report"]["machine_code"] is None
    found = json.loads(as_alice.get(reverse("api:machine-code", args=[profiled.pk, evaluation.pk])).content)
    assert found["files"][0] == "solution.py"
    assert found["kernels"][0]["instructions"][0] == ["LDC R1, c[0x0][0x28]", 0, LINE]
    assert found["dropped"] == 2
