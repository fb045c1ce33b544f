"""Everybody and everything that a route may be about: the roles of the matrix, and an object for each address."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from evaluator.contract import KernelCode, MachineCode, SpanKind, Timeline
from evaluator.contract.code import pack
from portal.accounts import actions as accounts
from portal.accounts import organisations
from portal.accounts.models import TokenScope, User
from portal.accounts.organisations import create_organisation
from portal.deliveries import actions as deliveries
from portal.nodes.actions import register_node
from portal.runs import actions as runs
from portal.seasons.actions import define, enter
from portal.seasons.models import definition_of
from portal.submissions.models import Submission
from tests.evaluator.timelines import GEMM, call
from tests.portal.pages import scenes
from tests.portal.pages.test_report_evidence import deliver
from tests.portal.runs.rows import add, end, join, line, make_run

ROLES = (
    "visitor",  # nobody is signed in
    "banned",  # the session of an account that an operator has closed
    "user",  # an account that has nothing to do with the object
    "invited",  # somebody with an open invitation to the organisation
    "author",  # who made the object, and owns the organisation
    "member",  # belongs to the organisation, owns nothing of it
    "unproven",  # an operator without a second factor
    "operator",
    "read",  # tokens of the author, with one scope each
    "submit",
    "runs:read",
    "runs:write",
)


@dataclass(frozen=True)
class World:
    """Clients by role, and what may stand in an address: by parameter, private, public, and entered for a season."""

    clients: Mapping[str, Callable[[], Client]]
    private: Mapping[str, Any]
    public: Mapping[str, Any]
    entered: Mapping[str, Any]


def make_world() -> World:
    """People, an organisation, a run, submissions, and one of everything that has an address."""
    alice, bob, carol, dave, eve, op, ops = map(
        scenes.person, ("alice", "bob", "carol", "dave", "eve", "op", "unproven")
    )
    node = scenes.node()
    acme = create_organisation(alice, slug="acme", name="Acme")
    join(acme, carol, by=alice)
    invitation = organisations.invite(acme, username="dave", role="member", by=alice)
    token, _ = accounts.create_token(alice, name="to revoke", scopes=["read"], lifetime_days=1)
    webhook = deliveries.add_webhook(acme, url="https://hooks.example.org/", events=["run.completed"], by=alice)
    channel = deliveries.add_channel(alice, form="slack", url="https://hooks.example.org/", kinds=["verdict"])
    register_node("acme-1", owner=acme, allowed_profiles=["cpux4"])
    _make_season("allreduce", alice, bob)  # called as the problem is: addresses of both say `slug`
    _make_operators(op, ops)
    TOTP.activate(op, generate_totp_secret())
    shared = {
        "slug": "allreduce",
        "address": "judge/",
        "username": "alice",
        "profile": "cpux2",
        "kind": "svg",
        "table": "runs",
        "provider_id": "lab",
        "token_id": token.pk,
        "invitation_id": invitation.pk,
        "webhook_id": webhook.pk,
        "channel_id": channel.pk,
        "organisation": acme.slug,
        "user": alice.pk,
    }
    private = shared | _submission(alice, node, "private") | _run(alice, node, version="1")
    public = shared | _submission(alice, node, "public") | _run(alice, node, version="2", is_published=True)
    entered = private | _submission(bob, node, "private", profile="cpux4")
    sessions = {"user": bob, "invited": dave, "author": alice, "member": carol, "unproven": ops, "operator": op}
    clients: dict[str, Callable[[], Client]] = {"visitor": Client}
    clients |= {role: _session(person) for role, person in (sessions | {"banned": eve}).items()}
    clients |= {scope: _bearer(alice, scope) for scope in TokenScope.values}
    eve.is_active = False
    eve.save(update_fields=["is_active"])
    return World(clients, private, public, entered)


def _make_season(slug: str, *members: User) -> None:
    """An open season of Acme, whose owners read entries, on a profile that only what is entered is judged on."""
    now = timezone.now()
    moments = {"opens_at": now - timedelta(hours=1), "closes_at": now + timedelta(hours=1)}
    definition = definition_of(
        {"slug": slug, "title": "A season", "profile": "cpux4", "problems": ["allreduce"], "organisation": "acme"}
        | {"owners_read": True}
        | moments
    )
    season = define(definition, now=now, by=members[0])
    for member in members:
        enter(season, member, organisation=None, now=now)


def _make_operators(*people: User) -> None:
    for person in people:
        person.is_staff = True
        person.save(update_fields=["is_staff"])
        person.user_permissions.set(Permission.objects.all())


def _submission(author: User, node: Any, visibility: str, *, profile: str = "cpux2") -> dict[str, Any]:
    submission: Submission = scenes.submit(author, visibility=visibility, profile=profile)
    code = MachineCode(kernels=(KernelCode(name=GEMM, symbol=GEMM, module="a.so", count=0, packed=pack([])),))
    timeline = Timeline(size="tiny", submission=call([(SpanKind.KERNEL, GEMM, 0, 60)]))
    deliver(submission, node, timeline=timeline, machine_code=code)
    return {"submission_id": submission.pk, "evaluation_id": submission.evaluations.get().pk}


def _run(author: User, node: Any, *, version: str, is_published: bool = False) -> dict[str, Any]:
    run = make_run(author, version=version, model=f"writer {version}")
    [result] = add(run, line(trajectory="it thought", sample=0)).results
    end(result.attempt, node)
    if is_published:
        run.refresh_from_db()
        runs.publish_run(run, by=author, sources="public")
    return {"run_id": run.pk, "attempt_id": result.attempt.pk, "model": run.model.slug}


def _session(person: User) -> Callable[[], Client]:
    first = Client()
    first.force_login(person)

    def again() -> Client:
        client = Client()
        client.cookies.load({name: morsel.value for name, morsel in first.cookies.items()})
        return client

    return again


def _bearer(person: User, scope: str) -> Callable[[], Client]:
    _, secret = accounts.create_token(person, name=scope, scopes=[scope], lifetime_days=1)
    return lambda: Client(headers={"Authorization": f"Bearer {secret}"})


def json_body(content: Any) -> dict[str, Any]:
    """Arguments of a client's post that send `content` as JSON."""
    return {"data": json.dumps(content), "content_type": "application/json"}


__all__ = ["ROLES", "World", "json_body", "make_world"]
