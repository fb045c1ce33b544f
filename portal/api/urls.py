"""The addresses of /api/v1/."""

from django.urls import path, re_path

from portal.api import catalog_views, export_views, organisation_views, reference, run_views, submission_views

app_name = "api"
urlpatterns = [
    path("", reference.reference, name="reference"),
    path("schema/", reference.openapi, name="schema"),
    path("problems/", catalog_views.Problems.as_view(), name="problems"),
    path("problems/<slug:slug>/", catalog_views.ProblemView.as_view(), name="problem"),
    path("problems/<slug:slug>/leaderboard/", catalog_views.Leaderboard.as_view(), name="leaderboard"),
    path("profiles/", catalog_views.Profiles.as_view(), name="profiles"),
    path("nodes/", catalog_views.Nodes.as_view(), name="nodes"),
    path("me/", catalog_views.Me.as_view(), name="me"),
    path("submissions/", submission_views.Submissions.as_view(), name="submissions"),
    path("submissions/<uuid:submission_id>/", submission_views.SubmissionView.as_view(), name="submission"),
    path("submissions/<uuid:submission_id>/source/", submission_views.SubmissionSource.as_view(), name="source"),
    path("submissions/<uuid:submission_id>/cancel/", submission_views.Cancel.as_view(), name="cancel"),
    path("submissions/<uuid:submission_id>/evaluations/", submission_views.Evaluations.as_view(), name="evaluations"),
    path(
        "submissions/<uuid:submission_id>/evaluations/<uuid:evaluation_id>/",
        submission_views.EvaluationView.as_view(),
        name="evaluation",
    ),
    path(
        "submissions/<uuid:submission_id>/evaluations/<uuid:evaluation_id>/bundle/",
        export_views.EvaluationBundle.as_view(),
        name="bundle",
    ),
    path("problems/<slug:slug>/prompt/", run_views.PromptView.as_view(), name="prompt"),
    path("leaderboards/models/", run_views.ModelBoard.as_view(), name="model-leaderboard"),
    path("models/", run_views.Models.as_view(), name="models"),
    path("models/<slug:slug>/", run_views.ModelView.as_view(), name="model"),
    path("runs/", run_views.Runs.as_view(), name="runs"),
    path("runs/import/", run_views.ImportTree.as_view(), name="run-import"),
    path("runs/<uuid:run_id>/", run_views.RunView.as_view(), name="run"),
    path("runs/<uuid:run_id>/progress/", run_views.ProgressView.as_view(), name="run-progress"),
    path("runs/<uuid:run_id>/attempts/", run_views.Attempts.as_view(), name="attempts"),
    path("runs/<uuid:run_id>/attempts/bulk/", run_views.BulkAttempts.as_view(), name="bulk-attempts"),
    path(
        "runs/<uuid:run_id>/attempts/<int:attempt_id>/trajectory/",
        run_views.TrajectoryView.as_view(),
        name="trajectory",
    ),
    path("runs/<uuid:run_id>/events/", run_views.Events.as_view(), name="events"),
    path("runs/<uuid:run_id>/publish/", run_views.Publish.as_view(), name="publish"),
    path("runs/<uuid:run_id>/export/", export_views.RunExport.as_view(), name="run-export"),
    path("organisations/", organisation_views.Organisations.as_view(), name="organisations"),
    path("organisations/<slug:slug>/", organisation_views.OrganisationView.as_view(), name="organisation"),
    path("organisations/<slug:slug>/members/", organisation_views.Members.as_view(), name="members"),
    path("organisations/<slug:slug>/members/remove/", organisation_views.RemoveMember.as_view(), name="remove-member"),
    path(
        "organisations/<slug:slug>/invitations/",
        organisation_views.SentInvitations.as_view(),
        name="sent-invitations",
    ),
    path(
        "organisations/<slug:slug>/invitations/<int:invitation_id>/withdraw/",
        organisation_views.WithdrawInvitation.as_view(),
        name="withdraw-invitation",
    ),
    path("organisations/<slug:slug>/quota/", organisation_views.QuotaView.as_view(), name="quota"),
    path("organisations/<slug:slug>/webhooks/", organisation_views.Webhooks.as_view(), name="webhooks"),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/remove/",
        organisation_views.RemoveWebhook.as_view(),
        name="remove-webhook",
    ),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/test/",
        organisation_views.TryWebhook.as_view(),
        name="try-webhook",
    ),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/deliveries/",
        organisation_views.Deliveries.as_view(),
        name="deliveries",
    ),
    path(
        "organisations/<slug:slug>/webhooks/<int:webhook_id>/deliveries/<uuid:delivery_id>/send-again/",
        organisation_views.SendAgain.as_view(),
        name="send-again",
    ),
    path("invitations/", organisation_views.Invitations.as_view(), name="invitations"),
    path(
        "invitations/<int:invitation_id>/accept/",
        organisation_views.AcceptInvitation.as_view(),
        name="accept-invitation",
    ),
    path(
        "invitations/<int:invitation_id>/decline/",
        organisation_views.DeclineInvitation.as_view(),
        name="decline-invitation",
    ),
    path("exports/dataset/", export_views.DatasetExport.as_view(), name="dataset"),
    path("exports/<slug:table>/", export_views.TableExport.as_view(), name="export"),
    re_path(r"^", reference.Nowhere.as_view(), name="nowhere"),
]
