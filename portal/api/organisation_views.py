"""Organisations: members, quota and webhooks."""

import uuid
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts import memberships, organisations
from portal.accounts.models import Organisation, TokenScope
from portal.api import inputs, run_inputs
from portal.api.endpoint import Endpoint, caller
from portal.api.parsers import JSONParser
from portal.api.run_outputs import (
    DeliveryOutput,
    InvitationOutput,
    NewWebhookOutput,
    OrganisationOutput,
    QuotaOutput,
    WebhookOutput,
)
from portal.api.schema import NUMBER, answers
from portal.runs import quotas
from portal.webhooks import actions, queries
from portal.webhooks.models import Webhook

_READ = {"GET": TokenScope.RUNS_READ, "HEAD": TokenScope.RUNS_READ}
_WRITE = {"POST": TokenScope.RUNS_WRITE}
_BOTH = frozenset({"GET", "HEAD", "POST"})
_ORGANISATION = OpenApiParameter("slug", str, "path", description="An organisation's short name.")
_WEBHOOK_ID = OpenApiParameter("webhook_id", NUMBER, "path", description="The `id` of a webhook.")
_DELIVERY_ID = OpenApiParameter("delivery_id", OpenApiTypes.UUID, "path", description="The `id` of a delivery.")
_INVITATION_ID = OpenApiParameter("invitation_id", NUMBER, "path", description="The `id` of an invitation.")
_JSON: tuple[type[BaseParser], ...] = (JSONParser,)
_LOGGED = 200


def _body(request: Request, organisation: Organisation) -> dict[str, Any]:
    return dict(OrganisationOutput(organisation, context={"username": caller(request).username}).data)


