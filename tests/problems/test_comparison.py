"""The rule by which outputs are right or wrong."""

from math import inf, nan

import pytest
import torch

from problems.outputs import comparison, extremes
from problems.outputs.comparison import compare_output, error_units
from problems.outputs.copies import compare_copy
from problems.spec.schema import EXACT, Output, Placement, Scope, Tolerance


def output(**tolerance) -> Output:
    rule = Tolerance(**{"atol": 0.1, "rtol": 0.0, "calibration": "for a test"} | tolerance)
    return Output(name="out", shape=("M", "N"), placement=Placement.REPLICATED, tolerance=rule)


def exact() -> Output:
    return Output(name="out", shape=("M", "N"), placement=Placement.REPLICATED, tolerance=EXACT)


def test_limit_is_atol_times_rms_plus_rtol_times_reference():
    expected = torch.tensor([[3.0, -4.0]])  # rms is sqrt(12.5)
    allowed = 0.1 * 12.5**0.5 + 0.5 * 3
    found = compare_output(output(rtol=0.5), expected + torch.tensor([[allowed / 2, 0.0]]), expected)
    assert found.passed
    assert found.max_error == pytest.approx(0.5)


def test_element_beyond_the_limit_is_counted_and_located():
    expected = torch.ones(3, 4)
    actual = expected.clone()
    actual[1, 2] += 0.2
    actual[2, 0] += 0.3
    found = compare_output(output(), actual, expected)
    assert (found.passed, found.wrong_elements, found.first_wrong) == (False, 2, (1, 2))
    assert found.max_error == pytest.approx(3.0)
    assert found.elements == 12


def test_row_scope_sees_an_error_that_a_large_row_hides():
    expected = torch.tensor([[1000.0, 1000.0], [1.0, 1.0]])
    actual = expected + torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    assert compare_output(output(), actual, expected).passed
    assert compare_output(output(scope=Scope.ROW), actual, expected).first_wrong == (1, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_field_scope_allows_a_small_row_what_its_field_allows(dtype: torch.dtype):
    large, small = [[1000.0, 1000.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]
    expected = torch.tensor([large, small], dtype=dtype)
    assert compare_output(output(scope=Scope.FIELD), expected + torch.tensor([[[0], [1]], [[0], [0]]]), expected).passed
    found = compare_output(output(scope=Scope.FIELD), expected + torch.tensor([[[0], [0]], [[0], [1]]]), expected)
    assert found.first_wrong[:3] == (1, 1, 0)


def test_rms_bound_refuses_many_small_errors():
    expected = torch.ones(10, 10)
    assert compare_output(output(), expected + 0.05, expected).passed
    found = compare_output(output(rms=0.04), expected + 0.05, expected)
    assert (found.passed, found.wrong_elements) == (False, 0)
    assert found.rms_error == pytest.approx(0.05)


@pytest.mark.parametrize("poison", [nan, inf, -inf])
def test_element_that_is_not_finite_fails_where_the_oracle_is_finite(poison: float):
    expected = torch.ones(2, 2)
    actual = expected.clone()
    actual[1, 0] = poison
    found = compare_output(output(), actual, expected)
    assert (found.passed, found.nonfinite, found.first_nonfinite, found.max_error) == (False, 1, (1, 0), inf)


@pytest.mark.parametrize("same", [nan, inf, -inf])
def test_same_class_as_the_oracle_passes(same: float):
    expected = torch.tensor([1.0, same])
    found = compare_output(output(), expected.clone(), expected)
    assert (found.passed, found.nonfinite, found.rms_error) == (True, 0, 0.0)


@pytest.mark.parametrize(("actual", "expected"), [(inf, -inf), (nan, inf), (0.0, -inf)])
def test_another_class_than_the_oracle_fails(actual: float, expected: float):
    found = compare_output(output(), torch.tensor([1.0, actual]), torch.tensor([1.0, expected]))
    assert (found.passed, found.wrong_elements, found.nonfinite) == (False, 1, 1)


def test_copy_has_the_signs_of_zeros():
    expected = torch.tensor([[0.0, -0.0, nan], [1.0, inf, -2.0]], dtype=torch.bfloat16)
    assert compare_copy(exact(), expected.clone(), expected).passed
    assert compare_copy(exact(), torch.empty(0, 3), torch.empty(0, 3)).passed
    found = compare_copy(exact(), expected + 0.0, expected)
    assert (found.passed, found.wrong_elements) == (False, 1)
    assert "bit by bit" in found.remark
    assert compare_copy(exact(), expected + 1.0, expected).remark == ""


def test_exact_output_refuses_the_least_difference():
    expected = torch.arange(6).view(2, 3)
    assert compare_output(exact(), expected.clone(), expected).passed
    found = compare_output(exact(), expected + torch.tensor([0, 0, 1]), expected)
    assert (found.wrong_elements, found.first_wrong) == (2, (0, 2))


def test_reference_of_zeros_admits_only_zeros():
    zeros = torch.zeros(2, 2)
    assert compare_output(output(), zeros, zeros).passed
    assert compare_output(output(), zeros + 1e-30, zeros).wrong_elements == 4


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (7, 5, 3)])
def test_any_shape_is_compared(shape: tuple[int, ...]):
    found = compare_output(output(), torch.ones(shape), torch.ones(shape))
    assert (found.passed, found.elements) == (True, torch.Size(shape).numel())


