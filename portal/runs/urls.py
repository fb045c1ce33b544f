"""Addresses of models, runs and prompts."""

from django.urls import path

from portal.runs import views

app_name = "runs"
urlpatterns = [
    path("models/", views.models, name="models"),
    path("leaderboards/models/", views.leaderboard, name="leaderboard"),
    path("models/<slug:slug>/", views.model, name="model"),
    path("problems/<slug:slug>/prompt/", views.prompt, name="prompt"),
    path("runs/", views.mine, name="mine"),
    path("runs/new/", views.new, name="new"),
    path("runs/import/", views.import_tree, name="import"),
    path("runs/compare/", views.compare, name="compare"),
    path("runs/<uuid:run_id>/", views.run_page, name="run"),
    path("runs/<uuid:run_id>/live/", views.live, name="live"),
    path("runs/<uuid:run_id>/fill/", views.fill, name="fill"),
    path("runs/<uuid:run_id>/publish/", views.publish, name="publish"),
    path("runs/<uuid:run_id>/problems/<slug:slug>/", views.attempts, name="attempts"),
    path("runs/<uuid:run_id>/attempts/<int:attempt_id>/trajectory/", views.trajectory, name="trajectory"),
]