class Organisations(Endpoint):
    """Own organisations, and new ones."""

    signed_in = _BOTH
    scopes = {**_READ, **_WRITE}
    parser_classes = _JSON

    @extend_schema(
        operation_id="listOrganisations",
        summary="List own organisations",
        tags=["Organisations"],
        responses=answers({200: OrganisationOutput(many=True)}, 403, 422),
    )
    def get(self, request: Request) -> Response:
        """The organisations that the caller belongs to."""
        inputs.read(inputs.NoQuery, request.query_params)
        own: Any = organisations.own_organisations(caller(request))
        context = {"username": caller(request).username}
        return Response(OrganisationOutput(own, many=True, context=context).data)

    @extend_schema(
        operation_id="createOrganisation",
        summary="Create an organisation",
        tags=["Organisations"],
        request=run_inputs.OrganisationInput,
        responses=answers({201: OrganisationOutput}, 400, 403, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request) -> Response:
        """A new organisation, which the caller owns."""
        values = inputs.read(run_inputs.OrganisationInput, request.data)
        made = organisations.create_organisation(caller(request), **values)
        return Response(_body(request, made), status=201)


class OrganisationView(Endpoint):
    """One organisation."""

    signed_in = frozenset({"GET", "HEAD"})
    scopes = _READ

    @extend_schema(
        operation_id="readOrganisation",
        summary="Read an organisation",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        responses=answers({200: OrganisationOutput}, 403, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """An organisation that the caller belongs to."""
        inputs.read(inputs.NoQuery, request.query_params)
        return Response(_body(request, organisations.get_organisation(caller(request), slug)))


class Members(Endpoint):
    """Members' roles."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE
    parser_classes = _JSON

    @extend_schema(
        operation_id="changeRole",
        summary="Change a member's role",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        request=run_inputs.MemberInput,
        responses=answers({200: OrganisationOutput}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, slug: str) -> Response:
        """Make a member an owner, or an owner a member; for owners. Whoever is no member yet is invited instead."""
        organisation = organisations.get_organisation(caller(request), slug)
        values = inputs.read(run_inputs.MemberInput, request.data)
        memberships.change_role(organisation, by=caller(request), **values)
        return Response(_body(request, organisations.get_organisation(caller(request), slug)))


class RemoveMember(Endpoint):
    """Leaving and removing."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE
    parser_classes = _JSON

    @extend_schema(
        operation_id="removeMember",
        summary="Leave, or remove a member",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        request=run_inputs.UsernameInput,
        responses=answers({204: None}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, slug: str) -> Response:
        """End a membership: one's own by one's own name, as an owner anybody's. What they made stays."""
        organisation = organisations.get_organisation(caller(request), slug)
        values = inputs.read(run_inputs.UsernameInput, request.data)
        memberships.remove_member(organisation, by=caller(request), **values)
        return Response(status=204)


class SentInvitations(Endpoint):
    """Invitations of an organisation, and new ones."""

    signed_in = _BOTH
    scopes = {**_READ, **_WRITE}
    parser_classes = _JSON

    @extend_schema(
        operation_id="listSentInvitations",
        summary="List an organisation's open invitations",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        responses=answers({200: InvitationOutput(many=True)}, 403, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """Whoever is invited and has not answered."""
        inputs.read(inputs.NoQuery, request.query_params)
        organisation = organisations.get_organisation(caller(request), slug)
        sent: Any = memberships.sent_invitations(organisation)
        return Response(InvitationOutput(sent, many=True).data)

    @extend_schema(
        operation_id="invite",
        summary="Invite somebody",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        request=run_inputs.MemberInput,
        responses=answers({201: InvitationOutput}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, slug: str) -> Response:
        """Ask an account to belong to the organisation; for owners. It belongs to it once it has accepted."""
        organisation = organisations.get_organisation(caller(request), slug)
        values = inputs.read(run_inputs.MemberInput, request.data)
        invitation = memberships.invite(organisation, by=caller(request), **values)
        return Response(InvitationOutput(invitation).data, status=201)


class WithdrawInvitation(Endpoint):
    """Withdrawing."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE

    @extend_schema(
        operation_id="withdrawInvitation",
        summary="Withdraw an invitation",
        tags=["Organisations"],
        parameters=[_ORGANISATION, _INVITATION_ID],
        request=None,
        responses=answers({204: None}, 403, 404),
    )
    def post(self, request: Request, slug: str, invitation_id: int) -> Response:
        """Take an open invitation back; for owners."""
        organisation = organisations.get_organisation(caller(request), slug)
        invitation = memberships.get_sent_invitation(organisation, invitation_id)
        memberships.withdraw(invitation, by=caller(request))
        return Response(status=204)


class Invitations(Endpoint):
    """What one is invited to."""

    signed_in = frozenset({"GET", "HEAD"})
    scopes = _READ

    @extend_schema(
        operation_id="listInvitations",
        summary="List what one is invited to",
        tags=["Organisations"],
        responses=answers({200: InvitationOutput(many=True)}, 403, 422),
    )
    def get(self, request: Request) -> Response:
        """The caller's own open invitations."""
        inputs.read(inputs.NoQuery, request.query_params)
        own: Any = memberships.open_invitations(caller(request))
        return Response(InvitationOutput(own, many=True).data)


class AcceptInvitation(Endpoint):
    """Accepting."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE

    @extend_schema(
        operation_id="acceptInvitation",
        summary="Accept an invitation",
        tags=["Organisations"],
        parameters=[_INVITATION_ID],
        request=None,
        responses=answers({200: OrganisationOutput}, 403, 404, 409),
    )
    def post(self, request: Request, invitation_id: int) -> Response:
        """Belong to the organisation from now on."""
        invitation = memberships.get_invitation(caller(request), invitation_id)
        membership = memberships.accept(invitation, by=caller(request))
        return Response(_body(request, membership.organisation))


class DeclineInvitation(Endpoint):
    """Declining."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE

    @extend_schema(
        operation_id="declineInvitation",
        summary="Decline an invitation",
        tags=["Organisations"],
        parameters=[_INVITATION_ID],
        request=None,
        responses=answers({204: None}, 403, 404),
    )
    def post(self, request: Request, invitation_id: int) -> Response:
        """Do not belong to the organisation."""
        invitation = memberships.get_invitation(caller(request), invitation_id)
        memberships.decline(invitation, by=caller(request))
        return Response(status=204)


class QuotaView(Endpoint):
    """The quota."""

    signed_in = frozenset({"GET", "HEAD"})
    scopes = _READ

    @extend_schema(
        operation_id="readQuota",
        summary="Read what is left of the quota",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        responses=answers({200: QuotaOutput}, 403, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """GPU-seconds used, reserved and left in any 30 days."""
        inputs.read(inputs.NoQuery, request.query_params)
        organisation = organisations.get_organisation(caller(request), slug)
        return Response(QuotaOutput(quotas.quota_of(organisation, now=timezone.now())).data)


class Webhooks(Endpoint):
    """Webhooks of an organisation, and new ones."""

    signed_in = _BOTH
    scopes = {**_READ, **_WRITE}
    parser_classes = _JSON

    @extend_schema(
        operation_id="listWebhooks",
        summary="List webhooks",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        responses=answers({200: WebhookOutput(many=True)}, 403, 404, 422),
    )
    def get(self, request: Request, slug: str) -> Response:
        """The addresses that are told of events, removed ones among them; secrets are not shown."""
        inputs.read(inputs.NoQuery, request.query_params)
        organisation = organisations.get_organisation(caller(request), slug)
        every: Any = organisation.webhooks.all()
        return Response(WebhookOutput(every, many=True).data)

    @extend_schema(
        operation_id="addWebhook",
        summary="Add a webhook",
        tags=["Organisations"],
        parameters=[_ORGANISATION],
        request=run_inputs.WebhookInput,
        responses=answers({201: NewWebhookOutput}, 400, 403, 404, 409, 411, 413, 415, 422),
    )
    def post(self, request: Request, slug: str) -> Response:
        """Have an address told of events; the secret that signs them is in this answer only. For owners."""
        organisation = organisations.get_organisation(caller(request), slug)
        values = inputs.read(run_inputs.WebhookInput, request.data)
        webhook = actions.add_webhook(organisation, by=caller(request), **values)
        return Response(NewWebhookOutput(webhook).data, status=201)


def _webhook(request: Request, slug: str, webhook_id: int) -> Webhook:
    organisation = organisations.get_organisation(caller(request), slug)
    return queries.get_webhook(organisation, webhook_id)


class RemoveWebhook(Endpoint):
    """Removing."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE

    @extend_schema(
        operation_id="removeWebhook",
        summary="Remove a webhook",
        tags=["Organisations"],
        parameters=[_ORGANISATION, _WEBHOOK_ID],
        request=None,
        responses=answers({200: WebhookOutput}, 403, 404),
    )
    def post(self, request: Request, slug: str, webhook_id: int) -> Response:
        """Tell an address nothing any more; its log stays. For owners."""
        webhook = _webhook(request, slug, webhook_id)
        actions.remove_webhook(webhook, by=caller(request))
        webhook.refresh_from_db()
        return Response(WebhookOutput(webhook).data)


class TryWebhook(Endpoint):
    """Trying."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE

    @extend_schema(
        operation_id="tryWebhook",
        summary="Try a webhook",
        tags=["Organisations"],
        parameters=[_ORGANISATION, _WEBHOOK_ID],
        request=None,
        responses=answers({202: DeliveryOutput}, 403, 404, 409),
    )
    def post(self, request: Request, slug: str, webhook_id: int) -> Response:
        """Have a `webhook.test` sent once, in a second or so; the log says what was answered. For owners."""
        webhook = _webhook(request, slug, webhook_id)
        return Response(DeliveryOutput(actions.try_webhook(webhook, by=caller(request))).data, status=202)


class Deliveries(Endpoint):
    """A webhook's log."""

    signed_in = frozenset({"GET", "HEAD"})
    scopes = _READ

    @extend_schema(
        operation_id="listDeliveries",
        summary="Read a webhook's log",
        tags=["Organisations"],
        parameters=[_ORGANISATION, _WEBHOOK_ID],
        responses=answers({200: DeliveryOutput(many=True)}, 403, 404, 422),
    )
    def get(self, request: Request, slug: str, webhook_id: int) -> Response:
        """The last 200 deliveries, the newest first: what was told, how often it was tried, what was answered."""
        inputs.read(inputs.NoQuery, request.query_params)
        webhook = _webhook(request, slug, webhook_id)
        log: Any = webhook.deliveries.select_related("event")[:_LOGGED]
        return Response(DeliveryOutput(log, many=True).data)


class SendAgain(Endpoint):
    """Sending again."""

    signed_in = frozenset({"POST"})
    scopes = _WRITE

    @extend_schema(
        operation_id="sendAgain",
        summary="Send a failed delivery again",
        tags=["Organisations"],
        parameters=[_ORGANISATION, _WEBHOOK_ID, _DELIVERY_ID],
        request=None,
        responses=answers({202: DeliveryOutput}, 403, 404, 409),
    )
    def post(self, request: Request, slug: str, webhook_id: int, delivery_id: uuid.UUID) -> Response:
        """Have what was given up sent once more, in a second or so, as a new line of the log. For owners."""
        delivery = queries.get_delivery(_webhook(request, slug, webhook_id), delivery_id)
        return Response(DeliveryOutput(actions.send_again(delivery, by=caller(request))).data, status=202)
