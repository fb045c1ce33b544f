"""What somebody may use in a day: shown before it is spent, charged by what ran, given back for faults of ours."""

from datetime import timedelta

import pytest
from django.utils import timezone

from evaluator.contract import Verdict
from portal.accounts.models import Organisation
from portal.accounts.organisations import create_organisation
from portal.core.errors import Refusal
from portal.dispatcher.assign import dispatch_once
from portal.nodes.models import Node
from portal.submissions import actions, quotas
from portal.submissions.models import AllowanceLimit, Evaluation, GpuUse, LimitScope, State, Submission
from tests.portal.factories import bundle, delivery_of, evaluation_of, submit

pytestmark = pytest.mark.django_db
GPUS = "h200x8-nomc"
"""Eight GPUs: 30 s reserved are 240 GPU-seconds."""


def together(user, profile=""):
    payer = quotas.payer_of_author(user)
    return next(one for one in quotas.limits_of(payer, now=timezone.now()) if one.profile == profile)


def judged(evaluation, node, *, seconds=10, verdict=Verdict.PASSED):
    """Have `evaluation` judged for so long; it must be next in no queue but this call's own."""
    now = timezone.now()
    Evaluation.objects.filter(pk=evaluation.pk).update(
        state=State.RUNNING, lease=f"lease-{evaluation.pk}", node=node, slot_index=0, started_at=now
    )
    assert actions.record_delivery(delivery_of(evaluation, verdict=verdict), now + timedelta(seconds=seconds))


def refused(user, **changes):
    with pytest.raises(Refusal) as caught:
        submit(user, **changes)
    return caught.value


def test_what_waits_is_held_and_what_ran_is_charged(alice, node):
    submission = submit(alice, profile=GPUS)
    assert (together(alice).used_gpu_s, together(alice).reserved_gpu_s) == (0, 240)
    judged(evaluation_of(submission), node, seconds=10)
    assert (together(alice).used_gpu_s, together(alice).reserved_gpu_s) == (80, 0)


@pytest.mark.parametrize("verdict", [Verdict.BASELINE_UNSTABLE, Verdict.COMPILE_ERROR])
def test_compile_errors_and_faults_of_ours_cost_nothing(alice, node, settings, verdict):
    settings.MAX_TRIES = 1
    judged(evaluation_of(submit(alice, profile=GPUS)), node, verdict=verdict)
    assert (together(alice).used_gpu_s, together(alice).reserved_gpu_s) == (0, 0)


def test_a_refund_gives_it_back_once_and_what_is_judged_again_is_free(alice, node):
    evaluation = evaluation_of(submit(alice, profile=GPUS))
    judged(evaluation, node)
    evaluation.refresh_from_db()
    [again] = actions.rejudge_and_refund([evaluation])
    actions.rejudge_and_refund([evaluation])
    judged(again, node, seconds=100)
    assert (together(alice).used_gpu_s, together(alice).remaining_gpu_s) == (0, together(alice).limit_gpu_s)


def test_the_day_is_over_24_hours_after_the_end(alice, node):
    judged(evaluation_of(submit(alice, profile=GPUS)), node)
    renewal = together(alice).next_release_at
    assert timedelta(hours=23) < renewal - timezone.now() < timedelta(hours=25)
    payer = quotas.payer_of_author(alice)
    assert quotas.limits_of(payer, now=renewal + timedelta(seconds=1))[0].used_gpu_s == 0


def test_what_does_not_fit_is_refused_with_figures_and_a_moment(alice, node, settings):
    settings.GPU_SECONDS_PER_DAY = 300.0
    judged(evaluation_of(submit(alice, profile=GPUS)), node)
    refusal = refused(alice, profile=GPUS)
    assert (refusal.status, refusal.field, refusal.value) == (429, "profile", GPUS)
    assert "220 of 300 GPU-seconds a day left" in refusal.message
    assert "reserves 240" in refusal.message
    assert 23 * 3600 < refusal.retry_after_s <= 24 * 3600 + 20
    # A practice profile costs none.
    assert submit(alice, profile="cpux2")


def test_a_limit_below_one_evaluation_is_403(alice):
    AllowanceLimit.objects.create(
        scope=LimitScope.ACCOUNT, account=alice, profile=GPUS, gpu_seconds_per_day=0, reason="mined coins"
    )
    refusal = refused(alice, profile=GPUS)
    assert (refusal.status, refusal.retry_after_s) == (403, None)
    assert "mined coins" in refusal.message
    assert submit(alice, profile="h100x4")


def test_new_accounts_have_less_and_see_until_when(alice, settings):
    settings.NEW_ACCOUNT_DAYS, settings.NEW_ACCOUNT_MAX_QUEUED = 7, 1
    submit(alice)
    refusal = refused(alice)
    assert refusal.status == 429
    assert f"From {alice.date_joined + timedelta(days=7):%Y-%m-%d} on" in refusal.remedy
    alice.date_joined -= timedelta(days=8)
    alice.save()
    assert submit(alice)


def test_rows_go_before_settings_and_what_names_one_before_what_names_all(alice, bob):
    AllowanceLimit.objects.create(scope=LimitScope.ACCOUNTS, queued_at_most=1)
    AllowanceLimit.objects.create(scope=LimitScope.ACCOUNT, account=alice, queued_at_most=2)
    submit(alice)
    submit(alice)
    submit(bob)
    assert refused(alice).status == refused(bob).status == 429
    assert together(bob).limit_gpu_s is None