def test_chunks_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch):
    generator = torch.Generator().manual_seed(1)
    expected = torch.randn(64, 33, generator=generator)
    actual = expected + torch.randn(64, 33, generator=generator) * 0.05
    for scope in Scope:
        whole = compare_output(output(scope=scope), actual, expected)
        monkeypatch.setattr(comparison, "_CHUNK_ELEMENTS", 100)
        parts = compare_output(output(scope=scope), actual, expected)
        monkeypatch.undo()
        assert parts.rms_error == pytest.approx(whole.rms_error)
        assert (parts.wrong_elements, parts.first_wrong) == (whole.wrong_elements, whole.first_wrong)


def test_shapes_that_differ_are_an_error():
    with pytest.raises(ValueError, match=r"output 'out' has shape \(2,\), the oracle has \(3,\)"):
        compare_output(output(), torch.ones(2), torch.ones(3))


@pytest.mark.parametrize("scope", [Scope.TENSOR, Scope.ROW])
@pytest.mark.parametrize("is_all_right", [True, False])
def test_figures_are_those_of_the_rule(scope: Scope, *, is_all_right: bool):
    """Whether decided in one pass, where everything is correct, or counted element by element."""
    generator = torch.Generator().manual_seed(20)
    expected = torch.randn(300, 40, generator=generator, dtype=torch.float64)
    actual = (expected + 0.02 * torch.randn(300, 40, generator=generator)).bfloat16()
    if not is_all_right:
        actual[7, 3] += 2
    scale = (expected.square().mean(dim=1, keepdim=True) if scope is Scope.ROW else expected.square().mean()).sqrt()
    error = (actual.double() - expected).abs()
    units = error / (0.2 * scale + 0.05 * expected.abs())
    found = compare_output(output(scope=scope, atol=0.2, rtol=0.05), actual, expected)
    assert found.wrong_elements == int((units > 1).sum()) == (0 if is_all_right else 1)
    assert found.first_wrong == (None if is_all_right else (7, 3))
    assert found.max_error == pytest.approx(float(units.max()))
    assert found.rms_error == pytest.approx(float((error / scale).square().mean().sqrt()))


@pytest.fixture
def small_outputs_count_as_large(monkeypatch: pytest.MonkeyPatch):
    """One element in a thousand may be extreme, of a thousand and more."""
    monkeypatch.setattr(extremes, "ELEMENTS_PER_EXTREME", 1000)
    monkeypatch.setattr(extremes, "LEAST_ELEMENTS", 1000)


def of_many(errors: list[float], *, elements: int = 8000, **tolerance) -> comparison.Comparison:
    """Ones whose limit is 0.1, of which the first elements err by so many limits."""
    expected = torch.ones(elements)
    actual = expected.clone()
    actual[: len(errors)] += 0.1 * torch.tensor(errors)
    return compare_output(output(**{"rms": 0.05} | tolerance), actual, expected)


def test_one_element_in_a_million_may_be_beyond_its_limit_from_ten_million_on():
    rule = output(rms=0.05).tolerance
    assert [extremes.most_extremes(rule, count) for count in (9_999_999, 10_000_000, 234_899_456)] == [0, 10, 234]


@pytest.mark.usefixtures("small_outputs_count_as_large")
def test_few_elements_of_a_large_output_may_be_beyond_their_limit():
    found = of_many([3.9, -1.1, *[1.5] * 6])
    assert (found.passed, found.wrong_elements, found.extreme_elements, found.first_wrong) == (True, 0, 8, None)
    assert found.max_error == pytest.approx(3.9, rel=1e-5)


@pytest.mark.usefixtures("small_outputs_count_as_large")
@pytest.mark.parametrize(
    ("errors", "options"),
    [
        pytest.param([1.1] * 9, {}, id="one more"),
        pytest.param([4.1], {}, id="further than the largest of so many errors"),
        pytest.param([-10.0], {}, id="not computed at all"),
        pytest.param([nan], {}, id="not finite"),
        pytest.param([1.1], {"rms": None}, id="no bound on the rms"),
        pytest.param([1.1], {"elements": 999}, id="a smaller output"),
        pytest.param([1.1], {"atol": 0.0, "rtol": 0.0}, id="an exact output"),
    ],
)
def test_other_elements_beyond_the_limit_are_wrong(errors: list[float], options: dict):
    found = of_many(errors, **options)
    assert (found.passed, found.wrong_elements, found.extreme_elements) == (False, len(errors), 0)


@pytest.mark.usefixtures("small_outputs_count_as_large")
def test_extreme_elements_count_in_the_rms():
    found = of_many([3.9] * 8, rms=0.01)
    assert (found.passed, found.wrong_elements, found.extreme_elements) == (False, 0, 8)


def test_the_furthest_grows_as_the_largest_of_many_errors_does():
    assert extremes.furthest(10_000_000) == extremes.furthest(80_000_000) == 4
    assert extremes.furthest(640_000_000) == pytest.approx(8)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_exact_output_in_eight_bits_is_compared_by_value(dtype: torch.dtype):
    expected = torch.tensor([[1.0, -2.0, 0.3], [nan, 0.0, 5.0]])
    actual = expected.to(dtype)
    assert compare_output(exact(), actual, expected).passed
    actual[1, 2] = torch.tensor(6.0).to(dtype)
    found = compare_output(exact(), actual, expected)
    assert (found.passed, found.wrong_elements, found.first_wrong) == (False, 1, (1, 2))
    blocks = [units for _, units in error_units(exact(), actual, expected)]
    assert int((torch.cat(blocks) > 1).sum()) == 1
