"""Which published class a program's end belongs to."""

import pytest

from evaluator.contract import Verdict
from portal.ranking import published
from portal.ranking.published_charts import LOOKS
from portal.runs.figures import MODES, NOT_MEASURED, REFUSED, published_class

RUNTIME = Verdict.RUNTIME_ERROR


@pytest.mark.parametrize(
    ("verdict", "message", "expected"),
    [
        (Verdict.PASSED, "", "Correct"),
        (Verdict.NONDETERMINISTIC, "rank 0: wrong at first", "Output mismatch"),
        (Verdict.WRONG_SHAPE, "output 'out' is bfloat16[16, 8]", "Tensor shape error"),
        (Verdict.COMPILE_ERROR, 'identifier "CUDART_INF_F" is undefined', "nvcc/syntax errors"),
        (Verdict.IMPORT_ERROR, "SyntaxError: invalid syntax", "nvcc/syntax errors"),
        (Verdict.TIMEOUT, "call 52 took longer than 10 s", "Deadlock"),
        (
            RUNTIME,
            "rank 1 in call 64: AttributeError: 'NoneType' object has no attribute",
            "Attribute / name / API typo",
        ),
        (RUNTIME, "rank 1 in call 1: TypeError: f(): incompatible function arguments.", "Attribute / name / API typo"),
        (RUNTIME, "TypeError: f() got an unexpected keyword argument 'x'", "Attribute / name / API typo"),
        (RUNTIME, "RuntimeError: The size of tensor a (8) must match the size of tensor b (2)", "Tensor shape error"),
        (RUNTIME, "RuntimeError: split_with_sizes expects split_sizes to sum exactly to 3791", "Tensor shape error"),
        (RUNTIME, "rank 0 in call 1: RuntimeError: expected scalar type Float but found BFloat16", "Runtime error"),
        (Verdict.FORBIDDEN, "the source names NVLink multicast", REFUSED),
        (Verdict.JUDGE_ERROR, "", NOT_MEASURED),
        ("", "", ""),
    ],
)
def test_the_verdict_and_the_exception_decide(verdict, message, expected):
    assert published_class(verdict, message) == expected


def test_every_verdict_has_a_class_and_the_classes_are_the_published_ones():
    titles = [title for title, *_ in LOOKS]
    assert set(titles) == set(published.figures()["failures"].measures)
    assert {published_class(verdict, "") for verdict in Verdict} <= {*titles, REFUSED, NOT_MEASURED}


def test_every_verdict_is_of_one_mode():
    assert sorted(name for *_, names in MODES.values() for name in names.split()) == sorted(Verdict)
