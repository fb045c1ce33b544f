"""Contents that differ in a few elements, fingerprints, poison, and where special calls lie."""

import torch

from evaluator.arena.fingerprint import fingerprint
from evaluator.contract import Backend, CallKind, Mode
from evaluator.hardware import profiles
from evaluator.host.measure import outputs
from evaluator.host.measure.calls import Conduct
from evaluator.host.measure.schedule import check_kinds, special_plan
from evaluator.oracle import traces
from evaluator.oracle.contents import NearCall
from problems.values import Call
from tests.evaluator.conftest import SETTINGS

KNOWN = {
    "key": b"k" * 32,
    "rank": 0,
    "world_size": 2,
    "dims": {"M": 64, "N": 80},
    "dtype": torch.bfloat16,
    "device": torch.device("cpu"),
}
BASE = Call(index=3, **KNOWN)
NEAR = NearCall(index=9, base=3, **KNOWN)


def test_near_contents_are_the_bases_but_for_a_few_elements_on_every_rank():
    for draw in (
        lambda call: call.normal("x", ("M", "N")),
        lambda call: call.long_tailed("x", ("M", "N")),
        lambda call: call.uniform("x", ("M", "N"), shared=True),
        lambda call: call.integers("x", ("M", "N"), low=0, high=1000),
        lambda call: call.normal("x", ("M", "N"), dtype=torch.float8_e4m3fn),
    ):
        for rank in (0, 1):
            near, base = draw(NEAR.at_rank(rank)), draw(BASE.at_rank(rank))
            assert 1 <= int((near.float() != base.float()).sum()) <= 8
            assert torch.equal(near.float(), draw(NEAR.at_rank(rank)).float())
    shared = [NEAR.at_rank(rank).uniform("x", ("M", "N"), shared=True) for rank in (0, 1)]
    assert torch.equal(*shared)


def test_factors_lengths_and_permutations_stay_as_they_were():
    assert torch.equal(NEAR.uniform("scale", (1, 1)), BASE.uniform("scale", (1, 1)))
    assert torch.equal(NEAR.permutation("order", 50), BASE.permutation("order", 50))


def test_fingerprint_sees_a_changed_bit_and_an_exchange_of_outputs_but_no_strides():
    left, right = torch.randn(8, 12), torch.arange(96).view(8, 12)
    whole = fingerprint([left, right])
    assert fingerprint([left.t().contiguous().t(), right]) == whole
    assert fingerprint([right, left]) != whole
    changed = left.clone()
    changed.view(torch.int32)[3, 4] ^= 1
    assert fingerprint([changed, right]) != whole
    assert fingerprint(["no tensor", None]) == 0


def test_poison_is_nan_in_every_format_and_its_share_is_told():
    poison = outputs.new_poison()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.frombuffer(bytearray(poison), dtype=dtype).isnan().all()
    area = torch.zeros(outputs.OUTPUT_HEADER_BYTES + 1024, dtype=torch.uint8)
    number = int.from_bytes(poison, "little")
    traces.fill(area, number)
    area[outputs.OUTPUT_HEADER_BYTES : outputs.OUTPUT_HEADER_BYTES + 256] = 1
    header = [{"dtype": "float32", "shape": [16, 16], "device": "cpu", "start": outputs.OUTPUT_HEADER_BYTES}]
    assert traces.unwritten_shares(header, area, number) == [0.75]


def conduct() -> Conduct:
    return Conduct(
        vigilance=profiles.get("cpux2").vigilance,
        settings=SETTINGS,
        backend=Backend.PYTORCH,
        mode=Mode.RANKED,
        deadline=0.0,
        cancelled=lambda: False,
    )


def test_special_calls_lie_in_other_places_every_time_and_never_first():
    kinds = [check_kinds(5, conduct=conduct()) for _ in range(40)]
    assert all(each[0] is CallKind.PLAIN for each in kinds)
    assert all(sorted(each) == sorted(kinds[0]) for each in kinds)
    assert len({tuple(each) for each in kinds}) > 3
    plans = [special_plan(blocks=12, of_blocks=12, block_calls=6, conduct=conduct()) for _ in range(40)]
    assert all(len(plan) == 8 and set(plan.values()) == {CallKind.SKEWED, CallKind.NEAR} for plan in plans)
    assert not any(place % 6 == 0 or not 0 <= place < 72 for plan in plans for place in plan)
    assert len({tuple(plan) for plan in plans}) == 40
    part = special_plan(blocks=3, of_blocks=12, block_calls=6, conduct=conduct())
    assert len(part) == 2
    assert set(part.values()) == {CallKind.SKEWED, CallKind.NEAR}
