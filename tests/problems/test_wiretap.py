"""Tapped collectives: idle they change nothing, cut they deliver a rank's own part, altering, they alter every
payload."""

import pytest

from problems.harness.ranks import RankFailure, Ranks
from tests.problems import wiretap_tasks as tasks
from tests.problems.conftest import Pools


def test_idle_tap_changes_nothing(pools: Pools):
    ranks = pools.of(2)
    assert ranks.run(tasks.through_an_idle_tap) == ranks.run(tasks.untouched)


def test_collectives_are_real_again_after_the_context(pools: Pools):
    ranks = pools.of(2)
    before = ranks.run(tasks.untouched)
    ranks.run(tasks.without_communication)
    assert ranks.run(tasks.untouched) == before


def test_cut_collectives_deliver_the_own_part_and_zeros_where_there_is_none(pools: Pools):
    first, second = pools.of(2).run(tasks.without_communication)
    assert second["all_reduce"] == [20]
    assert second["all_gather"] == [20, 20]
    assert second["all_to_all_single"] == [20, 21]
    assert second["reduce_scatter_tensor"] == [21]
    assert second["broadcast"] == [0]
    assert first["gather"] == [10, 10]
    assert [first["scatter"], second["scatter"]] == [[10], [0]]
    assert second["ring"] == [0]


def test_payload_is_replaced_in_every_collective(pools: Pools):
    ranks = pools.of(2)
    negated = [
        {name: [-value for value in values] for name, values in found.items()} for found in ranks.run(tasks.untouched)
    ]
    assert ranks.run(tasks.with_negated_payload) == negated


def test_order_moves_the_shards(pools: Pools):
    first, second = pools.of(2).run(tasks.with_shards_reversed)
    assert first["all_gather"] == [20, 10]
    assert second["all_to_all_single"] == [21, 11]
    assert first["reduce_scatter_tensor"] == [32]
    assert first["all_reduce"] == [30]


def test_exception_on_a_rank_names_the_rank(pools: Pools):
    with pytest.raises(RankFailure, match=r"rank 0:\n(.|\n)*ZeroDivisionError"):
        pools.of(2).run(divmod, 1, 0)


def test_closed_pool_leaves_no_process():
    ranks = Ranks(2)
    processes = list(ranks._processes)  # noqa: SLF001  the claim is about these very processes
    ranks.close()
    assert [process.is_alive() for process in processes] == [False, False]
