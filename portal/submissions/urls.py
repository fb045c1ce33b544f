"""Addresses of submissions, and of the submit page under its problem."""

from django.urls import path

from portal.submissions import views

app_name = "submissions"
urlpatterns = [
    path("problems/<slug:slug>/submit/", views.new, name="new"),
    path("problems/<slug:slug>/submit/changes/", views.draft_changes, name="draft-changes"),
    path("submissions/", views.mine, name="mine"),
    path("submissions/<uuid:submission_id>/", views.detail, name="detail"),
    path("submissions/<uuid:submission_id>/compare/", views.compare, name="compare"),
    path("submissions/<uuid:submission_id>/source/", views.source_file, name="source"),
    path("submissions/<uuid:submission_id>/live/", views.live, name="live"),
    path("submissions/<uuid:submission_id>/flag/", views.flag, name="flag"),
    path("submissions/<uuid:submission_id>/evaluate/", views.evaluate, name="evaluate"),
    path("submissions/<uuid:submission_id>/notes/", views.notes, name="notes"),
    path("submissions/<uuid:submission_id>/visibility/", views.visibility, name="visibility"),
    path("submissions/evaluations/<uuid:evaluation_id>/cancel/", views.cancel, name="cancel"),
    path("submissions/evaluations/<uuid:evaluation_id>/report.json", views.report, name="report"),
    path("submissions/evaluations/<uuid:evaluation_id>/sweep.csv", views.sweep_csv, name="sweep-csv"),
    path("submissions/evaluations/<uuid:evaluation_id>/trace.json", views.trace, name="trace"),
    path("submissions/evaluations/<uuid:evaluation_id>/machine-code/", views.machine_code_page, name="machine-code"),
]
