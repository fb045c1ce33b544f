"""The addresses of /api/v1/."""

from typing import Any

from django.urls import URLPattern, URLResolver, include, path, re_path

from portal.api import catalog_views, reference
from portal.api.catalog_views import Organisations, Webhooks
from portal.api.node_views import NodeMessages
from portal.api.run_views import Attempts, BulkAttempts, ModelBoard, Models, Prompts, Runs, Trees
from portal.api.season_views import SeasonParts, Seasons
from portal.api.submission_views import Evaluations, SingleSubmission, Submissions

app_name = "api"

_LIST: dict[str, Any] = {"get": "list"}
_LIST_AND_CREATE: dict[str, Any] = {"get": "list", "post": "create"}
_CREATE: dict[str, Any] = {"post": "create"}
_RETRIEVE: dict[str, Any] = {"get": "retrieve"}

_problem = [
    path("", catalog_views.Problems.as_view(_RETRIEVE), name="problem"),
    path("leaderboard/", catalog_views.Leaderboard.as_view(_RETRIEVE), name="leaderboard"),
    path("prompt/", Prompts.as_view(_RETRIEVE), name="prompt"),
]
_submission = [
    path("", SingleSubmission.as_view(_RETRIEVE), name="submission"),
    path("source/", SingleSubmission.as_view({"get": "source"}), name="source"),
    path("cancel/", SingleSubmission.as_view({"post": "cancel"}), name="cancel"),
    path("notes/", SingleSubmission.as_view({"post": "annotate"}), name="notes"),
    path("evaluations/", Evaluations.as_view(_CREATE), name="evaluations"),
    path("evaluations/<uuid:evaluation_id>/", Evaluations.as_view(_RETRIEVE), name="evaluation"),
    path("evaluations/<uuid:evaluation_id>/trace/", Evaluations.as_view({"get": "trace"}), name="trace"),
    path(
        "evaluations/<uuid:evaluation_id>/machine-code/",
        Evaluations.as_view({"get": "machine_code"}),
        name="machine-code",
    ),
]
_run = [
    path("", Runs.as_view(_RETRIEVE), name="run"),
    path("progress/", Runs.as_view({"get": "progress"}, pagination_class=None), name="run-progress"),
    path("attempts/", Attempts.as_view(_LIST_AND_CREATE), name="attempts"),
    path("attempts/bulk/", BulkAttempts.as_view(_CREATE), name="bulk-attempts"),
    path("attempts/<int:attempt_id>/trajectory/", Attempts.as_view({"get": "trajectory"}), name="trajectory"),
    path("events/", Runs.as_view({"get": "events"}), name="events"),
    path("publish/", Runs.as_view({"post": "publish"}), name="publish"),
    path("export/", catalog_views.RunExport.as_view(_RETRIEVE), name="run-export"),
]
_webhook = [
    path("remove/", Webhooks.as_view({"post": "remove"}), name="remove-webhook"),
    path("test/", Webhooks.as_view({"post": "test"}), name="try-webhook"),
    path("deliveries/", Webhooks.as_view({"get": "deliveries"}), name="deliveries"),
]
_organisation: list[URLPattern | URLResolver] = [
    path("", Organisations.as_view(_RETRIEVE), name="organisation"),
    path("allowance/", Organisations.as_view({"get": "allowance"}), name="organisation-allowance"),
    path("quota/", Organisations.as_view({"get": "quota"}), name="quota"),
    path("webhooks/", Webhooks.as_view(_LIST_AND_CREATE), name="webhooks"),
    path("webhooks/<int:webhook_id>/", include(_webhook)),
]
urlpatterns = [
    path("", reference.reference, name="reference"),
    path("schema/", reference.openapi, name="schema"),
    path("problems/", catalog_views.Problems.as_view(_LIST), name="problems"),
    path("problems/<slug:slug>/", include(_problem)),
    path("profiles/", catalog_views.Profiles.as_view(_LIST), name="profiles"),
    path("nodes/", catalog_views.Nodes.as_view(_LIST), name="nodes"),
    path("nodes/<slug:name>/heartbeat/", NodeMessages.as_view({"post": "heartbeat"}), name="node-heartbeat"),
    path("nodes/<slug:name>/progress/", NodeMessages.as_view({"post": "progress"}), name="node-progress"),
    path("nodes/<slug:name>/report/", NodeMessages.as_view({"post": "report"}), name="node-report"),
    path("me/", catalog_views.Me.as_view(_RETRIEVE), name="me"),
    path("me/allowance/", catalog_views.Me.as_view({"get": "allowance"}), name="my-allowance"),
    path("submissions/", Submissions.as_view(_LIST_AND_CREATE), name="submissions"),
    path("submissions/<uuid:submission_id>/", include(_submission)),
    path("leaderboards/models/", ModelBoard.as_view(_RETRIEVE), name="model-leaderboard"),
    path("models/", Models.as_view(_LIST), name="models"),
    path("models/<slug:slug>/", Models.as_view(_RETRIEVE), name="model"),
    path("runs/", Runs.as_view(_LIST_AND_CREATE), name="runs"),
    path("runs/import/", Trees.as_view(_CREATE), name="run-import"),
    path("runs/import/preview/", Trees.as_view({"post": "preview"}), name="run-import-preview"),
    path("runs/<uuid:run_id>/", include(_run)),
    path("organisations/", Organisations.as_view(_LIST_AND_CREATE), name="organisations"),
    path("organisations/<slug:slug>/", include(_organisation)),
    path("seasons/", Seasons.as_view(_LIST_AND_CREATE), name="seasons"),
    path("seasons/<slug:slug>/", Seasons.as_view(_RETRIEVE), name="season"),
    path("seasons/<slug:slug>/steps/", Seasons.as_view({"post": "step"}), name="season-steps"),
    path("seasons/<slug:slug>/join/", SeasonParts.as_view(_CREATE), name="season-join"),
    path("seasons/<slug:slug>/people/", catalog_views.SeasonPeople.as_view(_RETRIEVE), name="season-people"),
    path("exports/dataset/", catalog_views.PublicData.as_view({"get": "dataset"}), name="dataset"),
    path("exports/<slug:table>/", catalog_views.PublicData.as_view({"get": "table"}), name="export"),
    re_path(r"^", reference.nowhere, name="nowhere"),
]
