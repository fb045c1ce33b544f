"""Who belongs to an organisation: only those who have said yes, and never nobody."""

import pytest

from portal.accounts import organisations
from portal.accounts.models import Invitation, Organisation, User
from portal.accounts.organisations import create_organisation, default_organisations
from portal.core.errors import Refusal
from portal.submissions.actions import cancel_evaluation
from tests.portal.api.problem import assert_problem
from tests.portal.runs.rows import add, join, line, make_run

pytestmark = pytest.mark.django_db
ACME = "/api/v1/organisations/acme/"


@pytest.fixture
def acme(alice):
    return create_organisation(alice, slug="acme", name="Acme")


def invite(owner, username="bob", role="member"):
    return organisations.invite(Organisation.objects.get(), username=username, role=role, by=owner)


def refused(action, *args, status, **options):
    with pytest.raises(Refusal) as refusal:
        action(*args, **options)
    assert refusal.value.status == status


def test_who_is_invited_belongs_to_it_after_accepting(acme, alice, bob, bobs):
    made = invite(alice, role="owner")
    assert_problem(bobs.get(ACME), status=404)
    [seen] = organisations.open_invitations(bob)
    assert seen == made
    organisations.accept(seen, by=bob)
    answer = bobs.get(ACME).json()
    assert (answer["role"], answer["members"], answer["owners"]) == ("owner", ["alice", "bob"], ["alice", "bob"])
    assert list(organisations.open_invitations(bob)) == list(organisations.open_invitations(acme)) == []
    refused(organisations.accept, seen, by=bob, status=404)


def test_who_declines_does_not_and_is_left_in_peace(acme, alice, bob, bobs):
    organisations.decline(invite(alice), by=bob)
    assert_problem(bobs.get(ACME), status=404)
    refused(invite, alice, status=409)


def test_an_invitation_is_ones_own_and_can_be_withdrawn(acme, alice, bob):
    carol = User.objects.create_user("carol")
    made = invite(alice)
    refused(organisations.accept, made, by=carol, status=404)
    organisations.withdraw(made, by=alice)
    refused(organisations.accept, made, by=bob, status=404)
    assert [row.state for row in Invitation.objects.all()] == ["withdrawn"]


def test_inviting_again_changes_what_is_offered(acme, alice, bob):
    first, second = invite(alice), invite(alice, role="owner")
    assert (first.pk, first.role, second.role) == (second.pk, "member", "owner")


@pytest.mark.parametrize(("username", "role", "status"), [("nobody", "member", 404), ("alice", "member", 409)])
def test_who_cannot_be_invited_is_named(acme, alice, username, role, status):
    refused(invite, alice, username=username, role=role, status=status)


def test_only_owners_invite_and_change_others(acme, alice, bob):
    join(acme, bob, by=alice)
    User.objects.create_user("carol")
    refused(invite, bob, username="carol", status=403)
    refused(organisations.change_role, acme, username="bob", role="owner", by=bob, status=403)
    refused(organisations.remove_member, acme, username="alice", by=bob, status=403)
    refused(organisations.change_role, acme, username="carol", role="owner", by=alice, status=404)
    assert organisations.change_role(acme, username="bob", role="owner", by=alice).role == "owner"


def test_members_leave_by_themselves_and_the_last_owner_does_not(acme, alice, bob, bobs):
    join(acme, bob, by=alice)
    refused(organisations.remove_member, acme, username="alice", by=alice, status=409)
    refused(organisations.change_role, acme, username="alice", role="member", by=alice, status=409)
    organisations.remove_member(acme, username="bob", by=bob)
    assert_problem(bobs.get(ACME), status=404)


def test_a_sponsor_who_leaves_passes_the_quota_on_to_another_owner(acme, alice, bob):
    join(acme, bob, role="owner", by=alice)
    assert acme.sponsor == alice
    organisations.remove_member(acme, username="alice", by=alice)
    acme.refresh_from_db()
    assert acme.sponsor == bob


def test_who_was_removed_reads_its_runs_no_more(acme, alice, alices, bob, bobs):
    join(acme, bob, by=alice)
    run = make_run(alice, organisation="acme")
    assert bobs.get(f"/api/v1/runs/{run.pk}/").status_code == 200
    organisations.remove_member(acme, username="bob", by=alice)
    assert_problem(bobs.get(f"/api/v1/runs/{run.pk}/"), status=404)


def test_nobody_comes_to_stand_for_gpu_time_without_having_agreed(acme, alice, bob):
    """Whoever was made an owner by somebody else does not inherit; who removes the sponsor takes it over."""
    join(acme, bob, by=alice)
    organisations.change_role(acme, username="bob", role="owner", by=alice)
    for end in (
        lambda: organisations.remove_member(acme, username="alice", by=alice),
        lambda: organisations.change_role(acme, username="alice", role="member", by=alice),
    ):
        with pytest.raises(Refusal, match="No other owner has agreed"):
            end()
    acme.refresh_from_db()
    assert acme.sponsor == alice
    organisations.remove_member(acme, username="alice", by=bob)
    acme.refresh_from_db()
    assert acme.sponsor == bob


def test_who_removes_the_sponsor_takes_its_place_and_not_another_owner(acme, alice, bob):
    carol = User.objects.create_user("carol")
    for owner in (bob, carol):
        join(acme, owner, role="owner", by=alice)
    organisations.remove_member(acme, username="alice", by=carol)
    acme.refresh_from_db()
    assert acme.sponsor == carol


def test_a_closed_account_neither_inherits_nor_counts_as_an_owner(acme, alice, bob):
    join(acme, bob, role="owner", by=alice)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    with pytest.raises(Refusal, match="would have no owner"):
        organisations.remove_member(acme, username="alice", by=alice)


def test_what_an_owner_has_offered_ends_with_their_ownership(acme, alice, bob):
    carol = User.objects.create_user("carol")
    join(acme, carol, role="owner", by=alice)
    offered = organisations.invite(acme, username="bob", role="owner", by=carol)
    organisations.change_role(acme, username="carol", role="member", by=alice)
    refused(organisations.accept, offered, by=bob, status=404)


def test_accepting_gives_the_role_that_is_offered_at_that_moment(acme, alice, bob):
    read = organisations.invite(acme, username="bob", role="owner", by=alice)
    organisations.invite(acme, username="bob", role="member", by=alice)
    assert organisations.accept(read, by=bob).role == "member"


def test_an_organisation_whose_founder_left_is_no_home_of_those_who_were_invited(acme, alice, bob):
    """Their runs go into their own organisation, where nobody else reads them."""
    carol = User.objects.create_user("carol")
    join(acme, bob, by=alice)
    join(acme, carol, role="owner", by=alice)
    organisations.remove_member(acme, username="alice", by=alice)
    assert list(default_organisations(bob)) == []
    assert make_run(bob).model.organisation != acme


def test_who_has_left_cancels_nothing_of_its_runs(acme, alice, bob):
    join(acme, bob, by=alice)
    run = make_run(bob, organisation="acme")
    attempt = add(run, line()).results[0].attempt
    organisations.remove_member(acme, username="bob", by=alice)
    with pytest.raises(Refusal, match="another author"):
        cancel_evaluation(attempt.evaluation, by=bob)
