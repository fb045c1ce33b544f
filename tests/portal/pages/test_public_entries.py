"""A ranked entry that passed is public but for its source and what tells of it."""

import pytest
from django.urls import reverse

from evaluator.contract import Verdict
from portal.submissions.models import Submission
from tests.portal.pages import scenes

pytestmark = pytest.mark.django_db


def test_times_and_machine_of_a_private_entry_are_public_and_its_source_is_not(client, alice, bob, local):
    submission = scenes.judged(alice, local)
    Submission.objects.filter(pk=submission.pk).update(note="a secret plan")
    address = reverse("submissions:detail", args=[submission.pk])
    client.force_login(bob)
    page = client.get(address).content.decode()
    for shown in ("Passed", "80.0 µs", "100 µs", "Where it ran", "Entry 1 of 1", "keeps the source private"):
        assert shown in page
    for hidden in ('id="file-1"', "a secret plan", "Download report", "Output checks", 'id="live"', "Stages"):
        assert hidden not in page
    evaluation = submission.evaluations.get()
    for name, key in (
        ("submissions:source", submission.pk),
        ("submissions:compare", submission.pk),
        ("submissions:live", submission.pk),
        ("submissions:report", evaluation.pk),
        ("submissions:trace", evaluation.pk),
        ("submissions:machine-code", evaluation.pk),
    ):
        assert client.get(reverse(name, args=[key])).status_code == 404
    whole = client.get(reverse("api:submission", args=[submission.pk])).json()
    alone = client.get(reverse("api:evaluation", args=[submission.pk, evaluation.pk])).json()
    assert whole["evaluation"] == alone
    report = alone["report"]
    assert (alone["verdict"], report["timing"]["sizes"][0]["candidate"]["median_us"]) == ("PASSED", 80.0)
    assert [report[name] for name in ("ranks", "record", "stages", "build")] == [[], None, [], None]
    assert not any(secret in str(whole) for secret in ("a secret plan", submission.source.digest))
    assert client.get(reverse("api:source", args=[submission.pk])).status_code == 404
    client.force_login(alice)
    assert 'id="file-1"' in client.get(address).content.decode()


def test_a_failure_with_a_private_source_stays_private(client, alice, local):
    failed = scenes.judged(alice, local, verdict=Verdict.WRONG_RESULT)
    for name in ("submissions:detail", "api:submission"):
        assert client.get(reverse(name, args=[failed.pk])).status_code == 404