def test_a_limit_that_was_lowered_below_what_waits_says_how_many_wait(alice):
    submit(alice)
    submit(alice)
    AllowanceLimit.objects.create(scope=LimitScope.ACCOUNT, account=alice, queued_at_most=1)
    refusal = refused(alice)
    assert (refusal.status, refusal.retry_after_s) == (429, 60)
    assert "You have 2 evaluations in the queue" in refusal.message


def test_every_limit_counts_of_all_profiles_and_of_one(alice):
    AllowanceLimit.objects.create(scope=LimitScope.ACCOUNTS, profile=GPUS, gpu_seconds_per_day=300)
    submit(alice, profile=GPUS)
    assert "on h200x8-nomc" in refused(alice, profile=GPUS).message
    assert submit(alice, profile="h100x4")
    assert together(alice).reserved_gpu_s == 240 + 120


def test_organisations_of_one_sponsor_share_a_day(alice, settings):
    settings.ORGANISATION_GPU_SECONDS_PER_DAY = 700.0
    for slug in ("one", "two"):
        create_organisation(alice, slug=slug, name=slug)
    one, two = Organisation.objects.order_by("slug")
    queue_attempts(alice, one, 2, profile=GPUS)
    [limit] = quotas.limits_of(quotas.payer_of_runs(two), now=timezone.now())
    assert (limit.remaining_gpu_s, limit.queued) == (220, 2)
    assert together(alice).reserved_gpu_s == 0
    Organisation.objects.filter(pk=two.pk).update(gpu_seconds=1000.0)
    two.refresh_from_db()
    [own] = quotas.limits_of(quotas.payer_of_runs(two), now=timezone.now())
    assert (own.remaining_gpu_s, own.queued) == (700, 0)


def test_a_new_account_has_no_more_through_an_organisation(alice, settings):
    settings.NEW_ACCOUNT_DAYS = 7
    organisation = create_organisation(alice, slug="fresh", name="Fresh")
    [limit] = quotas.limits_of(quotas.payer_of_runs(organisation), now=timezone.now())
    assert limit.limit_gpu_s == settings.NEW_ACCOUNT_GPU_SECONDS_PER_DAY
    assert limit.new_until is not None


def test_a_forecast_says_it_before_anything_is_spent(alice, node):
    judged(evaluation_of(submit(alice, profile=GPUS)), node)
    [gpu, practice] = quotas.forecasts(quotas.payer_of_author(alice), [GPUS, "cpux2"], now=timezone.now())
    assert (gpu.price.usual_gpu_s, gpu.price.reserved_gpu_s, gpu.price.at_most_gpu_s) == (80, 240, 8 * 1800)
    assert gpu.remaining_gpu_s == 20_000 - 80
    assert gpu.judgements == 20
    assert practice.remaining_gpu_s is None
    assert "uses no GPU time" in practice.words
    assert "19,920 left today" in gpu.words
    assert GpuUse.objects.count() == 1


# Turns


def queue_attempts(author, organisation, number, *, profile="cpux2"):
    (source,) = actions.store_sources([bundle()]).values()
    chosen = {"problem": "allreduce", "backend": "pytorch", "is_attempt": True}
    wanted = [(Submission(author=author, source=source, **chosen), "check") for _ in range(number)]
    return actions.submit_attempts(wanted, profile=profile, priority=-1, payer=quotas.payer_of_runs(organisation))


def judge_next(node):
    """Whose evaluation the free slot takes and ends at once."""
    now = timezone.now()
    Node.objects.update(seen_at=now)  # however long the queueing took
    assert dispatch_once(now, send=lambda *_, **__: None) == 1
    taken = Evaluation.objects.select_related("submission__author").get(state=State.LEASED)
    assert actions.record_delivery(delivery_of(taken, verdict=Verdict.WRONG_RESULT), now)
    node.slots.update(state="free")
    return taken


def test_500_evaluations_of_one_author_do_not_starve_another(alice, bob, node, settings):
    settings.MAX_QUEUED_PER_AUTHOR = 500
    settings.NODE_SILENT_SECONDS = 600  # storing 500 takes longer than a node may be silent where the machine is busy
    for _ in range(500):
        submit(alice, mode="check")
    judge_next(node)
    for _ in range(3):
        submit(bob, mode="check")
    authors = [judge_next(node).submission.author.username for _ in range(8)]
    assert authors == ["bob", "alice", "bob", "alice", "bob", "alice", "alice", "alice"]


def test_an_author_who_comes_back_later_does_not_jump_ahead_for_ever(alice, bob, node):
    for _ in range(4):
        submit(alice, mode="check")
    authors = []
    for _ in range(6):
        submit(bob, mode="check")
        authors.append(judge_next(node).submission.author.username)
    assert authors.count("alice") == 3


def test_organisations_take_turns_whoever_of_them_uploads(alice, bob, operator, node):
    large = create_organisation(alice, slug="large", name="Large")
    small = create_organisation(bob, slug="small", name="Small")
    for author in (alice, operator):
        queue_attempts(author, large, 250)
    judge_next(node)
    queue_attempts(bob, small, 2)
    payers = [judge_next(node).payer for _ in range(5)]
    assert [payer == f"sponsor-{bob.pk}" for payer in payers] == [True, False, True, False, False]
