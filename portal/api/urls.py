"""The addresses of /api/v1/."""

from django.urls import path, re_path

from portal.api import catalog_views, reference, submission_views

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
    re_path(r"^", reference.Nowhere.as_view(), name="nowhere"),
]
