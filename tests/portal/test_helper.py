"""Work on strangers' texts has a budget: the kernel ends it, and what came before counts."""

import os
import signal

import pytest

from portal.core.helper import Helper

PID, SLEEP = "__import__('os').getpid()", "__import__('time').sleep(600)"
LITTLE, MUCH = range(3), range(10**12)


@pytest.fixture
def helper():
    made = Helper(seconds=0.3)
    yield made
    made._end()  # noqa: SLF001 - a web process leaves that to its own end


def test_results_come_in_order_from_one_process_without_the_sites_secrets(helper, monkeypatch):
    monkeypatch.setenv("PKB_SECRET_KEY", "a secret")
    assert helper.each(sum, [LITTLE, range(4)]) == [3, 6]
    [pid, names] = helper.each(eval, [PID, "list(__import__('os').environ)"])
    assert helper.each(eval, [f" {PID}"]) == [pid] != [os.getpid()]
    assert "PKB_SECRET_KEY" not in names


def test_a_spent_budget_ends_the_work_inside_one_call_and_what_came_before_counts(helper):
    [pid] = helper.each(eval, [PID])
    assert helper.each(sum, [LITTLE, MUCH, LITTLE]) == [3]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert helper.each(sum, [LITTLE]) == [3]


def test_what_was_found_is_kept_and_that_a_budget_did_not_suffice(helper):
    [pid] = helper.each(eval, [PID])
    assert helper.each(sum, [MUCH]) == []
    [other] = helper.each(eval, [f" {PID}"])
    assert helper.each(sum, [MUCH]) == []
    assert helper.each(eval, [PID]) == [pid] != [other]
    assert helper.each(eval, [f"  {PID}"]) == [other]  # so nothing was ended since


def test_what_only_took_long_is_tried_again(helper, monkeypatch):
    monkeypatch.setattr("portal.core.helper._PATIENCE", 3)
    assert helper.each(eval, [SLEEP]) == []
    assert helper.each(eval, [SLEEP]) == []
    assert not helper._kept  # noqa: SLF001


def test_memory_is_bounded(helper):
    assert helper.each(eval, ["1", "len(bytes(4 * 2**30))"]) == [1]


def test_who_finds_it_busy_goes_without(helper):
    with helper._free:  # noqa: SLF001 - as another thread that waits for a result
        assert helper.each(sum, [LITTLE]) == []
    assert helper.each(sum, [LITTLE]) == [3]


def test_a_helper_that_somebody_ended_is_started_again(helper):
    [pid] = helper.each(eval, [PID])
    os.kill(pid, signal.SIGKILL)
    helper._process.wait()  # noqa: SLF001
    helper.each(sum, [LITTLE])
    assert helper.each(sum, [range(5)]) == [10]


def test_results_are_kept_up_to_a_size(helper, monkeypatch):
    monkeypatch.setattr("portal.core.helper.MOST_KEPT_BYTES", 1000)
    [pid] = helper.each(eval, [PID])
    helper.each(eval, ["'x' * 2000"])
    helper._end()  # noqa: SLF001
    assert helper.each(eval, [PID]) != [pid]
